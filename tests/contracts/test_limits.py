"""Limits: never more holders of a key than it allows, never more starts in any window; and a freed key is used."""

from __future__ import annotations

import random

import pytest

from rota.model.job import Claimed, Verdict
from rota.model.lifecycle import State
from rota.model.limits import Key, Policy, Rate
from rota.model.principal import LOCAL, SYSTEM
from rota.model.retry import Retry
from rota.model.times import HOUR, MINUTE, SECOND, Instant, aware
from rota.model.trigger.template import Template
from tests.contracts.admission import (
    ENDS,
    HELD,
    READY,
    RUNNING,
    Walk,
    admitted,
    close,
    comes_back,
    drain,
    finish_all,
    holders,
    key_info,
    limit,
    most_within,
    mutex,
    names,
    needs,
    open_again,
    rated,
)
from tests.contracts.timetables import keep, tick
from tests.contracts.world import ALICE, BOB, BOOM, DONE, FATAL, GIVEN_UP, World, command

# -- how many hold it -------------------------------------------------------------------------------------------------


async def test_of_a_mutex_one_runs_at_a_time_by_rank(world: World) -> None:
    actor = await world.node()
    by_priority = {priority: await world.one(priority=priority, requirements=mutex("m")) for priority in (5, 9, 0, 7)}
    free = await world.one(priority=9)
    await admitted(world)  # the first to come was let go before the others came
    assert names(await actor.claim()) == [by_priority[0], free]
    assert await holders(world, "m") == [by_priority[0]]
    info = await key_info(world, "m")
    assert (info.waiting, info.concurrency, info.rate) == (3, None, None)
    assert {(await world.info(by_priority[p])).reason for p in (5, 7, 9)} == {"waits for key m"}
    (holder,) = info.holders
    assert (holder.node, holder.since) == (actor.name, aware(world.clock.now()))


@pytest.mark.parametrize("count", [1, 3, 10])
async def test_as_many_as_it_allows_and_in_order(world: World, count: int) -> None:
    actor = await world.node()
    jobs = await world.several(10, requirements=needs(Key("k", count)))
    found: list[str] = []
    while batch := await actor.claim():
        assert len(batch) == min(count, 10 - len(found))
        found += names(batch)
        await finish_all(actor, batch)
    assert found == jobs


async def test_all_keys_or_none(world: World) -> None:
    actor = await world.node()
    first = await world.one(requirements=mutex("a"))
    both = await world.one(requirements=mutex("a", "b"))
    last = await world.one(requirements=mutex("b"))
    claimed = await actor.claim()
    assert names(claimed) == [first, last]
    assert [await holders(world, key) for key in "ab"] == [[first], [last]]
    await actor.finish(claimed[0])
    assert (await actor.claim(), await holders(world, "a")) == ([], []), "it can't have b yet, and so takes nothing"
    await actor.finish(claimed[1])
    await admitted(world)
    assert names(await actor.claim()) == [both]
    assert [await holders(world, key) for key in "ab"] == [[both], [both]]


async def test_several_keys_never_lock_up(world: World) -> None:
    dice = random.Random(5)
    jobs = await world.submit(
        *(world.job(requirements=mutex(*dice.sample("abcd", dice.randint(1, 4)))) for _ in range(40))
    )
    assert sorted(await drain(world, await world.node())) == sorted(jobs)


async def test_keys_of_one_user_are_none_of_another(world: World) -> None:
    actor = await world.node()
    jobs = [await world.one(who, requirements=mutex("m")) for who in (ALICE, BOB)]
    assert names(await actor.claim()) == jobs
    assert [await holders(world, "m", who) for who in (ALICE, BOB)] == [[job] for job in jobs]
    assert {info.owner for info in await world.store.limits(SYSTEM)} == {"alice", "bob"}
    await limit(world, "m", 5, who=ALICE)
    more = [await world.one(who, requirements=mutex("m")) for who in (ALICE, BOB)]
    assert names(await actor.claim()) == more[:1]
    assert not await world.store.remove_limit(BOB, "m")


async def test_names_with_colons_and_the_like_stay_apart(world: World) -> None:
    odd = ["a:b", "a", "b", ":", "%", "k:", "ü \"'\\"]
    jobs = [await world.one(requirements=mutex(key)) for key in odd]
    assert names(await (await world.node()).claim()) == jobs
    assert sorted(info.key for info in await world.store.limits(LOCAL)) == sorted(odd)
    waiters = [await world.one(requirements=mutex(key)) for key in odd]
    assert await (await world.node()).claim() == []
    assert {info.key: info.waiting for info in await world.store.limits(LOCAL)} == dict.fromkeys(odd, 1)
    assert await world.states(*waiters) == [HELD] * len(odd)


