"""Functions that do their worst: each costs its own attempt, and nobody else anything."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.model.lifecycle import State
from rota.model.outcome import Ending
from rota.telemetry.events import LeaseLost
from rota.work.functions import fork_server_client
from tests.node.running import LONG, Probe
from tests.work.functions import app as tasks
from tests.work.functions.nodes import children, fork_servers, gone, node, run, until

pytestmark = pytest.mark.slow


@asynccontextmanager
async def beside(folder: Path, **settings: Any) -> AsyncIterator[Probe]:
    """A node, and a neighbour that runs the whole time and must not notice anything."""
    end = folder / "end"
    async with node(folder, **settings) as probe:
        job = await tasks.neighbour.submit(path=str(end))
        await until((folder / "end.up").exists)
        yield probe
        assert await (await tasks.echo.submit(text="still here")).result(LONG) == "still here"
        end.touch()
        info = await job.wait(LONG)
        assert (info.result, len(info.attempts)) == ("untouched", 1)
        assert not [event for event in probe.seen if isinstance(event, LeaseLost)]


@pytest.mark.parametrize(
    ("how", "epitaph"),
    [
        ("segfault", "killed by SIGSEGV"),
        ("exit", "exited with code 3"),
        ("kill", "killed by SIGKILL: perhaps out of memory"),
        ("abort", "killed by SIGABRT"),
    ],
)
async def test_what_crashes_again_and_again_is_a_dead_letter(tmp_path: Path, how: str, epitaph: str) -> None:
    async with beside(tmp_path, crash_limit=2):
        info = await run(tasks.crashes.submit(how=how))
    assert info.state is State.FAILED
    assert info.error is not None
    assert info.error.type == "rota.ExecutorCrashed"
    assert info.error.message == f"{epitaph}; that was crash number 2 of this job"
    assert [one.outcome for one in info.attempts] == [Ending.CRASHED] * 2
    assert (info.crashes, info.failures) == (2, 0)


async def test_a_single_crash_is_made_up_for_at_once(tmp_path: Path) -> None:
    async with beside(tmp_path):
        info = await run(tasks.crashes_once.submit())
    assert (info.result, info.crashes, info.failures) == (2, 1, 0)


@pytest.mark.parametrize("how", ["holding the lock of the interpreter", "asleep", "swallowing", "deaf"])
async def test_what_hangs_is_gone_after_its_grace(tmp_path: Path, how: str) -> None:
    async with beside(tmp_path):
        info = await run(tasks.hangs.options(timeout="300ms").submit(how=how, path=str(tmp_path / "up")))
    assert info.state is State.FAILED
    assert [one.outcome for one in info.attempts] == [Ending.TIMED_OUT]
    assert info.reason == "timed out after 300ms"


async def test_stopping_what_it_was_forked_from(tmp_path: Path) -> None:
    """Nobody could be started nor stopped until that goes on: it is set going again."""
    async with beside(tmp_path):
        info = await run(tasks.stops_its_parent.options(timeout="300ms").submit(again=False))
        assert [one.outcome for one in info.attempts] == [Ending.TIMED_OUT]


async def test_stopping_what_it_was_forked_from_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server_client, "NUDGES", 1)
    async with node(tmp_path):
        info = await run(tasks.stops_its_parent.options(timeout="300ms").submit(again=True))
        assert [one.outcome for one in info.attempts] == [Ending.TIMED_OUT]
        assert (await run(tasks.echo.submit(text="another one is there"))).state is State.SUCCEEDED


async def test_one_that_is_stopped_while_it_imports_goes_on(tmp_path: Path) -> None:
    async with node(tmp_path):
        first = (await run(tasks.where.submit())).result["parent"]
        assert fork_servers() == {first}
        old = {first, *children(first)}  # for a moment these look like one, too
        os.kill(first, signal.SIGKILL)
        await until(lambda: bool(fork_servers() - old))
        (second,) = fork_servers() - old
        os.kill(second, signal.SIGSTOP)
        info = await run(tasks.where.submit())
        assert info.result["parent"] == second


async def test_a_cancel_stops_what_looks_and_what_waits(tmp_path: Path) -> None:
    async with beside(tmp_path, kill_grace="10s"):
        for task in (tasks.looks, tasks.waits):
            path = tmp_path / task.name
            job = await task.submit(path=str(path))
            await until(path.exists)
            await job.cancel("enough")
            info = await job.wait(LONG)
            assert (info.state, info.reason) == (State.CANCELLED, "enough")
            assert await job.logs() == "stopped in peace\n"


@pytest.mark.parametrize("task", [tasks.leaves_a_daemon, tasks.daemon_and_hang])
async def test_what_a_function_leaves_behind_is_gone_when_its_attempt_ends(
    tmp_path: Path, task: rota.Task[..., Any]
) -> None:
    path = tmp_path / "daemon"
    async with beside(tmp_path):
        info = await run(task.submit(path=str(path), timeout="1s"))
        assert gone(int(path.read_text()))
    hung = task is tasks.daemon_and_hang
    assert info.attempts[0].outcome is (Ending.TIMED_OUT if hung else Ending.SUCCEEDED)


@pytest.mark.parametrize("task", [tasks.closes_stdout, tasks.closes_sys_stdout])
async def test_a_process_without_its_stdout_is_not_used_again(tmp_path: Path, task: rota.Task[..., Any]) -> None:
    async with beside(tmp_path, warm_processes=1):
        assert (await run(task.submit())).result == "closed"
        job = await tasks.speak.submit()
        await job.wait(LONG)
        assert "first" in await job.logs()


@pytest.mark.parametrize("task", [tasks.closes_everything, tasks.writes_to_everything])
async def test_what_breaks_its_channel_ends_as_a_crash_or_not_at_all(tmp_path: Path, task: rota.Task[..., Any]) -> None:
    async with beside(tmp_path, crash_limit=1):
        info = await run(task.submit())
    assert info.state is State.FAILED
    assert info.error is not None
    assert info.error.type == "rota.ExecutorCrashed"


async def test_the_next_job_finds_its_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with beside(tmp_path, warm_processes=1):
        assert (await run(tasks.deletes_its_folder.submit())).result == "deleted"
        for _ in range(4):
            assert (await run(tasks.folder.submit())).result == str(tmp_path)


async def test_a_memory_hog_gets_an_error_of_its_own(tmp_path: Path) -> None:
    async with beside(tmp_path, warm_processes=1):
        info = await run(tasks.eats_memory.submit())
        assert info.error is not None
        assert info.error.type == "builtins.MemoryError"
        assert len((await run(tasks.large.submit(size=900_000))).result) == 900_000


@pytest.mark.parametrize(("how", "kind"), [("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt")])
async def test_exceptions_that_end_programs_only_fail_the_job(tmp_path: Path, how: str, kind: str) -> None:
    async with beside(tmp_path):
        info = await run(tasks.leaves.submit(how=how))
    assert info.error is not None
    assert (info.state, info.error.type, info.crashes) == (State.FAILED, f"builtins.{kind}", 0)
