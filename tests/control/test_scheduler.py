"""The scheduler: each fire at its instant, once, whatever happens to the schedule, the store or the other nodes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from typing import Any

import pytest

from rota.clients.schedules import SchedulesClient
from rota.control import scheduler as scheduling
from rota.errors import StoreError, StoreUnavailable
from rota.model.lifecycle import State
from rota.model.principal import LOCAL
from rota.model.times import HOUR, MILLISECOND, MINUTE, SECOND, Instant, instant
from rota.model.trigger import catchup
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.policies import CatchUp, Missed, Overlap
from rota.model.trigger.rules import Every, Recurrence, Times
from tests.contracts.timetables import ORDER, behind, made, minutely, new, skipped, standing
from tests.contracts.world import World
from tests.control.stage import Company, Troubled, let_pass, save

NOTHING = scheduling.LONGEST_SLEEP


async def made_at(world: World, name: str = "s") -> list[tuple[Instant, Instant]]:
    """Instants of its fires, and when they were made."""
    found = await world.store.fires(LOCAL, "local", name, 2**62, 10_000)
    return [(instant(one.fire), instant(one.at)) for one in reversed(found) if one.kind is not None]


def each(first: Instant, count: int, period: int = MINUTE) -> list[Instant]:
    return [first + n * period for n in range(count)]


# -- at the instant ---------------------------------------------------------------------------------------------------


async def test_each_fire_is_made_at_its_very_instant(world: World, company: Company) -> None:
    start = world.clock.now()
    await save(world)
    await save(world, "fast", rule=Every(SECOND))
    await let_pass(world.clock, 300, company.scheduler())
    assert await made_at(world) == [(fire, fire) for fire in each(start + MINUTE, 5)]
    assert await made_at(world, "fast") == [(fire, fire) for fire in each(start + SECOND, 300, SECOND)]
    assert await skipped(world, "s") == await skipped(world, "fast") == []


async def test_it_sleeps_to_the_exact_instant_and_acts_not_a_microsecond_early(world: World, company: Company) -> None:
    await save(world)
    scheduler = company.scheduler()
    assert await scheduler.tick() == 59.5, "a little ahead, to work out the step"
    world.clock.advance(59.5)
    assert await scheduler.tick() == 0.5
    world.clock.advance(0.499_999)
    assert await scheduler.tick() == pytest.approx(0.000_001)
    assert await world.all() == {}
    world.clock.advance(0.000_001)
    assert await scheduler.tick() == 59.5
    assert len(await world.all()) == 1


async def test_with_nothing_to_come_it_sleeps_long(world: World, company: Company) -> None:
    scheduler = company.scheduler()
    assert await scheduler.tick() == NOTHING
    await save(world, rule=Times((world.clock.now() + 10 * HOUR,)))
    scheduler.when_changed()
    assert await scheduler.tick() == NOTHING


async def test_what_is_far_ahead_costs_nothing(world: World, company: Company) -> None:
    for n in range(50):
        await save(world, f"s{n}", rule=Every(24 * HOUR, n * MINUTE))
    store = Troubled(world.store)
    scheduler = company.scheduler(store=store.face)
    await let_pass(world.clock, 1_800, scheduler)  # at eight in the morning
    assert set(store.calls) == {"coming_schedules"}
    assert len(store.calls) <= 1_800 / NOTHING + 2


async def test_an_earlier_one_wakes_it(world: World, company: Company) -> None:
    start = world.clock.now()
    await save(world, "later", rule=Times((start + HOUR,)))
    scheduler = company.scheduler()
    woken: list[int] = []
    scheduler.wake = lambda: woken.append(1)
    await scheduler.tick()
    await save(world, rule=Times((start + 3 * SECOND,)))
    scheduler.when_changed()
    assert woken
    await let_pass(world.clock, 5, scheduler)
    assert await made_at(world) == [(start + 3 * SECOND, start + 3 * SECOND)]


async def test_news_that_come_while_it_looks_are_not_lost(world: World, company: Company) -> None:
    start = world.clock.now()
    store = Troubled(world.store)
    scheduler = company.scheduler(store=store.face)
    store.after["coming_schedules"] = scheduler.when_changed
    assert await scheduler.tick() == 0, "it has to look once more"
    store.after.clear()
    await save(world, rule=Times((start + SECOND,)))
    await let_pass(world.clock, 2, scheduler)
    assert await made_at(world) == [(start + SECOND, start + SECOND)]


@pytest.mark.parametrize("missed", Missed)
async def test_one_that_oversleeps_by_seconds_goes_by_the_policy(
    world: World, company: Company, missed: Missed
) -> None:
    """The newest is late and no missed one; those before it are."""
    start = world.clock.now()
    await save(world, rule=Every(SECOND), catch_up=CatchUp(missed))
    scheduler = company.scheduler()
    await let_pass(world.clock, 2, scheduler)
    world.clock.advance(5)
    await let_pass(world.clock, 3, scheduler)
    seconds = range(1, 11) if missed is Missed.ALL else (1, 2, 7, 8, 9, 10)
    assert [fire for fire, _ in await made_at(world)] == [start + n * SECOND for n in seconds]
    runs = [(first - start, last - start, count) for first, last, count, _ in await skipped(world, "s")]
    assert runs == ([] if missed is Missed.ALL else [(3 * SECOND, 6 * SECOND, 4)])


# -- several nodes ----------------------------------------------------------------------------------------------------


async def test_the_followers_leave_everything_to_the_leader(world: World, company: Company) -> None:
    await save(world, rule=Every(SECOND))
    watched = Troubled(world.store)
    leader, follower = company.scheduler(), company.scheduler(leads=False, store=watched.face)
    start = world.clock.now()
    await let_pass(world.clock, 20, leader, follower)
    assert await made_at(world) == [(fire, fire) for fire in each(start + SECOND, 20, SECOND)]
    assert "advance" not in watched.calls


async def test_without_a_leader_a_follower_acts_after_a_while(world: World, company: Company) -> None:
    await save(world, rule=Every(5 * SECOND))
    start = world.clock.now()
    followers = [company.scheduler(leads=False) for _ in range(2)]
    await let_pass(world.clock, 21, *followers)
    late = scheduling.FOLLOWERS_WAIT
    assert await made_at(world) == [(fire, fire + late) for fire in each(start + 5 * SECOND, 4, 5 * SECOND)]


async def test_two_that_believe_to_lead_make_each_fire_once(world: World, company: Company) -> None:
    for n in range(5):
        await save(world, f"s{n}", rule=Every(SECOND))
    start = world.clock.now()
    await let_pass(world.clock, 10, company.scheduler(), company.scheduler())
    for n in range(5):
        assert await made_at(world, f"s{n}") == [(fire, fire) for fire in each(start + SECOND, 10, SECOND)]
    assert len(await world.all()) == 50


# -- changes that race with it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["paused", "edited", "removed"])
async def test_a_step_that_was_prepared_is_void_after_a_change(world: World, company: Company, change: str) -> None:
    start = world.clock.now()
    await save(world)
    planning = SchedulesClient(world.store, LOCAL, world.chance)
    scheduler = company.scheduler()
    await let_pass(world.clock, 59.9, scheduler)
    match change:
        case "paused":
            await planning.pause("s")
        case "edited":
            await save(world, rule=Every(7 * MINUTE))
        case "removed":
            await planning.remove("s")
    await let_pass(world.clock, 1, scheduler)
    assert await world.all() == {}
    if change == "paused":
        assert await skipped(world, "s") == [(start + MINUTE, start + MINUTE, 1, "paused")]
    else:
        assert await skipped(world, "s") == []


async def test_a_pause_that_ends_before_the_instant_changes_nothing(world: World, company: Company) -> None:
    start = world.clock.now()
    await save(world)
    planning = SchedulesClient(world.store, LOCAL, world.chance)
    scheduler = company.scheduler()
    await let_pass(world.clock, 59.9, scheduler)
    await planning.pause("s")
    await planning.resume("s")
    await let_pass(world.clock, 1, scheduler)
    ((fire, at),) = await made_at(world)
    assert fire == start + MINUTE
    assert at - fire <= 10 * MILLISECOND, "though nobody told it"


async def test_a_calendar_that_changes_takes_hold_of_what_was_prepared(world: World, company: Company) -> None:
    store = world.store
    await store.put_calendar(LOCAL, Calendar("off"))
    await save_with_calendar(world)
    scheduler = company.scheduler()
    await let_pass(world.clock, 59.9, scheduler)
    await store.put_calendar(LOCAL, Calendar("off", (date(2027, 1, 15),)))
    await let_pass(world.clock, 1, scheduler)
    assert await world.all() == {}
    assert (await standing(world, "s")).next_at == start_of_the_16th(world)


async def test_a_day_that_is_no_longer_excluded_brings_back_nothing_from_before(world: World, company: Company) -> None:
    """A change takes hold at one instant: the fires of this morning were none."""
    start = world.clock.now()
    await world.store.put_calendar(LOCAL, Calendar("off", (date(2027, 1, 15),)))
    planning = SchedulesClient(world.store, LOCAL, world.chance)
    await planning.save(minutely("s", rule=Every(HOUR), exclude=("off",)), ORDER)
    scheduler = company.scheduler()
    await let_pass(world.clock, 2.5 * 3600, scheduler)
    await world.store.put_calendar(LOCAL, Calendar("off"))
    scheduler.when_changed()
    await let_pass(world.clock, 3600, scheduler)
    assert [fire for fire, _ in await made_at(world)] == [start + 3 * HOUR]


async def save_with_calendar(world: World) -> None:
    planning = SchedulesClient(world.store, LOCAL, world.chance)
    await planning.save(minutely("s", exclude=("off",)), ORDER)


def start_of_the_16th(world: World) -> Instant:
    day = 24 * HOUR
    return (world.clock.now() // day + 1) * day


# -- catching up ------------------------------------------------------------------------------------------------------

CATCH_UPS: list[tuple[CatchUp, Sequence[int], list[tuple[int, str]]]] = [
    (CatchUp(Missed.NONE), [], [(3, "missed")]),
    (CatchUp(Missed.LATEST), [3], [(2, "newer")]),
    (CatchUp(Missed.ALL), [1, 2, 3], []),
    (CatchUp(Missed.ALL, most=2), [2, 3], [(1, "maximum")]),
    (CatchUp(Missed.ALL, window=2 * HOUR), [2, 3], [(1, "window")]),
]


@pytest.mark.parametrize(("policy", "hours", "runs"), CATCH_UPS, ids=lambda one: str(getattr(one, "missed", "")))
async def test_after_three_hours_of_downtime_its_policy_decides(
    world: World, company: Company, policy: CatchUp, hours: Sequence[int], runs: list[tuple[int, str]]
) -> None:
    start = world.clock.now()
    await save(world, rule=Every(HOUR), catch_up=policy)
    world.clock.advance(3 * 3600 + 1_800)
    await let_pass(world.clock, 1, company.scheduler())
    assert [fire for fire, _ in await made_at(world)] == [start + n * HOUR for n in hours]
    assert [(count, reason) for _, _, count, reason in await skipped(world, "s")] == runs
    assert (await standing(world, "s")).next_at == start + 4 * HOUR


@pytest.mark.parametrize("missed", [Missed.NONE, Missed.LATEST])
async def test_a_node_that_was_stopped_with_a_step_in_hand_goes_by_the_policy(
    world: World, company: Company, missed: Missed
) -> None:
    """A laptop that was closed half a second before the fire, and opened three hours later."""
    start = world.clock.now()
    await save(world, rule=Every(HOUR), catch_up=CatchUp(missed))
    scheduler = company.scheduler()
    await let_pass(world.clock, 3_599.8, scheduler)
    world.clock.advance(2 * 3600 + 1_800)
    await let_pass(world.clock, 1, scheduler)
    expected = [] if missed is Missed.NONE else [start + 3 * HOUR]
    assert [fire for fire, _ in await made_at(world)] == expected
    assert sum(int(str(count)) for _, _, count, _ in await skipped(world, "s")) == 3 - len(expected)


async def test_one_with_much_to_catch_up_with_does_not_hold_up_the_others(
    world: World, company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catchup, "AT_ONCE", 100)
    await save(world, "behind", rule=Every(SECOND), catch_up=CatchUp(Missed.ALL, most=3_600))
    world.clock.advance(3600)
    due = world.clock.now() + 2 * SECOND
    await save(world, rule=Times((due,)))
    store = Troubled(world.store)
    store.after["advance"] = lambda: world.clock.advance(0.1)  # the work takes its time
    await let_pass(world.clock, 8, company.scheduler(store=store.face))
    ((fire, at),) = await made_at(world)
    assert fire == due
    assert at - due < SECOND


# -- many, limited, ended ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["parse", "advance"])
@pytest.mark.parametrize("late", [False, True])
async def test_a_step_that_takes_long_is_worked_out_of_the_loops_way(
    world: World, company: Company, verb: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that has to be searched, and one that has missed much. While the step is worked out, the loop goes on: it
    is the loop that says when that ends."""
    rule = Every(SECOND) if late else Recurrence("FREQ=SECONDLY", "2001-01-01T00:00:00")
    await save(world, rule=rule)
    world.clock.advance(HOUR / SECOND if late else 1)
    loop, ended = asyncio.get_running_loop(), threading.Event()
    slow, heard = getattr(scheduling, verb), []

    def takes_long(*given: Any) -> Any:
        loop.call_soon_threadsafe(ended.set)
        heard.append(ended.wait(20))
        return slow(*given)

    monkeypatch.setattr(scheduling, verb, takes_long)
    await company.scheduler().tick()
    assert heard == [True]


