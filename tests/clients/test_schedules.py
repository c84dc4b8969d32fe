"""What people do with schedules: every change at one instant, nothing made twice, nothing lost without a record."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from rota.clients import schedules as module
from rota.clients.schedules import MANY, PAGE, BackfillProgress, Saved, SchedulesClient
from rota.errors import InvalidInput, NotFound
from rota.model.job import Spec
from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY, HOUR, MINUTE, SECOND, Instant, aware, instant
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.policies import CatchUp, Missed, Overlap
from rota.model.trigger.reading import read_schedule
from rota.model.trigger.records import Fate, FireKind, StoredSchedule
from rota.model.trigger.rules import Cron, Every, Times
from rota.model.trigger.schedule import Timing
from rota.model.trigger.template import Template
from tests.contracts.timetables import ORDER, behind, events, made, minutely, move_on, skipped, standing
from tests.contracts.world import ALICE, World

OTHER = Template(task="false", spec=Spec.command(["false"]))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "A_MOMENT", 0)


@pytest.fixture
def planning(world: World) -> SchedulesClient:
    return SchedulesClient(world.store, LOCAL, world.chance)


def one(**changes: Any) -> Timing:
    return minutely("s", **changes)


async def save(planning: SchedulesClient, **changes: Any) -> StoredSchedule:
    return (await planning.save(one(**changes), ORDER)).info


async def backfill(planning: SchedulesClient, start: Instant, end: Instant, **options: bool) -> list[BackfillProgress]:
    return [progress async for progress in planning.backfill("s", start, end, **options)]


# -- saving -----------------------------------------------------------------------------------------------------------


async def test_one_that_is_new_fires_from_now_on(world: World, planning: SchedulesClient) -> None:
    saved = await planning.save(one(), ORDER)
    assert saved == Saved(await planning.get("s"), created=True, changed=True)
    assert (saved.info.handled, saved.info.next_at) == (world.clock.now(), world.clock.now() + MINUTE)


async def test_the_same_again_changes_nothing(world: World, planning: SchedulesClient) -> None:
    info = await save(planning)
    world.clock.advance(7)
    async with world.unchanged():
        assert await planning.save(one(), ORDER) == Saved(info, created=False, changed=False)


async def test_an_rrule_without_a_beginning_stays_the_same_on_another_day(
    world: World, planning: SchedulesClient
) -> None:
    """Else each start of an app would move it."""
    await planning.save(read_schedule("local", "s", {"rrule": "FREQ=WEEKLY"}, world.clock.now()), ORDER)
    world.clock.advance(100_000)
    again = read_schedule("local", "s", {"rrule": "FREQ=WEEKLY"}, world.clock.now())
    assert not (await planning.save(again, ORDER)).changed


@pytest.mark.parametrize("what", ["times", "order", "policy"])
async def test_something_else_takes_its_place(world: World, planning: SchedulesClient, what: str) -> None:
    before = await save(planning)
    world.clock.advance(7)
    schedule = {"times": one(rule=Every(HOUR)), "order": one(), "policy": one(overlap=Overlap.SKIP)}[what]
    saved = await planning.save(schedule, OTHER if what == "order" else ORDER)
    assert (saved.created, saved.changed) == (False, True)
    assert saved.info.revision > before.revision
    assert saved.info.handled == world.clock.now()


async def test_one_that_must_not_be_replaced_is_not(world: World, planning: SchedulesClient) -> None:
    await save(planning)
    async with world.unchanged():
        with pytest.raises(InvalidInput, match=r"schedule: 's'.*free"):
            await planning.save(one(rule=Every(HOUR)), ORDER, replace=False)


@pytest.mark.parametrize(("stands", "comes"), [("billing", None), (None, "billing"), ("billing", "mail")])
async def test_the_name_of_another_app_is_refused(
    world: World, planning: SchedulesClient, stands: str | None, comes: str | None
) -> None:
    await planning.save(one(), ORDER, app=stands)
    async with world.unchanged():
        with pytest.raises(InvalidInput, match=r"schedule: 's'.*free"):
            await planning.save(one(rule=Every(HOUR)), ORDER, app=comes)


async def test_one_that_would_never_fire_is_refused(world: World, planning: SchedulesClient) -> None:
    past = one(rule=Times((world.clock.now() - SECOND,)))
    async with world.unchanged():
        with pytest.raises(InvalidInput, match=r"^rule: "):
            await planning.save(past, ORDER)
    await planning.save(past, ORDER, app="billing")  # an app must start though a time in its code has passed


async def test_a_calendar_that_is_not_there_is_refused(world: World, planning: SchedulesClient) -> None:
    async with world.unchanged():
        with pytest.raises(InvalidInput, match=r"calendar: 'holidays'"):
            await save(planning, exclude=("holidays",))


async def test_what_was_due_under_the_old_rule_is_made_before_the_new_one_takes_hold(
    world: World, planning: SchedulesClient
) -> None:
    before = await save(planning)
    world.clock.advance(150)
    saved = await planning.save(one(rule=Every(HOUR)), OTHER)
    fires = await made(world, "s")
    assert [fire for fire, _ in fires] == [before.handled + MINUTE, before.handled + 2 * MINUTE]
    assert [(await world.info(job or "")).task for _, job in fires] == ["true", "true"], "as it stood"
    assert (saved.info.handled, saved.info.fired) == (world.clock.now(), 2)


async def test_a_pause_outlives_an_edit(world: World, planning: SchedulesClient) -> None:
    before = await save(planning)
    await planning.pause("s", "holidays")
    world.clock.advance(90)
    info = (await planning.save(one(rule=Every(HOUR)), ORDER)).info
    assert (info.paused, info.note) == (True, "holidays")
    assert await skipped(world, "s") == [(before.handled + MINUTE, before.handled + MINUTE, 1, "paused")]


async def test_edits_at_once_all_find_their_moment(world: World, planning: SchedulesClient) -> None:
    await save(planning)
    rules = [Every(n * HOUR) for n in range(1, 6)]
    saved = await asyncio.gather(*(planning.save(one(rule=rule), ORDER) for rule in rules))
    assert all(answer.changed for answer in saved)
    info = await planning.get("s")
    assert (await planning.parsed(info)).schedule.rule in rules
    assert [kind for kind, *_ in await events(world)] == ["schedule.saved"] * 6


async def test_one_that_makes_no_sense_can_be_replaced_at_any_time(world: World, planning: SchedulesClient) -> None:
    await save(planning)
    behind(world, "UPDATE schedules SET timing = '{'")
    world.clock.advance(90)  # it is due, and no scheduler has looked at it yet
    info = (await planning.save(one(), ORDER)).info
    assert (info.broken, info.next_at) == (None, world.clock.now() + 30 * SECOND)


# -- pausing ----------------------------------------------------------------------------------------------------------


async def test_what_falls_into_a_pause_is_skipped_and_not_made_up_for(world: World, planning: SchedulesClient) -> None:
    before = await save(planning, catch_up=CatchUp(Missed.ALL))
    paused = await planning.pause("s", "holidays")
    assert (paused.paused, paused.note, paused.paused_by) == (True, "holidays", "local")
    world.clock.advance(200)
    info = await planning.resume("s")
    assert not info.paused
    first = before.handled + MINUTE
    assert await skipped(world, "s") == [(first, first + 2 * MINUTE, 3, "paused")]
    assert await world.all() == {}
    world.clock.advance(40)
    assert await move_on(world, "s") == [Fate.MADE]


async def test_one_that_is_not_paused_is_resumed_without_a_trace(world: World, planning: SchedulesClient) -> None:
    info = await save(planning)
    async with world.unchanged():
        assert await planning.resume("s") == info


async def test_what_fell_into_a_pause_stays_skipped_though_it_was_set_aside_meanwhile(
    world: World, planning: SchedulesClient
) -> None:
    await save(planning, rule=Every(HOUR), catch_up=CatchUp(Missed.ALL))
    info = await planning.pause("s")
    await world.store.set_aside_schedule(SYSTEM, "local", "s", info.revision, "no such zone on that node")
    world.clock.advance(3 * 3600 + 60)
    assert not (await planning.resume("s")).paused
    if (await standing(world, "s")).next_at == world.clock.now():
        await move_on(world, "s")
    assert await world.all() == {}, "nothing fires that fell into a pause"
    assert [(count, reason) for _, _, count, reason in await skipped(world, "s")] == [(3, "paused")]


async def test_one_that_still_makes_no_sense_is_not_resumed(world: World, planning: SchedulesClient) -> None:
    info = await save(planning)
    await world.store.set_aside_schedule(SYSTEM, "local", "s", info.revision, "why")
    behind(world, "UPDATE schedules SET work = 'x'")
    async with world.unchanged():
        with pytest.raises(InvalidInput, match="order of the schedule"):
            await planning.resume("s")


@pytest.mark.parametrize("deed", ["pause", "resume", "remove", "get", "fire", "upcoming", "history"])
async def test_one_that_is_not_there_is_not_found(world: World, planning: SchedulesClient, deed: str) -> None:
    more = {"upcoming": [3], "history": [3]}.get(deed, [])
    hers = SchedulesClient(world.store, ALICE, world.chance)
    await hers.save(minutely("s", ALICE), ORDER)
    async with world.unchanged():
        with pytest.raises(NotFound, match="schedule 's'"):
            await getattr(planning, deed)("s", *more)


# -- removing ---------------------------------------------------------------------------------------------------------


async def test_what_was_due_when_it_is_removed_is_skipped_and_recorded(world: World, planning: SchedulesClient) -> None:
    before = await save(planning)
    world.clock.advance(130)
    await planning.remove("s")
    first = before.handled + MINUTE
    assert await skipped(world, "s") == [(first, first + MINUTE, 2, "removed")]
    assert await world.all() == {}
    assert len(await planning.history("s", 10)) == 1, "its history stays"


async def test_jobs_that_it_made_stay(world: World, planning: SchedulesClient) -> None:
    await save(planning)
    _, job = await planning.fire("s")
    await planning.remove("s")
    assert await world.state(job) is State.READY


@pytest.mark.parametrize("text", ["timing = '{'", "work = 'x'", "timing = replace(timing, '\"s\"', '\"t\"')"])
async def test_one_that_makes_no_sense_can_be_removed(world: World, planning: SchedulesClient, text: str) -> None:
    """Also before a scheduler has looked at it: there may be none."""
    await save(planning)
    behind(world, f"UPDATE schedules SET {text}")
    await planning.remove("s")
    assert [info async for info in planning.all()] == []


async def test_one_whose_calendar_is_gone_can_be_removed(world: World, planning: SchedulesClient) -> None:
    await planning.save_calendar(Calendar("off"))
    await save(planning, exclude=("off",))
    behind(world, "DELETE FROM calendars")
    world.clock.advance(60)
    await planning.remove("s")


# -- firing -----------------------------------------------------------------------------------------------------------


async def test_a_fire_by_hand_is_a_job_at_once(world: World, planning: SchedulesClient) -> None:
    template = Template(task="t", spec=Spec.function("t"), args='{"at": "{fire_time}"}')
    await planning.save(one(zone="Europe/Berlin"), template)
    fate, job = await planning.fire("s")
    info = await world.info(job)
    assert (fate, info.state, info.schedule) == (Fate.MADE, State.READY, "s")
    assert info.args == {"at": "2027-01-15T09:00:00+01:00"}
    assert (await planning.get("s")).last_job == job


async def test_two_by_hand_in_one_instant_are_two(world: World, planning: SchedulesClient) -> None:
    await save(planning)
    jobs = {(await planning.fire("s"))[1] for _ in range(3)}
    assert set(await world.all()) == jobs
    assert len(jobs) == 3


async def test_one_by_hand_while_another_lives(world: World, planning: SchedulesClient) -> None:
    for overlap, fate in ((Overlap.SKIP, Fate.SKIPPED), (Overlap.QUEUE, Fate.QUEUED), (Overlap.REPLACE, Fate.QUEUED)):
        await planning.save(minutely(overlap.value, overlap=overlap), ORDER)
        assert (await planning.fire(overlap.value))[0] is Fate.MADE
        world.clock.advance(0.001)
        before = await planning.get(overlap.value)
        assert (await planning.fire(overlap.value))[0] is fate
        if fate is Fate.SKIPPED:
            assert (await planning.get(overlap.value)).last_job == before.last_job


# -- backfills --------------------------------------------------------------------------------------------------------


async def test_a_backfill_makes_the_fires_of_a_span_both_ends_inside(world: World, planning: SchedulesClient) -> None:
    now = (await save(planning)).handled
    first, last = await backfill(planning, now - 3 * MINUTE, now - MINUTE)
    assert first == BackfillProgress(3, 0, 0, 0, aware(now - 3 * MINUTE), aware(now - MINUTE))
    assert (last.made, last.done, last.total) == (3, 3, 3)
    found = await planning.history("s", 10)
    assert [(instant(info.fire), info.kind) for info in found] == [
        (now - n * MINUTE, FireKind.BACKFILL) for n in (1, 2, 3)
    ]
    assert {info.run_at for info in (await world.all()).values()} == {aware(now)}


async def test_a_backfill_again_makes_nothing(world: World, planning: SchedulesClient) -> None:
    now = (await save(planning)).handled
    await backfill(planning, now - 3 * MINUTE, now - MINUTE)
    async with world.unchanged():
        *_, last = await backfill(planning, now - 3 * MINUTE, now - MINUTE)
    assert (last.made, last.already) == (0, 3)


async def test_a_dry_run_only_counts(world: World, planning: SchedulesClient) -> None:
    now = (await save(planning)).handled
    async with world.unchanged():
        assert await backfill(planning, now - HOUR, now, dry_run=True) == [
            BackfillProgress(61, 0, 0, 0, aware(now - HOUR), aware(now))
        ]


async def test_a_span_without_fires_makes_nothing(world: World, planning: SchedulesClient) -> None:
    now = (await save(planning)).handled
    async with world.unchanged():
        assert await backfill(planning, now - 30 * SECOND, now - 20 * SECOND) == [BackfillProgress(0)]


@pytest.mark.parametrize(("start", "end"), [(-MINUTE, 1), (-MINUTE, HOUR), (-MINUTE, -2 * MINUTE)])
async def test_a_span_that_makes_no_sense_is_refused(
    world: World, planning: SchedulesClient, start: int, end: int
) -> None:
    now = (await save(planning)).handled
    async with world.unchanged():
        with pytest.raises(InvalidInput, match=r"^to: "):
            await backfill(planning, now + start, now + end)


async def test_very_many_must_be_meant(world: World, planning: SchedulesClient) -> None:
    now = (await save(planning, rule=Every(SECOND))).handled
    start = now - MANY * SECOND
    async with world.unchanged():
        with pytest.raises(InvalidInput, match=r"10,000 fires"):
            await backfill(planning, start, now)
        assert (await backfill(planning, start, now, dry_run=True, many=True))[0].total == MANY + 1
        assert (await backfill(planning, start + SECOND, now, dry_run=True))[0].total == MANY


async def test_a_large_one_tells_how_far_it_has_come(world: World, planning: SchedulesClient) -> None:
    now = (await save(planning)).handled
    steps = await backfill(planning, now - (2 * PAGE + 9) * MINUTE, now - MINUTE)
    assert [progress.done for progress in steps] == [0, PAGE, 2 * PAGE, 2 * PAGE + 9]


async def test_of_what_must_not_overlap_one_runs_and_the_others_wait(world: World, planning: SchedulesClient) -> None:
    now = (await save(planning, overlap=Overlap.SKIP)).handled
    *_, last = await backfill(planning, now - 3 * MINUTE, now - MINUTE)
    assert (last.made, last.queued, last.done) == (1, 2, 3)


# -- looking ----------------------------------------------------------------------------------------------------------


async def test_upcoming_fires_begin_after_now_and_end_with_the_limit(world: World, planning: SchedulesClient) -> None:
    now = (await save(planning, limit=3)).handled
    assert await planning.upcoming("s", 2) == [now + MINUTE, now + 2 * MINUTE]
    world.clock.advance(60)
    await move_on(world, "s")
    assert await planning.upcoming("s", 10) == [now + 2 * MINUTE, now + 3 * MINUTE]
    world.clock.advance(200)
    await move_on(world, "s")
    assert await planning.upcoming("s", 10) == []


async def test_a_preview_is_of_something_that_is_not_kept(world: World, planning: SchedulesClient) -> None:
    await planning.save_calendar(Calendar("off", (date(2027, 1, 16),)))
    daily = one(rule=Cron("0 9 * * *"), exclude=("off",), limit=2)
    async with world.unchanged():
        first, second = await planning.preview(daily, 20)
    assert second - first == 2 * DAY


async def test_the_history_comes_in_pages(world: World, planning: SchedulesClient) -> None:
    now = (await save(planning)).handled
    await backfill(planning, now - 5 * MINUTE, now - MINUTE)
    first = await planning.history("s", 3)
    rest = await planning.history("s", 3, instant(first[-1].fire))
    assert [instant(info.fire) for info in first + rest] == [now - n * MINUTE for n in range(1, 6)]
