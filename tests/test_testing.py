"""`rota.testing`, as a user's own tests would use it."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from rota import testing
from rota.errors import RotaError
from rota.model.lifecycle import State
from rota.model.times import HOUR

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
            HOUR,
            2 * HOUR,
        ]


async def test_the_clock_moves_only_as_far_as_told() -> None:
    async with testing.harness(app) as rota_test:
        soon, late = await add.options(delay="10m").submit(a=1), await add.options(delay="2h").submit(a=2)
        await rota_test.advance("1h")
        assert ((await soon.info()).state, (await late.info()).state) == (State.SUCCEEDED, State.SCHEDULED)
        start = (await soon.info()).created_at
        assert rota_test.clock.now() == start + HOUR


async def test_tasks_may_order_more() -> None:
    async with testing.harness(app) as rota_test:
        await chain.submit(left=3)
        await rota_test.drain()
        client = await app.client()
        assert await client.store.counts(app.who) == {State.SUCCEEDED: 4}


async def test_commands_run_for_real() -> None:
    async with testing.harness(app) as rota_test:
        job = await app.submit_command(["echo", "hello"], delay="1d")
        await rota_test.drain()
        assert await job.logs() == "hello\n"


async def test_what_always_comes_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "MOST_ROUNDS", 20)
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
        assert await (await app.client()).store.get(app.who, job.id) is None
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
async def test_progress_and_saved_states_work_as_ever(task: rota.Task[..., Any]) -> None:
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
