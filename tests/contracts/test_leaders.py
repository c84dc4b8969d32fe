"""Leaders: one of the control nodes goes first, and another when it is no more."""

from __future__ import annotations

from rota.model.lifecycle import State
from rota.model.node import NewNode
from rota.model.principal import SYSTEM
from rota.model.times import MILLISECOND, SECOND
from tests.contracts.world import LEASE, Actor, World


async def control(world: World, name: str) -> Actor:
    actor = Actor(world, name, world.chance.token(), world.store)
    node = NewNode(name, actor.incarnation, ("control", "worker"), actor.queues, "1.0", LEASE)
    await world.store.register(SYSTEM, node, [])
    return actor


async def leaders(world: World) -> list[str]:
    return [node.id for node in await world.store.nodes(SYSTEM, past=True) if node.leader]


async def test_the_first_to_renew_leads_and_goes_on_leading(world: World) -> None:
    one, two = await control(world, "one"), await control(world, "two")
    assert await leaders(world) == []
    assert (await two.renew()).term == 1
    assert (await one.renew()).term is None
    assert (await two.renew()).term == 1
    assert await leaders(world) == ["two"]


async def test_a_worker_never_leads(world: World) -> None:
    worker = await world.node("worker")
    assert (await worker.renew()).term is None
    assert await leaders(world) == []


async def test_another_leads_when_the_leader_left_died_or_stops(world: World) -> None:
    nodes = [await control(world, f"n{number}") for number in range(4)]
    assert (await nodes[0].renew()).term == 1
    await nodes[0].leave()
    assert (await nodes[1].renew()).term == 2
    await nodes[1].die()
    assert await leaders(world) == []
    assert (await nodes[2].renew()).term == 3
    assert (await nodes[2].renew(stopping=True)).term is None
    assert (await nodes[3].renew()).term == 4
    assert await leaders(world) == ["n3"]


async def test_one_that_was_declared_dead_does_not_lead(world: World) -> None:
    one, two = await control(world, "one"), await control(world, "two")
    await one.renew()
    await one.die()
    assert not (await one.renew()).known
    assert (await two.renew()).term == 2


async def test_those_who_wait_leave_alone_what_is_not_yet_late(world: World) -> None:
    """Followers let the leader go first."""
    wait = 300 * MILLISECOND
    job = await world.one(delay=SECOND)
    expiring = await world.one(expires=SECOND)
    due = world.clock.now() + SECOND
    assert await world.store.promote(SYSTEM, 10, wait) == (0, due + wait)
    world.clock.advance(1.299_999)
    assert await world.store.promote(SYSTEM, 10, wait) == (0, due + wait)
    assert await world.states(job, expiring) == [State.SCHEDULED, State.READY]
    world.clock.advance(0.000_001)
    assert await world.store.promote(SYSTEM, 10, wait) == (2, None)
    assert await world.states(job, expiring) == [State.READY, State.CANCELLED]
