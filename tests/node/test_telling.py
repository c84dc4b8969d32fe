"""Progress and saved states, from tasks that tell to people who ask, on a real node."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.errors import InvalidInput, NotSerialisable, TooLarge
from rota.model.job import NO_RETRY, JobInfo
from rota.model.lifecycle import State
from rota.model.outcome import Interrupted, settle
from rota.model.principal import SYSTEM
from rota.store.values import Note, Topic
from tests.node.running import LONG, make_app, running

AGAIN = rota.Retry(3, backoff="10ms")


async def until(job: rota.Job[Any], app: rota.App, fits: Callable[[JobInfo], bool]) -> JobInfo:
    """The job as soon as it is so; looks whenever something was told."""
    woken = asyncio.Event()
    stop = (await app._core.client()).store.listen(frozenset({Topic.NEWS}), woken.set)
    try:
        async with asyncio.timeout(LONG):
            while not fits(info := await job.info()):
                await woken.wait()
                woken.clear()
            return info
    finally:
        stop()


# -- progress ---------------------------------------------------------------------------------------------------------


async def test_progress_of_functions_is_seen_while_they_run(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    go_on = threading.Event()

    @app.task
    def sync(ctx: rota.Context) -> None:
        ctx.progress(0.4, "loading")
        go_on.wait(LONG)

    @app.task(name="async")
    async def asynchronous(ctx: rota.Context) -> None:
        ctx.progress(None, "thinking")
        await asyncio.to_thread(go_on.wait, LONG)
        ctx.progress(1)

    async with running(app):
        one, two = await sync.submit(), await asynchronous.submit()
        first = await until(one, app, lambda info: info.progress is not None)
        second = await until(two, app, lambda info: info.progress is not None)
        go_on.set()
        assert [info.state for info in (first, second)] == [State.RUNNING] * 2
        assert first.progress is not None
        assert second.progress is not None
        assert (first.progress.fraction, first.progress.text) == (0.4, "loading")
        assert (second.progress.fraction, second.progress.text) == (None, "thinking")
        assert (await one.wait(LONG)).progress == first.progress, "it stays as it was told last"
        last = (await two.wait(LONG)).progress
        assert last is not None
        assert (last.fraction, last.text) == (1.0, ""), "told right before the end, and there at the end"


async def test_a_task_that_tells_of_every_step_is_not_held_up(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    writes: list[int] = []

    @app.task
    def busy(ctx: rota.Context) -> None:
        for step in range(50_001):
            ctx.progress(step / 50_000, f"step {step}")

    async with running(app):
        store = (await app._core.client()).store
        note = store.note

        async def counted(who: Any, notes: Any) -> Any:
            writes.append(len(notes))
            return await note(who, notes)

        store.note = counted  # type: ignore[method-assign]
        info = await (await busy.submit()).wait(LONG)
    assert info.state is State.SUCCEEDED
    assert info.progress is not None
    assert (info.progress.fraction, info.progress.text) == (1.0, "step 50000")
    assert 1 <= len(writes) < 200


@pytest.mark.parametrize("fraction", [math.nan, -0.001, 1.001, math.inf, "half", True])
async def test_what_is_no_fraction_is_told_to_the_task(tmp_path: Path, fraction: Any) -> None:
    app = make_app(tmp_path)

    @app.task
    async def wrong(ctx: rota.Context) -> str:
        with pytest.raises(InvalidInput, match="a number from 0 to 1, or None"):
            ctx.progress(fraction)
        ctx.progress(0.5, "x" * 1000 + "\0\ud800")
        return "went on"

    async with running(app):
        info = await (await wrong.submit()).wait(LONG)
    assert info.result == "went on", info.error
    assert info.progress is not None
    assert (info.progress.fraction, info.progress.text) == (0.5, "x" * 199 + "…")


# -- saved states -----------------------------------------------------------------------------------------------------


async def test_a_saved_state_survives_a_retry(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(retry=AGAIN)
    async def pages(ctx: rota.Context) -> list[int]:
        done: list[int] = ctx.state or []
        page = len(done)
        await ctx.save([*done, page])
        if page < 3:
            raise ConnectionError("no answer")
        return done

    @app.task(retry=AGAIN)
    def sync_pages(ctx: rota.Context) -> list[int]:
        done: list[int] = ctx.state or []
        ctx.save([*done, len(done)])
        if len(done) < 3:
            raise ConnectionError("no answer")
        return done

    async with running(app):
        one, two = await pages.submit(), await sync_pages.submit()
        assert await one.result(LONG) == [0, 1, 2]
        assert await two.result(LONG) == [0, 1, 2]


async def test_what_is_saved_is_durable_when_the_call_returns(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    kept: dict[str, list[Note]] = {"sync": [], "async": []}

    @app.task(retry=AGAIN)
    def sync(ctx: rota.Context) -> int:
        ctx.save(1)
        return len(kept["sync"])

    @app.task(name="async", retry=AGAIN)
    async def asynchronous(ctx: rota.Context) -> int:
        await ctx.save(1)
        return len(kept["async"])

    async with running(app):
        store = (await app._core.client()).store
        note = store.note
        names: dict[str, str] = {}

        async def slow(who: Any, notes: Any) -> Any:
            verdicts = await note(who, notes)
            for one in notes:
                kept[names[one.job_id]].append(one)
            return verdicts

        store.note = slow  # type: ignore[method-assign]
        for name, task in (("sync", sync), ("async", asynchronous)):
            job = await task.options(delay="50ms").submit()
            names[job.id] = name
            assert await job.result(LONG) == 1


async def test_a_state_that_cannot_be_kept_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    app = make_app(tmp_path, max_result=1000)

    @app.task
    async def wrong(ctx: rota.Context) -> str:
        with pytest.raises(TooLarge, match="state: 1002 bytes is too large"):
            await ctx.save("x" * 1000)
        for bad in (object(), math.nan):
            with pytest.raises(NotSerialisable, match="state"):
                await ctx.save(bad)
        return "went on"

    async with running(app):
        info = await (await wrong.submit()).wait(LONG)
    assert info.result == "went on", info.error


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
async def test_a_stale_attempt_is_told_by_its_next_save(tmp_path: Path, sync: bool) -> None:
    """The job was taken away behind the node's back: what the first attempt saves changes nothing, and it hears so."""
    app = make_app(tmp_path)
    began, go_on, heard = threading.Event(), threading.Event(), threading.Event()

    @app.task(name="sync", retry=AGAIN)
    def in_a_thread(ctx: rota.Context) -> Any:
        if ctx.attempt == 2:
            return ctx.state
        ctx.save("first")
        began.set()
        go_on.wait(LONG)
        try:
            ctx.save("second")
        except rota.Stale:
            heard.set()
            raise
        return None

    @app.task(name="async", retry=AGAIN)
    async def on_a_loop(ctx: rota.Context) -> Any:
        if ctx.attempt == 2:
            return ctx.state
        await ctx.save("first")
        began.set()
        await asyncio.to_thread(go_on.wait, LONG)
        try:
            await ctx.save("second")
        except rota.Stale:
            heard.set()
            raise
        return None

    async with running(app):
        job = await (in_a_thread if sync else on_a_loop).submit()
        assert await asyncio.to_thread(began.wait, LONG)
        store = (await app._core.client()).store
        await store.finish(SYSTEM, [settle(job.id, 1, NO_RETRY, 0, Interrupted("taken away"), 0.0)])
        assert await job.result(LONG) == "first"
        go_on.set()
        assert await asyncio.to_thread(heard.wait, LONG)


