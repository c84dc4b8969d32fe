"""Quotas: what a user may order by access keys."""

from __future__ import annotations

import asyncio

import pytest

from rota.errors import QuotaExceeded
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.quotas import quotas
from rota.store.base import Store
from rota.store.people import QuotaUse
from rota.store.values import Answer
from tests.contracts.timetables import keep
from tests.contracts.world import World

ANN = Principal("ann", key="k1")


async def bound(world: World, text: str) -> None:
    await world.store.put_user(LOCAL, "ann", quotas(text), new=True)


def refusal(answer: Answer) -> tuple[str, int, str, int]:
    assert isinstance(answer, QuotaExceeded), answer
    return answer.quota, answer.used, answer.allowed, answer.more


async def test_submissions_are_refused_order_by_order(world: World) -> None:
    await bound(world, "submissions=3/1m")
    two, one = [world.job(), world.job()], [world.job()]
    answers = await world.store.submit(ANN, [two, [world.job(), world.job()], one])
    assert [isinstance(answer, list) for answer in answers] == [True, False, True], "the last one fits again"
    assert refusal(answers[1]) == ("submissions", 2, "3/1m", 2)
    assert set(await world.all()) == {job.id for job in (*two, *one)}
    assert (await world.store.quota_use(ANN)).submissions == 3
    world.clock.advance(20)
    assert await world.one(ANN)
    async with world.unchanged():
        (answer,) = await world.store.submit(ANN, [[world.job()]])
    assert refusal(answer)[0] == "submissions"


async def test_waiting_jobs_are_counted_again_when_some_have_started(world: World) -> None:
    await world.several(2, LOCAL)
    await world.several(1, Principal("ann"))  # with the address of the store
    await bound(world, "waiting=3")
    await world.several(2, ANN, delay=1_000_000)
    (answer,) = await world.store.submit(ANN, [[world.job()]])
    assert refusal(answer) == ("waiting", 3, "3", 1)
    assert len(await (await world.node()).claim()) == 3
    world.clock.advance(1)
    assert await world.one(ANN)
    (answer,) = await world.store.submit(ANN, [[world.job()]])
    assert refusal(answer) == ("waiting", 3, "3", 1)
    assert await world.store.quota_use(ANN) == QuotaUse(0, 3, 0)


async def test_a_repeat_is_answered_although_the_quota_is_used_up(world: World) -> None:
    await bound(world, "waiting=1")
    first = world.job(key="k")
    await world.submit(first, who=ANN)
    (answer,) = await world.store.submit(ANN, [[world.job(key="k")]])
    assert isinstance(answer, list)
    assert [(one.id, one.created) for one in answer] == [(first.id, False)]
    (answer,) = await world.store.submit(ANN, [[world.job(key="other")]])
    assert refusal(answer)[0] == "waiting"


async def test_orders_with_the_address_of_the_store_have_no_quotas(world: World) -> None:
    await bound(world, "submissions=1/1h,waiting=0,schedules=0")
    await world.several(5, Principal("ann"))
    await keep(world, who=Principal("ann"))


async def test_schedules(world: World) -> None:
    await bound(world, "schedules=1")
    info = await keep(world, "one", who=ANN)
    async with world.unchanged():
        with pytest.raises(QuotaExceeded, match="may have schedules=1; 1 used, 1 more asked for"):
            await keep(world, "two", who=ANN)
    assert await world.store.remove_schedule(ANN, "one", info.revision, info.handled, [])
    await keep(world, "two", who=ANN)


async def test_users_without_quotas_and_unknown_ones_order_as_they_like(world: World) -> None:
    await world.store.put_user(LOCAL, "ann", quotas("waiting=1"), new=True)
    await world.store.put_user(LOCAL, "ann", quotas("waiting=none", quotas("waiting=1")), new=False)
    await world.several(5, ANN)
    await world.several(5, Principal("nobody", key="k2"))


async def test_two_stores_count_together(world: World, another: Store) -> None:
    await bound(world, "submissions=10/1h")
    answers = await asyncio.gather(
        *(store.submit(ANN, [[world.job()]]) for store in (world.store, another) for _ in range(10))
    )
    assert sum(isinstance(answer, list) for (answer,) in answers) == 10
    assert len(await world.all()) == 10


async def test_rota_itself_has_no_quotas(world: World) -> None:
    await world.store.put_user(LOCAL, SYSTEM.user, quotas("waiting=0"), new=True)
    await world.one(SYSTEM)
