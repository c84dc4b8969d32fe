"""What a hot tier asks of a store: jobs promoted by id, pages of scheduled jobs, and wake-ups that others carry."""

from __future__ import annotations

import random

import pytest

from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import HOUR, MINUTE, SECOND, Instant, instant
from rota.store.base import Store
from rota.store.hints import ScheduledJob
from rota.store.values import Topic
from tests.contracts.shelves import stand
from tests.contracts.test_wakeups import Alarm, Ears
from tests.contracts.world import ALICE, PLENTY, World

KNOWN_TO_NOBODY = "01900000-0000-7000-8000-000000000001"
# None of them is the id of a job.
NO_IDS = [
    "", "x", "0" * 32, "01900000-0000-7000-8000-00000000000G", "'; DROP TABLE jobs; --", "%", "\0", "\ud800", "{}",
    KNOWN_TO_NOBODY, "\N{ARABIC-INDIC DIGIT ZERO}1900000-0000-7000-8000-000000000001", "9" * 9999,
]  # fmt: skip


# -- jobs promoted by id ----------------------------------------------------------------------------------------------


async def test_due_jobs_become_ready_by_id_not_a_microsecond_early(world: World) -> None:
    job_id, other = await world.one(delay=SECOND), await world.one(ALICE, delay=SECOND)
    due = world.clock.now() + SECOND
    world.clock.advance(0.999_999)
    async with world.unchanged():
        assert await world.store.promote_jobs(SYSTEM, [job_id, other]) == 0
    world.clock.advance(0.000_001)
    assert await world.store.promote_jobs(SYSTEM, [other, job_id]) == 2
    for job in (job_id, other):
        info = await world.info(job)
        assert (info.state, instant(info.run_at)) == (State.READY, due)
    assert await world.store.promote(SYSTEM, PLENTY) == (0, None)


async def test_a_job_that_was_promoted_by_id_is_like_one_that_was_promoted(world: World) -> None:
    by_id, among_all = await world.several(2, delay=SECOND)
    world.clock.advance(2)
    assert await world.store.promote_jobs(SYSTEM, [by_id]) == 1
    assert await world.promote() == 1
    one, other = await world.info(by_id), await world.info(among_all)
    assert (one.state, one.run_at, one.attempts) == (other.state, other.run_at, other.attempts)
    actor = await world.node()
    assert [claimed.job_id for claimed in await actor.claim()] == [by_id, among_all]


async def test_only_those_that_were_asked_for_are_promoted(world: World) -> None:
    first, second, later = await world.one(delay=1), await world.one(delay=1), await world.one(delay=HOUR)
    world.clock.advance(1)
    assert await world.store.promote_jobs(SYSTEM, [second, later, second]) == 1
    assert await world.states(first, second, later) == [State.SCHEDULED, State.READY, State.SCHEDULED]
    async with world.unchanged():
        assert await world.store.promote_jobs(SYSTEM, [second]) == 0, "a repeat changes nothing"


async def test_what_has_expired_is_left_to_the_promoter(world: World) -> None:
    job_id = await world.one(delay=SECOND, expires=SECOND)
    world.clock.advance(2)
    async with world.unchanged():
        assert await world.store.promote_jobs(SYSTEM, [job_id]) == 0
    await world.promote()
    assert await world.state(job_id) is State.CANCELLED


@pytest.mark.parametrize("state", sorted(set(State) - {State.SCHEDULED}))
async def test_only_the_scheduled_is_promoted_by_id(world: World, state: State) -> None:
    await stand(world, await world.node(), state)
    world.clock.advance(60)
    jobs = list(await world.all())
    async with world.unchanged():
        assert await world.store.promote_jobs(SYSTEM, jobs) == 0


async def test_cancelled_purged_and_put_off_jobs_stay_where_they_are(world: World) -> None:
    cancelled, purged = await world.several(2, delay=SECOND)
    await world.store.cancel(LOCAL, [cancelled, purged], "why")
    await world.store.purge(LOCAL, [purged])
    world.clock.advance(2)
    async with world.unchanged():
        assert await world.store.promote_jobs(SYSTEM, [cancelled, purged]) == 0


async def test_texts_that_are_no_ids_keep_nobody_from_being_promoted(world: World) -> None:
    job_id = await world.one(delay=SECOND)
    async with world.unchanged():
        assert await world.store.promote_jobs(SYSTEM, NO_IDS) == 0
    world.clock.advance(1)
    assert await world.store.promote_jobs(SYSTEM, [*NO_IDS, job_id, *NO_IDS]) == 1


async def test_a_clock_that_is_set_back_promotes_nothing_by_id(world: World) -> None:
    job_id = await world.one(delay=SECOND)
    world.clock.jump(-3600)
    assert await world.store.promote_jobs(SYSTEM, [job_id]) == 0


async def test_a_promotion_by_id_wakes_workers(world: World, another: Store) -> None:
    job_id = await world.one(delay=SECOND)
    ears, alarm = Ears(world.store), Alarm(another, Topic.READY)
    assert await world.store.promote_jobs(SYSTEM, [job_id]) == 0
    assert ears.heard == set()
    world.clock.advance(1)
    assert await world.store.promote_jobs(SYSTEM, [job_id]) == 1
    assert ears.heard == {Topic.READY}
    await alarm.next()
    alarm.end()
    ears.end()


