"""`rota run`: runs a command as if locally, with its output and its exit code."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rota.cli.live import Bar
from rota.cli.session import make_app
from rota.cli.show import complain, document
from rota.cli.submit import place_order, work_of
from rota.cli.waiting import hinting
from rota.clients.jobs import JobsClient
from rota.model.job import NO_RETRY, JobInfo
from rota.model.lifecycle import State
from rota.model.options import Options
from rota.model.outcome import Ending
from rota.store.values import Chunk
from rota.views.jobs import JobView

TIMED_OUT = 124
CANCELLED = 130


async def run_(args: argparse.Namespace) -> int:
    if args.command is None:
        args.parser.error("give a command after `--`, as in: rota run -- echo hello")
    async with make_app(args) as app:
        spec, task, body, _ = await work_of(app, args)
        job = await place_order(app, args, spec, task, body, Options(retry=NO_RETRY))
        client = await app.client()
        with hinting(client, job.id), _cancelled_by_signals(client, job.id):
            with Bar(not args.json).of(client, job.id) as line:
                await _follow(client, job.id, args.json, line)
            info = await client.wait(job.id)
        if args.json:
            document(JobView.of(info))
        return _verdict(info)


async def _follow(client: JobsClient, job_id: str, out_to_err: bool, line: Bar) -> None:
    try:
        async for chunk in client.output(job_id, follow=True):
            _pass_on(chunk, out_to_err, line)
    except BrokenPipeError:
        # The reader of the output is gone: the command ends, as it would in a shell.
        await client.cancel([job_id], "nobody reads its output any more")
        raise


def _pass_on(chunk: Chunk, out_to_err: bool, line: Bar) -> None:
    stream = sys.stdout if chunk.stream == "stdout" and not out_to_err else sys.stderr
    with line.aside(chunk.body, stream.isatty()):
        stream.buffer.write(chunk.body)
        stream.flush()


@contextmanager
def _cancelled_by_signals(client: JobsClient, job_id: str) -> Iterator[None]:
    """The first Ctrl-C cancels the job and waits for its end, the second waits no more."""
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    asked: list[asyncio.Future[object]] = []

    def interrupted() -> None:
        if asked and this:
            this.cancel()
            return
        asked.append(asyncio.ensure_future(client.cancel([job_id], "interrupted by its user")))
        if sys.stderr.isatty():
            print("\ncancelling; once more to leave without waiting", file=sys.stderr)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted)
    try:
        yield
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _verdict(info: JobInfo) -> int:
    code = exit_code(info)
    if info.state is not State.SUCCEEDED and not (info.error and info.error.type == "rota.ExitCode"):
        with suppress(OSError):
            complain(f"job {info.id} {info.state}" + (f": {info.reason}" if info.reason else ""))
    return code


def exit_code(info: JobInfo) -> int:
    """The exit code that a shell would give for the same end."""
    last = info.attempts[-1] if info.attempts else None
    if info.state is State.SUCCEEDED:
        return 0
    if info.state is State.CANCELLED:
        return CANCELLED
    if last is not None and last.outcome is Ending.TIMED_OUT:
        return TIMED_OUT
    return last.exit_code if last is not None and last.exit_code else 1
