"""Many that wait, what is left for later, what children see of their parents, and rows written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from rota.model.graph import Edge, EdgeState, ParentInfo
from rota.model.lifecycle import State
from rota.model.outcome import Succeeded
from rota.model.principal import LOCAL, SYSTEM
from rota.store.values import Cancelling
from tests.contracts.graphs import FAILURE, FINISH, NOBODY, SUCCESS, all_settled
from tests.contracts.world import ALICE, BOOM, DONE, FATAL, PLENTY, World, settled

# -- many -------------------------------------------------------------------------------------------------------------


async def test_a_fan_out_of_thousands_is_let_go_in_pieces(world: World) -> None:
    actor = await world.node()
    top = world.job()
    fan = [world.child(top.id) for _ in range(3_000)]
    await world.submit(top, *fan)
    await actor.run(DONE, top.id)
    await all_settled(world)
    claimed = await actor.claim()
    assert sorted(one.job_id for one in claimed) == sorted(job.id for job in fan)
    assert await actor.claim() == []


@pytest.mark.slow
async def test_a_fan_in_of_thousands_goes_on_after_the_last(world: World) -> None:
    actor = await world.node()
    fan = [world.job() for _ in range(3_000)]
    await world.submit(*fan, world.child(*(job.id for job in fan), task="last"))
    claimed = await actor.claim()
    assert len(claimed) == 3_000
    for start in range(0, 2_999, 500):
        await world.store.finish(SYSTEM, [settled(one, DONE) for one in claimed[start : min(start + 500, 2_999)]])
    await all_settled(world)
    assert await actor.claim() == []
    await actor.finish(claimed[-1])
    await all_settled(world)
    assert [one.task for one in await actor.claim()] == ["last"]


@pytest.mark.slow
async def test_a_child_of_thousands_that_have_ended(world: World) -> None:
    actor = await world.node()
    parents = await world.several(3_000)
    await world.store.finish(SYSTEM, [settled(one, DONE) for one in await actor.claim()])
    (child,) = await world.submit(world.child(*parents))
    await all_settled(world)
    assert await world.state(child) is State.READY


async def test_a_long_chain_runs_to_its_end(world: World) -> None:
    actor = await world.node()
    chain = [world.job()]
    for _ in range(299):
        chain.append(world.child(chain[-1].id))
    await world.submit(*chain)
    for job in chain:
        await actor.run(DONE, job.id)
    assert await actor.claim() == []


async def test_a_long_chain_is_skipped_to_its_end(world: World) -> None:
    actor = await world.node()
    chain = [world.job()]
    for _ in range(299):
        chain.append(world.child(chain[-1].id))
    await world.submit(*chain)
    await actor.run(FATAL, chain[0].id)
    await all_settled(world)
    assert set(await world.states(*(job.id for job in chain[1:]))) == {State.SKIPPED}
    await world.store.replay(LOCAL, [chain[0].id])
    assert set(await world.states(*(job.id for job in chain[1:]))) == {State.BLOCKED}


# -- settle -----------------------------------------------------------------------------------------------------------


async def left_over(world: World, parents: int, each: int, result: Any = DONE) -> list[str]:
    """More children than the writes that ended their parents looked after."""
    actor = await world.node()
    fathers = [world.job(queue="fathers") for _ in range(parents)]
    found = [world.child(father.id) for father in fathers for _ in range(each)]
    await world.submit(*fathers, *found)
    await world.store.finish(SYSTEM, [settled(one, result) for one in await actor.claim(queue="fathers")])
    return [job.id for job in found]


@pytest.mark.parametrize("result", [DONE, FATAL], ids=["met", "broken"])
async def test_small_steps_make_progress_until_nothing_is_left(world: World, result: Any) -> None:
    found = await left_over(world, 1, 800, result)
    seen = await world.settle(7)
    steps = 1
    while seen.unsettled:
        assert seen.moved
        seen = await world.settle(7)
        steps += 1
        assert steps < 200
    assert steps > 10
    aim = State.READY if result is DONE else State.SKIPPED
    assert {info.state for job, info in (await world.all()).items() if job in set(found)} == {aim}
    assert await world.settle(7) == await world.settle(PLENTY)
    assert not (await world.settle()).waiting


async def test_settle_says_what_it_moved_and_whether_someone_waits(world: World) -> None:
    assert await world.settle() == (await world.settle(1))
    seen = await world.settle()
    assert (seen.moved, seen.unsettled, seen.waiting) == (0, False, False)
    parent = await world.one()
    await world.submit(world.child(parent))
    seen = await world.settle()
    assert (seen.moved, seen.unsettled, seen.waiting) == (0, False, True)


async def test_what_is_left_is_told_even_if_something_was_skipped(world: World) -> None:
    """There is more than one look takes in, and the first that it meets breaks something."""
    actor = await world.node()
    fathers = [world.job() for _ in range(900)]
    await world.submit(*fathers, *(world.child(father.id, queue="children") for father in fathers))
    first, *others = await actor.claim()
    await world.store.finish(SYSTEM, [settled(first, FATAL), *(settled(one, DONE) for one in others)])
    looks = 0
    while (await world.settle(400)).unsettled:
        looks += 1
        assert looks < 50
    assert {info.state for info in (await world.all()).values() if info.queue == "children"} == {
        State.READY,
        State.SKIPPED,
    }
    assert world.backend.contents()["settling"] == []


@pytest.mark.slow
async def test_a_limit_counts_edges_so_that_a_write_stays_short(world: World) -> None:
    """A child with many parents that have ended: each write marks about as many edges as it was told."""
    actor = await world.node()
    parents = await world.several(3_000)
    (child,) = await world.submit(world.child(*parents))
    await world.store.finish(SYSTEM, [settled(one, DONE) for one in await actor.claim()])
    before = open_edges(world)
    while before:
        await world.settle(10)
        after = open_edges(world)
        assert before - after <= 20
        if before - after == 0 or after < 2_000:
            break
        before = after
    await all_settled(world)
    assert await world.state(child) is State.READY


def open_edges(world: World) -> int:
    return sum("open" in row for row in world.backend.contents("edges")["edges"])


# -- parents, as the child finds them ---------------------------------------------------------------------------------


async def test_a_child_finds_the_results_of_its_parents(world: World) -> None:
    actor = await world.node()
    one, two, three, four = (world.job(task=name) for name in ("a", "b", "c", "d"))
    after = (Edge(one.id), Edge(two.id, FINISH), Edge(three.id, FAILURE), Edge(four.id))
    child = world.job(after=after)
    await world.submit(one, two, three, four, child)
    await actor.run(Succeeded('{"rows": [1, 2]}'), one.id)
    await actor.run(FATAL, two.id)
    assert await world.store.parents(LOCAL, child.id) == [
        ParentInfo(one.id, "a", State.SUCCEEDED, SUCCESS, EdgeState.MET, {"rows": [1, 2]}),
        ParentInfo(two.id, "b", State.FAILED, FINISH, EdgeState.MET),
        ParentInfo(three.id, "c", State.READY, FAILURE, EdgeState.OPEN),
        ParentInfo(four.id, "d", State.READY, SUCCESS, EdgeState.OPEN),
    ]
    assert await world.store.parents(LOCAL, one.id) == []
    assert await world.store.parents(LOCAL, NOBODY) == []
    assert await world.store.parents(LOCAL, "no-such-job") == []
    assert await world.store.parents(ALICE, child.id) == []


async def test_the_result_is_that_of_the_attempt_that_succeeded(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    (child,) = await world.submit(world.child(parent))
    await actor.run(BOOM, parent)
    world.clock.advance(600)
    await world.promote()
    await actor.run(Succeeded('"second"'), parent)
    (info,) = await world.store.parents(LOCAL, child)
    assert info.result == "second"
    await world.store.replay(LOCAL, [parent], again=True)
    (info,) = await world.store.parents(LOCAL, child)
    assert (info.state, info.result) == (State.SCHEDULED, None)


# -- rows that someone wrote by hand ----------------------------------------------------------------------------------


def by_hand(world: World, *statements: str) -> None:
    with _connection(world.backend) as db:
        for statement in statements:
            db.execute(statement)


def _connection(backend: Any) -> Any:
    return backend.connection() if hasattr(backend, "connection") else backend._connection()


def edge_row(world: World, child: str, parent: str, standing: str = "open") -> str:
    at, value = (", at", ", 0") if hasattr(world.backend, "connection") else ("", "")
    return (
        f"INSERT INTO edges (child, parent, need, state{at}) "
        f"VALUES ('{child}', '{parent}', 'success', '{standing}'{value})"
    )


def settling_row(job: str) -> str:
    return f"INSERT INTO settling (job) VALUES ('{job}')"


async def test_rows_by_hand_stop_nobody_else(world: World) -> None:
    actor = await world.node()
    parent, other = await world.one(), await world.one()
    (fine,) = await world.submit(world.child(parent))
    (stuck,) = await world.submit(world.child(parent))
    (odd,) = await world.submit(world.child(other))
    by_hand(
        world,
        edge_row(world, NOBODY, parent),  # a child that does not exist
        edge_row(world, fine, NOBODY, "met"),  # a parent that does not exist
        settling_row(NOBODY),
        f"UPDATE jobs SET waits = 99 WHERE id = '{stuck}'",
        f"UPDATE jobs SET waits = 0 WHERE id = '{odd}'",
    )
    await actor.run(DONE, parent)
    await all_settled(world)
    assert await world.states(fine, stuck) == [State.READY, State.BLOCKED]
    await actor.run(DONE, other)
    await all_settled(world)
    assert await world.state(odd) is State.READY
    assert len(world.backend.contents()["settling"]) == 0
    assert await world.store.cancel(LOCAL, [stuck], "away with it") == [Cancelling.CANCELLED]


async def test_an_edge_from_nowhere_skips_its_child_when_someone_looks(world: World) -> None:
    parent = await world.one()
    (child,) = await world.submit(world.child(parent))
    by_hand(world, edge_row(world, child, NOBODY), settling_row(NOBODY))
    await all_settled(world)
    info = await world.info(child)
    assert (info.state, info.reason) == (State.SKIPPED, f"its parent {NOBODY} is gone")
