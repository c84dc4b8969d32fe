"""What commands say, however they say it: kept in order, cut where told, and the job never waits."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from rota.clock import SystemClock
from rota.errors import StoreUnavailable
from rota.logs.shipper import Shipper
from rota.logs.sink import Sink
from rota.model.job import Ref, Verdict
from rota.model.lifecycle import State
from rota.store.base import Store
from rota.store.values import Chunk
from rota.telemetry.events import Bus
from rota.work.output import PIPE_SIZE, Drain, Output
from tests.node.running import LONG, make_app, running

MIB = 1 << 20


def streams(chunks: Sequence[Chunk]) -> dict[str, bytes]:
    said: dict[str, bytes] = {}
    for chunk in chunks:
        said[chunk.stream] = said.get(chunk.stream, b"") + chunk.body
    return said


@pytest.mark.slow
async def test_a_flood_keeps_its_first_and_its_last(tmp_path: Path) -> None:
    """1 GB. The node's other jobs go on meanwhile."""
    app = make_app(tmp_path, max_output=4 * MIB)
    script = "echo first; yes | head -c 1000000000; echo; echo last; echo really >&2"
    async with running(app):
        job = await app.submit_command(["sh", "-c", script])
        others = [await app.submit_command(["echo", str(number)]) for number in range(5)]
        for number, other in enumerate(others):
            assert (await other.wait(LONG)).state is State.SUCCEEDED
            assert await other.logs() == f"{number}\n"
        assert (await job.wait(120)).state is State.SUCCEEDED
        chunks = [chunk async for chunk in job.output()]
    (mark,) = [index for index, chunk in enumerate(chunks) if chunk.stream == "cut"]
    first, last = streams(chunks[:mark]), streams(chunks[mark + 1 :])
    assert first["stdout"].startswith(b"first\ny\ny\n")
    assert last["stdout"].endswith(b"y\ny\n\nlast\n")
    assert last["stderr"] == b"really\n"
    kept = sum(len(chunk.body) for chunk in chunks if chunk.stream != "cut")
    found = re.search(rb"([\d,]+) bytes", chunks[mark].body)
    assert found
    assert kept + int(found[1].replace(b",", b"")) == 1_000_000_000 + len("first\n\nlast\nreally\n")
    assert 3 * MIB <= kept <= 4 * MIB


