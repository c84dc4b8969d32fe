"""Locks: one holder at a time, fences that rise, and nobody touches the locks of another."""

from __future__ import annotations

import asyncio

import pytest

from rota.model.job import Verdict
from rota.model.locks import KEPT_FREE, LockInfo
from rota.model.principal import SYSTEM, Principal
from rota.model.times import DAY, SECOND, aware
from rota.store.base import Store
from rota.store.people import AuditFilter
from rota.store.values import Retention, Topic
from tests.contracts.world import ALICE, BOB, PLENTY, World

APPLIED, ALREADY, STALE = Verdict.APPLIED, Verdict.ALREADY, Verdict.STALE
TTL = 30 * SECOND


async def take(world: World, holder: str, who: Principal = ALICE, name: str = "report") -> int:
    """The fence of a lock that is free."""
    answer = await world.store.acquire_lock(who, name, holder, TTL)
    assert answer.mine
    return answer.lock.fence


async def shown(world: World, name: str = "report", who: Principal = ALICE) -> LockInfo:
    (info,) = await world.store.locks(who, [name])
    return info


# -- taken and released -----------------------------------------------------------------------------------------------


async def test_a_free_lock_is_taken_for_its_ttl(world: World) -> None:
    now = world.clock.now()
    answer = await world.store.acquire_lock(ALICE, "report", "one", TTL)
    assert answer.mine
    assert answer.lock == await shown(world)
    assert answer.lock == LockInfo("report", True, answer.lock.fence, aware(now), aware(now + TTL))


async def test_a_held_lock_is_not_taken_and_shows_its_holder_s_age(world: World) -> None:
    await take(world, "one")
    before = await shown(world)
    world.clock.advance(10)
    async with world.unchanged():
        answer = await world.store.acquire_lock(ALICE, "report", "two", TTL)
    assert not answer.mine
    assert answer.lock == before


async def test_locks_of_other_names_are_others(world: World) -> None:
    assert await take(world, "one") != 0
    assert await take(world, "one", name="other") != 0


async def test_a_released_lock_is_free_at_once(world: World) -> None:
    fence = await take(world, "one")
    assert await world.store.release_lock(ALICE, "report", "one", fence) is APPLIED
    assert not (await shown(world)).held
    assert await take(world, "two") > fence


async def test_of_many_who_try_at_once_one_gets_it(world: World) -> None:
    tries = (world.store.acquire_lock(ALICE, "report", f"holder {n}", TTL) for n in range(50))
    answers = await asyncio.gather(*tries)
    assert [answer.mine for answer in answers].count(True) == 1
    assert len({answer.lock.fence for answer in answers}) == 1


async def test_never_two_hold_it_and_fences_rise_in_the_order_of_holders(world: World, another: Store) -> None:
    inside: list[str] = []
    fences: list[int] = []

    async def work(store: Store, holder: str) -> None:
        answer = await store.acquire_lock(ALICE, "report", holder, TTL)
        while not answer.mine:
            answer = await store.acquire_lock(ALICE, "report", holder, TTL)
        inside.append(holder)
        assert inside == [holder]
        fences.append(answer.lock.fence)
        await asyncio.sleep(0)
        inside.remove(holder)
        assert await store.release_lock(ALICE, "report", holder, answer.lock.fence) is APPLIED

    await asyncio.gather(*(work(store, f"{n} {store}") for n in range(8) for store in (world.store, another)))
    assert len(fences) == 16
    assert fences == sorted(set(fences))


# -- repeats ----------------------------------------------------------------------------------------------------------


async def test_a_repeat_of_an_acquisition_gets_the_same_fence(world: World) -> None:
    fence = await take(world, "one")
    world.clock.advance(5)
    since = (await shown(world)).taken_at
    assert await take(world, "one") == fence
    info = await shown(world)
    assert info.taken_at == since
    assert info.expires_at == aware(world.clock.now() + TTL)


async def test_a_second_release_says_so(world: World) -> None:
    fence = await take(world, "one")
    await world.store.release_lock(ALICE, "report", "one", fence)
    async with world.unchanged():
        assert await world.store.release_lock(ALICE, "report", "one", fence) is ALREADY
        assert await world.store.release_lock(ALICE, "report", "one") is ALREADY


async def test_a_try_that_arrives_after_the_release_of_its_token_takes_nothing(world: World) -> None:
    fence = await take(world, "one")
    await world.store.release_lock(ALICE, "report", "one", fence)
    async with world.unchanged():
        assert not (await world.store.acquire_lock(ALICE, "report", "one", TTL)).mine


async def test_who_did_not_hear_its_fence_releases_by_its_token(world: World) -> None:
    await take(world, "one")
    assert await world.store.release_lock(ALICE, "report", "two") is STALE
    assert await world.store.release_lock(ALICE, "report", "one") is APPLIED


# -- expiry -----------------------------------------------------------------------------------------------------------


async def test_a_lock_expires_at_its_end(world: World) -> None:
    fence = await take(world, "one")
    world.clock.advance(TTL / SECOND - 0.000_001)
    assert not (await world.store.acquire_lock(ALICE, "report", "two", TTL)).mine
    world.clock.advance(0.000_001)
    assert not (await shown(world)).held
    assert await take(world, "two") > fence


