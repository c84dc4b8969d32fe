"""Shelves: what is due is promoted, what is too late expires, what is old is pruned."""

from __future__ import annotations

import pytest

from rota.model.job import Submitted
from rota.model.lifecycle import INITIAL, State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY, HOUR, MINUTE, SECOND, instant
from rota.store.values import Position, Retention
from tests.contracts.shelves import stand
from tests.contracts.world import DONE, FATAL, GIVEN_UP, PLENTY, World

KEEP = 1_000 * DAY
ALL = Retention(KEEP, KEEP, KEEP, KEEP)
KEY_LIFE = 7 * DAY


# -- promote ----------------------------------------------------------------------------------------------------------


async def test_what_is_due_becomes_ready_not_a_microsecond_early(world: World) -> None:
    job_id = await world.one(delay=SECOND)
    due = world.clock.now() + SECOND
    world.clock.advance(0.999_999)
    async with world.unchanged():
        assert await world.store.promote(SYSTEM, 10) == (0, due)
    world.clock.advance(0.000_001)
    assert await world.store.promote(SYSTEM, 10) == (1, None)
    info = await world.info(job_id)
    assert (info.state, instant(info.run_at)) == (State.READY, due)


async def test_the_next_instant_is_the_earliest_of_all(world: World) -> None:
    now = world.clock.now()
    assert await world.store.promote(SYSTEM, 10) == (0, None)
    await world.one(delay=3 * SECOND)
    assert await world.store.promote(SYSTEM, 10) == (0, now + 3 * SECOND)
    await world.one(delay=HOUR)
    await world.one(delay=2 * SECOND)
    assert await world.store.promote(SYSTEM, 10) == (0, now + 2 * SECOND)
    await world.one(expires=SECOND)
    assert await world.store.promote(SYSTEM, 10) == (0, now + SECOND)
    world.clock.advance(2)
    assert await world.store.promote(SYSTEM, 10) == (2, now + 3 * SECOND)


async def test_the_longest_due_are_promoted_first_and_never_more_than_the_limit(world: World) -> None:
    jobs = [await world.one(delay=(10 - n) * SECOND) for n in range(5)]
    world.clock.advance(60)
    moved, upcoming = await world.store.promote(SYSTEM, 2)
    assert moved == 2
    assert upcoming is not None
    assert upcoming <= world.clock.now(), "there is more to do at once"
    assert await world.states(*reversed(jobs)) == [State.READY] * 2 + [State.SCHEDULED] * 3
    assert await world.store.promote(SYSTEM, 2) == (2, world.clock.now() - 50 * SECOND)
    assert await world.store.promote(SYSTEM, 2) == (1, None)
    assert await world.store.promote(SYSTEM, 2) == (0, None)


async def test_a_clock_that_is_set_back_promotes_nothing(world: World) -> None:
    await world.one(delay=MINUTE)
    world.clock.jump(-3600)
    assert await world.promote() == 0


@pytest.mark.parametrize("state", sorted(set(State) - {State.SCHEDULED}))
async def test_only_the_scheduled_is_promoted(world: World, state: State) -> None:
    await stand(world, await world.node(), state)
    world.clock.advance(60)
    async with world.unchanged():
        assert await world.promote() == 0


# -- expire -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(INITIAL))
async def test_what_has_not_started_by_its_expiry_is_given_up(world: World, state: State) -> None:
    ref = await stand(world, await world.node(), state)
    expiry = (await world.info(ref.job_id)).expires_at
    assert expiry is not None
    world.clock.advance((instant(expiry) - world.clock.now() - 1) / 1e6)
    await world.promote()
    assert (await world.info(ref.job_id)).state is (State.READY if state is State.SCHEDULED else state)
    world.clock.advance(1 / 1e6)
    assert await world.promote() == 1
    info = await world.info(ref.job_id)
    assert (info.state, info.reason, instant(info.finished_at)) == (State.CANCELLED, "expired", world.clock.now())
    assert (await world.store.promote(SYSTEM, 10)) == (0, None)