async def test_more_than_one_look_holds_are_made_all_the_same(world: World, company: Company) -> None:
    count = scheduling.LOOKED_AT + 300
    start = world.clock.now()
    for n in range(count):
        await world.store.put_schedule(LOCAL, new(minutely(f"s{n}"), start), None)
    scheduler = company.scheduler()
    await let_pass(world.clock, 60, scheduler)
    assert len(await world.all()) == count
    await let_pass(world.clock, 60, scheduler)
    assert len(await world.all()) == 2 * count


async def test_one_with_a_limit_fires_that_often(world: World, company: Company) -> None:
    start = world.clock.now()
    await save(world, rule=Every(SECOND), limit=3)
    scheduler = company.scheduler()
    await let_pass(world.clock, 10, scheduler)
    assert [fire for fire, _ in await made_at(world)] == each(start + SECOND, 3, SECOND)
    assert (await standing(world, "s")).next_at is None
    assert await scheduler.tick() == NOTHING


async def test_one_that_missed_more_than_its_limit_fires_no_more_often(world: World, company: Company) -> None:
    start = world.clock.now()
    await save(world, limit=3)
    world.clock.advance(600)
    await let_pass(world.clock, 600, company.scheduler())
    assert [fire for fire, _ in await made_at(world)] == each(start + MINUTE, 3)


