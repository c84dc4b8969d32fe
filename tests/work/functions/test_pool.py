"""Functions in warm processes: where they run, what they say, how many processes there are."""

from __future__ import annotations

import importlib
import os
import signal
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.errors import InvalidInput
from rota.model.lifecycle import State
from rota.telemetry.events import PoolFailed, TasksInThreads
from rota.work.functions import pool
from tests.node.running import LONG, running
from tests.work.functions import app as tasks
from tests.work.functions.nodes import children, gone, node, run, until


async def test_a_sync_function_runs_in_a_process_that_is_used_again(tmp_path: Path) -> None:
    async with node(tmp_path, queues="default:1"):
        places = [(await run(tasks.where.submit())).result for _ in range(5)]
    assert all(place == places[0] for place in places)
    assert places[0]["pid"] == places[0]["session"] != os.getpid()
    assert gone(places[0]["pid"])
    assert gone(places[0]["parent"])


@pytest.mark.slow
async def test_a_process_leaves_after_so_many_jobs_or_with_so_much_memory(tmp_path: Path) -> None:
    async with node(tmp_path, queues="default:1", pool_jobs=2):
        counts = [(await run(tasks.count.submit())).result for _ in range(5)]
    assert counts == [1, 2, 1, 2, 1]
    async with node(tmp_path, warm_processes=1, pool_memory=1 << 20):
        assert [(await run(tasks.count.submit())).result for _ in range(3)] == [1, 1, 1]


async def test_what_a_function_says_is_kept_in_order(tmp_path: Path) -> None:
    async with node(tmp_path):
        job = await tasks.speak.submit()
        await job.wait(LONG)
        text = "first\nINFO shop: second\nthird\nfourth number=4\nfifth\nsixth\nno line end"
        assert await job.logs() == text


async def test_progress_and_state_reach_the_store_and_the_next_attempt(tmp_path: Path) -> None:
    async with node(tmp_path):
        info = await run(tasks.saves.submit())
        assert (info.result, len(info.attempts)) == ({"done": [1, 2]}, 2)
        assert info.progress is not None
        assert (info.progress.fraction, info.progress.text) == (0.5, "half")
        info = await run(tasks.saves_async.submit())
        assert (info.result, len(info.attempts)) == ("so far", 2)
        assert info.progress is not None
        assert (info.progress.fraction, info.progress.text) == (None, "begun")
        info = await run(tasks.saves_on_the_loop.submit())
        assert (info.result, len(info.attempts)) == ([2], 2)
        assert info.progress is not None
        assert (info.progress.fraction, info.progress.text) == (0.25, "a quarter")
        info = await run(tasks.saves_in_a_thread.submit())
        assert (info.result, len(info.attempts)) == ("here", 2)
        assert info.progress is not None
        assert (info.progress.fraction, info.progress.text) == (0.75, "most")
        info = await run(tasks.saves_what_it_can_not.submit())
        assert info.error is not None
        assert info.error.type == "rota.errors.NotSerialisable"


@pytest.mark.slow
async def test_a_long_log_line(tmp_path: Path) -> None:
    async with node(tmp_path):
        job = await tasks.shout.submit(size=5_000_000)
        await job.wait(LONG)
        assert await job.logs() == "x" * 5_000_000 + "\n"


@pytest.mark.slow
async def test_what_a_function_has_started_may_talk_on_and_harms_nobody(tmp_path: Path) -> None:
    async with node(tmp_path):
        first = await run(tasks.async_neighbour.submit(path=str(tmp_path)))
        await run(tasks.talks_on.submit())
        for _ in range(20):
            assert (await run(tasks.async_neighbour.submit(path=str(tmp_path)))).result["pid"] == first.result["pid"]


async def test_output_is_kept_byte_by_byte(tmp_path: Path) -> None:
    async with node(tmp_path):
        job = await tasks.binary.submit()
        await job.wait(LONG)
        said = {chunk.stream: chunk.body async for chunk in job.output()}
    assert said == {"stdout": b"\xff\xfe\x00", "stderr": b"\x80"}


