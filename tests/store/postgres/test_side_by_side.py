"""Claims of two nodes at the same moment: what one of them holds hides nothing else from the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.model.job import Claimed
from rota.store.postgres import PostgresStore, work
from tests.contracts.admission import close
from tests.contracts.test_offers import functions
from tests.contracts.world import BOTH, Actor, World, offer

FOREIGN = 300  # more than a claim looks at before it goes on task by task


@asynccontextmanager
async def claiming(store: PostgresStore, actor: Actor, count: int) -> AsyncIterator[list[Claimed]]:
    """A claim that has done everything but commit."""
    async with store._database.unit(store._database.pools().work) as unit:
        await unit.begin()
        wants = {"default": count}
        yield await work.claim(unit, actor.incarnation, wants, BOTH, wants, store._claims)


async def two_nodes(world: World) -> tuple[Actor, Actor]:
    return await world.node(tasks=offer("a", "b")), await world.node(tasks=offer("a", "b"))


async def test_a_node_finds_its_other_tasks_while_one_of_them_is_held(world: World, store: PostgresStore) -> None:
    one, two = await two_nodes(world)
    await functions(world, "foreign", FOREIGN)
    await functions(world, "a", 10)
    await functions(world, "b", 10)
    await functions(world, "a", 100, priority=9)
    async with claiming(store, one, 10) as first:
        second = await two.claim(10)
    assert [job.task for job in first] == ["a"] * 10
    assert [job.task for job in second] == ["b"] * 10, "they rank before what is left of the other task"


async def test_looking_for_what_a_gate_fits_locks_nothing(world: World, store: PostgresStore) -> None:
    one, two = await two_nodes(world)
    await close(world, task="a")
    await functions(world, "a", 5, priority=0)
    await functions(world, "b", 200)
    async with claiming(store, one, 2) as first:
        second = await two.claim(10)
    assert (len(first), len(second)) == (2, 10)