async def test_after_its_end_it_is_over(world: World, company: Company) -> None:
    start = world.clock.now()
    await save(world, end=start + 2 * MINUTE)
    await let_pass(world.clock, 600, company.scheduler())
    assert [fire for fire, _ in await made_at(world)] == [start + MINUTE, start + 2 * MINUTE]
    info = await standing(world, "s")
    assert (info.next_at, info.broken) == (None, None)


async def test_what_must_not_overlap_does_not(world: World, company: Company) -> None:
    await save(world, rule=Every(SECOND), overlap=Overlap.QUEUE)
    await let_pass(world.clock, 5, company.scheduler())
    states = [await world.state(job or "") for _, job in await made(world, "s")]
    assert states == [State.READY] + [State.BLOCKED] * 4


# -- trouble with the store -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["the call", "the answer"])
@pytest.mark.parametrize("verb", ["coming_schedules", "advance", "calendars"])
async def test_an_error_of_the_store_loses_nothing(world: World, company: Company, verb: str, lost: str) -> None:
    start = world.clock.now()
    await world.store.put_calendar(LOCAL, Calendar("off"))
    await save(world, "other")
    await save_with_calendar(world)
    store = Troubled(world.store)
    (store.fails if lost == "the call" else store.fails_after)[verb] = 1
    scheduler = company.scheduler(store=store.face)
    with pytest.raises(StoreUnavailable):
        await let_pass(world.clock, 61, scheduler)
    await let_pass(world.clock, (start + 65 * SECOND - world.clock.now()) / SECOND, scheduler)
    for name in ("s", "other"):
        assert [fire for fire, _ in await made_at(world, name)] == [start + MINUTE]
    assert len(await world.all()) == 2