async def test_those_that_need_keys_are_not_claimed_ahead(world: World) -> None:
    """They would hold them idle."""
    job, free = await world.one(requirements=mutex("m")), await world.one()
    actor = await world.node()
    assert names(await actor.claim(10, start=0)) == [free]
    assert await world.state(job) is READY


# -- whatever ends it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ENDS)
async def test_whatever_ends_it_the_best_of_the_line_goes_on_in_the_same_write(world: World, how: str) -> None:
    end, again = ENDS[how]
    holder, actor = await world.node(), await world.node()
    claimed = await holder.take(await world.one(requirements=mutex("m"), retry=Retry(retries=3)))
    second = await world.one(requirements=mutex("m"))
    best = await world.one(requirements=mutex("m"), priority=4)
    assert await actor.claim() == []
    await end(world, holder, claimed)
    assert await holders(world, "m") == []
    assert await world.states(best, second) == [READY, HELD], "nobody had to look after it"
    assert await drain(world, actor) == [best, *([claimed.job_id] if again else []), second]


async def test_one_that_was_let_go_and_is_cancelled_leaves_the_key_to_the_next(world: World) -> None:
    actor = await world.node()
    claimed = await actor.take(await world.one(requirements=mutex("m")))
    second, third = await world.several(2, requirements=mutex("m"))
    await actor.claim()
    await actor.finish(claimed)
    await world.store.cancel(LOCAL, [second], "enough")
    await admitted(world)
    assert names(await actor.claim()) == [third]


async def test_those_in_line_can_be_cancelled_expire_and_are_purged(world: World) -> None:
    actor = await world.node()
    claimed = await actor.take(await world.one(requirements=mutex("m")))
    first = await world.one(requirements=mutex("m"))
    mortal, last = await world.one(requirements=mutex("m"), expires=MINUTE), await world.one(requirements=mutex("m"))
    await actor.claim()
    await world.store.cancel(LOCAL, [first], "enough")
    world.clock.advance(61)
    await world.promote()
    assert await world.store.purge(LOCAL, [first, mortal]) == [True, True]
    await actor.finish(claimed)
    assert names(await actor.claim()) == [last]
    await actor.store.leave(SYSTEM, actor.incarnation)
    assert await holders(world, "m") == []


async def test_a_queue_that_nobody_serves_does_not_keep_the_key(world: World) -> None:
    actor = await world.node()
    claimed = await actor.take(await world.one(requirements=mutex("m")))
    stuck = await world.one(requirements=mutex("m"), queue="nobody's", priority=0)
    free = await world.one(requirements=mutex("m"))
    neighbour = await world.node()
    await neighbour.claim(queue="nobody's")  # it was there, and is gone
    await actor.claim()
    assert await world.states(stuck, free) == [HELD, HELD]
    await actor.finish(claimed)
    for _ in range(3):
        await world.store.admit(SYSTEM, 1_000)
    assert await world.state(stuck) is READY
    assert names(await actor.claim()) == [free]


# -- set by a person --------------------------------------------------------------------------------------------------


async def test_a_limit_that_is_raised_lets_more_in_at_once(world: World) -> None:
    actor = await world.node()
    jobs = await world.several(6, requirements=mutex("m"))
    first = await actor.claim()
    await limit(world, "m", 4)
    assert names(await actor.claim()) == jobs[1:4]
    info = await key_info(world, "m")
    assert (info.concurrency, len(info.holders), info.waiting) == (4, 4, 2)
    await finish_all(actor, first)
    assert names(await actor.claim()) == jobs[4:5]


async def test_a_limit_that_is_lowered_holds_as_attempts_end(world: World) -> None:
    actor = await world.node()
    await limit(world, "m", 4)
    jobs = await world.several(8, requirements=needs(Key("m")))
    running = await actor.claim()
    assert len(running) == 4
    await limit(world, "m", 2)
    for one in running[:2]:
        assert await actor.claim() == []
        await actor.finish(one)
    assert await actor.claim() == []
    await finish_all(actor, running[2:])
    assert names(await actor.claim()) == jobs[4:6]


