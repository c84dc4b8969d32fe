"""Functions, from order to end, on a real node."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rota
from rota.control import unoffered
from rota.errors import JobFailed, WaitTimeout
from rota.model.lifecycle import State
from rota.model.outcome import Ending
from rota.model.times import instant
from rota.store.values import Cancelling
from rota.telemetry.events import AttemptStuck
from rota.work import heartbeat, worker
from tests.node.running import LONG, make_app, running

FAST = rota.Retry(3, backoff="10ms")


async def test_an_async_function_returns_its_result(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task
    async def double(number: int) -> dict[str, int]:
        return {"twice": 2 * number}

    async with running(app):
        job = await double.submit(number=21)
        assert await job.result(LONG) == {"twice": 42}
        info = await job.info()
    assert info.state is State.SUCCEEDED
    assert [(a.number, a.outcome) for a in info.attempts] == [(1, Ending.SUCCEEDED)]
    assert info.created_at <= info.started_at <= info.finished_at  # type: ignore[operator]


async def test_a_sync_function_runs_in_a_thread_of_its_own(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task
    def where() -> str:
        return threading.current_thread().name

    async with running(app):
        assert await (await where.submit()).result(LONG) == "rota-function"


async def test_functions_run_side_by_side(tmp_path: Path) -> None:
    """Four sync and four async functions meet at a barrier: it only opens if all run at once."""
    app = make_app(tmp_path, queues="default:8")
    barrier = threading.Barrier(8)

    @app.task
    def meet_sync() -> int:
        return barrier.wait(LONG)

    @app.task
    async def meet_async() -> int:
        return await asyncio.to_thread(barrier.wait, LONG)

    async with running(app):
        jobs = await meet_sync.submit_many([{}] * 4) + await meet_async.submit_many([{}] * 4)
        assert sorted([await job.result(LONG) for job in jobs]) == list(range(8))


async def test_what_a_function_says_is_kept_in_order(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task
    async def talk(ctx: rota.Context) -> None:
        print("first")
        await asyncio.sleep(0)
        logging.getLogger("shop").info("second")
        ctx.log("third", number=3)
        print("fourth, without a line end", end="")

    @app.task
    def talk_in_a_thread() -> None:
        print("from a thread")

    async with running(app):
        job, other = await talk.submit(), await talk_in_a_thread.submit()
        await job.wait(LONG)
        await other.wait(LONG)
        assert await job.logs() == "first\nINFO shop: second\nthird number=3\nfourth, without a line end"
        assert await other.logs() == "from a thread\n"


async def test_output_can_be_followed_while_the_job_runs(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    go_on = threading.Event()

    @app.task
    async def slow() -> None:
        print("working")
        await asyncio.to_thread(go_on.wait, LONG)
        print("done")

    async with running(app), asyncio.timeout(LONG):
        job = await slow.submit()
        seen = []
        async for chunk in job.output(follow=True):
            seen.append((chunk.body, (await job.info()).state))
            go_on.set()
    assert seen[0] == (b"working\n", State.RUNNING)
    assert b"".join(body for body, _ in seen) == b"working\ndone\n"


async def test_a_failing_function_is_tried_again_and_then_is_a_dead_letter(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(retry=rota.Retry(2, backoff="10ms"))
    async def broken() -> None:
        raise ConnectionError("no route")

    async with running(app):
        info = await (await broken.submit()).wait(LONG)
    assert info.state is State.FAILED
    assert info.failures == 3
    assert [a.outcome for a in info.attempts] == [Ending.FAILED] * 3
    assert info.error is not None
    assert info.error.type == "builtins.ConnectionError"
    assert "no route" in (info.error.trace or "")
    assert "broken" in (info.error.trace or "")
    gaps = [
        instant(b.started_at) - (instant(a.finished_at) or 0)
        for a, b in zip(info.attempts, info.attempts[1:], strict=False)
    ]
    assert all(gap >= 10_000 for gap in gaps)


async def test_signals_decide_how_an_attempt_ends(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(retry=FAST)
    async def fatal() -> None:
        raise rota.Fatal("never again")

    @app.task(retry=FAST)
    async def cancels() -> None:
        raise rota.Cancel("not needed any more")

    @app.task(retry=FAST)
    async def snoozes(ctx: rota.Context) -> int:
        if ctx.attempt < 3:
            raise rota.Snooze("10ms", "too early")
        return ctx.attempt

    @app.task(retry=rota.Retry(1, backoff="1h"))
    async def waits(ctx: rota.Context) -> int:
        if ctx.attempt == 1:
            raise rota.RetryAfter("10ms")
        return ctx.attempt

    async with running(app):
        jobs = [await task.submit() for task in (fatal, cancels, snoozes, waits)]
        ended = [await job.wait(LONG) for job in jobs]
    assert [info.state for info in ended] == [State.FAILED, State.CANCELLED, State.SUCCEEDED, State.SUCCEEDED]
    assert [len(info.attempts) for info in ended] == [1, 1, 3, 2]
    assert [info.failures for info in ended] == [1, 0, 0, 1]
    assert ended[1].reason == "not needed any more"


async def test_rules_for_exceptions(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(retry=rota.Retry(3, backoff="10ms", rules={LookupError: "fatal"}))
    async def looks(ctx: rota.Context) -> None:
        raise OSError("again") if ctx.attempt == 1 else KeyError("for good")

    async with running(app):
        info = await (await looks.submit()).wait(LONG)
    assert info.state is State.FAILED
    assert len(info.attempts) == 2


async def test_a_result_that_is_not_json_fails_for_good(tmp_path: Path) -> None:
    app = make_app(tmp_path, max_result=100)

    @app.task(retry=FAST)
    async def odd() -> object:
        return object()

    @app.task(retry=FAST)
    async def large() -> str:
        return "x" * 101

    async with running(app):
        for task in (odd, large):
            info = await (await task.submit()).wait(LONG)
            assert info.state is State.FAILED
            assert len(info.attempts) == 1
            assert info.error is not None
            assert info.error.type == "rota.BadResult"


async def test_a_timeout_stops_an_async_function(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    stopped = threading.Event()

    @app.task(timeout="50ms", retry=0)
    async def sleeps() -> None:
        try:
            await asyncio.sleep(LONG)
        finally:
            stopped.set()

    async with running(app):
        info = await (await sleeps.submit()).wait(LONG)
        assert stopped.is_set()
    assert info.state is State.FAILED
    assert info.attempts[0].outcome is Ending.TIMED_OUT
    assert info.reason == "timed out after 50ms"


async def test_a_timeout_stops_a_sync_function_that_looks(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(timeout="50ms", retry=0)
    def looks(ctx: rota.Context) -> None:
        while not ctx.cancelled:
            time.sleep(0.001)

    async with running(app):
        info = await (await looks.submit()).wait(LONG)
    assert info.attempts[0].outcome is Ending.TIMED_OUT


async def test_a_sync_function_that_does_not_look_is_stopped_by_an_exception(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task(timeout="50ms", retry=0)
    def spins() -> None:
        while True:
            pass

    async with running(app):
        info = await (await spins.submit()).wait(LONG)
        assert info.attempts[0].outcome is Ending.TIMED_OUT
        assert info.reason == "timed out after 50ms"
        for thread in [one for one in threading.enumerate() if one.name == "rota-function"]:
            await asyncio.to_thread(thread.join, LONG)
            assert not thread.is_alive()


async def test_a_function_that_can_not_be_stopped_is_not_tried_again_beside_itself(tmp_path: Path) -> None:
    app = make_app(tmp_path, queues="default:1")
    release = threading.Event()
    ran = []

    @app.task(timeout="50ms", retry=FAST)
    def hangs() -> None:
        ran.append(1)
        release.wait(LONG)

    @app.task
    def next_one() -> str:
        return "at last"

    async with running(app) as (_, probe):
        info = await (await hangs.submit()).wait(LONG)
        await probe.until(AttemptStuck)
        assert info.state is State.FAILED
        assert "did not stop" in (info.reason or "")
        waiting = await next_one.submit()
        with pytest.raises(WaitTimeout):
            await waiting.wait(0.05)
        release.set()
        assert await waiting.result(LONG) == "at last"
    assert len(ran) == 1


async def test_cancel_of_a_waiting_and_of_a_running_function(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    started = threading.Event()

    @app.task
    async def sleeps() -> None:
        started.set()
        await asyncio.sleep(LONG)

    async with running(app):
        waiting = await sleeps.options(delay="1h").submit()
        assert await waiting.cancel("changed my mind") is Cancelling.CANCELLED
        assert (await waiting.info()).reason == "changed my mind"
        job = await sleeps.submit()
        assert await asyncio.to_thread(started.wait, LONG)
        assert await job.cancel("enough") is Cancelling.REQUESTED
        info = await job.wait(LONG)
        assert info.state is State.CANCELLED
        assert info.reason == "enough"
        assert info.attempts[0].outcome is Ending.CANCELLED
        assert await job.cancel() is Cancelling.ENDED
        with pytest.raises(JobFailed, match="enough"):
            await job.result()


async def test_a_dead_letter_is_replayed_under_its_id(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    works = threading.Event()

    @app.task(retry=0)
    async def maybe(ctx: rota.Context) -> int:
        if not works.is_set():
            raise RuntimeError("not yet")
        return ctx.fence

    async with running(app):
        job = await maybe.submit()
        assert (await job.wait(LONG)).state is State.FAILED
        works.set()
        assert await job.retry()
        info = await job.wait(LONG)
    assert info.state is State.SUCCEEDED
    assert (info.result, info.replays, info.failures) == (2, 1, 0)
    assert [a.number for a in info.attempts] == [1, 2]


async def test_delay_and_time_are_kept(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.task
    async def nothing() -> None: ...

    async with running(app):
        soon = await nothing.options(delay="100ms").submit()
        past = await nothing.options(at="2001-01-01T00:00:00+01:00").submit()
        later = await nothing.options(at=datetime(2999, 1, 1, tzinfo=UTC)).submit()
        info = await soon.wait(LONG)
        assert (await past.wait(LONG)).state is State.SUCCEEDED
        assert (await later.info()).state is State.SCHEDULED
    assert (instant(info.started_at) or 0) >= instant(info.run_at)
    assert info.run_at - info.created_at == timedelta(milliseconds=100)


async def test_an_expired_job_is_not_started(tmp_path: Path) -> None:
    app = make_app(tmp_path, queues="default:1")
    release = threading.Event()

    @app.task
    def blocks() -> None:
        release.wait(LONG)

    @app.task
    def nothing() -> None: ...

    async with running(app):
        first = await blocks.submit()
        second = await nothing.options(expires="50ms").submit()
        info = await second.wait(LONG)
        release.set()
        await first.wait(LONG)
    assert (info.state, info.reason, info.attempts) == (State.CANCELLED, "expired", [])


async def test_a_task_that_is_new_to_all_nodes_waits_for_the_first_that_offers_it(tmp_path: Path) -> None:
    """A rolling deploy in which the clients come first."""
    new, old = make_app(tmp_path), make_app(tmp_path)

    @new.task
    async def added() -> str:
        return "done"

    @old.task
    async def known(number: int) -> int:
        return number

    ahead = await added.submit()
    async with running(old):
        assert await (await known.submit(1)).result(LONG) == 1
        assert (await ahead.info()).state is State.READY
        assert "no node has ever offered that task" in str(await ahead.explain())
        async with running(new):
            assert await ahead.result(LONG) == "done"


async def test_an_unknown_task_is_set_aside_after_the_grace_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unoffered, "PERIOD", 0.05)
    other, app = make_app(tmp_path), make_app(tmp_path, unknown_grace="100ms")

    @other.task
    async def forgotten() -> None: ...

    @app.task
    async def known(number: int) -> int:
        return number

    lost = await forgotten.submit()
    await other.close()
    async with running(app):
        assert await (await known.submit(1)).result(LONG) == 1
        info = await (await app.job(lost.id)).wait(LONG)
    assert info.state is State.FAILED
    assert info.reason == "no node has offered task 'forgotten' within 100ms"


async def test_a_busy_queue_is_served_without_pause_beside_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the next job found only when the worker looks by itself, each would take an hour."""
    monkeypatch.setattr(worker, "LONGEST_SLEEP", 3600.0)
    monkeypatch.setattr(heartbeat, "BEAT", 3600.0)
    app = make_app(tmp_path, queues="default:1,mail:5", lease="5m")

    @app.task
    async def nothing() -> None: ...

    async with running(app):
        jobs = await nothing.submit_many([{}] * 10)
        for job in jobs:
            await job.wait(LONG)


async def test_jobs_claimed_ahead_run_too_and_go_back_when_nobody_has_time_for_them(tmp_path: Path) -> None:
    app = make_app(tmp_path, queues="default:1", prefetch=2)
    release = threading.Event()

    @app.task
    def waits(number: int) -> int:
        release.wait(LONG)
        return number

    async with running(app):
        jobs = await waits.submit_many([{"number": number} for number in range(4)])
        await until_running(app, 3)
        await until_running(app, 1)  # the one that runs stays; those claimed ahead are handed back after two seconds
        assert [(await job.info()).fence for job in jobs] == [1, 1, 1, 0]
        assert (await jobs[1].info()).attempts == []
        release.set()
        assert [await job.result(LONG) for job in jobs] == [0, 1, 2, 3]
        assert [len((await job.info()).attempts) for job in jobs] == [1, 1, 1, 1]


async def until_running(app: rota.App, count: int) -> None:
    store = (await app._core.client()).store
    async with asyncio.timeout(LONG):
        while (await store.counts(app._core.who)).get(State.RUNNING) != count:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