async def test_an_error_while_one_is_set_aside_loses_nothing(world: World, company: Company) -> None:
    start = world.clock.now()
    await save(world, "a")
    await save(world, "z")
    behind(world, "UPDATE schedules SET timing = '{' WHERE name = 'a'")
    store = Troubled(world.store)
    store.fails["set_aside_schedule"] = 1
    scheduler = company.scheduler(store=store.face)
    with suppress(StoreUnavailable):
        await let_pass(world.clock, 61, scheduler)
    await let_pass(world.clock, (start + 65 * SECOND - world.clock.now()) / SECOND, scheduler)
    assert [fire for fire, _ in await made_at(world, "z")] == [start + MINUTE]
    assert (await standing(world, "a")).broken


async def test_a_store_that_refuses_everything_is_no_fault_of_the_schedules(world: World, company: Company) -> None:
    """Someone took away a right, or a table: when that is put right, all go on by themselves."""
    start = world.clock.now()
    for name in ("a", "b"):
        await save(world, name)
    store = Troubled(world.store)
    store.fails["advance"], store.error = 20, StoreError("PostgreSQL refused a call: permission denied for table jobs")
    scheduler = company.scheduler(store=store.face)
    for _ in range(3):
        with suppress(StoreError):
            await let_pass(world.clock, 61, scheduler)
    store.fails.clear()
    await let_pass(world.clock, 5, scheduler)
    for name in ("a", "b"):
        assert (await standing(world, name)).broken is None
        assert next(fire for fire, _ in await made_at(world, name)) == start + MINUTE
    assert company.told == []