async def test_every_byte_and_no_final_newline(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    program = "import os; [os.write(1, bytes(range(256))) for _ in range(4096)]; os.write(2, b'\\xff\\x00')"
    async with running(app):
        job = await app.submit_command([sys.executable, "-c", program])
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        said = streams([chunk async for chunk in job.output()])
    assert said == {"stdout": bytes(range(256)) * 4096, "stderr": b"\xff\x00"}


async def test_a_job_may_close_its_streams(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    program = "import os; os.write(1, b'one'); os.close(1); os.write(2, b'two'); os.close(2); os._exit(0)"
    async with running(app):
        job = await app.submit_command([sys.executable, "-c", program])
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        assert streams([chunk async for chunk in job.output()]) == {"stdout": b"one", "stderr": b"two"}


async def test_what_is_left_behind_speaks_until_it_is_killed(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with running(app):
        job = await app.submit_command(["sh", "-c", "setsid sh -c 'echo mine; sleep 1000' & sleep 0.2; echo done"])
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        assert await job.logs() == "mine\ndone\n"


async def test_lines_that_had_time_are_in_order(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    script = "for n in 1 2 3 4 5; do echo out $n; sleep 0.05; echo err $n >&2; sleep 0.05; done"
    async with running(app):
        job = await app.submit_command(["sh", "-c", script])
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        chunks = [chunk async for chunk in job.output()]
    assert [chunk.body for chunk in chunks] == [f"{s} {n}\n".encode() for n in range(1, 6) for s in ("out", "err")]
    assert all(one.at < next.at for one, next in itertools.pairwise(chunks))


async def test_a_flood_of_lines_beyond_the_limit_can_be_followed(tmp_path: Path) -> None:
    """What comes after the beginning is in the store while the job runs, so the death of its node leaves it there."""
    app = make_app(tmp_path, max_output=4096)
    script = "n=0; while test ! -e gate; do n=$((n+1)); echo line $n; done; echo over"
    async with running(app):
        job = await app.submit_command(["sh", "-c", script], cwd=str(tmp_path))
        async with asyncio.timeout(LONG):
            async for chunk in job.output(follow=True):
                if chunk.stream == "cut":
                    break
        (tmp_path / "gate").touch()
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        assert (await job.logs()).endswith("\nover\n")


class Nowhere:
    """A store that is away."""

    async def append_output(self, who: Any, chunks: Sequence[Chunk]) -> list[Verdict]:
        raise StoreUnavailable("away")

    def now(self) -> int:
        return SystemClock().now()


async def test_with_the_store_away_nothing_waits_and_memory_is_bounded() -> None:
    shipper = Shipper(cast(Store, Nowhere()), 4 * MIB, Bus())
    sink = shipper.open(Ref("job", 1))
    output = Output(sink, Drain())
    stdout, stderr = (os.dup(writer) for writer in output.writers)
    output.follow()
    body = bytes(PIPE_SIZE)

    def flood() -> None:
        for _ in range(100):
            written = 0
            while written < PIPE_SIZE:
                written += os.write(stdout, body[written:])
        os.write(stderr, b"the end")
        os.close(stdout)
        os.close(stderr)

    await asyncio.wait_for(asyncio.to_thread(flood), LONG)
    output.end()
    assert sink.held <= 5 * MIB
    sink.close()
    # What was in flight is not in the sink any more, and everything else is.
    chunks: list[Chunk] = []
    while more := sink.take_first(MIB) or sink.take_last(MIB):
        chunks += more
    assert b"the end" in [chunk.body for chunk in chunks[-20:]]
    (mark,) = [chunk for chunk in chunks if chunk.stream == "cut"]
    found = re.search(rb"([\d,]+) bytes", mark.body)
    assert found
    assert 95 * MIB < int(found[1].replace(b",", b"")) < 97 * MIB


async def test_a_blocked_loop_does_not_block_a_job() -> None:
    output = Output(Sink(Ref("job", 1), MIB, SystemClock().now, lambda _: None), Drain())
    stdout = os.dup(output.writers[0])
    output.follow()
    written = threading.Event()

    def flood() -> None:
        left = 64 * MIB
        while left:
            left -= os.write(stdout, bytes(min(left, MIB)))
        written.set()

    threading.Thread(target=flood).start()
    assert written.wait(LONG)  # and the loop waits with us
    os.close(stdout)
    output.end()


async def test_a_stranger_with_the_other_end_keeps_nobody_waiting() -> None:
    sink = Sink(Ref("job", 1), MIB, SystemClock().now, lambda _: None)
    output = Output(sink, Drain())
    stranger = os.dup(output.writers[0])
    output.follow()
    os.write(stranger, b"mine")
    output.end()
    assert b"".join(chunk.body for chunk in sink.take_first(MIB)) == b"mine"
    with pytest.raises(BrokenPipeError):
        os.write(stranger, b"more")
    os.close(stranger)


async def test_the_thread_ends_when_it_has_nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.work.output.IDLE", 0.01)
    drain = Drain()
    others = set(threading.enumerate())  # of earlier tests
    for _ in range(3):
        output = Output(Sink(Ref("job", 1), MIB, SystemClock().now, lambda _: None), drain)
        output.follow()
        output.end()
        for thread in [one for one in threading.enumerate() if one.name == "rota-output" and one not in others]:
            await asyncio.to_thread(thread.join, LONG)
        assert drain._poll is None


async def test_the_thread_survives_a_sink_that_fails() -> None:
    seen = threading.Event()

    class Failing(Sink):
        __slots__ = ("calls",)

        def write(self, stream: str, body: bytes) -> None:
            if body == b"bad":
                raise MemoryError
            seen.set()

    drain = Drain()
    outputs = [Output(Failing(Ref("job", 1), MIB, SystemClock().now, lambda _: None), drain) for _ in range(2)]
    ends = [os.dup(output.writers[0]) for output in outputs]
    for output in outputs:
        output.follow()
    os.write(ends[0], b"bad")
    os.write(ends[1], b"good")
    assert await asyncio.to_thread(seen.wait, LONG)
    seen.clear()
    os.write(ends[0], b"good")
    assert await asyncio.to_thread(seen.wait, LONG)
    for end, output in zip(ends, outputs, strict=True):
        os.close(end)
        output.end()
