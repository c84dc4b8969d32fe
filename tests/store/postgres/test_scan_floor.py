"""Where claims and promotions begin to read, while a long transaction keeps what they have left behind."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rota.clock import Clock, ManualClock
from rota.model.graph import Need
from rota.model.job import Claimed, Kind, Verdict
from rota.model.lifecycle import State
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from rota.store.postgres import PostgresStore, nodes, work
from rota.store.postgres.database import Unit
from rota.store.postgres.scan_floor import BEGINNING, LONGEST_REST, PER_ROW, QUICK, REST, ScanFloor
from rota.store.postgres.scan_floor import Place as Floor
from rota.store.values import Topic
from tests.contracts.world import DONE, Actor, World, settled
from tests.store.postgres.plans import Seen, listening, observe, pages
from tests.store.postgres.ranking import LIMIT, Place

pytestmark = pytest.mark.slow

SLOW = 10 * (QUICK + 500 * PER_ROW)


@pytest.fixture
def low(clock: ManualClock) -> ScanFloor:
    return ScanFloor(clock)


# -- by itself --------------------------------------------------------------------------------------------------------


def at(rank: int) -> Floor:
    return rank, "some id"


def slow(low: ScanFloor, lowest: dict[Hashable, Floor]) -> float:
    """Two full reads that took long; returns for how long there will be none."""
    low.read(True, SLOW, 1, lowest)
    low.read(True, SLOW, 1, lowest)
    return REST * SLOW


def test_it_begins_at_the_beginning(low: ScanFloor) -> None:
    assert low.full
    assert low.floor("a") == low.lowest == BEGINNING


def test_while_reading_from_the_beginning_is_quick_every_read_does(low: ScanFloor) -> None:
    for rows in (0, 1, 500):
        low.read(True, QUICK + rows * PER_ROW, rows, {"a": at(5)})
        assert low.full
        assert low.floor("a") == low.lowest == BEGINNING


def test_one_slow_read_alone_may_be_somebody_elses_fault(low: ScanFloor) -> None:
    for _ in range(3):
        low.read(True, SLOW, 1, {"a": at(5)})
        assert low.full
        low.read(True, QUICK, 1, {"a": at(5)})
        assert low.full


def test_many_rows_may_take_their_time(low: ScanFloor) -> None:
    for _ in range(3):
        low.read(True, QUICK + 499 * PER_ROW, 500, {"a": at(5)})
    assert low.full


def test_after_slow_reads_the_next_ones_begin_where_they_had_found_something(
    low: ScanFloor, clock: ManualClock
) -> None:
    rest = slow(low, {"a": at(5), "b": at(-7)})
    assert not low.full
    assert (low.floor("a"), low.floor("b"), low.lowest) == (at(5), at(-7), at(-7))
    clock.advance(rest * 0.99)
    assert low.floor("a") == at(5)
    clock.advance(rest * 0.02)
    assert low.full
    assert low.floor("a") == low.lowest == BEGINNING


def test_a_lane_in_which_nothing_was_found_is_read_from_the_beginning(low: ScanFloor) -> None:
    slow(low, {"a": at(5)})
    assert low.floor("b") == BEGINNING


def test_a_short_read_moves_the_floor_and_not_the_time_of_the_next_full_one(low: ScanFloor, clock: ManualClock) -> None:
    rest = slow(low, {"a": at(5)})
    low.read(False, 100 * SLOW, 1, {"a": at(500), "b": at(3)})
    assert (low.floor("a"), low.floor("b")) == (at(500), at(3))
    clock.advance(rest * 1.01)
    assert low.full


def test_a_lane_that_was_empty_keeps_its_floor(low: ScanFloor) -> None:
    slow(low, {"a": at(5)})
    low.read(False, SLOW, 0, {})
    assert low.floor("a") == at(5)


def test_one_quick_full_read_ends_it(low: ScanFloor, clock: ManualClock) -> None:
    """The long transaction is over, and the dead entries are gone."""
    clock.advance(slow(low, {"a": at(5)}) * 1.01)
    low.read(True, QUICK / 2, 1, {"a": at(700)})
    assert low.full


def test_full_reads_take_a_small_part_of_the_time(low: ScanFloor, clock: ManualClock) -> None:
    spent, begun = 0.0, clock.monotonic()
    for _ in range(20_000):
        full = low.full
        took = 0.2 if full else 0.1
        spent += took if full else 0.0
        clock.advance(took)
        low.read(full, took, 1, {"a": at(1)})
    assert spent / (clock.monotonic() - begun) < 1.1 / REST


def test_no_rest_is_long(low: ScanFloor, clock: ManualClock) -> None:
    for _ in range(2):
        low.read(True, 100.0, 1, {"a": at(5)})
    clock.advance(LONGEST_REST)
    assert low.full


def test_a_read_that_brought_too_little_is_followed_by_a_full_one(low: ScanFloor) -> None:
    slow(low, {"a": at(5)})
    low.read_all_next()
    assert low.full
    assert low.floor("a") == BEGINNING
    low.read(True, SLOW, 1, {})
    assert low.floor("a") == at(5), "it was slow again"


# -- under a long transaction -----------------------------------------------------------------------------------------

JOBS, BATCH = 20_000, 500


class Toil(ScanFloor):
    """Reading takes the server so long as we say."""

    took = 0.0

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.told: list[float] = []  # what the server has said

    def read(self, full: bool, took: float, rows: int, lowest: dict[Hashable, Floor]) -> None:
        self.told.append(took)
        super().read(full, self.took, rows, lowest)


class Lagging(ManualClock):
    """Whatever one does, it takes long by this clock: the network is slow, or the loop is busy."""

    step = 0.0

    def monotonic(self) -> float:
        self._elapsed += self.step
        return self._elapsed


@pytest.fixture
def clock() -> Lagging:
    return Lagging()


@pytest.fixture
def toil(store: PostgresStore, clock: Lagging) -> Toil:
    store._claims = Toil(clock)
    return store._claims


class Drain:
    """A node that works on a long queue, and what its statements cost."""

    def __init__(self, store: PostgresStore, actor: Actor, clock: Lagging) -> None:
        self.store, self.actor, self.clock = store, actor, clock

    async def rounds(self, count: int) -> list[Seen]:
        """Claims and finishes; returns what the claims have cost."""
        database = self.store._database
        async with database.unit(database.pools().work) as unit, listening(unit) as seen:
            for _ in range(count):
                claimed = await self._claim(unit, BATCH, self.store._claims)
                verdicts = await self.store.finish(SYSTEM, [settled(one, DONE) for one in claimed])
                assert set(verdicts) == {Verdict.APPLIED}
                self.clock.jump(5)
                await self.actor.renew()
        return [one for one in seen if one.name == "claim"]

    async def _claim(self, unit: Unit, count: int, low: ScanFloor) -> list[Claimed]:
        wants = {"default": count}
        claimed = await work.claim(unit, self.actor.incarnation, wants, (Kind.COMMAND,), wants, low)
        assert len(claimed) == count
        return claimed

    async def claim_one(self, low: ScanFloor) -> Seen:
        return await self._look("claim", lambda unit: self._claim(unit, 1, low))

    async def renew(self, low: ScanFloor) -> Seen:
        return await self._look(
            "renew", lambda unit: nodes.renew(unit, self.actor.incarnation, False, None, low, ScanFloor(self.clock))
        )

    async def _look(self, name: str, deed: Callable[[Unit], Awaitable[object]]) -> Seen:
        database = self.store._database
        (seen,) = [one for one in await observe(database, database.pools().work, deed, {}) if one.name == name]
        return seen


@pytest.fixture
async def drain(world: World, place: Place, store: PostgresStore, clock: Lagging, toil: Toil) -> Drain:
    with place.connect() as db:
        db.execute("TRUNCATE jobs CASCADE")  # entries of jobs of an earlier test may lie there too
    return Drain(store, await world.node(), clock)


@contextmanager
def long_transaction(place: Place) -> Iterator[None]:
    with place.connect() as db:
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        db.execute("SELECT count(*) FROM nodes")
        yield
        db.execute("ROLLBACK")


async def test_a_long_transaction_does_not_make_claims_and_renewals_read_all_that_was_done(
    world: World, place: Place, drain: Drain, clock: Lagging, store: PostgresStore, toil: Toil
) -> None:
    """The low end of the index is full of entries that nobody may clear away yet."""
    with long_transaction(place):
        for _ in range(JOBS // BATCH + 1):
            await world.several(BATCH)
            clock.jump(0.001)
        toil.took = SLOW
        claims = await drain.rounds(JOBS // BATCH)
        toil.took = 0.0
        # What was claimed is not to be seen by anyone new, and is read all the same by whoever begins at the beginning.
        full = await drain.claim_one(ScanFloor(clock))
        assert full.pages > JOBS / 25
        assert full.visited <= 2
        slow(store._claims, {})
        assert not store._claims.full
        short = await drain.claim_one(store._claims)
        assert short.pages < full.pages / 10, (short.pages, full.pages)
        # In the course of the drain most claims were of the second kind.
        paid = [cost(one, "jobs_ready") for one in claims]
        assert sorted(paid)[len(paid) // 2] < cost(full, "jobs_ready") / 4, paid
        # A renewal asks for work too; and for what the node holds, since it has last held nothing.
        renewal = await drain.renew(store._claims)
        assert cost(renewal, "jobs_ready") < 10
        assert cost(await drain.renew(ScanFloor(clock)), "jobs_ready") > JOBS / 25


async def test_the_jobs_of_one_order_share_their_rank_and_are_skipped_all_the_same(
    world: World, place: Place, drain: Drain, clock: Lagging, store: PostgresStore, toil: Toil
) -> None:
    """A large order has one due time: where to begin must tell its jobs apart."""
    with long_transaction(place):
        await world.several(10_000)
        toil.took = SLOW
        await drain.rounds(19)
        toil.took = 0.0
        full = await drain.claim_one(ScanFloor(clock))
        slow(store._claims, {})
        assert cost(await drain.claim_one(store._claims), "jobs_ready") < cost(full, "jobs_ready") / 4


async def test_entries_of_long_ago_are_not_read_in_order_to_see_what_a_node_holds(
    world: World, place: Place, drain: Drain, clock: Lagging, store: PostgresStore
) -> None:
    with long_transaction(place):
        await world.several(4_000)
        await drain.rounds(5)
        just = await drain.renew(ScanFloor(clock))
        clock.jump(60)
        await drain.actor.renew()
        later = await drain.renew(ScanFloor(clock))
        assert cost(just, "jobs_running") > 100
        assert cost(later, "jobs_running") < 10
        claimed = await drain.actor.take()
        clock.jump(100)
        for _ in range(3):  # what it does hold is never lost from sight, however long ago it was claimed
            assert (await drain.actor.renew()).holds == (claimed.ref,)
            clock.jump(100)


def cost(seen: Seen, index: str) -> int:
    """In pages, of reading this index where that costs most."""
    return max(found for name, found in costs(seen.plan) if name == index)


def costs(node: dict[str, Any]) -> Iterator[tuple[str, int]]:
    if "Index Name" in node:
        yield node["Index Name"], pages(node)
    for child in node.get("Plans", ()):
        yield from costs(child)


async def slow_read(drain: Drain, toil: Toil) -> float:
    """Claims that take long; returns for how many seconds there will be no other full read."""
    toil.took = SLOW
    for _ in range(2):
        await drain.actor.claim(1, kinds=(Kind.COMMAND,))
    assert not toil.full
    return toil._full_again_at - drain.clock.monotonic()


@pytest.mark.parametrize("how", ["more urgent", "handed back"])
async def test_what_lies_below_is_claimed_in_its_time(
    world: World, drain: Drain, clock: Lagging, toil: Toil, how: str
) -> None:
    handed = await world.one()
    ahead = await drain.actor.ahead(handed)
    clock.jump(1)
    await world.several(20)
    rest = await slow_read(drain, toil)
    assert rest <= REST * SLOW
    if how == "handed back":
        await drain.actor.hand_back(ahead.ref)
        low = handed
    else:
        low = await world.one(priority=0)
    first = await drain.actor.claim(1, kinds=(Kind.COMMAND,))
    assert [one.job_id for one in first] != [low], "this is what the time is saved by"
    clock.advance(rest)
    first = await drain.actor.claim(1, kinds=(Kind.COMMAND,))
    assert [one.job_id for one in first] == [low]


async def test_a_node_with_free_slots_claims_what_lies_below_at_once(
    world: World, drain: Drain, clock: Lagging, toil: Toil
) -> None:
    ahead = await drain.actor.ahead(await world.one())
    clock.jump(1)
    await world.several(4)
    await slow_read(drain, toil)
    await drain.actor.hand_back(ahead.ref)
    assert not toil.full
    claimed = await drain.actor.claim(4, kinds=(Kind.COMMAND,))
    assert len(claimed) == 3
    assert claimed[0].job_id == ahead.job_id
    await drain.actor.hand_back(ahead.ref)
    await world.one(priority=0)
    assert not toil.full, "the full read was slow again"
    assert len(await drain.actor.claim(1, kinds=(Kind.COMMAND,))) == 1, "nothing else waits"


async def test_the_renewal_sees_what_lies_below_in_its_time(
    world: World, drain: Drain, clock: Lagging, toil: Toil
) -> None:
    ahead = await drain.actor.ahead(await world.one())
    clock.jump(1)
    await world.several(2)
    rest = await slow_read(drain, toil)
    await drain.actor.hand_back(ahead.ref)
    clock.advance(rest)
    woken: list[str] = []
    stop = world.store.listen(frozenset({Topic.READY}), lambda: woken.append("ready"))
    await drain.actor.renew()
    stop()
    assert woken


async def test_a_slow_network_or_loop_is_not_taken_for_a_slow_read(
    world: World, drain: Drain, clock: Lagging, toil: Toil
) -> None:
    await world.several(5)
    clock.step = 1_000.0
    for _ in range(4):
        await drain.actor.claim(1, kinds=(Kind.COMMAND,))
    assert len(toil.told) == 4
    assert max(toil.told) < 100, "it is the server's own time"


async def test_promotions_skip_what_was_promoted_before(
    world: World, place: Place, drain: Drain, clock: Lagging, store: PostgresStore
) -> None:
    store._due = toil = Toil(clock)
    with long_transaction(place):
        for number in range(1, 6):
            await world.several(1_000, delay=number)
        await world.one(delay=2_000_000)
        clock.advance(1)
        toil.took = SLOW
        moved = 0
        while moved < 4_900:
            moved += (await store.promote(SYSTEM, 100))[0]
        full = await drain._look("promote", lambda unit: nodes.promote(unit, 100, 0, ScanFloor(clock)))
        slow(store._due, {})
        assert not store._due.full
        short = await drain._look("promote", lambda unit: nodes.promote(unit, 100, 0, store._due))
        assert cost(short, "jobs_due") < cost(full, "jobs_due") / 4


async def test_what_a_promotion_from_the_floor_ends_is_told(world: World, clock: Lagging, store: PostgresStore) -> None:
    """It moves nothing and is followed by a full one; what it has ended must not be forgotten for that."""
    parent = await world.one(expires=SECOND)
    (child,) = await world.submit(world.child(parent, need=Need.FINISH))
    store._due._floors["due"], store._due._full_again_at = (clock.now(), BEGINNING[1]), math.inf
    told = asyncio.Event()
    end = store.listen(frozenset({Topic.TIES}), told.set)
    clock.jump(2)
    assert (await store.promote(SYSTEM, 100))[0] == 1
    assert (await world.state(parent), await world.state(child)) == (State.CANCELLED, State.BLOCKED)
    async with asyncio.timeout(LIMIT):
        await told.wait()
    end()
