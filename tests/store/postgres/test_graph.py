"""Jobs that wait for others, with many connections at once: no release is lost, none comes twice, nobody waits."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import asyncpg
import pytest

from rota.clock import Chance, ManualClock
from rota.model.graph import Edge, EdgeState, Need, is_unneeded
from rota.model.job import NewJob, Verdict
from rota.model.lifecycle import TERMINAL, State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.retry import Retry
from rota.store.postgres import PostgresStore
from rota.store.values import Topic
from tests.contracts.world import DONE, FATAL, Actor, World, settled
from tests.servers.postgres import shared_server
from tests.store.postgres.backends import Postgres
from tests.store.postgres.graphs import all_settled, end, stuck, transaction, within
from tests.store.postgres.ranking import Place, until

PATIENCE = 20.0  # seconds; whoever waits for a lock that nobody gives up waits for ever
ROUNDS = 60


@pytest.fixture
async def world(place: Place, backend: Postgres, chance: Chance) -> World:
    """By the server's clock, as callers' own transactions go."""
    return World(await place.store(), backend, ManualClock(time.time_ns() // 1_000), chance)


@pytest.fixture
async def second(world: World, place: Place) -> PostgresStore:
    return await place.store()


# -- orders inside a caller's transaction -----------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [False, True], ids=["for the first child", "with other children"])
async def test_an_open_transaction_does_not_hold_up_the_end_of_a_parent(world: World, place: Place, tied: bool) -> None:
    actor = await world.node()
    parent = await world.one()
    if tied:
        (before,) = await world.submit(world.child(parent))
    claimed = await actor.take(parent)
    child = world.child(parent)
    async with transaction(place) as connection:
        await within(place, connection, child)
        await end(actor, claimed)
        await all_settled(world)
        if tied:
            assert await world.state(before) is State.READY
    await all_settled(world)
    assert await world.state(child.id) is State.READY


async def test_nor_other_orders_for_the_same_parent(world: World, place: Place) -> None:
    parent = await world.one()
    async with transaction(place) as one, transaction(place) as two, asyncio.timeout(PATIENCE):
        await within(place, one, world.child(parent))
        await within(place, two, world.child(parent))
        await world.submit(world.child(parent))


async def test_nor_a_skip_that_comes_past_its_parent(world: World, place: Place) -> None:
    actor = await world.node()
    top = await world.one()
    (middle,) = await world.submit(world.child(top))
    (other,) = await world.submit(world.child(middle))
    claimed = await actor.take(top)
    child = world.child(middle)
    async with transaction(place) as connection:
        await within(place, connection, child)
        await end(actor, claimed, FATAL)
        await all_settled(world)
        assert await world.states(middle, other) == [State.SKIPPED, State.SKIPPED]
    await all_settled(world)
    assert await world.state(child.id) is State.SKIPPED


async def test_nor_if_nobody_is_to_be_woken(world: World, place: Place) -> None:
    actor = await world.node()
    parent = await world.one()
    claimed = await actor.take(parent)
    async with transaction(place) as connection:
        await within(place, connection, world.child(parent), ring=False)
        await end(actor, claimed)


async def test_the_commit_wakes_the_resolver(world: World, place: Place) -> None:
    woken = asyncio.Event()
    stop = world.store.listen(frozenset({Topic.TIES}), woken.set)
    parent = await world.one()
    async with transaction(place) as connection:
        await within(place, connection, world.child(parent))
        await world.settle()
        assert not woken.is_set()
    async with asyncio.timeout(10):
        await woken.wait()
    stop()


@pytest.mark.parametrize("result", [DONE, FATAL], ids=["met", "broken"])
async def test_what_is_committed_after_its_parent_was_looked_after_is_not_forgotten(
    world: World, place: Place, result: Any
) -> None:
    """The parent stood on the list already, and is taken off it before the edge can be seen."""
    actor = await world.node()
    parent = await world.one()
    crowd = await world.submit(*(world.child(parent) for _ in range(700)))
    await actor.run(result, parent)
    assert place.value("SELECT count(*) FROM settling") > 0
    child = world.child(parent)
    async with transaction(place) as connection:
        await within(place, connection, child)
        await all_settled(world)
    await all_settled(world)
    assert await world.state(crowd[-1]) is await world.state(child.id)
    assert await world.state(child.id) is (State.READY if result is DONE else State.SKIPPED)


async def test_what_is_rolled_back_leaves_nothing(world: World, place: Place) -> None:
    parent = await world.one()
    async with world.unchanged():
        connection = await asyncpg.connect(place.url.partition("?")[0])
        change = connection.transaction()
        await change.start()
        await within(place, connection, world.child(parent))
        await change.rollback()
        await connection.close()


# -- at the same moment -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.slow
async def test_parents_that_end_in_the_same_moment(world: World, second: PostgresStore, count: int) -> None:
    actor = await world.node()
    for _ in range(ROUNDS):
        parents = await world.several(count)
        (child,) = await world.submit(world.child(*parents, queue="children"))
        claimed = await actor.claim(count)
        stores = [world.store, second] * count
        verdicts = await asyncio.gather(*(
            store.finish(SYSTEM, [settled(one, DONE)]) for store, one in zip(stores, claimed, strict=False)
        ))  # fmt: skip
        assert verdicts == [[Verdict.APPLIED]] * count
        await all_settled(world)
        (run,) = await actor.claim(queue="children")
        assert (run.job_id, run.fence) == (child, 1)
        await actor.finish(run)


@pytest.mark.slow
async def test_one_met_and_one_broken_in_the_same_moment(world: World, second: PostgresStore) -> None:
    actor = await world.node()
    for _ in range(ROUNDS):
        parents = await world.several(2)
        (child,) = await world.submit(world.child(*parents))
        (below,) = await world.submit(world.child(child))
        one, two = await actor.claim()
        await asyncio.gather(
            world.store.finish(SYSTEM, [settled(one, DONE)]), second.finish(SYSTEM, [settled(two, FATAL)])
        )
        await all_settled(world)
        assert await world.states(child, below) == [State.SKIPPED, State.SKIPPED]


@pytest.mark.parametrize("result", [DONE, FATAL], ids=["met", "broken"])
@pytest.mark.slow
async def test_a_child_that_comes_while_its_parent_ends(world: World, second: PostgresStore, result: Any) -> None:
    actor = await world.node()
    for number in range(ROUNDS):
        parent = await world.one()
        if number % 2:
            await world.submit(world.child(parent, queue="siblings"))
        claimed = await actor.take(parent)
        child = world.child(parent, queue="children")
        _, answers = await asyncio.gather(actor.finish(claimed, result), second.submit(LOCAL, [[child]]))
        assert isinstance(answers[0], list)
        await all_settled(world)
        assert await world.state(child.id) is (State.READY if result is DONE else State.SKIPPED)


async def test_parents_that_are_cancelled_and_end_in_the_same_moment(world: World, second: PostgresStore) -> None:
    actor = await world.node()
    for _ in range(ROUNDS // 2):
        parents = await world.several(3)
        (child,) = await world.submit(world.child(*parents, need=Need.FINISH, queue="children"))
        claimed = await actor.take()
        await asyncio.gather(second.cancel(LOCAL, parents, "no"), actor.finish(claimed))
        await all_settled(world)
        assert set(await world.states(*parents)) <= TERMINAL
        (run,) = await actor.claim(queue="children")
        assert run.job_id == child
        await actor.finish(run)


async def test_orders_that_name_the_same_parents_don_t_lock_up(world: World, second: PostgresStore) -> None:
    parents = await world.several(40)
    before = len(shared_server().log())
    for number in range(10):
        mixed = random.Random(number)
        orders = [world.job(after=tuple(map(Edge, mixed.sample(parents, 30)))) for _ in range(8)]
        await asyncio.gather(*(
            store.submit(LOCAL, [[job]]) for store, job in zip([world.store, second] * 4, orders, strict=True)
        ))  # fmt: skip
    assert "deadlock" not in shared_server().log()[before:]


# -- what is in someone else's hands ----------------------------------------------------------------------------------


async def test_a_child_that_someone_holds_is_left_and_seen_to_later(world: World, place: Place) -> None:
    actor = await world.node()
    parent = await world.one()
    held, free = await world.submit(world.child(parent), world.child(parent))
    claimed = await actor.take(parent)
    rung: list[int] = []
    stop = world.store.listen(frozenset({Topic.TIES}), lambda: rung.append(1))
    async with transaction(place) as connection:
        await connection.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", held)
        await end(actor, claimed)
        assert rung, "there is something left"
        assert await world.states(held, free) == [State.BLOCKED, State.READY]
        assert (await world.settle()).unsettled
    stop()
    await all_settled(world)
    assert await world.state(held) is State.READY


async def test_a_parent_that_someone_holds_is_tied_later(world: World, place: Place) -> None:
    actor = await world.node()
    parent = await world.one()
    async with transaction(place) as connection, asyncio.timeout(PATIENCE):
        await connection.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", parent)
        (child,) = await world.submit(world.child(parent))
    await actor.run(DONE, parent)
    await all_settled(world)
    assert await world.state(child) is State.READY


@pytest.mark.xfail(strict=True, reason="a look takes in the first 200 on the list, whether or not they can be moved")
async def test_those_that_are_held_don_t_keep_all_others_waiting(world: World, place: Place) -> None:
    actor = await world.node()
    parents = await world.several(250)
    held = await world.submit(*(world.child(parent, queue="held") for parent in parents))
    claimed = await actor.claim()
    async with transaction(place) as connection:
        await connection.execute("SELECT FROM jobs WHERE id = ANY($1::uuid[]) FOR UPDATE", held)
        await world.store.finish(SYSTEM, [settled(one, DONE) for one in claimed])
        late = await world.one()
        run = await actor.take(late)
        child = world.child(late)
        async with transaction(place) as caller:
            await within(place, caller, child)
            await end(actor, run)
        for _ in range(5):
            await world.settle()
        assert await world.state(child.id) is State.READY


# -- replays ----------------------------------------------------------------------------------------------------------


async def broken_family(world: World, actor: Actor) -> tuple[str, str, str, str]:
    """Of two parents one has failed, so the child was skipped, while the other was still at it. (Its end is not looked
    after yet: there is another child that somebody holds.)"""
    failed, other = await world.several(2)
    child, sibling = world.child(failed, other), world.child(other)
    if child.id > sibling.id:
        child, sibling = world.job(id=sibling.id, after=child.after), world.job(id=child.id, after=sibling.after)
    await world.submit(child, sibling)
    await actor.run(FATAL, failed)
    assert await world.state(child.id) is State.SKIPPED
    return failed, other, child.id, sibling.id


async def goes_on(world: World, actor: Actor, failed: str, child: str) -> None:
    await all_settled(world)
    await world.promote()
    while await world.state(failed) is not State.SUCCEEDED:
        await actor.run(DONE)
    await all_settled(world)
    assert await world.state(child) is State.READY


async def test_a_child_that_is_reopened_while_the_end_of_another_parent_is_settled(
    world: World, second: PostgresStore, place: Place
) -> None:
    """The settling has marked the child's edge and is held up at another: the replay must not count on its list."""
    actor = await world.node()
    failed, other, child, sibling = await broken_family(world, actor)
    async with transaction(place) as connection:
        await connection.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", child)
        await connection.execute("SELECT FROM edges WHERE child = $1 FOR UPDATE", sibling)
        run = await actor.take(other)
        finishing = asyncio.create_task(actor.finish(run))
        await until(lambda: stuck(place))
        replaying = asyncio.create_task(second.replay(LOCAL, [failed]))
        await asyncio.sleep(0.2)
    assert await finishing is Verdict.APPLIED
    assert await replaying == [True]
    await goes_on(world, actor, failed, child)


