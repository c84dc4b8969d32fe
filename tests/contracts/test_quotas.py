"""Quotas: what a user may order by access keys."""

from __future__ import annotations

import asyncio

import pytest

from rota.errors import QuotaExceeded
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.quotas import quotas
from rota.model.trigger.records import Fate, FireKind, NewFire
from rota.store.base import Store
from rota.store.people import QuotaUse
from rota.store.values import Answer
from tests.contracts.timetables import NAME, keep
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
    assert await world.store.quota_use(ANN) == QuotaUse(0, 3, 0, running=1)


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


async def test_fires_that_are_asked_for_count_like_orders(world: World) -> None:
    await bound(world, "submissions=2/1h,waiting=10")
    await keep(world, who=ANN)
    now = world.store.now()

    async def fire(*places: int) -> list[Fate] | None:
        fires = [NewFire(now - place, world.job()) for place in places]
        return await world.store.make_fires(ANN, NAME, FireKind.BACKFILL, fires)

    assert await fire(1, 2) == [Fate.MADE, Fate.MADE]
    assert await fire(1, 2) == [Fate.ALREADY, Fate.ALREADY], "a repeat makes nothing"
    async with world.unchanged():
        with pytest.raises(QuotaExceeded, match="submissions=2/1h; 2 used, 1 more"):
            await fire(2, 3)
    assert (await world.store.quota_use(ANN)).waiting == 2


async def test_jobs_that_run_again_count_like_orders(world: World) -> None:
    jobs = await world.several(3, ANN)
    await world.store.cancel(ANN, jobs, "")
    await bound(world, "waiting=2")
    async with world.unchanged():
        with pytest.raises(QuotaExceeded, match="waiting=2; 0 used, 3 more"):
            await world.store.replay(ANN, jobs, again=True)
    assert await world.store.replay(ANN, jobs[:2], again=True) == [True, True]


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
