"""RRULE: what is read, what is refused and where the error points. What it means: test_recurrence_rfc.py."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.times import instant
from rota.model.trigger.arguments import local_iso
from rota.model.trigger.effort import Effort
from rota.model.trigger.fires import fires, next_fire
from rota.model.trigger.reading import read_schedule
from rota.model.trigger.recurrence import recurrence_plan
from rota.model.trigger.recurrence_text import FREQUENCIES
from rota.model.trigger.rules import Recurrence, read_rule
from rota.model.trigger.schedule import Timing

EPOCH = datetime(1970, 1, 1)
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


@pytest.mark.parametrize(
    ("text", "begin", "expected"),
    [
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", "2026-01-01T09:30:00", ["01-29T17:30", "02-26T17:30", "03-26T17:30"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "2020-01-31T08:00:00", ["01-29T08:00", "02-26T08:00"]),
        ("FREQ=YEARLY", "2000-02-29T00:00:00", ["2028-02-29", "2032-02-29"]),
        ("RRULE:FREQ=WEEKLY;INTERVAL=2", "2026-12-28T06:00:00", ["01-11T06:00", "01-25T06:00"]),
        ("DTSTART:20261231T230000\nRRULE:FREQ=HOURLY;INTERVAL=5", None, ["01-01T04:00", "01-01T09:00"]),
        ("FREQ=DAILY;COUNT=3", "2026-12-30T09:00:00", ["01-01T09:00"]),
        ("FREQ=DAILY;UNTIL=20270102", "2026-12-30T09:00:00", ["01-01T09:00", "01-02T09:00"]),
        ("FREQ=DAILY;UNTIL=20270102T080000Z", "2026-12-30T09:00:00", ["01-01T09:00", "01-02T09:00"]),
        ("FREQ=DAILY;UNTIL=20270102T075959Z", "2026-12-30T09:00:00", ["01-01T09:00"]),
        ("FREQ=DAILY;UNTIL=20200101", "2026-12-30T09:00:00", []),
    ],
)
def test_rules(text: str, begin: str | None, expected: list[str]) -> None:
    schedule = Timing(name="x", rule=read_rule(text, begin), zone="Europe/Berlin")
    found = list(fires(schedule, instant("2026-12-31T23:00:00Z") - 1, limit=max(len(expected), 1)))
    told = [local_iso(fire, "Europe/Berlin") for fire in found]
    assert len(told) == len(expected)
    assert all(part in text for part, text in zip(expected, told, strict=True)), told


def test_hourly_rules_with_wide_steps_keep_to_the_wall() -> None:
    schedule = Timing(name="x", rule=read_rule("FREQ=HOURLY;INTERVAL=6", "2001-01-01T03:00:00"), zone="Europe/Berlin")
    found = fires(schedule, instant("2026-10-24T22:00:00Z"), instant("2026-10-25T22:00:00Z"))
    assert [local_iso(fire, "Europe/Berlin")[11:16] for fire in found] == ["03:00", "09:00", "15:00", "21:00"]


@pytest.mark.parametrize(
    ("text", "elapsed"),
    [
        ("FREQ=HOURLY", True),
        ("FREQ=HOURLY;BYMINUTE=0,30", True),
        ("FREQ=HOURLY;BYDAY=MO", True),
        ("FREQ=MINUTELY;INTERVAL=60", True),
        ("FREQ=SECONDLY;INTERVAL=3600", True),
        ("FREQ=MINUTELY;BYMINUTE=0", True),
        ("FREQ=HOURLY;INTERVAL=2", False),
        ("FREQ=MINUTELY;INTERVAL=61", False),
        ("FREQ=MINUTELY;INTERVAL=7;BYMINUTE=28", False),
        ("FREQ=HOURLY;BYHOUR=2", False),
        ("FREQ=DAILY;BYMINUTE=0,30", False),
    ],
)
def test_rules_that_fire_every_hour_follow_elapsed_time(text: str, elapsed: bool) -> None:
    assert recurrence_plan(text, "2001-01-01T00:00:00").elapsed is elapsed


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "there is no such date"),
        ("FREQ=SECONDLY;BYMONTH=4;BYMONTHDAY=31", "there is no such date"),
        ("FREQ=DAILY;INTERVAL=7;BYDAY=WE", "never fires"),
        ("FREQ=HOURLY;INTERVAL=2;BYHOUR=1", "never fires"),
        ("FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29", "never fires"),
        ("FREQ=DAILY;BYSETPOS=2", "rrule BYSETPOS: '2'"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6", "never fires"),
        ("FREQ=HOURLY;BYMINUTE=0,30;BYSETPOS=3", "never fires"),
        ("FREQ=DAILY;BYHOUR=24", "rrule BYHOUR: '24' is not valid; expected a number from 0 to 23"),
        ("FREQ=DAILY;BYHOUR=1,x", "rrule BYHOUR: 'X'"),
        ("FREQ=DAILY;INTERVAL=0", "rrule INTERVAL: '0'"),
        ("FREQ=DAILY;COUNT=99999", "rrule COUNT: '99999'"),
        ("FREQ=DAILY;COUNT=1;UNTIL=20270101", "COUNT or UNTIL, not both"),
        ("FREQ=DAILY;UNTIL=tomorrow", "rrule UNTIL: 'TOMORROW'"),
        ("FREQ=DAILY;UNTIL=20271301", "rrule UNTIL: '20271301'"),
        ("FREQ=FORTNIGHTLY", "rrule FREQ: 'FORTNIGHTLY'"),
        ("FREQ=DAILY;FREQ=DAILY", "each part once"),
        ("FREQ=DAILY;BYEASTER=1", "rrule: 'BYEASTER'"),
        ("FREQ=WEEKLY;BYDAY=2MO", "rrule BYDAY: '2MO'"),
        ("FREQ=MONTHLY;BYDAY=6MO", "rrule BYDAY: '6MO'"),
        ("FREQ=YEARLY;BYMONTH=12;BYDAY=53MO", "rrule BYDAY: '53MO'"),
        ("FREQ=MONTHLY;BYDAY=XX", "rrule BYDAY: 'XX'"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "rrule BYMONTHDAY: '0'"),
        ("FREQ=YEARLY;BYWEEKNO=54", "rrule BYWEEKNO: '54'"),
        ("FREQ=MONTHLY;BYWEEKNO=2", "rrule BYWEEKNO: '2' is not valid; expected FREQ=YEARLY beside it"),
        ("FREQ=YEARLY;BYWEEKNO=2;BYDAY=1MO", "expected plain weekdays beside BYWEEKNO"),
        ("FREQ=DAILY;BYYEARDAY=2", "expected another FREQ beside it than DAILY"),
        ("FREQ=WEEKLY;BYYEARDAY=2", "expected another FREQ beside it than WEEKLY"),
        ("FREQ=MONTHLY;BYYEARDAY=2", "expected another FREQ beside it than MONTHLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=2", "rrule BYMONTHDAY: '2' is not valid; expected another FREQ"),
        ("FREQ=WEEKLY;BYSETPOS=1", "expected another BY... part beside it, to choose from"),
        ("FREQ=DAILY;BYSECOND=61", "rrule BYSECOND: '61'"),
        ("RRULE:INTERVAL=2", "FREQ is missing"),
        ("RRULE:FREQ=DAILY\nEXDATE:20270101T000000", "one RRULE and at most one DTSTART"),
        ("DTSTART;TZID=UTC:20270101T000000Z\nRRULE:FREQ=DAILY", "rrule DTSTART: '20270101T000000Z'"),
        ("DTSTART;X=1:20270101T000000\nRRULE:FREQ=DAILY", "rrule DTSTART: 'X=1'"),
        ("DTSTART:00021231T000000\nRRULE:FREQ=DAILY", "expected a time from the year 3 to 9000"),
        ("DTSTART:20270230T000000\nRRULE:FREQ=DAILY", "rrule DTSTART: '20270230T000000'"),
    ],
)
def test_errors_point_at_the_part(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(complaint)):
        Timing(name="x", rule=read_rule(text, "2001-01-01T00:00:00"))


def test_a_beginning_is_needed() -> None:
    with pytest.raises(InvalidInput, match="DTSTART"):
        read_rule("FREQ=DAILY")
    for wrong in ("2027-01-01T00:00:00+01:00", "soon", "2027-01-01T00:00:00.5"):
        with pytest.raises(InvalidInput, match="rrule DTSTART"):
            Recurrence("FREQ=DAILY", wrong)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("week", [1, 2, 20, 51, 52, 53, -1])
@pytest.mark.parametrize("weekday", range(7))
def test_weeks_are_those_of_the_iso_calendar(week: int, weekday: int) -> None:
    plan = recurrence_plan(f"FREQ=YEARLY;BYWEEKNO={week};BYDAY={DAYS[weekday]}", "1990-01-01T00:00:00")
    first = datetime(2000, 1, 1)
    expected = [
        day
        for day in (first + timedelta(days=n) for n in range(36_525))
        if day.weekday() == weekday and day.isocalendar().week in (week, last_week(day) if week == -1 else week)
    ]
    start = (first - EPOCH) // timedelta(seconds=1)
    found = takewhile(lambda reading: reading < start + 36_525 * 86_400, plan.since(start, Effort(10**9)))
    assert [EPOCH + timedelta(seconds=reading) for reading in found] == expected


def last_week(day: datetime) -> int:
    return datetime(day.isocalendar().year, 12, 28).isocalendar().week


def some(values: st.SearchStrategy[object]) -> st.SearchStrategy[str]:
    return st.lists(values, min_size=1, max_size=3).map(lambda found: ",".join(map(str, found)))


parts = st.fixed_dictionaries(
    {"FREQ": st.sampled_from(FREQUENCIES)},
    optional={
        "INTERVAL": st.integers(1, 100).map(str),
        "COUNT": st.integers(1, 20).map(str),
        "BYMONTH": some(st.integers(1, 12)),
        "BYMONTHDAY": some(st.integers(-31, 31)),
        "BYYEARDAY": some(st.integers(-366, 366)),
        "BYWEEKNO": some(st.integers(-53, 53)),
        "BYDAY": some(st.sampled_from([*DAYS, "2MO", "-1FR", "5SU", "53MO", "-53TU"])),
        "BYHOUR": some(st.integers(0, 23)),
        "BYMINUTE": some(st.integers(0, 59)),
        "BYSECOND": some(st.integers(0, 60)),
        "BYSETPOS": some(st.integers(-5, 5)),
        "WKST": st.sampled_from(DAYS),
    },
)


@settings(max_examples=60)
@given(parts)
def test_any_rule_is_read_or_refused(chosen: dict[str, str]) -> None:
    text = ";".join(f"{key}={value}" for key, value in chosen.items())
    with suppress(InvalidInput):
        schedule = Timing(name="x", rule=Recurrence(text, "2001-01-31T00:00:00"))
        found = list(fires(schedule, 0, limit=3))
        assert found
        assert next_fire(schedule, found[0] - 1) == found[0]


@pytest.mark.parametrize(
    ("text", "zone", "begin"),
    [
        ("DTSTART;TZID=Europe/Berlin:20270101T090000\nRRULE:FREQ=DAILY", "Europe/Berlin", "2027-01-01T09:00:00"),
        (
            "DTSTART;TZID=Asia/Tokyo;VALUE=DATE-TIME:20270101T090000 RRULE:FREQ=DAILY",
            "Asia/Tokyo",
            "2027-01-01T09:00:00",
        ),
        ("DTSTART;VALUE=DATE:20270101\nFREQ=DAILY", "UTC", "2027-01-01T00:00:00"),
        ("dtstart:20270101t090000z\nrrule:freq=daily", "UTC", "2027-01-01T09:00:00"),
    ],
)
def test_dtstart_may_name_a_zone(text: str, zone: str, begin: str) -> None:
    schedule = read_schedule("me", "s", {"rule": text}, 0)
    assert isinstance(schedule.rule, Recurrence)
    assert (schedule.zone, schedule.rule.begin, schedule.rule.implied) == (zone, begin, False)
    assert read_schedule("me", "s", {"rrule": text, "tz": zone}, 0) == schedule


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "DTSTART;TZID=Europe/Berlin:20270101T090000\nRRULE:FREQ=DAILY",
            "tz: 'Asia/Tokyo' is not valid; expected Europe/Berlin",
        ),
        ("DTSTART:20270101T090000Z\nRRULE:FREQ=DAILY", "tz: 'Asia/Tokyo' is not valid; expected UTC or nothing"),
        (
            "DTSTART;TZID=W. Europe Standard Time:20270101T090000\nRRULE:FREQ=DAILY",
            "time zone: 'W. Europe Standard Time'",
        ),
    ],
)
def test_two_zones_are_one_too_many(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(complaint)):
        read_schedule("me", "s", {"rrule": text, "tz": "Asia/Tokyo"}, 0)


def test_second_60_is_second_59() -> None:
    schedule = Timing(name="x", rule=Recurrence("FREQ=MINUTELY;BYSECOND=60", "2027-01-01T00:00:00"))
    assert next_fire(schedule, instant("2027-01-01T00:00:00Z")) == instant("2027-01-01T00:00:59Z")