async def test_the_same_with_an_end_that_stands_on_the_list(world: World, second: PostgresStore, place: Place) -> None:
    actor = await world.node()
    failed, other, child, sibling = await broken_family(world, actor)
    with place.connect() as db:
        db.execute("UPDATE jobs SET tied = false WHERE id = %s", (other,))
    await actor.run(DONE, other)
    with place.connect() as db:
        db.execute("INSERT INTO settling (job) VALUES (%s)", (other,))
    async with transaction(place) as connection:
        await connection.execute("SELECT FROM edges WHERE child = $1 FOR UPDATE", sibling)
        settling = asyncio.create_task(world.settle())
        await until(lambda: stuck(place))
        replaying = asyncio.create_task(second.replay(LOCAL, [failed]))
        await asyncio.sleep(0.2)
    await settling
    assert await replaying == [True]
    await goes_on(world, actor, failed, child)


async def test_a_settling_that_meets_a_replay_half_done(world: World, second: PostgresStore, place: Place) -> None:
    """The replay has reopened the child's edges and not committed: they must not be marked without counting."""
    actor = await world.node()
    failed, other, child, _ = await broken_family(world, actor)
    with place.connect() as db:
        db.execute("UPDATE jobs SET tied = false WHERE id = %s", (other,))
    await actor.run(DONE, other)
    with place.connect() as db:
        db.execute("INSERT INTO settling (job) VALUES (%s)", (other,))
    async with transaction(place) as connection:
        # What a replay does last: it waits for this lock.
        await connection.execute("LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
        replaying = asyncio.create_task(second.replay(LOCAL, [failed]))
        await until(lambda: stuck(place))
        settling = asyncio.create_task(world.settle())
        await asyncio.sleep(0.2)
    assert await replaying == [True]
    await settling
    await goes_on(world, actor, failed, child)


@pytest.mark.slow
async def test_replays_of_both_parents_at_once(world: World, second: PostgresStore) -> None:
    actor = await world.node()
    for _ in range(ROUNDS // 2):
        parents = await world.several(2)
        (child,) = await world.submit(world.child(*parents, queue="children"))
        for one in await actor.claim():
            await actor.finish(one, FATAL)
        assert await world.state(child) is State.SKIPPED
        first, other, _ = await asyncio.gather(
            world.store.replay(LOCAL, [parents[0]]), second.replay(LOCAL, [parents[1]]), world.settle()
        )
        assert (first, other) == ([True], [True])
        await all_settled(world)
        await world.promote()
        one, two = await actor.claim()
        await actor.finish(one)
        await all_settled(world)
        assert await actor.claim(queue="children") == []
        await actor.finish(two)
        await all_settled(world)
        (run,) = await actor.claim(queue="children")
        await actor.finish(run)


# -- everything at once -----------------------------------------------------------------------------------------------


async def carry_on(actor: Actor, mixed: random.Random, busy: asyncio.Event) -> None:
    while not busy.is_set():
        for one in await actor.claim(mixed.randint(1, 5)):
            await actor.finish(one, mixed.choice((DONE, DONE, DONE, FATAL)))
        await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_at_once_the_end_makes_sense(world: World, place: Place, seed: int) -> None:
    """Several nodes, orders, cancels, replays, callers' transactions and resolvers, on one growing graph."""
    mixed, over = random.Random(seed), asyncio.Event()
    actors = [await world.node(store=await place.store()) for _ in range(3)]
    jobs: list[NewJob] = []

    def more(count: int) -> list[NewJob]:
        for _ in range(count):
            parents = sorted({job.id for job in mixed.sample(jobs, min(len(jobs), mixed.randint(0, 4)))})
            after = tuple(Edge(parent, mixed.choice(tuple(Need))) for parent in parents)
            jobs.append(world.job(after=after, retry=Retry(0)))
        return jobs[-count:]

    async def people() -> None:
        for number in range(60):
            new = more(mixed.randint(1, 6))
            if number % 4:
                await world.submit(*new)
            else:
                async with transaction(place) as connection:
                    await within(place, connection, *new)
                    await asyncio.sleep(0.01)
            some = [job.id for job in mixed.sample(jobs, min(len(jobs), 3))]
            if number % 5 == 0:
                await world.store.cancel(LOCAL, some, "no")
            if number % 3 == 0:
                await world.store.replay(LOCAL, some, again=bool(number % 2))
            await world.promote()

    async def resolve() -> None:
        while not over.is_set():
            await world.settle(mixed.choice((1, 5, 100)))
            await asyncio.sleep(0.002)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for actor in actors:
            group.create_task(carry_on(actor, random.Random(seed), over))
        group.create_task(resolve())
        await people()
        over.set()
    for _ in range(200):
        await all_settled(world)
        await world.promote()
        if not [await actors[0].finish(one) for one in await actors[0].claim()]:
            break
    infos = await world.all()
    lively = {job: info.state for job, info in infos.items() if info.state not in TERMINAL}
    assert not lively, "all that could end has ended"
    for job, info in infos.items():
        edges = await world.store.parents(LOCAL, job)
        assert all(one.edge is not EdgeState.OPEN for one in edges)
        if info.state is State.SKIPPED:
            unneeded = is_unneeded((one.need, one.edge) for one in edges)
            assert unneeded or EdgeState.BROKEN in {one.edge for one in edges}
        if info.state in (State.SUCCEEDED, State.FAILED):
            clear = {one.need for one in edges if one.edge is not EdgeState.MET}
            assert clear <= {Need.TROUBLE}
            assert not is_unneeded((one.need, one.edge) for one in edges)
    assert place.value("SELECT count(*) FROM settling") == 0
