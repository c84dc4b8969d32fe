"""The harness, as a user's own tests would use it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rota
from rota import testing
from rota.errors import InvalidInput, RotaError, StoreUnavailable, WaitTimeout
from rota.model.lifecycle import State
from rota.model.times import HOUR, instant
from tests.store.postgres.backends import migrated_database

app = rota.App("sqlite:///never-made.db", user="me")


@app.task(queue="mail", retry=rota.Retry(3, backoff="1h..1d", jitter=0))
async def flaky(ctx: rota.Context) -> int:
    print("attempt", ctx.attempt)
    if ctx.attempt < 3:
        raise ConnectionError("no answer")
    return ctx.attempt


@app.task
def add(a: int, b: int = 1) -> int:
    return a + b


@app.task
async def for_ever() -> None:
    raise rota.Snooze("1s")


@app.task
async def chain(left: int) -> None:
    if left:
        await chain.options(delay="1h").submit(left=left - 1)


async def test_retries_take_no_time() -> None:
    async with testing.harness(app) as rota_test:
        job = await flaky.submit()
        await rota_test.run_due()
        assert (await job.info()).state is State.SCHEDULED
        await rota_test.drain()
        info = await job.info()
        assert (info.state, info.result, info.failures) == (State.SUCCEEDED, 3, 2)
        assert await job.logs() == "attempt 1\nattempt 2\nattempt 3\n"
        assert [b.started_at - a.started_at for a, b in zip(info.attempts, info.attempts[1:], strict=False)] == [
            timedelta(hours=1),
            timedelta(hours=2),
        ]


async def test_the_clock_moves_only_as_far_as_told() -> None:
    async with testing.harness(app) as rota_test:
        soon, late = await add.options(delay="10m").submit(a=1), await add.options(delay="2h").submit(a=2)
        await rota_test.advance("1h")
        assert ((await soon.info()).state, (await late.info()).state) == (State.SUCCEEDED, State.SCHEDULED)
        start = instant((await soon.info()).created_at)
        assert rota_test.clock.now() == start + HOUR


async def test_tasks_may_order_more() -> None:
    async with testing.harness(app) as rota_test:
        await chain.submit(left=3)
        await rota_test.drain()
        client = await app._core.client()
        assert await client.store.counts(app._core.who) == {State.SUCCEEDED: 4}


async def test_commands_run_for_real_if_allowed() -> None:
    async with testing.harness(app, allow_commands=True) as rota_test:
        job = await app.submit_command(["echo", "hello"], delay="1d")
        await rota_test.drain()
        assert await job.logs() == "hello\n"


async def test_what_always_comes_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.testing.harnesses.MOST_ROUNDS", 20)
    async with testing.harness(app) as rota_test:
        await for_ever.submit()
        with pytest.raises(RotaError, match="keep coming back"):
            await rota_test.drain()


async def test_two_harnesses_know_nothing_of_each_other_and_the_app_is_as_before() -> None:
    before = app.settings
    async with testing.harness(app):
        job = await add.submit(a=1)
        assert app.settings.store == "sqlite:///:memory:"
    async with testing.harness(app) as rota_test:
        await rota_test.drain()
        assert await (await app._core.client()).store.get(app._core.who, job.id) is None
    assert app.settings is before


def test_without_an_event_loop() -> None:
    info = testing.run(app, add, a=20, b=22)
    assert (info.state, info.result) == (State.SUCCEEDED, 42)


@app.task(retry=rota.Retry(3, backoff="1h", jitter=0))
async def saves(ctx: rota.Context) -> list[int]:
    done: list[int] = ctx.state or []
    ctx.progress(len(done) / 2, f"attempt {ctx.attempt}")
    await ctx.save([*done, ctx.attempt])
    if ctx.attempt < 3:
        raise ConnectionError("no answer")
    return done


@app.task(retry=rota.Retry(3, backoff="1h", jitter=0))
def saves_in_sync(ctx: rota.Context) -> list[int]:
    done: list[int] = ctx.state or []
    ctx.progress(len(done) / 2, f"attempt {ctx.attempt}")
    ctx.save([*done, ctx.attempt])
    if ctx.attempt < 3:
        raise ConnectionError("no answer")
    return done


@pytest.mark.parametrize("task", [saves, saves_in_sync], ids=["async", "sync"])
async def test_progress_and_saved_states_work_as_ever(task: rota.Task[[], list[int]]) -> None:
    async with testing.harness(app) as rota_test:
        job = await task.submit()
        await rota_test.run_due()
        first = (await job.info()).progress
        await rota_test.drain()
        info = await job.info()
    assert first is not None
    assert info.progress is not None
    assert [(one.fraction, one.text) for one in (first, info.progress)] == [(0.0, "attempt 1"), (1.0, "attempt 3")]
    assert info.progress.at == info.started_at
    assert (info.state, info.result) == (State.SUCCEEDED, [1, 2])


def test_a_saved_state_without_an_event_loop() -> None:
    assert testing.run(app, saves_in_sync).result == [1, 2]


# -- without an event loop ---------------------------------------------------------------------------------------------
@app.task
def order_more(left: int) -> str:
    if left:
        order_more.options(delay="1h").submit_sync(left=left - 1)
    return threading.current_thread().name


@app.task
def order_with_a_loop() -> str:
    return asyncio.run(add.submit(a=1)).id


def test_sync_code_under_test() -> None:
    with testing.harness(app, now="2027-01-01T09:00:00+01:00") as rota_test:
        job = order_more.submit_sync(left=3)
        inside = asyncio.run(add.submit(a=1))
        rota_test.drain()
        assert (job.result_sync(), inside.result_sync()) == (threading.current_thread().name, 2)
        assert [order.args for order in rota_test.submitted(order_more)] == [{"left": left} for left in (3, 2, 1, 0)]
        assert rota_test.now == datetime(2027, 1, 1, 11, tzinfo=UTC)
        rota_test.advance("30m")
        rota_test.advance_to("2027-01-02T00:00:00+00:00")
        assert rota_test.now == datetime(2027, 1, 2, tzinfo=UTC)


async def test_a_sync_function_is_outside_of_the_loop_of_the_test() -> None:
    async with testing.harness(app) as rota_test:
        first, second = await order_more.submit(left=1), await order_with_a_loop.submit()
        await rota_test.drain()
        assert await first.result() == threading.current_thread().name
        assert await (await app.job(str(await second.result()))).result() == 2
        assert len(rota_test.orders) == 4


def test_orders_from_other_threads() -> None:
    with testing.harness(app) as rota_test, ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(lambda number: add.submit_sync(a=number), range(40)))
        rota_test.run_due()
        assert [job.result_sync() for job in jobs] == list(range(1, 41))
        assert len(rota_test.orders) == 40


def test_code_under_test_may_close_the_app() -> None:
    with testing.harness(app) as rota_test:
        with app:
            job = add.submit_sync(a=1)
        rota_test.run_due()
        assert job.result_sync() == 2


@pytest.mark.parametrize("sync", [False, True])
def test_on_a_real_postgresql(sync: bool) -> None:
    async def ask(url: str) -> object:
        async with testing.harness(app, store=url) as rota_test:
            job = await order_more.submit(left=1)
            await rota_test.drain()
            return await job.result(), len(rota_test.orders)

    def ask_sync(url: str) -> object:
        with testing.harness(app, store=url) as rota_test:
            job = order_more.submit_sync(left=1)
            rota_test.drain()
            return job.result_sync(), len(rota_test.orders)

    with migrated_database() as url:
        found = ask_sync(url) if sync else asyncio.run(ask(url))
    assert found == (threading.current_thread().name, 2)


# -- the clock ---------------------------------------------------------------------------------------------------------
async def test_a_frozen_clock_runs_nothing() -> None:
    async with testing.harness(app, now=datetime(2027, 1, 1, tzinfo=UTC)) as rota_test:
        job = await add.options(delay="1h").submit(a=1)
        rota_test.freeze("2027-01-01T12:00:00+01:00")
        assert (rota_test.now.hour, (await job.info()).state) == (11, State.SCHEDULED)
        await rota_test.run_due()
        assert await job.result() == 2
        with pytest.raises(InvalidInput, match="the clock never goes back"):
            rota_test.freeze("2027-01-01T00:00:00+00:00")


# -- wrong use ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"now": 7}, "now: 7"),
        ({"now": "soon"}, "now: 'soon'"),
        ({"eager": "yes"}, "eager: 'yes' is not valid; expected True or False"),
        ({"allow_http": None}, "allow_http: None"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message), testing.harness(app, **given):
        pass
    assert app.settings.store == "sqlite:///never-made.db"


async def test_wrong_blocks() -> None:
    with pytest.raises(InvalidInput, match="async with"), testing.harness(app):
        pass
    with pytest.raises(InvalidInput, match=r"expected a rota.App"):
        testing.harness("shop:app")  # type: ignore[arg-type]
    block = testing.harness(app)
    async with block as rota_test:
        pass
    with pytest.raises(StoreUnavailable, match="closed"):
        await rota_test.drain()
    with pytest.raises(InvalidInput, match="a new harness"):
        async with block:
            pass


async def test_a_wait_for_a_job_that_nothing_runs_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.testing.connections.PATIENCE", 0.01)
    async with testing.harness(app):
        job = await add.submit(a=1)
        with pytest.raises(WaitTimeout, match=r"is still ready: in a harness it runs in run_due\(\)"):
            await job.result()
        async with app.workflow() as flow:
            flow.add(add, a=1)
        with pytest.raises(WaitTimeout, match="workflow"):
            await flow.wait()


def test_a_sync_wait_for_a_job_that_nothing_runs_ends_at_once() -> None:
    with testing.harness(app):
        job = add.submit_sync(a=1)
        with pytest.raises(WaitTimeout, match="eager=True"):
            job.result_sync("1h")


async def test_a_wait_ends_when_the_test_runs_the_job() -> None:
    async with testing.harness(app) as rota_test:
        job = await add.submit(a=1)
        waiting = asyncio.create_task(job.result())
        await asyncio.sleep(0)
        await rota_test.drain()
        assert await waiting == 2