@pytest.mark.slow
async def test_a_function_never_waits_for_the_node_to_read(tmp_path: Path) -> None:
    """The node's loop stands still until all is written, far more than pipes hold."""
    size, path = 16_000_000, tmp_path / "written"
    async with node(tmp_path, lease="60s"):
        job = await tasks.floods.submit(size=size, path=str(path))
        await until((tmp_path / "written.up").exists)
        (tmp_path / "written.go").touch()
        end = time.monotonic() + LONG
        while not path.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        assert len(await job.logs()) == size


@pytest.mark.slow
async def test_what_many_quick_jobs_say_is_each_ones_own(tmp_path: Path) -> None:
    """They follow each other in the same process without a pause, and write past Python's own streams."""
    async with node(tmp_path, queues="default:100"):
        jobs = await tasks.mutter.submit_many([{"number": number} for number in range(120)])
        for job in jobs:
            await job.wait(LONG)
        assert [await job.logs() for job in jobs] == [f"<{number}>" for number in range(120)]


@pytest.mark.slow
async def test_long_functions_run_side_by_side_and_short_ones_are_not_kept_waiting(tmp_path: Path) -> None:
    async with node(tmp_path, queues="default:8", warm_processes=2):
        long = await tasks.neighbour.submit_many([{"path": str(tmp_path / str(number))} for number in range(6)])
        quick = [await tasks.echo.submit(text=str(number)) for number in range(20)]
        assert [await job.result(LONG) for job in quick] == [str(number) for number in range(20)]
        for number in range(6):
            await until((tmp_path / f"{number}.up").exists)
        for number, job in enumerate(long):
            (tmp_path / str(number)).touch()
            assert await job.result(LONG) == "untouched"


@pytest.mark.slow
async def test_processes_that_nobody_needs_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "KEPT_IDLE", 0.5)
    async with node(tmp_path, warm_processes=1):
        jobs = [await tasks.neighbour.submit(path=str(tmp_path / str(number))) for number in range(3)]
        for number in range(3):
            await until((tmp_path / f"{number}.up").exists)
        fork_server = (await run(tasks.where.submit())).result["parent"]
        assert len(children(fork_server)) >= 3
        for number, job in enumerate(jobs):
            (tmp_path / str(number)).touch()
            assert (await job.wait(LONG)).result == "untouched"
        await until(lambda: len(children(fork_server)) == 2)  # a warm one, and the one for async functions


async def test_a_function_knows_its_job_and_may_be_async(tmp_path: Path) -> None:
    async with node(tmp_path):
        job = await tasks.see.submit()
        assert await job.result(LONG) == {"fence": 1, "attempt": 1, "job": job.id, "queue": "default"}
        other = await tasks.see_async.submit()
        assert await other.result(LONG) != os.getpid()
        assert await other.logs() == "from a loop\n"


async def test_a_failure_shows_where_it_happened(tmp_path: Path) -> None:
    async with node(tmp_path):
        info = await run(tasks.fails.submit())
    assert info.error is not None
    assert info.error.type == "builtins.ConnectionError"
    lines = (info.error.trace or "").splitlines()
    assert "in fails" in lines[1]


async def test_a_function_may_order_others(tmp_path: Path) -> None:
    async with node(tmp_path):
        ordered = (await run(tasks.order_another.submit())).result
        assert await (await tasks.app.job(ordered)).result(LONG) == "ordered"


@pytest.mark.sampled
@pytest.mark.parametrize("size", [60_000, 70_000, 1_000_000])
async def test_large_arguments_and_results(tmp_path: Path, size: int) -> None:
    async with node(tmp_path):
        assert (await run(tasks.echo.submit(text="y" * size))).result == "y" * size


async def test_threads_and_loops_share_a_process_that_is_not_the_nodes(tmp_path: Path) -> None:
    async with node(tmp_path):
        thread, loop = (await run(tasks.in_a_thread.submit())).result, (await run(tasks.on_a_loop.submit())).result
        alone = (await run(tasks.where.submit())).result["pid"]
    assert thread == loop
    assert len({loop, alone, os.getpid()}) == 3


