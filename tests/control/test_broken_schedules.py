"""Schedules that someone wrote straight into the table: the broken one is set aside and told, the others go on."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from rota.clients.schedules import SchedulesClient
from rota.errors import RotaError, StoreError
from rota.model.principal import LOCAL
from rota.model.times import HOUR, MINUTE, SECOND
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.plan import parse
from rota.model.trigger.policies import CatchUp, Missed
from rota.model.trigger.rules import Cron, Every, Times
from rota.model.trigger.zones import zone
from rota.telemetry.events import ScheduleSetAside
from tests.contracts.timetables import ORDER, behind, events, made, minutely, standing
from tests.contracts.world import World
from tests.control.stage import Company, let_pass, save
from tests.store.postgres.backends import Postgres
from tests.store.sqlite.backends import SqliteMemory

HUGE = 10**20


async def change(world: World, column: str, **parts: Any) -> None:
    """Puts other values into the JSON of the bad one."""
    text = getattr(await standing(world, "bad"), column)
    write(world, column, msgspec.json.encode(msgspec.json.decode(text) | parts).decode())


def write(world: World, column: str, text: str) -> None:
    quoted = text.replace("'", "''")
    behind(world, f"UPDATE schedules SET {column} = '{quoted}' WHERE name = 'bad'")


TEXTS = {
    "no timing": ("timing", ""),
    "garbage for a timing": ("timing", "{"),
    "another value for a timing": ("timing", "[1, 2]"),
    "a timing that is nested too deep": ("timing", "[" * 100_000),
    "a rule that is nested too deep": ("timing", '{"rule":' * 100_000),
    "no order": ("work", ""),
    "garbage for an order": ("work", "every day"),
    "an order that is nested too deep": ("work", '{"spec":' * 100_000),
}
TIMINGS: dict[str, dict[str, Any]] = {
    "an unknown zone": {"zone": "Europe/Atlantis"},
    "a zone that is a path": {"zone": "../../etc/passwd"},
    "another name inside": {"name": "good"},
    "another owner inside": {"owner": "alice"},
    "a calendar that is not there": {"exclude": ["gone"]},
    "an unknown kind of rule": {"rule": {"kind": "moon", "text": "full"}},
    "a cron that is none": {"rule": {"kind": "cron", "text": "* * *"}},
    "a date that never comes": {"rule": {"kind": "cron", "text": "0 0 30 2 *"}},
    "a rule that hardly ever fires": {
        "rule": {
            "kind": "rrule",
            "text": "FREQ=SECONDLY;INTERVAL=9973;BYHOUR=9;BYMINUTE=0;BYSECOND=0",
            "begin": "2001-01-01T00:00:00",
        }
    },
    "a count that takes too long": {
        "rule": {
            "kind": "rrule",
            "text": "FREQ=SECONDLY;INTERVAL=61;BYSECOND=0;BYMINUTE=0;COUNT=10000",
            "begin": "2001-01-01T00:00:00",
        }
    },
    "a time that never exists": {
        "zone": "Europe/Berlin",
        "gap": "skip",
        "rule": {"kind": "cron", "text": "30 2 * 3 0L"},
    },
    "a period of nothing": {"rule": {"kind": "every", "period": 0}},
    "an absurd period": {"rule": {"kind": "every", "period": HUGE}},
    "an absurd end": {"end": HUGE},
    "an end before the start": {"start": 9_000_000, "end": 8_000_000},
    "a policy that is none": {"overlap": "sometimes"},
    "an absurd jitter": {"jitter": HUGE},
    "a limit that is a text": {"limit": "three"},
    "a limit of nothing": {"limit": 0},
    "an absurd limit": {"limit": HUGE},
}
ORDERS: dict[str, dict[str, Any]] = {
    "a command that is none": {"spec": {"kind": "command", "body": "{}", "digest": "x"}},
    "an unknown kind": {"spec": {"kind": "prayer", "body": "{}", "digest": "x"}},
    "arguments that are no JSON": {"args": "{"},
    "arguments that are no object": {"args": "[1]"},
    "an absurd priority": {"priority": HUGE},
    "a priority that is none": {"priority": 1_000},
    "an absurd expiry": {"expires": HUGE},
    "an absurd timeout": {"timeout": HUGE},
    "a negative timeout": {"timeout": -1},
    "a policy that is refused": {"retry": {"retries": -1}},
    "no queue": {"queue": ""},
    "a queue that no index can hold": {"queue": "".join(map(chr, Random(1).choices(range(33, 126), k=20_000)))},
    "no task": {"task": ""},
    "a task with a NUL": {"task": "a\0b"},
    "a queue with a NUL": {"queue": "a\0b"},
    "arguments with a NUL and times": {"args": '{"a": "\\u0000{fire_time}"}'},
}


async def check(world: World, company: Company, harmless: bool = False) -> None:
    """The good one fires as if nothing were; the bad one is set aside, or (if that is harmless) fires too."""
    start = world.clock.now()
    scheduler = company.scheduler()
    try:
        await let_pass(world.clock, 125, scheduler)
    except RotaError as error:
        pytest.fail(f"the scheduler gets stuck: {error}")
    assert [fire for fire, _ in await made(world, "good")] == [start + MINUTE, start + 2 * MINUTE]
    info = await standing(world, "bad")
    if harmless and info.broken is None:
        return
    assert info.broken
    assert info.next_at is None
    assert company.told == [ScheduleSetAside("local", "bad", info.broken)]
    told = [one for one in await events(world) if one[0] == "schedule.set_aside"]
    assert told == [("schedule.set_aside", "local", "bad", {"reason": info.broken})]
    assert await made(world, "bad") == []


@pytest.mark.parametrize("what", TEXTS)
async def test_a_text_that_makes_no_sense(world: World, company: Company, what: str) -> None:
    for name in ("bad", "good"):
        await save(world, name)
    write(world, *TEXTS[what])
    await check(world, company)


@pytest.mark.parametrize("what", TIMINGS)
async def test_times_that_make_no_sense(world: World, company: Company, what: str) -> None:
    for name in ("bad", "good"):
        await save(world, name)
    await change(world, "timing", **TIMINGS[what])
    await check(world, company)


@pytest.mark.parametrize("world", [SqliteMemory, Postgres], indirect=True)
@pytest.mark.parametrize("what", ORDERS)
async def test_an_order_that_makes_no_sense(world: World, company: Company, what: str) -> None:
    """Some of these a store can take; their jobs are set aside when they are to run."""
    for name in ("bad", "good"):
        await save(world, name)
    await change(world, "work", **ORDERS[what])
    await check(world, company, harmless=True)


@pytest.mark.parametrize("column", ["handled", "next_at", "fired"])
@pytest.mark.parametrize("value", [-(2**63), -1, 2**63 - 1])
async def test_a_number_that_makes_no_sense(world: World, company: Company, column: str, value: int) -> None:
    await save(world, "good", limit=5)
    await save(world, "bad", limit=5, rule=Every(24 * HOUR), catch_up=CatchUp(Missed.LATEST))
    behind(world, f"UPDATE schedules SET {column} = {value} WHERE name = 'bad'")
    await check(world, company, harmless=True)


async def test_a_calendar_that_can_t_be_read(world: World, company: Company) -> None:
    await world.store.put_calendar(LOCAL, Calendar("off"))
    await save(world, "good")
    await SchedulesClient(world.store, LOCAL, world.chance).save(minutely("bad", exclude=("off",)), ORDER)
    behind(world, "UPDATE calendars SET body = '{'")
    await check(world, company)
    await world.store.put_calendar(LOCAL, Calendar("off"))
    info = await standing(world, "bad")
    assert info.broken is None, "its calendar was put right"
    parse(info)
    await let_pass(world.clock, 60, company.scheduler())
    assert await made(world, "bad")


async def test_a_calendar_that_leaves_nothing_is_not_searched_to_its_end(world: World, company: Company) -> None:
    """Mondays, on the days of a calendar that comes to have nothing but Tuesdays."""
    today = zone("UTC").local(world.clock.now()).date()
    monday = today + timedelta(days=7 - today.weekday())
    await world.store.put_calendar(LOCAL, Calendar("days", (monday,)))
    await save(world, "good")
    await save(world, "bad", rule=Cron("0 9 * * MON"), only=("days",))
    await world.store.put_calendar(
        LOCAL, Calendar("days", tuple(monday + timedelta(days=7 * n + 1) for n in range(5000)))
    )
    await check(world, company)
    broken = (await standing(world, "bad")).broken
    assert broken
    assert "the search for its next fire on the days its calendars leave was given up" in broken


async def test_a_hundred_broken_ones_are_no_obstacle(world: World, company: Company) -> None:
    for n in range(100):
        await save(world, f"bad{n}")
    await save(world, "good")
    behind(world, "UPDATE schedules SET timing = '{' WHERE name LIKE 'bad%'")
    await let_pass(world.clock, 60, company.scheduler())
    assert len(await made(world, "good")) == 1
    assert len(company.told) == 100


async def test_one_that_is_put_right_fires_again(world: World, company: Company) -> None:
    start = world.clock.now()
    await save(world, "bad")
    behind(world, "UPDATE schedules SET timing = '{' WHERE name = 'bad'")
    scheduler = company.scheduler()
    await let_pass(world.clock, 90, scheduler)
    await save(world, "bad")
    scheduler.when_changed()
    await let_pass(world.clock, 60, scheduler)
    assert [fire for fire, _ in await made(world, "bad")] == [start + 2 * MINUTE]


async def test_two_schedulers_tell_of_it_once(world: World, company: Company) -> None:
    await save(world, "bad")
    behind(world, "UPDATE schedules SET work = '' WHERE name = 'bad'")
    await let_pass(world.clock, 62, company.scheduler(), company.scheduler())
    assert len(company.told) == 1


@pytest.mark.parametrize("world", [Postgres], indirect=True)
async def test_one_that_the_store_can_t_take_does_not_hide_those_that_come_later(
    world: World, company: Company
) -> None:
    """It is due alone, and refused again and again; the other has not even been read by then."""
    start = world.clock.now()
    await save(world, "bad", rule=Times((start + SECOND,)))
    await save(world, "good", rule=Times((start + MINUTE,)))
    await change(world, "work", **ORDERS["a queue that no index can hold"])
    scheduler = company.scheduler()
    for _ in range(70):
        with suppress(StoreError):
            await let_pass(world.clock, 0, scheduler)
        world.clock.advance(1)
    assert [fire for fire, _ in await made(world, "good")] == [start + MINUTE]
