"""Functions that share a process: what one of them does to it, its neighbours survive."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.model.lifecycle import State
from rota.model.outcome import Ending
from rota.telemetry.events import AttemptStuck, LeaseLost
from rota.work.functions import host_client
from rota.work.functions.forked import ProcessConfig
from rota.work.functions.host import MOST_HELD, Host
from rota.work.functions.reporter import ChannelReporter
from rota.work.functions.wire import Frames, Ping, Pong, ProgressReport, decode_report, frame
from tests.node.running import LONG, Probe
from tests.work.functions import app as tasks
from tests.work.functions.nodes import gone, node, run, until

pytestmark = pytest.mark.slow


@asynccontextmanager
async def beside(folder: Path, **settings: Any) -> AsyncIterator[tuple[Probe, rota.Job[Any]]]:
    """A neighbour in the same process, which is let go at the end of the block."""
    async with node(folder, **settings) as probe:
        job = await tasks.async_neighbour.submit(path=str(folder / "end"))
        await until((folder / "end.up1").exists)
        yield probe, job
        (folder / "end").touch()
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        assert not [event for event in probe.seen if isinstance(event, LeaseLost)]


async def test_what_they_say_is_each_ones_own_and_in_order(tmp_path: Path) -> None:
    async with node(tmp_path):
        jobs = await tasks.async_speak.submit_many([{}] * 5)
        for job in jobs:
            await job.wait(LONG)
            assert await job.logs() == "first\nINFO shop: second\nthird number=3\nno line end"


@pytest.mark.parametrize("task", [tasks.async_waits, tasks.thread_looks])
async def test_a_cancel_is_heard(tmp_path: Path, task: rota.Task[..., Any]) -> None:
    async with beside(tmp_path, kill_grace="10s"):
        job = await task.submit(path=str(tmp_path / "up"))
        await until((tmp_path / "up").exists)
        await job.cancel("enough")
        info = await job.wait(LONG)
        assert (info.state, info.reason) == (State.CANCELLED, "enough")
        assert await job.logs() == "stopped in peace\n"


async def test_a_crash_is_everyones_until_they_are_alone(tmp_path: Path) -> None:
    """Nobody can say whose fault it was; so both run again, each in a process of its own, and there it shows."""
    async with beside(tmp_path, crash_limit=2) as (_, neighbour):
        info = await run(tasks.async_crash.submit(how="segfault"))
        assert info.error is not None
        assert (info.state, info.crashes) == (State.FAILED, 2)
        assert info.error.message == "killed by SIGSEGV; that was crash number 2 of this job"
        await until((tmp_path / "end.up2").exists)
        found = await neighbour.info()
        assert (found.crashes, found.failures) == (1, 0)
    assert (await _result(tmp_path, neighbour))["attempt"] == 2


@pytest.mark.parametrize("how", ["asleep", "holding the lock of the interpreter"])
async def test_one_that_blocks_the_loop_is_ended_and_its_neighbour_put_back(tmp_path: Path, how: str) -> None:
    async with beside(tmp_path) as (_, neighbour):
        info = await run(tasks.blocks_the_loop.options(timeout="300ms").submit(how=how))
        assert [one.outcome for one in info.attempts] == [Ending.TIMED_OUT]
        await until((tmp_path / "end.up2").exists)
        found = await neighbour.info()
        assert (found.interruptions, found.crashes, found.failures) == (1, 0, 0)


async def test_a_loop_that_is_blocked_for_long_is_a_crash_of_all_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_client, "HUNG", 1.5)
    async with beside(tmp_path, crash_limit=2) as (_, neighbour):
        job = await tasks.blocks_the_loop.submit(how="asleep")
        await until((tmp_path / "end.up2").exists)
        assert [(await one.info()).crashes for one in (neighbour, job)] == [1, 1]
        await job.cancel()
        (first, *_) = (await job.wait(LONG)).attempts
        assert first.error is not None
        assert first.error.message == "killed: its loop was blocked for 1.5 s"


@pytest.mark.parametrize("task", [tasks.async_swallow, tasks.thread_sleeps])
async def test_one_that_does_not_stop_keeps_its_host_until_the_others_are_done(
    tmp_path: Path, task: rota.Task[..., Any]
) -> None:
    async with beside(tmp_path, queues="default:4") as (probe, neighbour):
        info = await run(task.submit(path=str(tmp_path / "up"), timeout="300ms"))
        await probe.until(AttemptStuck)
        assert "did not stop" in (info.reason or "")
        fresh = await run(tasks.on_a_loop.submit())  # elsewhere
    places = (await _result(tmp_path, neighbour))["pid"], fresh.result
    assert places[0] != places[1]
    assert (await _result(tmp_path, neighbour))["attempt"] == 1
    with pytest.raises(ProcessLookupError):
        os.kill(places[0], 0)


async def test_a_host_with_too_much_memory_gets_no_more_and_goes_with_its_last(tmp_path: Path) -> None:
    async with beside(tmp_path, pool_memory=1 << 20) as (_, neighbour):
        first = (await run(tasks.on_a_loop.submit())).result
        async with asyncio.timeout(LONG):
            while (await run(tasks.on_a_loop.submit())).result == first:
                pass
        assert not gone(first)
        (tmp_path / "end").touch()
        found = (await neighbour.wait(LONG)).result
        assert (found["pid"], found["attempt"]) == (first, 1)
        await until(lambda: gone(first))


async def test_a_sub_task_that_exits_fails_nobody_else(tmp_path: Path) -> None:
    async with beside(tmp_path):
        assert (await run(tasks.async_exit.submit())).ended


async def test_one_that_prints_without_end_waits_and_does_not_keep_the_host_from_answering() -> None:
    """What nobody has read filled its memory, and its answer stood at the end of all that: it was taken for dead."""
    ours, theirs = socket.socketpair()
    host = Host(ProcessConfig({}, 1 << 20, 1, 1 << 30), theirs)
    threading.Thread(target=host.run, daemon=True).start()

    def print_on() -> None:
        for _ in range(100_000):
            host.write(1, "stdout", b"x" * 1000)

    printing = threading.Thread(target=print_on, daemon=True)
    printing.start()
    await until(lambda: bool(host._outbox.unsent) and len(host._outbox.waiting) > MOST_HELD // 2)  # nobody reads

    def first() -> object:
        assert isinstance(host._outbox.waiting[0], bytes)
        return Frames(1 << 20, decode_report).feed(host._outbox.waiting[0])[0]

    ours.sendall(frame(Ping()))
    await until(lambda: isinstance(first(), Pong))
    assert len(host._outbox.waiting) <= MOST_HELD + 2
    ours.close()
    await until(lambda: not printing.is_alive())


async def test_of_progress_only_the_newest_is_sent() -> None:
    ours, theirs = socket.socketpair()
    host = Host(ProcessConfig({}, 1 << 20, 1, 1 << 30), theirs)
    reporter = ChannelReporter(host, 3)
    for number in range(1000):
        reporter.progress(number / 1000, "")
    threading.Thread(target=host.run, daemon=True).start()
    words = Frames(1 << 20, decode_report).feed(await asyncio.to_thread(ours.recv, 1 << 20))
    assert words == [ProgressReport(3, 0.999, "")]
    ours.close()


async def _result(folder: Path, job: rota.Job[Any]) -> Any:
    app = rota.App(f"sqlite:///{folder / 'rota.db'}")
    try:
        return (await (await app.job(job.id)).info()).result
    finally:
        await app.close()