async def test_what_it_took_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rota.work.attempt import Pipeline

    seen: list[Any] = []
    settle = Pipeline._settle

    async def spy(self: Pipeline, attempt: Any, outcome: Any) -> None:
        seen.append(attempt.usage)
        await settle(self, attempt, outcome)

    monkeypatch.setattr(Pipeline, "_settle", spy)
    async with node(tmp_path):
        await run(tasks.naps.submit(seconds=0.05))
    assert seen[0].wall_time >= 50_000
    assert seen[0].memory > 1 << 20
    assert seen[0].isolation == ("process",)


async def test_the_death_of_the_fork_server_costs_its_jobs_one_crash(tmp_path: Path) -> None:
    async with node(tmp_path) as probe:
        place = (await run(tasks.where.submit())).result
        path = tmp_path / "end"
        job = await tasks.neighbour.submit(path=str(path))
        await until((tmp_path / "end.up").exists)
        os.kill(place["parent"], signal.SIGKILL)
        await probe.until(PoolFailed)
        path.touch()
        info = await job.wait(LONG)
    assert (info.result, info.crashes, len(info.attempts)) == ("untouched", 1, 2)


@pytest.mark.slow
async def test_without_a_fork_server_functions_are_left_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PAUSES", (3600.0,))
    async with node(tmp_path) as probe:
        place = (await run(tasks.where.submit())).result
        os.kill(place["parent"], signal.SIGKILL)
        await probe.until(PoolFailed)
        function = await tasks.where.submit()
        command = await tasks.app.submit_command(["true"])
        assert (await command.wait(LONG)).state is State.SUCCEEDED
        assert (await function.info()).state is State.READY