async def test_a_limit_that_is_removed_leaves_what_jobs_bring_along(world: World) -> None:
    actor = await world.node()
    await limit(world, "a", 1)
    await limit(world, "b", 1)
    await world.several(3, requirements=mutex("a"))
    await world.several(3, requirements=needs(Key("b")))
    assert len(await actor.claim()) == 2
    assert [await world.store.remove_limit(LOCAL, key) for key in "abc"] == [True, True, False]
    claimed = await actor.claim()
    assert len(claimed) == 2, "b has no bound any more"
    assert (await key_info(world, "a")) is not None


async def test_what_a_person_sets_wins_also_over_stricter_bounds(world: World) -> None:
    await limit(world, "m", rate=Rate(3, MINUTE))
    jobs = await world.several(5, requirements=mutex("m"))
    assert names(await (await world.node()).claim()) == jobs[:3]


async def test_a_bound_counts_those_that_hold_the_key_without_any(world: World) -> None:
    actor = await world.node()
    jobs = await world.several(2, requirements=needs(Key("k")))
    running = await actor.claim()
    assert names(running) == jobs
    await limit(world, "k", 2)
    late = await world.one(requirements=needs(Key("k")))
    assert await actor.claim() == []
    await actor.finish(running[0])
    assert names(await actor.claim()) == [late]


# -- when it is full --------------------------------------------------------------------------------------------------


async def test_skip(world: World) -> None:
    actor = await world.node()
    first, second = await world.several(2, requirements=mutex("m", policy=Policy.SKIP))
    (claimed,) = await actor.claim()
    info = await world.info(second)
    assert (claimed.job_id, info.state, info.reason) == (first, State.SKIPPED, "key m was taken")
    await actor.finish(claimed)
    third = await world.one(requirements=mutex("m", policy=Policy.SKIP))
    assert names(await actor.claim()) == [third]


async def test_replace_ends_the_waiting_and_asks_the_running_to_stop(world: World) -> None:
    actor = await world.node()
    replacing = mutex("m", policy=Policy.REPLACE)
    first = await actor.take(await world.one(requirements=replacing))
    second = await world.one(requirements=replacing)
    assert await actor.claim() == []
    third = await world.one(requirements=replacing)
    assert await actor.claim() == []
    info = await world.info(second)
    assert (info.state, info.reason) == (State.CANCELLED, f"replaced by job {third}")
    assert [ref.job_id for ref, _ in (await actor.renew()).cancels] == [first.job_id]
    assert await actor.finish(first, BOOM) is Verdict.APPLIED
    assert await world.state(first.job_id) is State.CANCELLED
    assert names(await actor.claim()) == [third]


@pytest.mark.parametrize("together", [True, False])
async def test_replace_of_many_leaves_the_last(world: World, together: bool) -> None:
    actor = await world.node()
    running = await actor.take(await world.one(requirements=mutex("m", policy=Policy.REPLACE)))
    jobs = await world.several(5, requirements=mutex("m", policy=Policy.REPLACE))
    for _ in range(5 if not together else 1):
        assert await actor.claim(1 if not together else 10) == []
    assert await world.states(*jobs) == [State.CANCELLED] * 4 + [HELD]
    await actor.finish(running, GIVEN_UP)
    assert names(await actor.claim()) == jobs[-1:]


async def test_replace_never_cancels_a_newer_one(world: World) -> None:
    actor = await world.node()
    replacing = mutex("m", policy=Policy.REPLACE)
    older = await world.one(requirements=replacing, delay=MINUTE)
    world.clock.advance(1)
    newer = await actor.take(await world.one(requirements=replacing))
    newest = await world.one(requirements=mutex("m"), priority=9)
    world.clock.advance(60)
    await world.promote()
    assert await actor.claim() == []
    assert (await actor.renew()).cancels == ()
    assert await world.states(newer.job_id, newest) == [RUNNING, HELD]
    assert await actor.finish(newer) is Verdict.APPLIED
    assert await world.state(newer.job_id) is State.SUCCEEDED
    assert await world.state(older) in (HELD, READY, State.CANCELLED)


# -- rates ------------------------------------------------------------------------------------------------------------


async def test_tokens_come_back_exactly_when_the_window_is_over(world: World) -> None:
    actor = await world.node()
    jobs = await world.several(7, requirements=rated(3, 10 * SECOND))
    claimed = await actor.claim()
    assert names(claimed) == jobs[:3]
    assert {one.slack for one in claimed} == {comes_back(0, 10 * SECOND) - 10 * SECOND}
    back = comes_back(world.clock.now(), 10 * SECOND)
    await finish_all(actor, claimed)
    assert (await admitted(world)).next_at == back
    await limit(world, "r", rate=Rate(3, 10 * SECOND))
    info = await key_info(world, "r")
    assert (info.next_start, info.waiting) == (aware(back), 4)
    world.clock.advance((back - world.clock.now() - 1) / SECOND)
    await admitted(world)
    assert await actor.claim() == []
    world.clock.advance(0.000001)
    await admitted(world)
    assert names(await actor.claim()) == jobs[3:6]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
