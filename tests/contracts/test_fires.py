"""Fires: each made once whoever does it, in one commit with the step of its schedule, and recorded if it is not."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY, HOUR, MINUTE, SECOND, aware, instant
from rota.model.trigger.identity import fire_id
from rota.model.trigger.plan import new_fires
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import Fate, FireInfo, FireKind, NewFire
from rota.model.trigger.rules import Every
from rota.model.trigger.skipped import Skipped, SkipReason
from rota.model.trigger.template import Template
from rota.store.base import Store
from rota.store.values import Retention
from tests.contracts.timetables import (
    NAME,
    backfill,
    behind,
    by_hand,
    fires_at,
    gone,
    history,
    keep,
    made,
    minutely,
    move_on,
    new,
    parsed,
    skipped,
    standing,
    step,
    tick,
)
from tests.contracts.world import ALICE, PLENTY, World, command

KEEP = 1_000 * DAY

# -- one step ---------------------------------------------------------------------------------------------------------


async def test_a_fire_is_a_job_like_any_other_with_an_id_of_its_own(world: World) -> None:
    template = Template(task="report", spec=command("report", "{fire_time}"), args='{"at": "{fire_time}"}', priority=2)
    info = await keep(world, template=template, who=ALICE)
    world.clock.advance(60)
    assert await move_on(world, who=ALICE) == [Fate.MADE]
    job = await world.info(fire_id("alice", NAME, info.handled + MINUTE))
    assert (job.owner, job.task, job.priority, job.state) == ("alice", "report", 2, State.READY)
    assert job.args == {"at": "2027-01-15T08:01:00+00:00"}
    assert (job.schedule, instant(job.fire_time)) == (NAME, info.handled + MINUTE)
    assert (instant(job.run_at), instant(job.created_at)) == (world.clock.now(), world.clock.now())


async def test_a_job_that_nobody_scheduled_says_so(world: World) -> None:
    job = await world.info(await world.one())
    assert (job.schedule, job.fire_time) == (None, None)


async def test_a_fire_that_is_to_run_later_waits_for_its_time(world: World) -> None:
    info = await keep(world)
    world.clock.advance(60)
    fire = info.handled + MINUTE
    later = [NewFire(fire, world.job(id=fire_id("local", NAME, fire), at=fire + 5 * SECOND))]
    assert await world.store.advance(SYSTEM, [step(info, fire, fires=later)]) == [[Fate.MADE]]
    job = await world.info(later[0].job.id)
    assert (job.state, instant(job.run_at), instant(job.fire_time)) == (State.SCHEDULED, fire + 5 * SECOND, fire)


async def test_a_step_moves_the_schedule_on(world: World) -> None:
    before = await keep(world)
    _, (job,) = await tick(world)
    info = await standing(world)
    fire = before.handled + MINUTE
    assert (info.handled, info.next_at, info.fired) == (world.clock.now(), fire + MINUTE, 1)
    assert (info.last_fire, info.last_job) == (fire, job)
    assert (info.revision, info.changed_at) == (before.revision, before.changed_at), "nobody has changed it"


async def test_the_job_runs_and_its_end_shows_in_the_history(world: World) -> None:
    info = await keep(world)
    actor = await world.node()
    _, (job,) = await tick(world)
    at = world.clock.now()
    await actor.run(job_id=job)
    fire = info.handled + MINUTE
    when, decided = aware(fire), aware(at)
    assert await history(world) == [
        FireInfo(fire=when, last=when, count=1, at=decided, kind=FireKind.RULE, job_id=job, state=State.SUCCEEDED)
    ]
    assert (await world.info(job)).fire_time == aware(fire)
    assert await world.store.purge(LOCAL, [job]) == [True]
    assert [(one.job_id, one.state) for one in await history(world)] == [(job, None)]


async def test_a_step_is_not_carried_out_before_its_time(world: World) -> None:
    info = await keep(world)
    world.clock.advance(59.999_999)
    async with world.unchanged():
        assert await world.store.advance(SYSTEM, [step(info, info.handled + MINUTE)]) == [None]
    world.clock.advance(0.000_001)
    assert await world.store.advance(SYSTEM, [step(info, info.handled + MINUTE)]) == [[Fate.MADE]]


async def test_a_step_twice_counts_once(world: World) -> None:
    info = await keep(world)
    world.clock.advance(60)
    one = step(info, info.handled + MINUTE)
    assert await world.store.advance(SYSTEM, [one]) == [[Fate.MADE]]
    async with world.unchanged():
        assert await world.store.advance(SYSTEM, [one]) == [None]
        world.clock.advance(60)
        assert await world.store.advance(SYSTEM, [one]) == [None], "though it is due once more"


@pytest.mark.parametrize("change", ["edited", "paused", "removed", "set aside", "removed and made again"])
async def test_a_step_that_was_worked_out_before_a_change_is_void(world: World, change: str) -> None:
    info = await keep(world)
    store, now = world.store, world.clock.now()
    match change:
        case "edited":
            await store.put_schedule(LOCAL, new(minutely(), now), info.revision)
        case "paused":
            await store.pause_schedule(LOCAL, NAME, "")
        case "set aside":
            await store.set_aside_schedule(SYSTEM, "local", NAME, info.revision, "why")
        case _:
            await store.remove_schedule(LOCAL, NAME, info.revision, info.handled, [])
            world.clock.advance(0.001)
            if change != "removed":
                await keep(world)
    world.clock.advance(60)
    async with world.unchanged():
        assert await store.advance(SYSTEM, [step(info, now + MINUTE)]) == [None]
    assert await world.all() == {}


async def test_a_step_with_another_cursor_is_void(world: World) -> None:
    info = await keep(world)
    world.clock.advance(60)
    async with world.unchanged():
        for off in (-1, 1):
            wrong = step(info, info.handled + MINUTE, before=info.handled + off)
            assert await world.store.advance(SYSTEM, [wrong]) == [None]


async def test_nothing_to_do_is_nothing(world: World) -> None:
    async with world.unchanged():
        assert await world.store.advance(SYSTEM, []) == []


async def test_each_step_of_a_call_stands_on_its_own(world: World) -> None:
    names = ["a", "b", "c", "d"]
    infos = [await keep(world, name, ALICE if name == "c" else LOCAL) for name in names]
    world.clock.advance(60)
    await world.store.pause_schedule(LOCAL, "b", "")
    answers = await world.store.advance(SYSTEM, [step(info, info.handled + MINUTE) for info in infos])
    assert answers == [[Fate.MADE], None, [Fate.MADE], [Fate.MADE]]
    assert {job.schedule for job in (await world.all()).values()} == {"a", "c", "d"}
    assert Counter(job.owner for job in (await world.all()).values()) == {"local": 2, "alice": 1}


async def test_a_schedule_that_is_named_twice_moves_on_once(world: World) -> None:
    info = await keep(world)
    world.clock.advance(120)
    fires = [info.handled + MINUTE, info.handled + 2 * MINUTE]
    answers = await world.store.advance(SYSTEM, [step(info, fires[0]), step(info, *fires)])
    assert answers == [[Fate.MADE], None]
    assert [fire for fire, _ in await made(world)] == fires[:1]
    assert (await standing(world)).fired == 1


async def test_a_void_step_does_not_spoil_another_of_the_same_schedule(world: World) -> None:
    old = await keep(world)
    await world.store.put_schedule(LOCAL, new(minutely(), world.clock.now()), old.revision)
    info = await standing(world)
    world.clock.advance(60)
    fire = info.handled + MINUTE
    assert await world.store.advance(SYSTEM, [step(old, fire), step(info, fire)]) == [None, [Fate.MADE]]


async def test_two_stores_at_once_make_each_fire_once(world: World, another: Store) -> None:
    infos = [await keep(world, f"s{n}") for n in range(20)]
    world.clock.advance(60)
    steps = [step(info, info.handled + MINUTE) for info in infos]
    stores = [world.store, another] * 3
    answers = await asyncio.gather(*(store.advance(SYSTEM, steps) for store in stores))
    for place in range(len(steps)):
        assert [one[place] for one in answers if one[place] is not None] == [[Fate.MADE]]
    assert len(await world.all()) == 20
    assert {(await standing(world, info.name)).fired for info in infos} == {1}


async def test_fires_by_hand_and_by_the_rule_at_once_are_all_made(world: World, another: Store) -> None:
    info = await keep(world)
    world.clock.advance(60)
    due, now = info.handled + MINUTE, world.clock.now()
    wishes = [NewFire(now + 1 + n, world.job()) for n in range(6)]
    rule = asyncio.gather(*(store.advance(SYSTEM, [step(info, due)]) for store in (world.store, another)))
    stores = [world.store, another] * 3
    hand = asyncio.gather(
        *(store.make_fires(LOCAL, NAME, FireKind.MANUAL, [wish]) for store, wish in zip(stores, wishes, strict=True))
    )
    answers, by_hand = await rule, await hand
    assert by_hand == [[Fate.MADE]] * 6
    if answers == [[None], [None]]:  # someone else was at it: the scheduler comes again
        await move_on(world)
    assert len(await made(world)) == 7


async def test_pausing_and_firing_at_once_have_an_order(world: World, another: Store) -> None:
    """Either the fire came first, or it was not made at all."""
    info = await keep(world)
    world.clock.advance(60)
    one = step(info, info.handled + MINUTE)
    (fates,), paused = await asyncio.gather(
        world.store.advance(SYSTEM, [one]), another.pause_schedule(LOCAL, NAME, "now")
    )
    assert paused
    after = await standing(world)
    assert len(await world.all()) == after.fired == (0 if fates is None else 1)
    if fates is None:
        assert await move_on(world) == []
        assert await skipped(world) == [(info.handled + MINUTE, info.handled + MINUTE, 1, "paused")]


# -- skips, limits ----------------------------------------------------------------------------------------------------


async def test_what_is_skipped_is_recorded_with_its_reason(world: World) -> None:
    info = await keep(world)
    world.clock.advance(600)
    first = info.handled + MINUTE
    skips = [
        Skipped(first, first + 3 * MINUTE, 4, SkipReason.NEWER),
        Skipped(first + 4 * MINUTE, first + 8 * MINUTE, None, SkipReason.PAUSED),
    ]
    one = step(info, first + 9 * MINUTE, skips=skips)
    assert await world.store.advance(SYSTEM, [one]) == [[Fate.MADE]]
    found = [
        (instant(one.fire), instant(one.last), one.count, one.reason, instant(one.at), one.kind)
        for one in await history(world)
    ]
    now = world.clock.now()
    assert found == [
        (first + 9 * MINUTE, first + 9 * MINUTE, 1, None, now, FireKind.RULE),
        (first + 4 * MINUTE, first + 8 * MINUTE, None, SkipReason.PAUSED, now, None),
        (first, first + 3 * MINUTE, 4, SkipReason.NEWER, now, None),
    ]
    assert (await standing(world)).fired == 1


async def test_a_step_that_makes_nothing_still_moves_the_cursor(world: World) -> None:
    info = await keep(world)
    world.clock.advance(60)
    assert await world.store.advance(SYSTEM, [step(info)]) == [[]]
    after = await standing(world)
    assert (after.handled, after.fired, after.last_fire) == (info.handled + MINUTE, 0, None)


async def test_after_its_last_fire_it_has_ended(world: World) -> None:
    await keep(world, limit=3)
    fates, _ = await tick(world, minutes=2)
    assert fates == [Fate.MADE] * 2
    assert (await standing(world)).next_at is not None
    assert (await tick(world))[0] == [Fate.MADE]
    info = await standing(world)
    assert (info.fired, info.next_at, info.broken) == (3, None, None)


async def test_what_was_skipped_does_not_use_up_the_limit(world: World) -> None:
    await keep(world, limit=2, overlap=Overlap.SKIP)
    assert (await tick(world))[0] == [Fate.MADE]
    assert (await tick(world))[0] == [Fate.SKIPPED]
    info = await standing(world)
    assert (info.fired, info.next_at) == (1, world.clock.now() + MINUTE)


# -- history ----------------------------------------------------------------------------------------------------------


async def test_the_history_comes_in_pages_latest_first(world: World) -> None:
    info = await keep(world)
    await tick(world, minutes=7)
    whole = [info.handled + n * MINUTE for n in range(7, 0, -1)]
    assert [instant(one.fire) for one in await history(world)] == whole
    assert [instant(one.fire) for one in await history(world, limit=3)] == whole[:3]
    assert [instant(one.fire) for one in await history(world, before=whole[2], limit=3)] == whole[3:6]
    assert await history(world, before=whole[-1]) == []
    assert await history(world, "another") == []


async def test_one_that_was_removed_and_kept_again_makes_no_fire_twice(world: World) -> None:
    """By its cursor it would, and even so: the record of the fire outlives the schedule."""
    before = await keep(world)
    _, jobs = await tick(world, minutes=2)
    info = await standing(world)
    assert await world.store.remove_schedule(LOCAL, NAME, info.revision, info.handled, [])
    assert await gone(world)
    assert [one.job_id for one in await history(world)] == jobs[::-1]
    world.clock.advance(60)
    assert await world.store.put_schedule(LOCAL, new(minutely(), before.handled), None)
    assert await move_on(world) == [Fate.ALREADY, Fate.ALREADY, Fate.MADE]
    assert len(await made(world)) == len(await world.all()) == 3
    assert [job for _, job in await made(world)][:2] == jobs


# -- wanted by people -------------------------------------------------------------------------------------------------


async def test_a_fire_by_hand_is_made_whatever_the_cursor_says(world: World) -> None:
    before = await keep(world)
    world.clock.advance(7)
    fate, job = await by_hand(world)
    info = await standing(world)
    assert fate is Fate.MADE
    assert (info.handled, info.next_at, info.fired, info.revision) == (
        before.handled, before.next_at, 0, before.revision,
    )  # fmt: skip
    assert (info.last_fire, info.last_job) == (world.clock.now(), job)
    assert (await world.info(job)).schedule == NAME
    assert [(instant(one.fire), one.kind, one.job_id) for one in await history(world)] == [
        (world.clock.now(), FireKind.MANUAL, job)
    ]


async def test_a_fire_by_hand_at_the_instant_of_another_changes_nothing(world: World) -> None:
    await keep(world)
    _, (job,) = await tick(world)
    async with world.unchanged():
        assert (await by_hand(world))[0] is Fate.ALREADY
    assert (await standing(world)).last_job == job


async def test_a_fire_by_hand_that_was_skipped_is_not_its_last_one(world: World) -> None:
    await keep(world, overlap=Overlap.SKIP)
    _, (job,) = await tick(world)
    world.clock.advance(7)
    assert (await by_hand(world))[0] is Fate.SKIPPED
    info = await standing(world)
    assert info.last_job == job, "the job of that fire does not exist"
    assert (await skipped(world))[-1][2:] == (1, "overlap")


async def test_a_backfill_makes_what_was_not_made(world: World) -> None:
    info = await keep(world)
    _, jobs = await tick(world, minutes=2)
    fates = await backfill(world, 3, 2, 1, 0)
    assert fates == [Fate.MADE, Fate.MADE, Fate.ALREADY, Fate.ALREADY]
    after = await standing(world)
    assert (after.fired, after.last_job, after.handled) == (2, jobs[-1], world.clock.now())
    kinds = [(instant(one.fire) - info.handled, one.kind) for one in await history(world)]
    assert kinds == [
        (2 * MINUTE, FireKind.RULE),
        (MINUTE, FireKind.RULE),
        (0, FireKind.BACKFILL),
        (-MINUTE, FireKind.BACKFILL),
    ]
    assert len(await world.all()) == 4
    async with world.unchanged():
        assert await backfill(world, 3, 2, 1, 0) == [Fate.ALREADY] * 4


async def test_what_was_made_up_for_before_the_rule_came_to_it_is_not_made_again(world: World) -> None:
    await keep(world)
    world.clock.advance(60)
    assert await backfill(world, 0) == [Fate.MADE]
    assert await move_on(world) == [Fate.ALREADY]
    assert len(await world.all()) == 1
    assert [one.kind for one in await history(world)] == [FireKind.BACKFILL]


async def test_a_fire_that_was_skipped_can_be_made_up_for(world: World) -> None:
    info = await keep(world)
    await world.store.pause_schedule(LOCAL, NAME, "")
    world.clock.advance(60)
    assert await move_on(world) == []
    assert await backfill(world, 0) == [Fate.MADE]
    assert [fire for fire, _ in await made(world)] == [info.handled + MINUTE]


async def test_of_a_schedule_that_is_not_there_nothing_is_made(world: World) -> None:
    info = await keep(world)
    fires = fires_at(info, info.handled)
    async with world.unchanged():
        for kind in (FireKind.MANUAL, FireKind.BACKFILL):
            assert await world.store.make_fires(LOCAL, "none", kind, fires) is None
        assert await world.store.make_fires(LOCAL, NAME, FireKind.BACKFILL, []) == []


async def test_a_large_backfill_through_two_stores_at_once_makes_each_fire_once(world: World, another: Store) -> None:
    info = await keep(world)
    fires = new_fires(parsed(info), [info.handled - n * MINUTE for n in range(300, 0, -1)], world.clock.now())
    answers = await asyncio.gather(
        *(store.make_fires(LOCAL, NAME, FireKind.BACKFILL, fires) for store in (world.store, another, world.store))
    )
    assert Counter(fate for one in answers for fate in one or []) == {Fate.MADE: 300, Fate.ALREADY: 600}
    assert len(await world.all()) == len(await made(world)) == 300


# -- pruned -----------------------------------------------------------------------------------------------------------


async def test_old_records_are_pruned_but_never_that_of_a_job_that_lives(world: World) -> None:
    actor = await world.node()
    info = await keep(world)
    _, jobs = await tick(world, minutes=2)
    await actor.run(job_id=jobs[0])
    skip = Skipped(world.clock.now() + MINUTE, world.clock.now() + MINUTE, 1, SkipReason.PAUSED)
    info = await standing(world)
    world.clock.advance(60)
    assert await world.store.advance(SYSTEM, [step(info, skips=[skip])]) == [[]]
    keep_all = Retention(KEEP, KEEP, KEEP, KEEP)
    world.clock.advance(3600)
    await world.store.prune(SYSTEM, keep_all, PLENTY)
    assert len(await history(world)) == 3
    for _ in range(3):
        await world.store.prune(SYSTEM, msgspec.structs.replace(keep_all, ended=HOUR // 2), PLENTY)
    assert [one.job_id for one in await history(world)] == [jobs[1]]
    assert (await world.info(jobs[1])).schedule == NAME


async def test_a_fire_whose_record_was_pruned_is_not_made_up_for_while_its_job_is_there(world: World) -> None:
    actor = await world.node()
    await keep(world)
    _, (job,) = await tick(world)
    await actor.run(job_id=job)
    behind(world, "DELETE FROM fires")
    assert await backfill(world, 0) == [Fate.ALREADY]
    assert set(await world.all()) == {job}


async def test_a_rule_that_names_other_times_makes_other_fires(world: World) -> None:
    info = await keep(world)
    await tick(world)
    await world.store.put_schedule(LOCAL, new(minutely(rule=Every(90 * SECOND)), world.clock.now()), info.revision)
    world.clock.advance(30)
    assert await move_on(world) == [Fate.MADE]
    assert [fire - info.handled for fire, _ in await made(world)] == [MINUTE, 90 * SECOND]