async def test_a_renewed_lock_lasts(world: World) -> None:
    fence = await take(world, "one")
    for _ in range(4):
        world.clock.advance(20)
        assert await world.store.renew_lock(ALICE, "report", "one", fence, TTL) is APPLIED
    info = await shown(world)
    assert (info.held, info.fence) == (True, fence)
    assert info.expires_at == aware(world.clock.now() + TTL)


async def test_an_expired_lock_is_not_renewed_though_nobody_took_it(world: World) -> None:
    fence = await take(world, "one")
    world.clock.advance(TTL / SECOND)
    async with world.unchanged():
        assert await world.store.renew_lock(ALICE, "report", "one", fence, TTL) is STALE
        assert await world.store.release_lock(ALICE, "report", "one", fence) is STALE
    assert await take(world, "one") > fence, "its token acquires it anew"


@pytest.mark.parametrize("released", [True, False])
async def test_a_clock_that_goes_back_lowers_no_fence(world: World, released: bool) -> None:
    fence = await take(world, "one")
    if released:
        await world.store.release_lock(ALICE, "report", "one", fence)
        world.clock.jump(-3600)
    else:
        world.clock.advance(TTL / SECOND)
    assert await take(world, "two") > fence


# -- stale holders ----------------------------------------------------------------------------------------------------


async def test_who_lost_the_lock_neither_renews_nor_releases_it(world: World) -> None:
    old = await take(world, "one")
    world.clock.advance(TTL / SECOND)
    new = await take(world, "two")
    async with world.unchanged():
        for holder, fence in (("one", old), ("one", new), ("two", old), ("three", new)):
            assert await world.store.renew_lock(ALICE, "report", holder, fence, TTL) is STALE
            assert await world.store.release_lock(ALICE, "report", holder, fence) is STALE
        assert await world.store.release_lock(ALICE, "report", "one") is STALE


async def test_there_is_nothing_to_renew_or_release_where_no_lock_is(world: World) -> None:
    async with world.unchanged():
        assert await world.store.renew_lock(ALICE, "report", "one", 1, TTL) is STALE
        assert await world.store.release_lock(ALICE, "report", "one", 1) is STALE
        assert not await world.store.free_lock(ALICE, "report")


async def test_a_person_frees_a_lock_and_its_holder_is_told(world: World) -> None:
    fence = await take(world, "one")
    assert await world.store.free_lock(ALICE, "report")
    assert not await world.store.free_lock(ALICE, "report")
    assert not (await shown(world)).held
    assert await world.store.renew_lock(ALICE, "report", "one", fence, TTL) is STALE
    assert await world.store.release_lock(ALICE, "report", "one", fence) is STALE
    assert await take(world, "two") > fence
    (row,) = await world.store.audit(SYSTEM, AuditFilter())
    assert (row.user, row.deed, list(row.subjects)) == ("alice", "free_lock", ["report"])


# -- lists and the end of rows ----------------------------------------------------------------------------------------


async def test_held_ones_come_first_by_name(world: World) -> None:
    for name in ("d", "a", "c", "b"):
        fence = await take(world, "one", name=name)
        if name in "da":
            await world.store.release_lock(ALICE, name, "one", fence)
    assert [(one.name, one.held) for one in await world.store.locks(ALICE)] == [
        ("b", True), ("c", True), ("a", False), ("d", False),
    ]  # fmt: skip
    assert [one.name for one in await world.store.locks(ALICE, ["d", "b", "none"])] == ["b", "d"]


async def test_rows_of_free_locks_are_deleted_and_fences_still_rise(world: World) -> None:
    free = await take(world, "one")
    await world.store.release_lock(ALICE, "report", "one", free)
    expired = await take(world, "one", name="expired")
    held = await take(world, "one", name="held")
    keep = Retention(DAY, DAY, DAY, DAY)
    world.clock.advance(KEPT_FREE / SECOND + TTL / SECOND - 1)
    await world.store.acquire_lock(ALICE, "held", "one", TTL)
    await world.store.prune(SYSTEM, keep, PLENTY)
    assert [one.name for one in await world.store.locks(ALICE)] == ["held", "expired"]
    world.clock.advance(2)
    await world.store.prune(SYSTEM, keep, PLENTY)
    assert [one.name for one in await world.store.locks(ALICE)] == ["held"]
    assert (await shown(world, "held")).fence > held, "its token acquired it anew"
    assert await take(world, "two") > free
    assert await take(world, "two", name="expired") > expired


# -- wake-ups ---------------------------------------------------------------------------------------------------------


async def test_a_release_wakes_those_who_wait(world: World, another: Store) -> None:
    for holder, free in (
        ("one", world.store.release_lock(ALICE, "report", "one")),
        ("two", world.store.free_lock(ALICE, "report")),
    ):
        await take(world, holder)
        awake = asyncio.Event()
        end = another.listen(frozenset({Topic.LOCK}), awake.set)
        async with asyncio.timeout(10):
            await free
            await awake.wait()
        end()


# -- principals -------------------------------------------------------------------------------------------------------


async def test_locks_of_users_never_meet(world: World) -> None:
    fence = await take(world, "one")
    assert await world.store.locks(BOB) == await world.store.locks(BOB, ["report"]) == []
    async with world.unchanged():
        assert await world.store.renew_lock(BOB, "report", "one", fence, TTL) is STALE
        assert await world.store.release_lock(BOB, "report", "one", fence) is STALE
        assert not await world.store.free_lock(BOB, "report")
        assert not await world.store.free_lock(SYSTEM, "report")
    assert await take(world, "one", BOB) != 0
    assert (await shown(world)).fence == fence
