"""A job that runs alone, while claims of others are under way for as long as they like."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.clock import ManualClock
from rota.model.job import Claimed
from rota.model.lifecycle import State
from rota.store.postgres import PostgresStore, admission, work
from tests.contracts.admission import admitted, finish_all, lone, names
from tests.contracts.world import BOTH, Actor, World
from tests.store.postgres.ranking import LIMIT, Place, until

A_LOT = 100
LATER = 3.0  # seconds; a claim may take longer than any time that one might think of


@asynccontextmanager
async def uncommitted_claim(store: PostgresStore, actor: Actor) -> AsyncIterator[list[Claimed]]:
    """A claim that has done everything but commit."""
    async with store._database.unit(store._database.pools().work) as unit:
        await unit.begin()
        wants = {"default": A_LOT}
        yield await work.claim(unit, actor.incarnation, wants, BOTH, wants, store._claims)


async def pass_by(world: World) -> None:
    world.clock.advance(LATER)
    await admitted(world)


async def test_it_waits_for_a_claim_that_is_long_in_committing(world: World, store: PostgresStore) -> None:
    other, actor = await world.node(), await world.node()
    await world.one()
    async with uncommitted_claim(store, other) as running:
        assert len(running) == 1
        job = await world.one(requirements=lone(drain=3_600_000_000))
        for _ in range(3):
            assert await actor.claim() == []
            await pass_by(world)
        assert await world.state(job) is State.HELD, "the other claim may still come to something"
    await pass_by(world)
    assert await actor.claim() == [], "and now it runs"
    await finish_all(other, running)
    await pass_by(world)
    assert names(await actor.claim()) == [job]


async def test_a_claim_that_hangs_holds_up_no_other_claim(world: World, store: PostgresStore) -> None:
    other, actor = await world.node(), await world.node()
    await world.one()
    async with uncommitted_claim(store, other):
        await world.one(requirements=lone("label:apart"))
        assert await actor.claim() == []
        await pass_by(world)
        mine = await world.one()
        async with asyncio.timeout(LIMIT):
            assert names(await actor.claim()) == [mine]


async def test_claims_that_begin_later_are_not_waited_for(world: World, store: PostgresStore) -> None:
    """In a busy house there is a claim under way at every moment."""
    other, another, actor = await world.node(), await world.node(), await world.node()
    await world.one()
    async with uncommitted_claim(store, other) as running:
        job = await world.one(requirements=lone("label:apart", drain=3_600_000_000))
        assert await actor.claim() == []
        await pass_by(world)
        await world.one()
        later = uncommitted_claim(store, another)
        await later.__aenter__()
    await pass_by(world)
    assert names(await actor.claim()) == [job]
    await later.__aexit__(None, None, None)
    assert len(running) == 1


async def test_a_claim_that_began_before_the_gate_sees_it_all_the_same(
    world: World, store: PostgresStore, place: Place, clock: ManualClock
) -> None:
    """It is held up between its beginning and its look at the gates."""
    other = await world.node(store=await place.store(clock=clock))
    actor = await world.node()
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
    within = await world.one()
    with place.connect() as db:
        db.execute("BEGIN")
        db.execute("SELECT FROM nodes WHERE incarnation = %s FOR UPDATE", [other.incarnation])
        claim = asyncio.create_task(other.claim())
        await until(lambda: place.value(waiting, f"%{place.schema}.nodes WHERE incarnation%"))
        job = await world.one(queue="apart", requirements=lone("queue:default"))
        assert await actor.claim(queue="apart") == []
        async with store._database.unit(store._database.pools().work) as unit:  # nothing else moves jobs aside
            await admission.sweep_alone(unit)
        assert names(await actor.claim(queue="apart")) == [job]
        assert await world.state(within) is State.READY
        db.execute("ROLLBACK")
        assert await claim == []
    assert await world.state(within) is State.HELD


async def test_plain_claims_only_share_their_lock(world: World, store: PostgresStore, place: Place) -> None:
    other = await world.node()
    await world.one()
    async with uncommitted_claim(store, other):
        modes = "SELECT array_agg(DISTINCT mode) FROM pg_locks WHERE virtualtransaction = ANY (claims_under_way())"
        found = place.value(modes + " AND locktype = 'advisory'")
        assert found == ["ShareLock"]
