"""Eager mode: an order runs before its submit returns."""

from __future__ import annotations

import asyncio
import threading

import pytest

import rota
from rota import testing
from rota.errors import JobFailed, RotaError
from rota.model.lifecycle import State

app = rota.App("sqlite:///never-made.db", user="me")


@app.task
async def add(a: int, b: int = 1) -> int:
    await asyncio.sleep(0)
    return a + b


@app.task
async def twice(a: int) -> int:
    first, second = await asyncio.gather(add.submit(a), add.submit(a))
    return int(await first.result()) + int(await second.result())


@app.task
def down(left: int) -> list[str]:
    name = threading.current_thread().name
    return [name, *(down.submit_sync(left - 1).result_sync() if left else [])]


@app.task
def through_a_loop(a: int) -> int:
    async def ask() -> int:
        return int(await (await add.submit(a)).result())

    return asyncio.run(ask())


@app.task(retry=rota.Retry(2, backoff="1h"))
def broken() -> None:
    raise ZeroDivisionError("no zero")


@app.task
async def outer() -> None:
    await broken.submit()


@app.task
async def sleepy() -> None:
    raise rota.Snooze("1h")


@app.task
async def tuples(pair: list[int]) -> tuple[int, int]:
    return (len(pair), sum(pair))


async def test_an_order_has_run_when_submit_returns() -> None:
    async with testing.harness(app, eager=True) as rota_test:
        job = await add.submit(1)
        later = await add.options(delay="1h").submit(2)
        assert ((await job.info()).result, (await later.info()).state) == (2, State.SCHEDULED)
        await rota_test.drain()
        assert await later.result() == 3


async def test_values_go_through_json_and_the_store() -> None:
    async with testing.harness(app, eager=True):
        job = await tuples.submit((1, 2))  # type: ignore[arg-type]
        assert ((await job.info()).args, (await job.info()).result) == ({"pair": [1, 2]}, [2, 3])


async def test_jobs_in_jobs_run_before_these_go_on() -> None:
    async with testing.harness(app, eager=True):
        jobs = await asyncio.gather(*(twice.submit(number) for number in range(5)))
        assert [(await job.info()).result for job in jobs] == [2 * (number + 1) for number in range(5)]


def test_sync_code_all_the_way() -> None:
    with testing.harness(app, eager=True) as rota_test:
        assert down.submit_sync(10).info_sync().result == [threading.current_thread().name] * 11
        assert through_a_loop.submit_sync(1).info_sync().result == 2
        assert asyncio.run(twice.submit(1)).info_sync().result == 4
        assert len(rota_test.orders) == 16


async def test_sync_functions_in_an_async_test() -> None:
    async with testing.harness(app, eager=True):
        assert (await (await down.submit(3)).info()).result == [threading.current_thread().name] * 4
        assert (await (await through_a_loop.submit(3)).info()).result == 4


async def test_a_workflow_has_run_when_its_block_ends() -> None:
    async with testing.harness(app, eager=True):
        async with app.workflow() as flow:
            first = flow.add(add, a=1)
            second = flow.add(add, a=2, after=first)
        assert [(await job.info()).result for job in (first, second)] == [2, 3]


async def test_jobs_that_order_each_other_for_ever_are_stopped() -> None:
    async with testing.harness(app, eager=True, raise_errors=True) as rota_test:
        with pytest.raises(RotaError, match="30 deep"):
            await down.submit(1_000)
        assert len(rota_test.orders) == 31


async def test_errors_of_tasks_come_out_if_that_is_asked_for() -> None:
    async with testing.harness(app, eager=True):
        assert (await (await broken.submit()).info()).failures == 1
    async with testing.harness(app, eager=True, raise_errors=True) as rota_test:
        for task in (broken, outer):
            with pytest.raises(ZeroDivisionError, match="no zero"):
                await task.submit()
        assert (await (await sleepy.submit()).info()).state is State.SCHEDULED
        with pytest.raises(RotaError, match="fake_command"):
            await app.submit_command(["echo"])
        rota_test.fake_command("false", exit_code=1)
        with pytest.raises(JobFailed, match="exit code 1"):
            await app.submit_command(["false"])


def test_errors_come_out_of_what_runs_the_jobs() -> None:
    with testing.harness(app, raise_errors=True) as rota_test:
        job = broken.submit_sync()
        with pytest.raises(ZeroDivisionError):
            rota_test.drain()
        assert job.info_sync().failures == 1, "it is kept as on a node"