async def test_a_broken_state_sets_its_job_aside(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(retry=AGAIN)
    async def unlucky(ctx: rota.Context) -> None:
        await ctx.save(1)
        store = (await app._core.client()).store
        await store.note(SYSTEM, [Note(ctx.job.id, ctx.fence, 99, None, "{no json")])
        raise ConnectionError

    async with running(app):
        info = await (await unlucky.submit()).wait(LONG)
    assert info.state is State.FAILED
    assert info.error is not None
    assert "saved state" in info.error.message


# -- commands ---------------------------------------------------------------------------------------------------------


async def test_a_command_tells_by_a_descriptor(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    gate = tmp_path / "go-on"
    waits = f"while ! [ -e {gate} ]; do sleep 0.01; done"
    script = f'echo "40% loading" >&$ROTA_PROGRESS_FD; {waits}; printf "%s" "- ended" >&3'
    async with running(app):
        job = await app.submit_command(["sh", "-c", script])
        info = await until(job, app, lambda info: info.progress is not None)
        assert info.progress is not None
        assert (info.state, info.progress.fraction, info.progress.text) == (State.RUNNING, 0.4, "loading")
        gate.touch()
        info = await job.wait(LONG)
        assert info.progress is not None
        assert (info.progress.fraction, info.progress.text) == (None, "ended"), "also without a line end"
        assert await job.logs() == "", "it is no output"
        (attempt,) = info.attempts
        assert attempt.usage is not None
        assert attempt.usage.wall > timedelta()
        assert attempt.usage.memory > 0


async def test_nonsense_and_floods_harm_nobody(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    flood = "head -c 3000000 /dev/zero | tr '\\0' 'x' >&3; echo >&3; yes 0.2 | head -c 1000000 >&3; "
    nonsense = "echo nonsense >&3; echo 7 too far >&3; echo nan >&3; echo >&3; printf '\\377\\n' >&3"
    async with running(app):
        job = await app.submit_command(["sh", "-c", flood + "echo 0.9 near >&3; " + nonsense])
        quick = await app.submit_command(["true"])
        assert (await quick.wait(LONG)).state is State.SUCCEEDED
        info = await job.wait(60)
    assert info.state is State.SUCCEEDED
    assert info.progress is not None
    assert (info.progress.fraction, info.progress.text) == (0.9, "near")


async def test_a_command_that_closes_it_goes_on(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with running(app):
        job = await app.submit_command(["sh", "-c", "exec 3>&-; echo still here"])
        assert (await job.wait(LONG)).state is State.SUCCEEDED
        assert await job.logs() == "still here\n"
