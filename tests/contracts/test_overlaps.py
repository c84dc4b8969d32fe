"""Fires while earlier ones of their schedule live: made beside them, skipped, queued, or put in their place."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from rota.model.lifecycle import State
from rota.model.outcome import Snoozed
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import MINUTE, SECOND, instant
from rota.model.trigger.plan import advance as next_step
from rota.model.trigger.plan import parse
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import Fate
from rota.model.trigger.template import Template
from rota.store.base import Store
from rota.store.values import Topic
from tests.contracts.timetables import (
    NAME,
    ORDER,
    backfill,
    by_hand,
    keep,
    minutely,
    move_on,
    new,
    skipped,
    standing,
    tick,
)
from tests.contracts.world import ALICE, DONE, FATAL, GIVEN_UP, Actor, World, command

MADE, QUEUED, SKIPPED = Fate.MADE, Fate.QUEUED, Fate.SKIPPED
READY, BLOCKED, RUNNING = State.READY, State.BLOCKED, State.RUNNING
CANCELLED, SUCCEEDED = State.CANCELLED, State.SUCCEEDED


async def release(world: World, limit: int = 100) -> tuple[int, int]:
    return await world.store.release(SYSTEM, limit)


# -- policies ---------------------------------------------------------------------------------------------------------


async def test_allow_makes_each_beside_the_others(world: World) -> None:
    await keep(world)
    fates, jobs = await tick(world, minutes=3)
    assert fates == [MADE] * 3
    assert await world.states(*jobs) == [READY] * 3
    assert await release(world) == (0, 0)


async def test_skip_makes_none_while_one_lives(world: World) -> None:
    actor = await world.node()
    info = await keep(world, overlap=Overlap.SKIP)
    fates, jobs = await tick(world, minutes=3)
    assert fates == [MADE, SKIPPED, SKIPPED], "of several at once the first is made"
    claimed = await actor.take(jobs[0])
    assert (await tick(world))[0] == [SKIPPED]
    await actor.finish(claimed)
    fates, last = await tick(world)
    assert fates == [MADE]
    assert set(await world.all()) == {jobs[0], last[0]}
    runs = [(first - info.handled, count, reason) for first, _, count, reason in await skipped(world)]
    assert runs == [(n * MINUTE, 1, "overlap") for n in (2, 3, 4)]
    after = await standing(world)
    assert (after.fired, after.last_job) == (2, last[0])


async def test_one_that_is_to_be_tried_again_still_lives(world: World) -> None:
    actor = await world.node()
    await keep(world, overlap=Overlap.SKIP)
    _, (job,) = await tick(world)
    await actor.run(Snoozed(10 * MINUTE, "not yet"), job)
    assert (await tick(world))[0] == [SKIPPED]


async def test_queue_makes_each_and_lets_one_run(world: World) -> None:
    await keep(world, overlap=Overlap.QUEUE)
    fates, jobs = await tick(world, minutes=3)
    assert fates == [MADE, QUEUED, QUEUED]
    assert await world.states(*jobs) == [READY, BLOCKED, BLOCKED]
    fates, more = await tick(world)
    assert fates == [QUEUED]
    info = await standing(world)
    assert (info.fired, info.last_job) == (4, more[0])


async def test_replace_cancels_what_waits_and_asks_what_runs_to_stop(world: World) -> None:
    actor = await world.node()
    await keep(world, overlap=Overlap.REPLACE)
    fates, (first,) = await tick(world)
    assert fates == [MADE]
    claimed = await actor.take(first)
    fates, (second,) = await tick(world)
    assert fates == [QUEUED], "until the old one is gone"
    (asked,) = (await actor.renew()).cancels
    assert asked[0] == claimed.ref
    assert await release(world) == (0, 1)
    fates, (third,) = await tick(world)
    assert fates == [QUEUED]
    assert await world.states(first, second, third) == [RUNNING, CANCELLED, BLOCKED]
    await actor.finish(claimed, FATAL)
    assert await release(world) == (1, 0)
    assert await world.states(second, third) == [CANCELLED, READY]
    assert await skipped(world) == []


async def test_replace_takes_the_place_of_one_that_has_not_started(world: World) -> None:
    await keep(world, overlap=Overlap.REPLACE)
    _, (first,) = await tick(world)
    fates, (second,) = await tick(world)
    assert fates == [QUEUED]
    assert await world.state(first) is CANCELLED
    assert await release(world) == (1, 0)
    assert await world.state(second) is READY


async def test_of_several_at_once_replace_makes_the_last(world: World) -> None:
    info = await keep(world, overlap=Overlap.REPLACE)
    fates, jobs = await tick(world, minutes=3)
    assert fates == [SKIPPED, SKIPPED, MADE]
    assert set(await world.all()) == {jobs[-1]}
    fates, more = await tick(world, minutes=2)
    assert fates == [SKIPPED, QUEUED]
    assert await world.states(jobs[-1], more[-1]) == [CANCELLED, BLOCKED]
    runs = [(first - info.handled, count, reason) for first, _, count, reason in await skipped(world)]
    assert runs == [(n * MINUTE, 1, "overlap") for n in (1, 2, 4)]


async def test_a_fire_by_hand_goes_by_the_same_policy(world: World) -> None:
    for overlap, fate in ((Overlap.ALLOW, MADE), (Overlap.SKIP, SKIPPED), (Overlap.QUEUE, QUEUED)):
        await keep(world, overlap.value, overlap=overlap)
        await tick(world, overlap.value)
        world.clock.advance(1)
        assert (await by_hand(world, overlap.value))[0] is fate


async def test_a_policy_that_is_new_counts_what_lives_from_before(world: World) -> None:
    info = await keep(world)
    _, jobs = await tick(world, minutes=2)
    await world.store.put_schedule(LOCAL, new(minutely(overlap=Overlap.SKIP), world.clock.now()), info.revision)
    assert (await tick(world))[0] == [SKIPPED]
    await world.store.cancel(LOCAL, jobs, "enough")
    assert (await tick(world))[0] == [MADE]


async def test_the_fires_of_others_are_no_obstacle(world: World) -> None:
    await keep(world, overlap=Overlap.SKIP)
    await keep(world, "another", overlap=Overlap.SKIP)
    await keep(world, who=ALICE, overlap=Overlap.SKIP)
    assert (await tick(world))[0] == [MADE]
    world.clock.advance(60)
    assert (await tick(world, "another"))[0] == [MADE, SKIPPED, SKIPPED]
    assert await move_on(world, who=ALICE) == [MADE, SKIPPED, SKIPPED]


async def test_a_fire_that_is_run_again_counts_as_alive(world: World) -> None:
    actor = await world.node()
    await keep(world, overlap=Overlap.SKIP)
    _, (job,) = await tick(world)
    await actor.run(FATAL, job)
    assert (await tick(world))[0] == [MADE]
    (other,) = await actor.claim()
    await actor.finish(other)
    assert await world.store.replay(LOCAL, [job]) == [True]
    assert (await tick(world))[0] == [SKIPPED]
    await world.promote()
    await actor.run(job_id=job)
    assert (await tick(world))[0] == [MADE]


# -- backfills --------------------------------------------------------------------------------------------------------


async def test_a_backfill_of_what_must_not_overlap_runs_one_after_the_other(world: World) -> None:
    for overlap in (Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE):
        await keep(world, overlap.value, overlap=overlap)
        assert await backfill(world, 3, 2, 1, name=overlap.value) == [MADE, QUEUED, QUEUED]
        assert await skipped(world, overlap.value) == []


async def test_a_backfill_of_what_may_overlap_runs_all_at_once(world: World) -> None:
    await keep(world)
    assert await backfill(world, 3, 2, 1) == [MADE] * 3


async def test_a_backfill_waits_for_what_lives(world: World) -> None:
    await keep(world, overlap=Overlap.REPLACE)
    _, (job,) = await tick(world)
    assert await backfill(world, 3, 2) == [QUEUED, QUEUED]
    assert await world.state(job) is READY, "nothing is replaced by what was long ago"


async def test_a_newer_fire_replaces_no_backfill_but_waits_for_it(world: World) -> None:
    await keep(world, overlap=Overlap.REPLACE)
    assert await backfill(world, 3, 2) == [MADE, QUEUED]
    before = set(await world.all())
    fates, (job,) = await tick(world)
    assert fates == [QUEUED]
    found = await world.all()
    assert Counter(found[one].state for one in before) == {READY: 1, BLOCKED: 1}
    assert found[job].state is BLOCKED


# -- released ---------------------------------------------------------------------------------------------------------


async def test_they_are_released_in_order_one_at_a_time(world: World) -> None:
    actor = await world.node()
    await keep(world, overlap=Overlap.QUEUE)
    _, jobs = await tick(world, minutes=4)
    for number in range(4):
        async with world.unchanged():
            assert (await release(world))[0] == 0, "one before it lives"
        claimed = await actor.take(jobs[number])
        assert (await release(world))[0] == 0
        await actor.finish(claimed, (DONE, FATAL, GIVEN_UP, DONE)[number])
        if number < 3:
            assert await release(world) == (1, int(number < 2)), "and how many schedules go on waiting"
    assert await release(world) == (0, 0)


async def test_what_is_released_is_in_line_as_if_it_had_come_now(world: World) -> None:
    actor = await world.node()
    await keep(world, overlap=Overlap.QUEUE)
    _, (first, second) = await tick(world, minutes=2)
    claimed = await actor.take(first)
    early = await world.one()
    world.clock.advance(600)
    await actor.finish(claimed)
    late = await world.one()
    world.clock.advance(1)
    assert await release(world) == (1, 0)
    assert await world.state(second) is READY
    world.clock.advance(1)
    latest = await world.one()
    assert [one.job_id for one in await actor.claim()] == [early, late, second, latest]


async def test_what_is_released_before_its_time_waits_for_it(world: World) -> None:
    """With jitter a fire may run some time after its instant."""
    actor = await world.node()
    await keep(world, overlap=Overlap.QUEUE, jitter=MINUTE)
    _, (first, second) = await tick(world, minutes=2)
    world.clock.advance(60)
    await world.promote()
    run_at = (await world.info(second)).run_at
    world.clock.jump(-60)
    await actor.run(job_id=first)
    assert instant(run_at) > world.clock.now()
    assert await release(world) == (1, 0)
    info = await world.info(second)
    assert (info.state, info.run_at) == (State.SCHEDULED, run_at)
    world.clock.advance(60)
    assert await world.promote() == 1
    await actor.run(job_id=second)


async def test_one_that_was_cancelled_while_it_waited_is_passed_over(world: World) -> None:
    actor = await world.node()
    await keep(world, overlap=Overlap.QUEUE)
    _, (first, second, third) = await tick(world, minutes=3)
    await world.store.cancel(LOCAL, [second], "not this one")
    await actor.run(job_id=first)
    assert await release(world) == (1, 0)
    assert await world.states(second, third) == [CANCELLED, READY]


async def test_when_all_that_waited_are_gone_nothing_waits(world: World) -> None:
    await keep(world, overlap=Overlap.QUEUE)
    _, (_, *rest) = await tick(world, minutes=3)
    await world.store.cancel(LOCAL, rest, "none of them")
    assert await release(world) == (0, 0)


async def test_one_that_expired_while_it_waited_is_passed_over(world: World) -> None:
    actor = await world.node()
    template = Template(task="true", spec=command(), expires=90 * SECOND)
    await keep(world, overlap=Overlap.QUEUE, template=template)
    _, (first, second) = await tick(world, minutes=2)
    claimed = await actor.take(first)
    _, (third,) = await tick(world)
    world.clock.advance(40)
    await world.promote()
    assert await world.state(second) is CANCELLED
    await actor.finish(claimed)
    await release(world)
    assert await world.state(third) is READY


async def test_one_schedule_that_goes_on_does_not_keep_the_others_waiting(world: World) -> None:
    actor = await world.node()
    for name in ("a", "b", "c"):
        await keep(world, name, overlap=Overlap.QUEUE)
    world.clock.advance(120)
    jobs = {name: (await tick(world, name, minutes=0))[1] for name in ("a", "b", "c")}
    claimed = {one.job_id: one for one in await actor.claim()}
    await actor.finish(claimed[jobs["c"][0]])
    assert await release(world, 1) == (1, 2), "the limit is about those that are let go"
    assert await world.state(jobs["c"][1]) is READY


async def test_no_more_schedules_than_the_limit_are_gone_through(world: World) -> None:
    actor = await world.node()
    for name in ("a", "b", "c"):
        await keep(world, name, overlap=Overlap.QUEUE)
    world.clock.advance(120)
    for name in ("a", "b", "c"):
        await tick(world, name, minutes=0)
    for claimed in await actor.claim():
        await actor.finish(claimed)
    assert await release(world, 2) == (2, 1)
    assert await release(world, 2) == (1, 0)


async def test_two_stores_at_once_release_each_once(world: World, another: Store) -> None:
    actor = await world.node()
    names = [f"s{n}" for n in range(10)]
    for name in names:
        await keep(world, name, overlap=Overlap.QUEUE)
    world.clock.advance(180)
    jobs = {name: (await tick(world, name, minutes=0))[1] for name in names}
    for claimed in await actor.claim():
        await actor.finish(claimed)
    answers = await asyncio.gather(*(store.release(SYSTEM, 100) for store in (world.store, another) * 3))
    assert sum(released for released, _ in answers) == 10
    for name in names:
        assert await world.states(*jobs[name]) == [SUCCEEDED, READY, BLOCKED]


async def test_what_waits_is_let_go_after_its_schedule_was_removed(world: World) -> None:
    actor = await world.node()
    await keep(world, overlap=Overlap.QUEUE)
    _, (first, second) = await tick(world, minutes=2)
    info = await standing(world)
    assert await world.store.remove_schedule(LOCAL, NAME, info.revision, info.handled, [])
    await actor.run(job_id=first)
    assert await release(world) == (1, 0)
    await actor.run(job_id=second)


async def test_what_waits_is_told_and_so_is_what_is_let_go(world: World) -> None:
    actor = await world.node()
    await keep(world, overlap=Overlap.QUEUE)
    heard: set[Topic] = set()
    ends = [world.store.listen(frozenset({topic}), lambda topic=topic: heard.add(topic)) for topic in Topic]  # type: ignore[misc]
    _, (first, second) = await tick(world, minutes=2)
    assert heard >= {Topic.READY, Topic.SCHEDULE}
    heard.clear()
    await actor.renew()
    assert Topic.SCHEDULE in heard, "for the case that the first news got lost"
    await actor.run(job_id=first)
    heard.clear()
    assert await release(world) == (1, 0)
    assert heard == {Topic.READY}
    await actor.run(job_id=second)
    for end in ends:
        end()


async def test_a_queue_that_becomes_another_policy_still_lets_go_what_waits(world: World) -> None:
    actor = await world.node()
    info = await keep(world, overlap=Overlap.QUEUE)
    _, (first, second) = await tick(world, minutes=2)
    wanted = new(minutely(overlap=Overlap.ALLOW), world.clock.now(), ORDER)
    assert await world.store.put_schedule(LOCAL, wanted, info.revision)
    fates, (third,) = await tick(world)
    assert fates == [MADE]
    for job in (first, third):
        await actor.run(job_id=job)
    await release(world)
    assert await world.state(second) is READY


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE])
@pytest.mark.slow
async def test_with_everything_at_once_no_two_fires_of_a_schedule_run(
    world: World, another: Store, overlap: Overlap
) -> None:
    names = [f"s{n}" for n in range(6)]
    for name in names:
        await keep(world, name, overlap=overlap)
    nodes = [await world.node(f"box{n}", store=store) for n, store in enumerate((world.store, another))]
    running: dict[str, str] = {}  # schedule: job
    ran = 0

    async def fire(store: Store) -> None:
        infos = [await standing(world, name) for name in names]
        await store.advance(SYSTEM, [next_step(info, parse(info), world.clock.now()) for info in infos])

    async def work(actor: Actor, turn: int) -> None:
        nonlocal ran
        for claimed in await actor.claim(2):
            info = await world.info(claimed.job_id)
            schedule = info.schedule or ""
            assert schedule not in running, f"{info.id} and {running[schedule]} of {schedule} run at once"
            running[schedule] = info.id
            await asyncio.sleep(0)
            if turn % 5 == 0:
                await world.store.cancel(LOCAL, [info.id], "enough")
            del running[schedule]
            ran += 1
            await actor.finish(claimed, FATAL if turn % 7 == 0 else DONE)

    for turn in range(12):
        world.clock.advance(60 if turn % 3 else 120)
        await asyncio.gather(
            fire(world.store), fire(another), *(work(actor, turn) for actor in nodes),
            world.store.release(SYSTEM, 3), another.release(SYSTEM, 100), by_hand(world, names[turn % 6]),
        )  # fmt: skip
    assert ran >= 6
    for _ in range(200):  # what is left runs one after the other
        await world.store.release(SYSTEM, 100)
        await asyncio.gather(*(work(actor, 1) for actor in nodes))
    assert await release(world) == (0, 0)
    left = Counter(info.state for info in (await world.all()).values())
    assert not {READY, BLOCKED, RUNNING} & set(left), left