@pytest.mark.slow
async def test_the_death_of_the_first_fork_server_while_it_imports_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions ran inside of the node from then on."""
    monkeypatch.syspath_prepend(tmp_path)
    code = f"""
        import os, signal, rota
        mark = {str(tmp_path / "imported")!r}
        with open(mark, "a") as file:
            file.write("x")
        if os.path.getsize(mark) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        app = rota.App("sqlite:///{tmp_path / "rota.db"}")
        @app.task
        def somewhere() -> int:
            return os.getpid()
    """
    (tmp_path / "dies_once.py").write_text(textwrap.dedent(code))
    dies_once = importlib.import_module("dies_once")
    async with running(dies_once.app):
        assert await (await dies_once.somewhere.submit()).result(LONG) != os.getpid()


class TestWhatOthersCanNotImport:
    async def test_runs_in_a_thread_and_that_is_said_once(self, tmp_path: Path) -> None:
        app = rota.App(f"sqlite:///{tmp_path / 'rota.db'}")

        @app.task
        def local() -> int:
            return os.getpid()

        async with running(app) as (_, probe):
            assert await (await local.submit()).result(LONG) == os.getpid()
        assert [event.tasks for event in probe.seen if isinstance(event, TasksInThreads)] == [("local",)]

    async def test_is_refused_where_a_process_was_asked_for(self, tmp_path: Path) -> None:
        app = rota.App(f"sqlite:///{tmp_path / 'rota.db'}")

        @app.task(isolation="process")
        def local() -> None: ...

        with pytest.raises(InvalidInput, match="isolation of task 'local': 'process' is not valid"):
            async with running(app):
                pass

    @pytest.mark.sampled
    @pytest.mark.parametrize(
        ("text", "why"),
        [("raise RuntimeError('not twice')", "RuntimeError: not twice"), ("os._exit(1)", "has died")],
    )
    async def test_a_module_that_can_not_be_imported_twice(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
    ) -> None:
        monkeypatch.syspath_prepend(tmp_path)
        code = f"""
            import os, rota
            if os.path.exists({str(tmp_path / "once")!r}):
                {text}
            open({str(tmp_path / "once")!r}, "w").close()
            app = rota.App("sqlite:///{tmp_path / "rota.db"}")
            @app.task
            def somewhere() -> int:
                return os.getpid()
        """
        name = f"only_once_{len(text)}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
        only_once = importlib.import_module(name)
        async with running(only_once.app) as (_, probe):
            event = await probe.until(TasksInThreads)
            assert why in event.why
            assert await (await only_once.somewhere.submit()).result(LONG) == os.getpid()

    @pytest.mark.sampled
    @pytest.mark.parametrize("define", ["def", "async def"])
    async def test_it_may_show_after_the_node_has_started(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, define: str
    ) -> None:
        """It was looked at once, when the node started: imports that failed later went unsaid."""
        monkeypatch.syspath_prepend(tmp_path)
        code = f"""
            import os, pathlib, time, rota
            folder = pathlib.Path({str(tmp_path)!r})
            if (folder / "once").exists():
                while not (folder / "go").exists():
                    time.sleep(0.01)
                raise RuntimeError("not twice")
            (folder / "once").touch()
            app = rota.App(f"sqlite:///{{folder / 'rota.db'}}")
            @app.task
            {define} somewhere() -> int:
                return os.getpid()
        """
        name = f"slow_import_{len(define)}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
        slow = importlib.import_module(name)
        async with running(slow.app) as (_, probe):
            assert not any(isinstance(event, TasksInThreads) for event in probe.seen)
            early = await slow.somewhere.submit()
            command = await slow.app.submit_command(["true"])
            assert (await command.wait(LONG)).state is State.SUCCEEDED
            assert (await early.info()).state is State.READY
            (tmp_path / "go").touch()
            event = await probe.until(TasksInThreads)
            assert event.tasks == ("somewhere",)
            assert await early.result(LONG) == os.getpid()
            assert await (await slow.somewhere.submit()).result(LONG) == os.getpid()


@pytest.mark.parametrize(
    ("isolation", "is_async", "expected"),
    [("inline", False, "thread or process"), ("thread", True, "inline or process"), ("vm", True, "one of inline")],
)
def test_an_isolation_that_makes_no_sense(isolation: Any, is_async: bool, expected: str) -> None:
    async def one() -> None: ...
    def other() -> None: ...

    with pytest.raises(InvalidInput, match=expected):
        rota.App().task(isolation=isolation)(one if is_async else other)


def test_a_function_that_yields_is_no_task() -> None:
    def one() -> Iterator[int]:
        yield 1

    async def other() -> AsyncIterator[int]:
        yield 1

    for wrong in (one, other):
        with pytest.raises(InvalidInput, match="this one yields"):
            rota.App().task(wrong)


def test_an_unknown_option_of_a_task_is_told_all_that_there_are() -> None:
    with pytest.raises(InvalidInput, match="one of name, aliases, isolation, priority, queue, "):
        rota.App().task(isolatoin="thread")(lambda: None)  # type: ignore[call-overload]


async def test_an_object_whose_call_is_async(tmp_path: Path) -> None:
    class Twice:
        async def __call__(self, number: int) -> int:
            return number * 2

    app = rota.App(f"sqlite:///{tmp_path / 'rota.db'}")
    task = app.task(name="twice")(Twice())
    async with running(app):
        assert await (await task.submit(number=4)).result(LONG) == 8


@pytest.mark.slow
async def test_jobs_that_wait_when_the_node_stops_go_back(tmp_path: Path) -> None:
    async with node(tmp_path, queues="default:4", grace="0s"):
        jobs = await tasks.naps.submit_many([{"seconds": 3600.0}] * 4)
        for job in jobs:

            async def started(job: rota.Job[Any] = job) -> bool:
                return (await job.info()).started_at is not None

            while not await started():
                pass
    app = rota.App(f"sqlite:///{tmp_path / 'rota.db'}")
    assert [(await (await app.job(job.id)).info()).state for job in jobs] == [State.READY] * 4
    await app.close()
