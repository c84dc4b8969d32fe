"""Acquiring a lock: one try, waiting until it is free, and what a wait leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from rota.clients import locks
from rota.clients.held_lock import HeldLock
from rota.clients.locks import LocksClient
from rota.clock import Chance
from rota.errors import InvalidInput, LockTaken, NotFound, StoreDenied, StoreUnavailable
from rota.model.locks import Acquisition
from rota.model.times import SECOND
from tests.clients.lock_waits import listening
from tests.contracts.world import ALICE, BOB, World
from tests.store.postgres.backends import Postgres
from tests.store.sqlite.backends import SqliteFile

TTL = 30 * SECOND
NEVER = 3600.0  # a test that polls this rarely is woken, or gives up


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" in metafunc.fixturenames:
        metafunc.parametrize("world", [SqliteFile, Postgres], ids=["sqlite", "postgres"], indirect=True)


class Alice:
    def __init__(self, world: World) -> None:
        self.world, self.client = world, LocksClient(world.store, ALICE, Chance(7))
        self.all: list[HeldLock] = []

    async def take(self, wait: int | None = 0, name: str = "report") -> HeldLock:
        async with asyncio.timeout(20):
            held = await self.client.acquire(self.world.clock, name, TTL, wait)
        self.all.append(held)
        return held

    async def held(self) -> list[str]:
        return [one.name for one in await self.client.locks() if one.held]


@pytest.fixture
async def alice(world: World) -> AsyncIterator[Alice]:
    alice = Alice(world)
    yield alice
    for held in alice.all:
        await held.end()


async def test_a_free_lock_is_ours_at_once(alice: Alice) -> None:
    first = await alice.take()
    assert await alice.held() == ["report"]
    await first.end()
    assert await alice.held() == []
    assert (await alice.take()).fence > first.fence


async def test_a_taken_lock_is_refused_with_the_age_of_its_holder(alice: Alice) -> None:
    await alice.take()
    alice.world.clock.advance(12)
    with pytest.raises(LockTaken, match=r"^lock 'report' is taken; its holder has had it for 12s$") as caught:
        await alice.take()
    assert (caught.value.name, caught.value.age) == ("report", timedelta(seconds=12))
    with pytest.raises(LockTaken):
        await alice.take(wait=SECOND // 50)


async def test_a_release_wakes_who_waits(alice: Alice) -> None:
    first = await alice.take()
    with patch.object(locks, "POLL", NEVER):
        waiting = asyncio.create_task(alice.take(wait=None))
        await listening(alice.world.store)
        await first.end()
        second = await waiting
    assert second.fence > first.fence


async def test_who_waits_takes_an_expired_lock_without_a_wake_up(alice: Alice) -> None:
    await alice.world.store.acquire_lock(ALICE, "report", "dead", TTL)
    waiting = asyncio.create_task(alice.take(wait=None))
    await listening(alice.world.store)
    alice.world.clock.advance(TTL / SECOND)
    await waiting
    assert await alice.held() == ["report"]


async def test_many_wait_and_each_gets_it_once(alice: Alice) -> None:
    fences: list[int] = []

    async def work() -> None:
        held = await alice.take(wait=None)
        fences.append(held.fence)
        await asyncio.sleep(0)
        assert await held.end() is None

    await asyncio.gather(*(work() for _ in range(12)))
    assert fences == sorted(set(fences))
    assert len(fences) == 12


async def test_a_wait_lasts_through_a_store_that_is_away(alice: Alice) -> None:
    store, looks = alice.world.store, 0
    first = await alice.take()
    real = store.locks

    async def away_at_first(*given: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks < 3:
            raise StoreUnavailable("no answer")
        return await real(*given)

    with patch.object(store, "locks", away_at_first), patch.object(locks, "POLL", 0.01):
        waiting = asyncio.create_task(alice.take(wait=None))
        await listening(store)
        await first.end()
        await waiting
    assert looks >= 3


async def test_a_wait_ends_with_an_error_that_stays(alice: Alice) -> None:
    await alice.take()

    async def denied(*_: object) -> Any:
        raise StoreDenied("no")

    with patch.object(alice.world.store, "locks", denied), pytest.raises(StoreDenied):
        await alice.take(wait=None)


@pytest.mark.parametrize("fault", [StoreUnavailable("the answer got lost"), asyncio.CancelledError()])
async def test_a_try_whose_answer_got_lost_is_given_back(alice: Alice, fault: BaseException) -> None:
    real = alice.world.store.acquire_lock

    async def lossy(*given: Any) -> Acquisition:
        assert (await real(*given)).mine
        raise fault

    with patch.object(alice.world.store, "acquire_lock", lossy), pytest.raises(type(fault)):
        await alice.take()
    assert await alice.held() == []


async def test_a_lost_answer_in_a_wait_is_asked_for_again(alice: Alice) -> None:
    first, tries = await alice.take(), 0
    real = alice.world.store.acquire_lock

    async def lossy(*given: Any) -> Acquisition:
        nonlocal tries
        answer = await real(*given)
        tries += answer.mine
        if tries == 1:
            raise StoreUnavailable("the answer got lost")
        return answer

    with patch.object(alice.world.store, "acquire_lock", lossy), patch.object(locks, "POLL", 0.01):
        waiting = asyncio.create_task(alice.take(wait=None))
        await listening(alice.world.store)
        await first.end()
        second = await waiting
    assert tries == 2
    (lock,) = await alice.client.locks()
    assert (lock.held, lock.fence) == (True, second.fence)


async def test_a_cancelled_wait_leaves_nothing(alice: Alice) -> None:
    first = await alice.take()
    waiting = asyncio.create_task(alice.take(wait=None))
    await listening(alice.world.store)
    waiting.cancel()
    await asyncio.wait([waiting])
    await first.end()
    assert await alice.held() == []


async def test_a_person_frees_a_lock(alice: Alice) -> None:
    await alice.take()
    with pytest.raises(NotFound, match="no held lock 'report'"):
        await LocksClient(alice.world.store, BOB, Chance(8)).free("report")
    await alice.client.free("report")
    assert await alice.held() == []
    with pytest.raises(NotFound):
        await alice.client.free("report")
    with pytest.raises(InvalidInput):
        await alice.client.free("")
