"""Calendars: kept by name, needed by schedules, and never taken away under them."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from rota.errors import InvalidInput
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import HOUR
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.records import StoredSchedule
from rota.store.base import Store
from rota.store.values import Topic
from tests.contracts.timetables import NAME, behind, events, minutely, new, standing, step
from tests.contracts.world import ALICE, BOB, World

EASTER = Calendar("easter", (date(2027, 3, 28), date(2027, 3, 29)))
SUMMER = Calendar("summer", (date(2027, 7, 1),))


async def needing(world: World, *calendars: str, name: str = NAME, **changes: Any) -> StoredSchedule:
    wanted = new(minutely(name), world.clock.now(), calendars=calendars, **changes)
    assert await world.store.put_schedule(LOCAL, wanted, None)
    return await standing(world, name)


# -- kept -------------------------------------------------------------------------------------------------------------


async def test_a_calendar_comes_out_as_it_went_in(world: World) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    await world.store.put_calendar(LOCAL, Calendar("empty"))
    assert await world.store.calendars(LOCAL, "local") == [EASTER, Calendar("empty")]


async def test_another_of_the_same_name_takes_its_place(world: World) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    later = Calendar("easter", (date(2028, 4, 16),))
    await world.store.put_calendar(LOCAL, later)
    assert await world.store.calendars(LOCAL, "local") == [later]


async def test_they_come_in_the_order_of_their_names_or_only_those_named(world: World) -> None:
    for name in ("c", "a", "b"):
        await world.store.put_calendar(LOCAL, Calendar(name))
    assert [one.name for one in await world.store.calendars(LOCAL, "local")] == ["a", "b", "c"]
    assert [one.name for one in await world.store.calendars(LOCAL, "local", ["c", "none", "a"])] == ["a", "c"]
    assert await world.store.calendars(LOCAL, "local", []) == []


async def test_ten_thousand_dates_are_no_problem(world: World) -> None:
    many = Calendar("many", tuple(date.fromordinal(730_000 + n) for n in range(10_000)))
    await world.store.put_calendar(LOCAL, many)
    assert await world.store.calendars(LOCAL, "local") == [many]


async def test_every_change_is_told(world: World) -> None:
    await world.store.put_calendar(ALICE, EASTER)
    await world.store.remove_calendar(ALICE, "easter")
    await world.store.remove_calendar(ALICE, "easter")
    kinds = ("calendar.saved", "calendar.removed")
    assert await events(world, "calendar.") == [(kind, "alice", "easter", {"by": "alice"}) for kind in kinds]


# -- principals -------------------------------------------------------------------------------------------------------


async def test_nobody_sees_or_touches_the_calendars_of_another(world: World) -> None:
    await world.store.put_calendar(ALICE, EASTER)
    assert await world.store.calendars(BOB, "alice") == []
    assert await world.store.calendars(BOB, "alice", ["easter"]) == []
    assert await world.store.calendars(BOB, "bob") == []
    assert await world.store.remove_calendar(BOB, "easter") is None
    await world.store.put_calendar(BOB, Calendar("easter"))
    assert await world.store.calendars(ALICE, "alice") == [EASTER]
    assert await world.store.calendars(SYSTEM, "alice") == [EASTER]


async def test_a_schedule_can_t_need_the_calendar_of_another(world: World) -> None:
    await world.store.put_calendar(ALICE, EASTER)
    async with world.unchanged():
        with pytest.raises(InvalidInput, match=r"calendar: 'easter'"):
            await needing(world, "easter")


async def test_schedules_of_others_are_not_looked_at_anew(world: World) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    info = await needing(world, "easter")
    await world.store.put_calendar(ALICE, EASTER)
    assert await standing(world) == info
    assert await world.store.remove_calendar(ALICE, "easter") == []


# -- needed -----------------------------------------------------------------------------------------------------------


async def test_a_name_that_is_unknown_is_refused(world: World) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    async with world.unchanged():
        with pytest.raises(InvalidInput, match=r"calendar: 'sumer'"):
            await needing(world, "easter", "sumer")
    info = await needing(world, "easter")
    wanted = new(minutely(), world.clock.now(), calendars=("sumer",))
    async with world.unchanged():
        with pytest.raises(InvalidInput):
            await world.store.put_schedule(LOCAL, wanted, info.revision)


async def test_one_that_is_needed_stays(world: World) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    await world.store.put_calendar(LOCAL, SUMMER)
    await needing(world, "easter", "summer")
    await needing(world, "easter", name="another")
    async with world.unchanged():
        assert await world.store.remove_calendar(LOCAL, "easter") == ["another", NAME]
        assert await world.store.remove_calendar(LOCAL, "summer") == [NAME]


async def test_one_that_is_no_longer_needed_goes(world: World) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    info = await needing(world, "easter")
    assert await world.store.put_schedule(LOCAL, new(minutely(), world.clock.now()), info.revision)
    assert await world.store.remove_calendar(LOCAL, "easter") == []
    assert await world.store.calendars(LOCAL, "local") == []
    assert await world.store.remove_calendar(LOCAL, "easter") is None


async def test_needing_and_removing_at_once_have_an_order(world: World, another: Store) -> None:
    for turn in range(5):
        await world.store.put_calendar(LOCAL, EASTER)
        wanted = new(minutely(f"s{turn}"), world.clock.now(), calendars=("easter",))
        kept, removed = await asyncio.gather(
            world.store.put_schedule(LOCAL, wanted, None),
            another.remove_calendar(LOCAL, "easter"),
            return_exceptions=True,
        )
        there = bool(await world.store.calendars(LOCAL, "local"))
        if kept is True:
            assert there, "a schedule stands without its calendar"
            assert isinstance(removed, list)
            assert removed
            return
        assert isinstance(kept, InvalidInput)
        assert (removed, there) == ([], False)


# -- looked at anew ---------------------------------------------------------------------------------------------------


async def test_those_that_need_it_are_looked_at_anew(world: World) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    await world.store.put_calendar(LOCAL, SUMMER)
    one = await needing(world, "easter", "summer")
    two = await needing(world, "summer", name="another")
    world.clock.advance(5)
    await world.store.put_calendar(LOCAL, Calendar("easter"))
    info = await standing(world)
    assert info.revision > one.revision, "what was worked out before no longer counts"
    assert (info.next_at, info.handled) == (world.clock.now(), world.clock.now()), "nothing was due until now"
    assert await world.store.advance(SYSTEM, [step(one)]) == [None]
    assert await standing(world, "another") == two


async def test_those_that_were_set_aside_get_another_chance(world: World) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    info = await needing(world, "easter")
    await world.store.set_aside_schedule(SYSTEM, "local", NAME, info.revision, "its calendar can't be read")
    await world.store.put_calendar(LOCAL, EASTER)
    after = await standing(world)
    assert (after.broken, after.next_at) == (None, world.clock.now())


async def test_one_that_had_no_more_days_is_looked_at_when_its_calendar_has_new_ones(world: World) -> None:
    """A calendar of one year, that a schedule keeps to, is used up; at the new year someone puts in the next."""
    await world.store.put_calendar(LOCAL, EASTER)
    await needing(world, "easter", next_at=None)
    await world.store.put_calendar(LOCAL, Calendar("easter", (*EASTER.dates, date(2028, 4, 16))))
    assert (await standing(world)).next_at is not None


async def test_schedulers_hear_of_it(world: World) -> None:
    heard: list[int] = []
    end = world.store.listen(frozenset({Topic.SCHEDULE}), lambda: heard.append(1))
    await world.store.put_calendar(LOCAL, EASTER)
    assert heard
    end()


# -- broken -----------------------------------------------------------------------------------------------------------

GARBAGE = ["", "{", "[]", '{"name": "easter", "dates": ["2027-02-30"]}', '{"name": 7}', '{"name": "", "dates": []}']


@pytest.mark.parametrize("body", GARBAGE)
async def test_one_that_can_t_be_read_is_left_out(world: World, body: str) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    await world.store.put_calendar(LOCAL, SUMMER)
    behind(world, f"UPDATE calendars SET body = '{body}' WHERE name = 'easter'")
    assert await world.store.calendars(LOCAL, "local") == [SUMMER]
    await world.store.put_calendar(LOCAL, EASTER)
    assert await world.store.calendars(LOCAL, "local") == [EASTER, SUMMER]


async def test_one_that_can_t_be_read_can_be_removed(world: World) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    behind(world, "UPDATE calendars SET body = '{' WHERE name = 'easter'")
    assert await world.store.remove_calendar(LOCAL, "easter") == []


async def test_a_schedule_whose_needs_can_t_be_read_is_not_in_the_way(world: World) -> None:
    await world.store.put_calendar(LOCAL, EASTER)
    await needing(world, "easter")
    behind(world, f"UPDATE schedules SET calendars = '{{garbage}}' WHERE name = '{NAME}'")
    good = await needing(world, "easter", name="good", next_at=world.clock.now() + HOUR)
    await world.store.put_calendar(LOCAL, EASTER)
    assert (await standing(world, "good")).revision > good.revision
    assert await world.store.remove_calendar(LOCAL, "easter") == ["good"]