async def test_never_more_starts_than_allowed_in_any_window(world: World, seed: int) -> None:
    dice = random.Random(seed)
    count, window = dice.randint(1, 5), dice.choice([SECOND, 3 * SECOND, 20 * SECOND])
    requirements = needs(Key("r", None, Rate(count, window)), Key("c", 4))
    actor = await world.node()
    await world.several(60, requirements=requirements)
    starts: list[Instant] = []
    running: list[Claimed] = []
    while len(starts) < 60:
        world.clock.advance(dice.choice([0, 0, window / 7, window / 3, window / count]) / SECOND)
        await admitted(world)
        batch = await actor.claim(dice.randint(1, 10))
        starts += [world.clock.now()] * len(batch)
        running += batch
        assert len(running) <= 4
        while running and dice.random() < 0.7:
            await actor.finish(running.pop(dice.randrange(len(running))), DONE if dice.random() < 0.5 else FATAL)
    assert most_within(starts, window) <= count
    assert starts[-1] - starts[0] <= 60 / count * window * 3, "and it is used"


async def test_a_rate_that_is_changed_counts_from_now_on(world: World) -> None:
    actor = await world.node()
    jobs = await world.several(9, requirements=rated(2, MINUTE))
    began = world.clock.now()
    await finish_all(actor, await actor.claim())
    await limit(world, "r", rate=Rate(5, MINUTE))
    await admitted(world)
    assert names(await actor.claim()) == jobs[2:5], "two of the five are used up"
    await limit(world, "r", rate=Rate(5, 10 * SECOND))
    world.clock.advance((comes_back(began, 10 * SECOND) - world.clock.now()) / SECOND)
    await admitted(world)
    assert names(await actor.claim()) == jobs[5:9]
    await limit(world, "r", rate=Rate(1, HOUR))
    last = await world.one(requirements=rated(2, MINUTE))
    world.clock.advance(100)
    await admitted(world)
    assert (await actor.claim(), await world.state(last)) == ([], HELD)


async def test_a_retry_is_a_start_too(world: World) -> None:
    actor = await world.node()
    job = await world.one(requirements=rated(1, HOUR), retry=Retry(retries=3))
    await actor.run(BOOM, job)
    world.clock.advance(1800)
    await world.promote()
    assert (await actor.claim(), await world.state(job)) == ([], HELD)
    world.clock.advance(1801)
    await admitted(world)
    await actor.take(job)


async def test_a_key_with_both_bounds(world: World) -> None:
    actor = await world.node()
    jobs = await world.several(5, requirements=needs(Key("k", 1, Rate(2, MINUTE))))
    for job in jobs[:2]:
        (claimed,) = await actor.claim()
        assert (claimed.job_id, await actor.claim()) == (job, [])
        await actor.finish(claimed)
    await admitted(world)
    assert await actor.claim() == []
    world.clock.advance(62)
    await admitted(world)
    assert names(await actor.claim()) == jobs[2:3]


# -- with all the rest ------------------------------------------------------------------------------------------------


async def test_the_fires_of_a_schedule_bring_their_keys_along(world: World) -> None:
    await keep(world, template=Template(task="true", spec=command(), requirements=mutex("report")))
    _, jobs = await tick(world, minutes=3)
    actor = await world.node()
    await world.promote()
    for job in jobs:
        (claimed,) = await actor.claim()
        assert (claimed.job_id, [key.name for key in (await world.info(job)).keys]) == (job, ["report"])
        await actor.finish(claimed)


async def test_a_gate_before_the_key(world: World) -> None:
    actor = await world.node()
    gate = await close(world, task="gated")
    gated, free = (
        await world.one(requirements=mutex("m"), task="gated", priority=0),
        await world.one(requirements=mutex("m")),
    )
    await actor.claim()
    await admitted(world)
    claimed = await actor.take(free)
    await open_again(world, gate)
    assert await actor.claim() == []
    await actor.finish(claimed)
    assert names(await actor.claim()) == [gated]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
async def test_a_walk_that_never_holds_more_than_it_may_and_loses_nobody(world: World, seed: int) -> None:
    walk = await Walk.begin(world, seed)
    for _ in range(150):
        await walk.step()
        await walk.check()
    await walk.end()
