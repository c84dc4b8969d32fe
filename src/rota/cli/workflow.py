"""`rota workflow ...`: shows and changes workflows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from rota.app_core import AppCore
from rota.cli.session import Present, client_place, existing, utf8
from rota.cli.show import age, complain, document, facts, on_terminal, state, table, when
from rota.cli.waiting import hinting
from rota.errors import InvalidInput, NotFound, WaitTimeout
from rota.handles.workflow import Workflow
from rota.model.lifecycle import LIVE, State
from rota.model.times import Instant, as_instant, duration
from rota.store.graph import WorkflowFilter, WorkflowInfo, WorkflowJob
from rota.views.workflows import WorkflowChangeView, WorkflowDetailView, WorkflowView

TIMED_OUT = 124


async def list_(args: argparse.Namespace) -> int:
    name = None if args.name is None else utf8(args.name, "--name")
    async with existing(args) as client:
        found = await client.store.workflows(client.who, WorkflowFilter(name=name, limit=args.limit))
        now = client.store.now()
    if args.json:
        document([WorkflowView.of(info) for info in found])
        return 0
    rows = (
        (info.id, info.name, age(now - as_instant(info.created_at)), state(info.state), in_words(info.counts))
        for info in found
    )
    table(("ID", "NAME", "AGE", "STATE", "JOBS"), rows)
    if len(found) == args.limit and on_terminal():
        print(f"({args.limit} shown; there may be more: --limit N)")
    return 0


def in_words(counts: Mapping[State, int]) -> str:
    """Such as `12 succeeded, 1 failed`."""
    return ", ".join(f"{counts[one]:,} {one}" for one in State if counts.get(one)) or "none left"


async def show_(args: argparse.Namespace) -> int:
    form = "graphviz" if args.graphviz else "mermaid" if args.mermaid else "tree"
    if args.json and form != "tree":
        args.parser.error(f"give --json or --{form}, not both")
    async with Present(**client_place(args)) as app:
        workflow = await _find(app, args)
        if args.json:
            document(WorkflowDetailView.with_jobs(await workflow.info(), await workflow.jobs()))
            return 0
        drawing = await workflow.draw(form)
        if form == "tree":
            _head(await workflow.info(), (await app.client()).store.now())
        print(drawing.rstrip("\n"))
    return 0


async def _find(app: AppCore, args: argparse.Namespace) -> Workflow:
    return Workflow(app, await (await app.client()).workflow(utf8(args.workflow, "ID")))


def _head(info: WorkflowInfo, now: Instant) -> None:
    counts = in_words(info.counts)
    facts(
        [
            ("id", info.id),
            ("name", info.name),
            ("state", state(info.state)),
            ("created", when(info.created_at, now)),
            ("jobs", counts),
        ]
    )
    print()


async def cancel_(args: argparse.Namespace) -> int:
    reason = {} if args.reason is None else {"reason": utf8(args.reason, "--reason")}
    async with Present(**client_place(args)) as app:
        workflow = await _find(app, args)
        count = await workflow.cancel(**reason)
    return _report(args, workflow, count, f"cancelled: {jobs(count)}", "had ended before")


async def retry_(args: argparse.Namespace) -> int:
    async with Present(**client_place(args)) as app:
        workflow = await _find(app, args)
        count = await workflow.retry(await _start(workflow, args))
    done = f"runs again: {jobs(count)}, with what was skipped because of {'it' if count == 1 else 'them'}"
    return _report(args, workflow, count, done, f"has no job that failed or was cancelled{_part(args)}")


async def replay_(args: argparse.Namespace) -> int:
    async with Present(**client_place(args)) as app:
        workflow = await _find(app, args)
        start = await _start(workflow, args)
        if not args.yes and not _confirmed(args, await workflow.info()):
            print("nothing was changed", file=sys.stderr)
            return 1
        count = await workflow.replay(start)
    return _report(args, workflow, count, f"runs again: {jobs(count)}", f"has no jobs any more{_part(args)}")


def _part(args: argparse.Namespace) -> str:
    return "" if args.from_ is None else f" from {args.from_} on"


async def _start(workflow: Workflow, args: argparse.Namespace) -> str | None:
    return None if args.from_ is None else _job_of(await workflow.jobs(), utf8(args.from_, "--from"), workflow.id)


def _job_of(found: Sequence[WorkflowJob], given: str, workflow: str) -> str:
    """The job of a workflow with this id, name or task, or whose id begins or ends with the text. A full name wins:
    `a`, `feed` and `add` are also ends of ids."""
    part = given.lower()
    fitting = [job for job in found if job.id == part] or _called(found, given)
    fitting = fitting or [job for job in found if part and (job.id.startswith(part) or job.id.endswith(part))]
    if not fitting:
        raise NotFound(f"job of workflow {workflow} that fits", given)
    if len(fitting) > 1:
        expected = f"what fits one job only; it fits {fitting[0].id} and {fitting[1].id}"
        raise InvalidInput("--from", given, expected)
    return fitting[0].id


def _called(found: Sequence[WorkflowJob], given: str) -> list[WorkflowJob]:
    return [job for job in found if job.name == given] or [job for job in found if job.task == given]


def _confirmed(args: argparse.Namespace, info: WorkflowInfo) -> bool:
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        expected = "--yes, if you mean it: what has succeeded runs again too"
        raise InvalidInput("workflow replay", "no terminal to ask on", expected)
    which = f"all of workflow {info.id}" if args.from_ is None else f"workflow {info.id} from {args.from_} on"
    complain(f"{which} runs again, what has succeeded too ({in_words(info.counts)})")
    print("go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _report(args: argparse.Namespace, workflow: Workflow, count: int, done: str, otherwise: str) -> int:
    if args.json:
        document(WorkflowChangeView(workflow.id, count > 0, count))
    elif count:
        print(f"{workflow.id} {done}")
    else:
        complain(f"workflow {workflow.id} {otherwise}")
    return 0 if count else 1


def jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


async def wait_(args: argparse.Namespace) -> int:
    if args.timeout is not None:
        duration(args.timeout, "--timeout")
    async with Present(**client_place(args)) as app:
        workflow = await _find(app, args)
        # If no job starts, the first one that could explains why.
        first = next(
            (job.id for job in await workflow.jobs() if job.state in (State.READY, State.HELD, State.SCHEDULED)), None
        )
        try:
            with nullcontext() if first is None else hinting(await app.client(), first):
                info = await workflow.wait(args.timeout)
        except WaitTimeout:
            info = await workflow.info()
    if args.json:
        document(WorkflowView.of(info))
    over = not LIVE & info.counts.keys()
    text = f"{info.id} {info.state}: {in_words(info.counts)}"
    if not over:
        complain(f"workflow {info.id} has not ended: {in_words(info.counts)}")
        return TIMED_OUT
    if not args.json:
        print(text)
    return 0 if info.succeeded else 1
