"""Functions that misuse what they were given: whatever becomes of them, nobody else's job is touched by it."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any, cast

import pytest

import rota
from rota.errors import InvalidInput
from rota.model.lifecycle import State
from rota.model.outcome import Ending
from rota.tasks.catalogue import TaskDef
from rota.telemetry.events import PoolFailed
from tests.node.running import LONG
from tests.work.functions import traps
from tests.work.functions.nodes import gone, node, pause, run, until

pytestmark = pytest.mark.slow


async def test_the_child_of_a_fork_does_not_end_its_parents_job_nor_the_next(tmp_path: Path) -> None:
    """Both came back from the function. The second end was taken for that of the next job, which was killed for it
    and yet had succeeded."""
    async with node(tmp_path, traps.app, queues="default:1", warm_processes=1):
        first = await traps.returns_twice.submit()
        second = await traps.witness.submit(path=str(tmp_path / "ran"))
        assert (await first.wait(LONG)).result == "parent"
        assert (await second.wait(LONG)).result == "ran"
    assert (tmp_path / "ran").read_text() == "ran\n"


async def test_the_child_of_a_fork_in_a_shared_process_does_not_speak_for_others(tmp_path: Path) -> None:
    async with node(tmp_path, traps.app):
        neighbour = await traps.waits.submit(path=str(tmp_path / "end"))
        await until((tmp_path / "end.up").exists)
        assert (await run(traps.async_returns_twice.submit())).result == "parent"
        (tmp_path / "end").touch()
        info = await neighbour.wait(LONG)
    assert (info.state, len(info.attempts)) == (State.SUCCEEDED, 1)


async def test_processes_that_a_function_forks_end_when_it_ends_them(tmp_path: Path) -> None:
    """They had the handler by which functions are told to stop, and took SIGTERM for that; their parent waited for
    ever."""
    async with node(tmp_path, traps.app):
        for _ in range(3):
            job = await traps.has_a_pool.submit()
            assert (await job.wait(LONG)).result == 2470
            said = await job.logs()
            assert (said.count("WARNING below: logged\n"), said.count("printed")) == (20, 20)


async def test_children_of_a_function_may_save_beside_it(tmp_path: Path) -> None:
    """All wait at the same channel: none may take a part of another's answer."""
    async with node(tmp_path, traps.app, queues="default:1", warm_processes=1):
        assert (await run(traps.saves_from_children.options(timeout="20s").submit())).result == [0, 0, 0]


async def test_the_context_of_a_job_that_is_over_changes_nothing(tmp_path: Path) -> None:
    """What was said and saved with it became the next job's."""
    async with node(tmp_path, traps.app, queues="default:1", warm_processes=1):
        process = (await run(traps.lends_its_context.submit())).result
        job = await traps.uses_anothers.submit()
        info = await job.wait(LONG)
        assert info.result == [None, [process, "stale"]]
        assert (await job.logs(), info.progress) == ("", None)


@pytest.mark.parametrize("task", [traps.hostile, traps.async_hostile, traps.thread_hostile])
async def test_an_exception_that_can_not_be_looked_at_is_a_failure(tmp_path: Path, task: rota.Task[..., Any]) -> None:
    async with node(tmp_path, traps.app):
        info = await run(task.submit())
    assert info.error is not None
    assert (info.error.type, [one.outcome for one in info.attempts]) == ("rota.BadException", [Ending.FAILED])


def test_arguments_that_a_type_refuses_in_its_own_way_are_wrong_input() -> None:
    task = TaskDef(traps.picky, cast(Any, dict), "picky")
    with pytest.raises(InvalidInput, match="RuntimeError: not like this"):
        task.decode('{"given": {"number": 1}}')


async def test_a_thread_that_can_not_be_started_fails_its_job_and_not_those_behind_it(tmp_path: Path) -> None:
    async with node(tmp_path, traps.app):
        hog = await traps.takes_all_memory.submit(path=str(tmp_path / "end"))
        await until((tmp_path / "end.up").exists)
        for job in await traps.in_a_thread.submit_many([{}] * 3):
            info = await job.wait(LONG)
            assert info.error is not None
            assert (info.state, info.error.type) == (State.FAILED, "rota.ExecutorError")
        (tmp_path / "end").touch()
        assert (await hog.wait(LONG)).state is State.SUCCEEDED
        assert (await run(traps.in_a_thread.submit())).result == "done"


async def test_a_fork_server_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """It is what kills pool processes: without it nothing that hangs would ever end."""
    async with node(tmp_path, traps.app, warm_processes=1):
        info = await run(traps.stops_its_parent.options(timeout="300ms").submit())
        assert [one.outcome for one in info.attempts] == [Ending.TIMED_OUT]
        assert (await run(traps.where.submit())).state is State.SUCCEEDED


async def test_a_process_that_does_not_leave_is_ended(tmp_path: Path) -> None:
    async with node(tmp_path, traps.app):
        process = (await run(traps.stays_for_ever.submit())).result
        await until(lambda: gone(process))


async def test_functions_go_on_though_the_nodes_folder_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork server died after that, and there never was another."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    async with node(tmp_path, traps.app) as probe:
        parent = (await run(traps.where.submit())).result["parent"]
        shutil.rmtree(folder)
        os.kill(parent, signal.SIGKILL)
        await probe.until(PoolFailed)
        again = await run(traps.where.submit())
        assert again.result["parent"] != parent


async def test_a_process_that_does_not_take_its_order_costs_nobody_a_job(tmp_path: Path) -> None:
    """Stopped by a stranger, or held up by what an earlier job has left in it."""
    async with node(tmp_path, traps.app, queues="default:1", warm_processes=1):
        process = (await run(traps.where.submit())).result["pid"]
        await pause(process)
        info = await run(traps.where.submit())
        assert (info.state, info.crashes) == (State.SUCCEEDED, 0)
        assert info.result["pid"] != process
        await until(lambda: gone(process))
