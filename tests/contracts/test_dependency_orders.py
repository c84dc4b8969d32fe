"""Orders of jobs that wait for others: what is refused, what keys do, and what people do with them afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from rota.errors import KeyConflict, NotFound
from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY, HOUR, SECOND
from rota.store.values import Cancelling, Retention
from tests.contracts.graphs import FINISH, NOBODY, all_settled
from tests.contracts.world import ALICE, DONE, PLENTY, World

# -- refused orders ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parent", [NOBODY, "no-such-job", "", "0"])
async def test_an_unknown_parent_refuses_the_whole_order(world: World, parent: str) -> None:
    known = await world.one()
    async with world.unchanged():
        order = [world.job(), world.child(known, parent), world.job(key="k")]
        (answer,) = await world.store.submit(LOCAL, [order])
        assert isinstance(answer, NotFound)
        assert "no parent job" in str(answer)


async def test_a_key_is_not_burnt_by_a_refused_order(world: World) -> None:
    refused, fine = world.child(NOBODY, key="k"), world.job(key="k")
    first, second = await world.store.submit(LOCAL, [[refused], [fine]])
    assert isinstance(first, NotFound)
    assert isinstance(second, list)
    assert [(one.id, one.created) for one in second] == [(fine.id, True)]


async def test_the_parent_of_another_user_is_not_there(world: World) -> None:
    hers = await world.one(ALICE)
    async with world.unchanged():
        (answer,) = await world.store.submit(LOCAL, [[world.child(hers, key="k")]])
        assert isinstance(answer, NotFound)
    await world.submit(world.child(hers), who=ALICE)


async def test_a_purged_parent_is_not_there(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    await actor.run(DONE, parent)
    await world.store.purge(LOCAL, [parent])
    async with world.unchanged():
        (answer,) = await world.store.submit(LOCAL, [[world.child(parent)]])
        assert isinstance(answer, NotFound)


# -- keys -------------------------------------------------------------------------------------------------------------


async def test_the_same_graph_again_is_the_same_jobs(world: World) -> None:
    def graph(priority: int = 5) -> list[Any]:
        top = world.job(key="top")
        left, right = world.child(top.id, key="left"), world.child(top.id, key="right", need=FINISH)
        return [top, left, right, world.child(left.id, right.id, key="bottom", priority=priority)]

    first = await world.submit(*graph())
    async with world.unchanged():
        (again,) = await world.store.submit(LOCAL, [graph()])
        assert isinstance(again, list)
        assert [(one.id, one.created) for one in again] == [(job, False) for job in first]
        (other,) = await world.store.submit(LOCAL, [graph(priority=1)])
        assert isinstance(other, KeyConflict)


@pytest.mark.parametrize("other", ["another parent", "another need", "no parent", "one more"])
async def test_other_parents_are_other_content(world: World, other: str) -> None:
    first, second = await world.several(2)
    await world.submit(world.child(first, key="k"))
    changed = {
        "another parent": world.child(second, key="k"),
        "another need": world.child(first, key="k", need=FINISH),
        "no parent": world.job(key="k"),
        "one more": world.child(first, second, key="k"),
    }
    async with world.unchanged():
        (answer,) = await world.store.submit(LOCAL, [[changed[other]]])
        assert isinstance(answer, KeyConflict)


async def test_a_new_job_may_wait_for_one_that_a_key_found(world: World) -> None:
    actor = await world.node()
    real = await world.one(key="k")
    double = world.job(key="k")
    parent, child = await world.submit(double, world.child(double.id))
    assert parent == real
    assert [info.id for info in await world.store.parents(LOCAL, child)] == [real]
    await actor.run(DONE, real)
    assert await world.state(child) is State.READY
    again = world.job(key="k")
    _, late = await world.submit(again, world.child(again.id))
    assert await world.state(late) is State.READY, "it had ended before"


async def test_two_of_an_order_with_one_key_are_one_parent(world: World) -> None:
    actor = await world.node()
    first, second = world.job(key="k"), world.job(key="k")
    *_, child = await world.submit(first, second, world.child(first.id, second.id))
    assert [info.id for info in await world.store.parents(LOCAL, child)] == [first.id]
    await actor.run(DONE, first.id)
    assert await world.state(child) is State.READY


async def test_one_with_the_key_of_another_of_its_order_is_that_one_as_a_parent_too(world: World) -> None:
    actor = await world.node()
    first, second = world.job(key="k"), world.job(key="k")
    *_, child = await world.submit(first, second, world.child(second.id))
    await actor.run(DONE, first.id)
    assert await world.state(child) is State.READY


# -- people and time --------------------------------------------------------------------------------------------------


async def test_a_child_may_be_cancelled_while_it_waits(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    (child,) = await world.submit(world.child(parent))
    (grandchild,) = await world.submit(world.child(child))
    assert await world.store.cancel(LOCAL, [child], "no") == [Cancelling.CANCELLED]
    assert (await world.info(grandchild)).reason == f"its parent {child} (true) was cancelled"
    before = await world.info(child)
    await actor.run(DONE, parent)
    await all_settled(world)
    assert await world.info(child) == before


async def test_a_child_expires_while_it_waits_and_so_its_children_are_skipped(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    claimed = await actor.take(parent)
    (child,) = await world.submit(world.child(parent, expires=10 * SECOND))
    (grandchild,) = await world.submit(world.child(child))
    world.clock.advance(10)
    await world.promote()
    await all_settled(world)
    assert await world.states(child, grandchild) == [State.CANCELLED, State.SKIPPED]
    await actor.finish(claimed)
    await all_settled(world)
    assert await world.states(child, grandchild) == [State.CANCELLED, State.SKIPPED]


async def test_a_child_is_not_hurried_past_its_parents(world: World) -> None:
    parent = await world.one()
    (child,) = await world.submit(world.child(parent, delay=HOUR))
    async with world.unchanged():
        assert await world.store.hurry(LOCAL, [child]) == [False]


async def test_a_purge_of_a_parent_leaves_its_children_as_they_are(world: World) -> None:
    actor = await world.node()
    parent, other = await world.several(2)
    (child,) = await world.submit(world.child(parent, other))
    await actor.run(DONE, parent)
    assert await world.store.purge(LOCAL, [parent]) == [True]
    assert await world.state(child) is State.BLOCKED
    assert [(one.id, one.state, one.edge) for one in await world.store.parents(LOCAL, child)] == [
        (parent, None, "met"),
        (other, State.READY, "open"),
    ]
    await actor.run(DONE, other)
    assert await world.state(child) is State.READY


async def test_a_parent_that_is_purged_at_once_has_still_ended_as_it_has(world: World) -> None:
    """However many children it has: whoever purges it has no say in what becomes of them."""
    actor = await world.node()
    parent = await world.one()
    found = await world.submit(*(world.child(parent) for _ in range(1_500)))
    await actor.run(DONE, parent)
    await world.store.purge(LOCAL, [parent])
    await all_settled(world)
    assert {info.state for job, info in (await world.all()).items() if job in set(found)} == {State.READY}


async def test_a_parent_that_is_pruned_at_once_has_still_ended_as_it_has(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    found = await world.submit(*(world.child(parent) for _ in range(1_500)))
    await actor.run(DONE, parent)
    world.clock.advance(1)
    await world.store.prune(SYSTEM, Retention(0, 0, DAY, DAY), PLENTY)
    await all_settled(world)
    assert {info.state for job, info in (await world.all()).items() if job in set(found)} == {State.READY}


async def test_a_purge_takes_the_edges_of_the_child_along(world: World) -> None:
    actor = await world.node()
    empty = {name: len(rows) for name, rows in world.backend.contents().items()}
    top = world.job()
    await world.submit(top, world.child(top.id))
    await actor.run()
    await actor.run()
    assert all(await world.store.purge(LOCAL, list(await world.all())))
    left = {name: len(rows) for name, rows in world.backend.contents().items()}
    assert left == empty | {"outbox": left["outbox"], "audit": 1}, "the audit has the row of the purge itself"
