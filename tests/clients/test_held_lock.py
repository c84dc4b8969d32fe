"""A held lock: renewed in time, and lost as soon as it can't be trusted. Pauses and the clock are the test's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import patch

import pytest

from rota.clients.held_lock import FORKED, LOOK, NOT_OURS, SOON, TOO_LATE, HeldLock, Term
from rota.errors import StoreUnavailable
from rota.model.job import Verdict
from rota.model.locks import margin
from rota.model.times import HOUR, SECOND
from tests.contracts.world import ALICE, World

TTL = 30 * SECOND
PERIOD = 10.0
LASTS = (TTL - margin(TTL)) / SECOND


class Pauses:
    """Pauses that last until the test ends them: of renewals, and of looks at the end."""

    def __init__(self) -> None:
        self.renewals: asyncio.Queue[tuple[float, asyncio.Event]] = asyncio.Queue()
        self.looks: asyncio.Queue[asyncio.Event | None] = asyncio.Queue()  # None: the lock is lost

    async def __call__(self, seconds: float) -> None:
        over = asyncio.Event()
        if seconds <= LOOK:
            self.looks.put_nowait(over)
        else:
            self.renewals.put_nowait((seconds, over))
        await over.wait()


class Holder:
    """Alice, who holds the lock `report` in a store in memory."""

    def __init__(self, world: World, ttl: int = TTL) -> None:
        self.world, self.ttl, self.pauses = world, ttl, Pauses()
        self.losses: list[str | None] = []
        self.held: HeldLock
        self.fence = 0

    async def take(self) -> Holder:
        term = Term("report", "one", self.ttl)
        answer = await self.world.store.acquire_lock(ALICE, *term)
        assert answer.mine
        clock, self.fence = self.world.clock, answer.lock.fence
        self.held = HeldLock(
            self.world.store, ALICE, clock, term, self.fence, clock.monotonic(), self._lost, self.pauses
        )
        self.due, self.watch = await self.pauses.renewals.get(), await self.pauses.looks.get()
        return self

    def _lost(self) -> None:
        self.losses.append(self.held.problem)
        self.pauses.looks.put_nowait(None)

    async def renewal(self) -> float:
        """Lets the next renewal happen; returns the pause after it."""
        self.due[1].set()
        self.due = await self.pauses.renewals.get()
        return self.due[0]

    async def look(self) -> None:
        """Lets the next look at the end happen, and what follows from it."""
        assert self.watch is not None
        self.watch.set()
        self.watch = await self.pauses.looks.get()


@pytest.fixture
async def holder(world: World) -> AsyncIterator[Holder]:
    holder = await Holder(world).take()
    yield holder
    await holder.held.end()


def refusing(holder: Holder) -> Any:
    async def away(*_: object) -> Verdict:
        raise StoreUnavailable("no answer")

    return patch.object(holder.world.store, "renew_lock", away)


async def test_it_is_renewed_after_a_third_of_its_ttl(holder: Holder) -> None:
    assert holder.due[0] == PERIOD
    for _ in range(9):
        holder.world.clock.advance(PERIOD)
        assert await holder.renewal() == PERIOD
        await holder.look()
    assert holder.held.problem is None
    (lock,) = await holder.world.store.locks(ALICE)
    assert (lock.held, lock.fence) == (True, holder.fence)


async def test_it_is_lost_a_margin_before_its_end(holder: Holder) -> None:
    holder.world.clock.advance(LASTS - 0.01)
    await holder.look()
    assert holder.held.problem is None
    holder.world.clock.advance(0.02)
    assert holder.held.problem == TOO_LATE, "before anybody has looked"
    assert holder.losses == []
    await holder.look()
    assert holder.losses == [TOO_LATE]
    (lock,) = await holder.world.store.locks(ALICE)
    assert lock.held, "nobody else has it yet"


async def test_the_end_is_counted_from_when_a_renewal_was_asked_for(holder: Holder) -> None:
    real = holder.world.store.renew_lock

    async def slow(*given: Any) -> Verdict:
        verdict = await real(*given)
        holder.world.clock.advance(9)
        return verdict

    holder.world.clock.advance(PERIOD)
    with patch.object(holder.world.store, "renew_lock", slow):
        await holder.renewal()
    holder.world.clock.advance(LASTS - 9 - 0.01)
    assert holder.held.problem is None
    holder.world.clock.advance(0.02)
    assert holder.held.problem == TOO_LATE


async def test_after_a_failure_the_next_try_comes_sooner(holder: Holder) -> None:
    with refusing(holder):
        assert await holder.renewal() == PERIOD / 4
        assert await holder.renewal() == PERIOD / 4
    assert await holder.renewal() == PERIOD
    assert holder.held.problem is None


async def test_a_long_ttl_is_not_risked_by_rare_tries(world: World) -> None:
    holder = await Holder(world, HOUR).take()
    assert holder.due[0] == 1200
    with refusing(holder):
        assert await holder.renewal() == SOON
    await holder.held.end()


async def test_without_renewals_it_is_lost_and_that_stays_so(holder: Holder) -> None:
    with refusing(holder):
        await holder.renewal()
        holder.world.clock.advance(LASTS)
        await holder.look()
    assert holder.losses == [TOO_LATE]
    assert await holder.held.end() == TOO_LATE
    assert holder.losses == [TOO_LATE]


@pytest.mark.parametrize("by", ["a person", "another holder"])
async def test_the_store_says_that_it_is_not_ours(holder: Holder, by: str) -> None:
    store = holder.world.store
    if by == "a person":
        await store.free_lock(ALICE, "report")
    else:
        await store.release_lock(ALICE, "report", "one")
        assert (await store.acquire_lock(ALICE, "report", "two", TTL)).mine
    holder.due[1].set()
    assert await holder.pauses.looks.get() is None
    assert holder.losses == [NOT_OURS]
    assert await holder.held.end() == NOT_OURS


async def test_the_end_releases_it(holder: Holder) -> None:
    assert await holder.held.end() is None
    assert not (await holder.world.store.locks(ALICE))[0].held
    assert holder.losses == []


async def test_the_end_tells_what_no_renewal_has_found_yet(holder: Holder) -> None:
    await holder.world.store.free_lock(ALICE, "report")
    assert await holder.held.end() == NOT_OURS


async def test_a_store_that_is_away_at_the_end_leaves_the_lock_to_its_end(holder: Holder) -> None:
    async def away(*_: object) -> Verdict:
        raise StoreUnavailable("no answer")

    with patch.object(holder.world.store, "release_lock", away):
        assert await holder.held.end() is None
    assert (await holder.world.store.locks(ALICE))[0].held


async def test_a_forked_child_does_not_hold_it_and_leaves_it_alone(holder: Holder) -> None:
    with patch.object(os, "getpid", lambda: -1):
        assert holder.held.problem == FORKED
        assert await holder.held.end() == FORKED
    assert holder.held.problem is None
    assert (await holder.world.store.locks(ALICE))[0].held