# -- pages of scheduled jobs ------------------------------------------------------------------------------------------


async def walk(world: World, begin: ScheduledJob, until: Instant, limit: int) -> list[ScheduledJob]:
    found: list[ScheduledJob] = []
    while True:
        page = await world.store.scheduled_jobs(SYSTEM, found[-1] if found else begin, until, limit)
        assert len(page) <= limit
        found += page
        if len(page) < limit:
            return found


@pytest.mark.parametrize("limit", [1, 3, 7, PLENTY])
async def test_a_walk_finds_each_scheduled_job_once_in_order(world: World, limit: int) -> None:
    now = world.clock.now()
    delays = [random.Random(7).randrange(1, 6) * SECOND for _ in range(25)]  # many at one instant
    jobs = await world.submit(*(world.job(delay=delay) for delay in delays))
    expected = sorted(ScheduledJob(now + delay, job) for delay, job in zip(delays, jobs, strict=True))
    assert await walk(world, ScheduledJob(now, ""), now + HOUR, limit) == expected
    assert await walk(world, expected[9], now + HOUR, limit) == expected[10:]
    until = now + 3 * SECOND
    assert await walk(world, expected[9], until, limit) == [one for one in expected[10:] if one.at <= until]


async def test_a_walk_begins_anywhere_and_ends_at_its_bound(world: World) -> None:
    now, ask = world.clock.now(), world.store.scheduled_jobs
    (job,) = await world.submit(world.job(delay=SECOND))
    there = ScheduledJob(now + SECOND, job)
    assert await ask(SYSTEM, ScheduledJob(now, ""), now + SECOND, 10) == [there]
    assert await ask(SYSTEM, ScheduledJob(now, ""), now + SECOND - 1, 10) == []
    assert await ask(SYSTEM, there, now + HOUR, 10) == []
    assert await ask(SYSTEM, ScheduledJob(there.at, "0" * 8 + job[8:]), now + HOUR, 10) == [there]
    assert await ask(SYSTEM, ScheduledJob(there.at, "f" * 8 + job[8:]), now + HOUR, 10) == []
    assert await ask(SYSTEM, ScheduledJob(there.at + 1, ""), now + HOUR, 10) == []
    assert await ask(SYSTEM, ScheduledJob(now + HOUR, ""), now, 10) == []
    for text in NO_IDS:
        if text != KNOWN_TO_NOBODY:
            assert await ask(SYSTEM, ScheduledJob(there.at, text), now + HOUR, 10) == [there]


@pytest.mark.parametrize("state", sorted(set(State) - {State.SCHEDULED}))
async def test_only_scheduled_jobs_are_listed(world: World, state: State) -> None:
    await stand(world, await world.node(), state)
    hers = await world.one(ALICE, delay=MINUTE)
    states = dict(zip(jobs := list(await world.all()), await world.states(*jobs), strict=True))
    found = await walk(world, ScheduledJob(0, ""), world.clock.now() + 100 * HOUR, PLENTY)
    assert {one.id for one in found} == {job for job, its in states.items() if its is State.SCHEDULED} >= {hers}


# -- wake-ups that others carry ---------------------------------------------------------------------------------------


async def test_what_came_another_way_wakes_this_process_alone(world: World, another: Store) -> None:
    ears, other = Ears(world.store), Ears(another)
    world.store.heard({Topic.NEWS, Topic.DEAF})
    assert ears.heard == {Topic.NEWS, Topic.DEAF}
    assert other.heard == set()
    ears.end()
    other.end()


async def test_any_topics_can_be_told(world: World, another: Store) -> None:
    ears, alarm = Ears(world.store), Alarm(another, Topic.DEAF)
    await world.store.tell({Topic.DEAF})
    assert ears.heard == {Topic.DEAF}
    await alarm.next()
    alarm.end()
    ears.end()


async def test_whoever_carries_wake_ups_keeps_them_from_nobody_of_this_process(world: World) -> None:
    ears = Ears(world.store)
    world.store.carry_wakes(lambda topics: True)
    await world.one()
    assert ears.heard == {Topic.READY}
    ears.end()


def test_a_store_brings_no_services_of_its_own(store: Store) -> None:
    assert list(store.services(lambda: True)) == []


async def test_due_times_are_those_of_the_scheduled_jobs_among_these(world: World) -> None:
    now = world.clock.now()
    soon, later, unasked = [await world.one(delay=delay) for delay in (SECOND, HOUR, MINUTE)]
    ready, cancelled = await world.one(), await world.one(delay=SECOND)
    await world.store.cancel(LOCAL, [cancelled], "stop")
    async with world.unchanged():
        found = await world.store.due_times(SYSTEM, [later, ready, cancelled, soon, soon, *NO_IDS])
        assert sorted(found) == [ScheduledJob(now + SECOND, soon), ScheduledJob(now + HOUR, later)]
        assert await world.store.due_times(SYSTEM, []) == []
        assert await world.store.due_times(SYSTEM, NO_IDS) == []
    assert unasked
