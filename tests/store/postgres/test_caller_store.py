"""Workflows and schedules in a caller's own transaction, with each driver there is."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import psycopg
import pytest

import rota
from rota.errors import InvalidInput, KeyConflict, NotFound
from rota.model.lifecycle import State
from rota.model.times import SECOND
from rota.model.trigger.calendars import Calendar
from tests.servers.postgres import shared_server
from tests.store.postgres.callers import Heard, Rollback, jobs
from tests.store.postgres.drivers import ASYNC, SYNC, by_asyncpg


def build(flow: Any, welcome: Any) -> list[rota.Job[Any]]:
    first = flow.add(welcome, user_id=1, key="first")
    second = flow.add(["true"], after=first, on="finish")
    return [first, second, flow.add(flow_call(), after=[first, (second, "failure")])]


def flow_call() -> Any:
    return rota.App().http("GET", "http://example.org")


async def check_workflow(app: rota.App, flow: Any, ordered: list[rota.Job[Any]]) -> None:
    assert (await flow.info()).name == "two steps"
    found = await flow.jobs()
    assert [job.id for job in found] == [job.id for job in ordered]
    first, second, third = (job.id for job in ordered)
    edges = {(edge.parent, edge.need.value) for job in found for edge in job.parents}
    assert edges == {(first, "finish"), (first, "success"), (second, "failure")}
    assert [job.id for job in found if not job.parents] == [first]
    assert (await ordered[0].info()).key == "first"
    assert (await (await app._core.client()).get(third)).state is State.BLOCKED


@pytest.mark.sampled(3)
@pytest.mark.parametrize("driver", ASYNC)
async def test_a_workflow(app: rota.App, heard: Heard, driver: str) -> None:
    welcome: Any = app.welcome  # type: ignore[attr-defined]
    async with ASYNC[driver]() as connection:
        async with app.workflow("two steps", within=connection) as flow:
            ordered = build(flow, welcome)
        async with app.workflow(of=flow.id, within=connection) as more:  # seen in the same transaction
            more.add(["false"], after=ordered[0])
        async with app.workflow(of=ordered[1], within=connection) as again:
            pass
        assert flow.id == more.id == again.id
        assert await jobs(app) == []
    added = (await flow.jobs())[-1]
    assert [edge.parent for edge in added.parents] == [ordered[0].id]
    assert set("".join(await heard.so_far())) == {"r", "t"}
    async with ASYNC[driver]() as connection:
        async with app.workflow("two steps", within=connection) as same:
            same.add(welcome, user_id=1, key="first")
        assert same.id == flow.id, "the key was known"

    async def change_ones_mind() -> None:
        async with ASYNC[driver]() as connection:
            async with app.workflow(within=connection) as never:
                never.add(["true"])
            raise Rollback

    with pytest.raises(Rollback):
        await change_ones_mind()
    assert len(await jobs(app)) == 4


@pytest.mark.sampled(3)
@pytest.mark.parametrize("driver", SYNC)
async def test_a_workflow_without_await(app: rota.App, driver: str) -> None:
    welcome: Any = app.welcome  # type: ignore[attr-defined]

    def order() -> tuple[Any, list[rota.Job[Any]]]:
        with SYNC[driver]() as connection:
            with app.workflow("two steps", within=connection) as flow:
                ordered = build(flow, welcome)
            return flow, ordered

    await check_workflow(app, *await asyncio.to_thread(order))


async def test_wrong_workflows_leave_the_transaction_as_it_was(app: rota.App) -> None:
    welcome: Any = app.welcome  # type: ignore[attr-defined]
    used = await welcome.submit(user_id=7, key="k")
    async with by_asyncpg() as connection:
        with pytest.raises(KeyConflict):
            await one(app.workflow(within=connection), welcome, user_id=8, key="k")
        with pytest.raises(NotFound, match="parent job"):
            await one(app.workflow(within=connection), ["true"], after="00000000-0000-7000-8000-000000000000")
        with pytest.raises(NotFound, match="workflow"):
            await one(app.workflow(of="nobody", within=connection), ["true"])
        with pytest.raises(InvalidInput, match=r"given to app\.workflow"):
            await one(app.workflow(), welcome.within(connection), user_id=1)
        with pytest.raises(InvalidInput, match=r"app\.schedule"):
            await app.schedule("s", welcome.within(connection), every="1h", args={"user_id": 1})
        with psycopg.connect(shared_server().url()) as sync, pytest.raises(InvalidInput, match="an async one"):
            await one(app.workflow(within=sync), ["true"])
        with pytest.raises(InvalidInput, match="a sync one"):
            app.workflow(within=connection).__enter__()
        good = await one(app.workflow(within=connection), welcome.within(connection), user_id=1)
    assert {info.id for info in await jobs(app)} == {used.id, good.id}


async def one(flow: Any, *args: Any, **options: Any) -> rota.Job[Any]:
    async with flow:
        job: rota.Job[Any] = flow.add(*args, **options)
    return job


async def set_back(app: rota.App, name: str, span: int) -> None:
    """As if no scheduler had run for so long."""
    schema = app.settings.store.rpartition("=")[2]
    shared_server().execute(
        f"UPDATE {schema}.schedules SET handled = handled - {span}, next_at = next_at - {span} WHERE name = '{name}'"
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("driver", ASYNC)
async def test_a_schedule(app: rota.App, heard: Heard, driver: str) -> None:
    welcome: Any = app.welcome  # type: ignore[attr-defined]
    calendar = Calendar("days off", dates=(date(2027, 1, 1),))
    await (await app._core.planning()).save_calendar(calendar)
    assert await heard.next() == "s"
    async with ASYNC[driver]() as connection:
        await app.schedule(
            "often", welcome, every="1m", catch_up="all", args={"user_id": 7}, exclude="days off", within=connection
        )
        await app.schedule('a \\ and a "', ["echo", "50%"], cron="0 3 * * *", overlap="skip", within=connection)
        assert await app.schedules() == []
    assert {one.name for one in await app.schedules()} == {"often", 'a \\ and a "'}
    assert set("".join(await heard.so_far())) == {"s"}
    await set_back(app, "often", 60 * 60 * SECOND)
    before = await rota.Schedule(app, "often").info()
    async with ASYNC[driver]() as connection:  # the fires of the last hour are made under the old rule
        await app.schedule("often", welcome, every="2m", catch_up="all", args={"user_id": 8}, within=connection)
    made = await jobs(app)
    assert len(made) == 60
    assert {job.args["user_id"] for job in made} == {7}
    assert (await rota.Schedule(app, "often").info()).revision > before.revision

    async def change_ones_mind() -> None:
        async with ASYNC[driver]() as connection:
            await app.schedule("often", welcome, every="9m", args={"user_id": 9}, within=connection)
            raise Rollback

    with pytest.raises(Rollback):
        await change_ones_mind()
    assert "9m" not in (await rota.Schedule(app, "often").info()).timing


@pytest.mark.sampled(3)
@pytest.mark.parametrize("driver", SYNC)
async def test_a_schedule_without_await(app: rota.App, driver: str) -> None:
    welcome: Any = app.welcome  # type: ignore[attr-defined]

    def save(every: str, task: Any = welcome) -> None:
        with SYNC[driver]() as connection:
            app.schedule_sync("often", task, every=every, catch_up="all", args={"user_id": 7}, within=connection)

    await asyncio.to_thread(save, "1m")
    await set_back(app, "often", 60 * 60 * SECOND)
    await asyncio.to_thread(save, "2m", app.stub(welcome.name))
    assert len(await jobs(app)) == 60
    assert [one.name for one in await app.schedules()] == ["often"]