async def test_what_runs_does_not_expire(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(expires=SECOND)
    claimed = await actor.take()
    world.clock.advance(3600)
    assert await world.store.promote(SYSTEM, 10) == (0, None)
    await actor.finish(claimed)
    assert await world.state(job_id) is State.SUCCEEDED


async def test_what_is_both_due_and_expired_is_expired(world: World) -> None:
    """The store was down across the whole of its time."""
    job_id = await world.one(delay=SECOND, expires=SECOND)
    world.clock.advance(3600)
    assert await world.promote() == 1
    assert await world.state(job_id) is State.CANCELLED


async def test_no_more_expire_at_once_than_the_limit(world: World) -> None:
    await world.several(5, expires=SECOND)
    world.clock.advance(1)
    assert [(await world.store.promote(SYSTEM, 2))[0] for _ in range(4)] == [2, 2, 1, 0]


# -- prune ------------------------------------------------------------------------------------------------------------


async def prune(world: World, limit: int = PLENTY, **spans: int) -> int:
    retention = Retention(**{"ended": KEEP, "dead": KEEP, "events": KEEP, "nodes": KEEP, **spans})
    return await world.store.prune(SYSTEM, retention, limit)


async def test_what_ended_longer_ago_than_its_retention_goes(world: World) -> None:
    actor = await world.node()
    old = [await world.one() for _ in range(3)]
    for result in (DONE, GIVEN_UP, FATAL):
        claimed = await actor.take()
        await actor.say(claimed.ref, 0)
        await actor.finish(claimed, result)
    world.clock.advance(3600)
    young = await world.one()
    await actor.run(DONE, young)
    async with world.unchanged():
        assert await prune(world, ended=HOUR) == 0, "a whole hour old is not older than an hour"
    world.clock.advance(1 / 1e6)
    assert await prune(world, ended=HOUR) == 2
    assert set(await world.all()) == {old[2], young}
    assert await world.store.output(SYSTEM, old[0], Position(), 10) == []


async def test_dead_letters_have_a_retention_of_their_own(world: World) -> None:
    actor = await world.node()
    dead, ended = await world.several(2)
    await actor.run(FATAL, dead)
    await actor.run(DONE, ended)
    world.clock.advance(3600)
    assert await prune(world, dead=HOUR) == 0, "a whole hour old is not older than an hour"
    world.clock.advance(1 / 1e6)
    assert await prune(world, dead=HOUR) == 1
    assert set(await world.all()) == {ended}


async def test_what_lives_is_never_pruned(world: World) -> None:
    actor = await world.node()
    refs = [await stand(world, actor, state) for state in (State.SCHEDULED, State.BLOCKED, State.HELD, State.RUNNING)]
    refs.append(await stand(world, actor, State.READY))
    world.clock.advance(365 * 24 * 3600)
    async with world.unchanged():
        assert await prune(world, ended=0, dead=0, nodes=0) == 0
    assert len(await world.all()) == len(refs)


async def test_nothing_is_left_behind_of_what_was_pruned(world: World) -> None:
    actor = await world.node()
    before = {name: len(rows) for name, rows in world.backend.contents().items()}
    await world.several(5)
    for claimed in await actor.claim():
        await actor.say(claimed.ref, 0)
        await actor.finish(claimed)
    world.clock.advance(10)
    assert await prune(world, ended=SECOND) == 5
    after = {name: len(rows) for name, rows in world.backend.contents().items()}
    # Events and the audit (of orders by a key) have retentions of their own.
    assert after == before | {"outbox": before["outbox"] + 5, "audit": after["audit"]}


async def test_no_more_is_pruned_at_once_than_the_limit(world: World) -> None:
    actor = await world.node()
    ended, dead = await world.several(5), await world.several(5)
    for job in ended:
        await actor.run(DONE, job)
    for job in dead:
        await actor.run(FATAL, job)
    world.clock.advance(10)
    assert await prune(world, limit=2, ended=SECOND, dead=SECOND) == 4, "two of a kind"
    assert set(await world.all()) == {*ended[2:], *dead[2:]}, "the oldest first"
    assert [await prune(world, limit=2, ended=SECOND, dead=SECOND) for _ in range(3)] == [4, 2, 0]


async def test_large_output_takes_several_steps_and_every_step_tells_how_much_it_did(world: World) -> None:
    """A write stays short: jobs that said a lot may be pruned a few at a time, but not one of them is forgotten."""
    actor = await world.node()
    await world.several(4)
    for claimed in await actor.claim():
        await world.store.append_output(SYSTEM, [actor.chunk(claimed.ref, number, b"x") for number in range(200)])
        await actor.finish(claimed)
    world.clock.advance(10)
    left = 4
    while left:
        deleted = await prune(world, ended=SECOND)
        assert deleted >= 1
        assert len(await world.all()) == left - deleted
        left -= deleted
    assert await prune(world, ended=SECOND) == 0


async def test_a_key_lives_as_long_as_promised(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(key="k")
    await actor.run(DONE, job_id)
    world.clock.advance(KEY_LIFE / 1e6)
    assert await prune(world, ended=SECOND) == 1
    assert await world.store.submit(LOCAL, [[world.job(key="k")]]) == [[Submitted(job_id, False)]]
    world.clock.advance(1 / 1e6)
    assert await prune(world) == 1
    fresh = world.job(key="k", priority=1)
    assert await world.store.submit(LOCAL, [[fresh]]) == [[Submitted(fresh.id, True)]]


async def test_a_key_stays_while_its_job_lives(world: World) -> None:
    waiting = await world.one(key="k", delay=100 * DAY)
    world.clock.advance(30 * 24 * 3600)
    async with world.unchanged():
        assert await prune(world, ended=0) == 0
    again = world.job(key="k", delay=100 * DAY)
    assert await world.store.submit(LOCAL, [[again]]) == [[Submitted(waiting, False)]]


async def test_old_keys_go_a_few_at_a_time(world: World) -> None:
    actor = await world.node()
    await world.submit(*(world.job(key=f"k{n}") for n in range(5)))
    for claimed in await actor.claim():
        await actor.finish(claimed)
    world.clock.advance(KEY_LIFE / 1e6 + 1)
    assert [await prune(world, limit=2) for _ in range(4)] == [2, 2, 1, 0]


async def test_old_events_go(world: World) -> None:
    await world.node("old")
    world.clock.advance(3600)
    await world.node("new")
    world.clock.advance(1)
    assert await prune(world, events=HOUR) == 1
    assert [event.subject for event in await world.store.events(SYSTEM, 0, 10)] == ["new"]


async def test_old_nodes_go_but_never_living_ones(world: World) -> None:
    living, left, dead = await world.node("living"), await world.node("left"), await world.node("dead")
    await left.leave()
    await dead.die()
    world.clock.advance(3600)
    assert await prune(world, nodes=HOUR) == 0
    world.clock.advance(1)
    assert await prune(world, nodes=HOUR) == 2
    assert [node.id for node in await world.store.nodes(SYSTEM, past=True)] == [living.name]


async def test_history_outlives_the_node_that_made_it(world: World) -> None:
    actor = await world.node("box")
    job_id = await world.one()
    await actor.run(FATAL, job_id)
    await actor.leave()
    world.clock.advance(10)
    assert await prune(world, nodes=SECOND) == 1
    assert [attempt.node for attempt in (await world.info(job_id)).attempts] == ["box"]
