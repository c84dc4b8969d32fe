"""Fires equal those of an independent evaluator wherever clocks change (I21)."""

from __future__ import annotations

import os
import random
from datetime import UTC, date, datetime, timedelta
from itertools import product

import pytest

from rota.model.times import SECOND, instant
from rota.model.trigger.arguments import local_iso
from rota.model.trigger.fires import fires, next_fire
from rota.model.trigger.policies import Fold, Gap
from rota.model.trigger.rules import Cron, Rule, read_rule
from rota.model.trigger.schedule import Timing
from tests.model.trigger.evaluator import MONTHS, WEEKDAYS, ZONES, Fields, Matching, Window, changes

DAY = 86_400
POLICIES: list[tuple[Gap, Fold]] = list(product(Gap, Fold))
# The first two on every run; the others are left to `make test-slow`.
SOME_ZONES = [*ZONES[:2], *(pytest.param(zone, marks=pytest.mark.slow) for zone in ZONES[2:])]
SEED = int(os.environ.get("ROTA_TEST_TRIGGER_SEED", "1"))


def windows(zone: str, first: int, last: int, width: int = DAY, step: int = 60) -> list[Window]:
    found = changes(zone, first, last)
    if not found:  # nothing ever happens in Kathmandu: any day will do
        found = tuple(int(datetime(year, 3, 1, tzinfo=UTC).timestamp()) for year in range(first, last))
    spans = [2 * DAY if step == 60 and near(at, 2011, 12, 30) else width for at in found]
    return [Window(zone, at - span, at + span, step) for at, span in zip(found, spans, strict=True)]


def near(utc: int, *day: int) -> bool:
    return abs(datetime.fromtimestamp(utc, UTC).date() - date(*day)) < timedelta(days=3)


def number(chance: random.Random, low: int, high: int) -> str:
    return str(chance.randint(low, high))


def clock_field(chance: random.Random, low: int, high: int, likely: int) -> str:
    """A field of hours, minutes or seconds in one of the ways people write them."""
    first = chance.randint(low, likely)
    last = chance.randint(first, high)
    forms = [
        "*",
        f"*/{chance.choice([step for step in (2, 3, 5, 7, 10, 15, 20, 45) if step <= high])}",
        str(first),
        str(first),
        f"{first}-{last}",
        f"{first}-{last}/{chance.randint(1, min(7, last - first + 1))}",
        f"{first}/{chance.randint(1, 20)}",
        ",".join(number(chance, low, high) for _ in range(chance.randint(1, 4))) + f",{first}",
    ]
    return chance.choice(forms)


def day_fields(chance: random.Random) -> str:
    day = number(chance, 1, 31)
    month_terms = ["L", "*/2", "1-7", "15,L", "28-31", day, f"{day}W", f"1,{day}W", "LW", "L-3", "L-3W,5", "?"]
    of_month = chance.choice(["*"] * 6 + month_terms)
    month = chance.choice(["*"] * 9 + ["MAR,APR,SEP-NOV", "*/2", chance.choice(MONTHS), "march-June,October"])
    name, other = chance.choice(WEEKDAYS), chance.choice(WEEKDAYS)
    week_terms = [
        "SUN",
        "MON-FRI",
        "MON-SUN",
        "FRI-SUN",
        "*/2",
        f"{name}L",
        f"{name}#2",
        f"{name}#5",
        f"{name}-{other}",
    ]
    week_terms += ["monday,Saturday", "SUNDAYL", "Thursday#1"]
    counted = ["0,6", "7", "0L", "5L", "5-7", "6-1", "1/2"] if of_month != "?" else ["?"]
    of_week = chance.choice(["*"] * 8 + week_terms + counted)
    return f"{of_month} {month} {of_week}"


def random_rule(chance: random.Random, seconds: bool = False) -> str:
    start = clock_field(chance, 0, 59, 59) + " " if seconds else ""
    return f"{start}{clock_field(chance, 0, 59, 59)} {clock_field(chance, 0, 23, 3)} {day_fields(chance)}"


def compare(text: str, window: Window, rule: Rule | None = None) -> None:
    """`rule` says the same as the cron text in other words."""
    compare_fires(text, window, Fields(text), rule or Cron(text))


def compare_fires(text: str, window: Window, matching: Matching, rule: Rule) -> None:
    for (gap, fold), seen in zip(POLICIES, window.fires(matching, POLICIES), strict=True):
        schedule = Timing(name="x", rule=rule, zone=window.zone, gap=gap, fold=fold)
        # Two hours at each end: a reading may have its instant, or its second one, beyond the window.
        inside = range(window.start + 7200, window.end - 7200)
        found = fires(schedule, inside.start * SECOND - 1, inside.stop * SECOND - 1)
        expected = [utc * SECOND for utc in seen if utc in inside]
        assert list(found) == expected, f"{text!r} in {window.zone}, {gap} {fold}"


def sweep(zone: str, first: int, last: int, rules: int, seconds: bool = False) -> int:
    chance = random.Random(f"{SEED} {zone} {first}")
    compared = 0
    for window in windows(zone, first, last, *((4 * 3600, 1) if seconds else (DAY, 60))):
        for _ in range(rules):
            text = random_rule(chance, seconds)
            if any(map(Fields(text).match_day, (date(2012, 1, 1) + timedelta(days=n) for n in range(366 * 2)))):
                compare(text, window)
                compared += 1
    return compared


@pytest.mark.parametrize("zone", SOME_ZONES)
def test_fires_are_those_of_the_evaluator(zone: str) -> None:
    assert sweep(zone, 2010, 2020, rules=6) >= 50


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.slow
def test_fires_within_seconds_are_those_of_the_evaluator(zone: str) -> None:
    assert sweep(zone, 2011, 2012, rules=2, seconds=True)


MORE_ZONES = (*ZONES, "Asia/Gaza", "Europe/Dublin", "Antarctica/Troll", "Africa/Cairo", "Asia/Tehran")


@pytest.mark.chaos
@pytest.mark.parametrize("first", [1980, 1990, 2000, 2010, 2020, 2030])
@pytest.mark.parametrize("zone", MORE_ZONES)
def test_fires_are_those_of_the_evaluator_for_long(zone: str, first: int) -> None:
    assert sweep(zone, first, first + 10, rules=15)
    assert sweep(zone, first, first + 3, rules=2, seconds=True)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.slow
def test_ten_years_of_days(zone: str) -> None:
    """At noon, which every date has but one: the days themselves, leap days among them."""
    chance = random.Random(SEED)
    first, days = date(2008, 1, 1), 3653
    apia = date(2011, 12, 30)
    for _ in range(12):
        text = f"0 12 {day_fields(chance)}"
        fields = Fields(text)
        expected = [day for day in (first + timedelta(days=n) for n in range(days)) if fields.match_day(day)]
        schedule = Timing(name="x", rule=Cron(text), zone=zone, gap=Gap.SKIP) if expected else None
        if schedule is None:
            continue
        start, end = (instant(f"{day}T00:00:00+00:00") for day in (first, first + timedelta(days=days)))
        found = [local_iso(fire, zone) for fire in fires(schedule, start - DAY * SECOND, end + DAY * SECOND)]
        shown = [day.isoformat() for day in expected if not (zone == "Pacific/Apia" and day == apia)]
        assert [text[:10] for text in found if shown[0] <= text[:10] <= shown[-1]] == shown
        assert all(text[10:19] == "T12:00:00" for text in found)


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=0,20,40", "*/20 0-3 * * *"),
        ("FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=2;BYMINUTE=15", "15 2 * * SAT,SUN"),
        ("FREQ=MONTHLY;BYDAY=-1SU;BYHOUR=1,2", "0 1,2 * * 0L"),
        ("FREQ=HOURLY;INTERVAL=2;BYMINUTE=10", "10 */2 * * *"),
        ("FREQ=MINUTELY;INTERVAL=20", "*/20 * * * *"),
        ("FREQ=HOURLY;BYMINUTE=0,45", "0,45 * * * *"),
    ],
)
@pytest.mark.parametrize("zone", SOME_ZONES)
def test_recurrences_are_those_of_the_evaluator(zone: str, text: str, cron: str) -> None:
    for window in windows(zone, 2011, 2012):
        compare(cron, window, read_rule(text, "2001-01-01T00:00:00"))


def told(rule: str, zone: str, day: str, until: str, gap: str = "shift", fold: str = "first") -> list[str]:
    schedule = Timing(name="x", rule=read_rule(rule, "2001-01-01T00:00:00"), zone=zone, gap=Gap(gap), fold=Fold(fold))
    start, end = (instant(text if "T" in text else f"{text}T00:00:00Z") for text in (day, until))
    return [local_iso(fire, zone)[5:] for fire in fires(schedule, start - 1, end)]


@pytest.mark.parametrize("rule", ["30 2 * * *", "FREQ=DAILY;BYHOUR=2;BYMINUTE=30"])
@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ("shift", ["03-28T02:30:00+01:00", "03-29T03:00:00+02:00", "03-30T02:30:00+02:00"]),
        ("skip", ["03-28T02:30:00+01:00", "03-30T02:30:00+02:00"]),
    ],
)
def test_a_time_that_does_not_exist(rule: str, gap: str, expected: list[str]) -> None:
    assert told(rule, "Europe/Berlin", "2026-03-28", "2026-03-31", gap=gap) == expected


@pytest.mark.parametrize("rule", ["30 2 * * *", "FREQ=DAILY;BYHOUR=2;BYMINUTE=30"])
@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        ("first", ["10-25T02:30:00+02:00"]),
        ("second", ["10-25T02:30:00+01:00"]),
        ("both", ["10-25T02:30:00+02:00", "10-25T02:30:00+01:00"]),
    ],
)
def test_a_time_that_happens_twice(rule: str, fold: str, expected: list[str]) -> None:
    assert told(rule, "Europe/Berlin", "2026-10-25", "2026-10-26", fold=fold) == expected


def test_many_times_in_one_gap_are_one_fire() -> None:
    assert told("*/20 1-2 * * *", "Europe/Berlin", "2026-03-29", "2026-03-29T12:00:00Z") == [
        "03-29T01:00:00+01:00",
        "03-29T01:20:00+01:00",
        "03-29T01:40:00+01:00",
        "03-29T03:00:00+02:00",
    ]


@pytest.mark.parametrize("rule", ["0 * * * *", "@hourly", "FREQ=HOURLY", "0 0-23 * * *"])
@pytest.mark.parametrize("policies", POLICIES)
@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_hourly_rules_follow_elapsed_time(rule: str, policies: tuple[Gap, Fold], day: str) -> None:
    until = str(date.fromisoformat(day) + timedelta(days=1))
    found = told(rule, "Europe/Berlin", day, until, *policies)
    assert len(found) == len(set(found)) == 25, "every hour of UTC, both midnights"


def test_the_day_that_samoa_left_out() -> None:
    assert told("0 9 * * *", "Pacific/Apia", "2011-12-29", "2012-01-01") == [
        "12-29T09:00:00-10:00",
        "12-31T00:00:00+14:00",
        "12-31T09:00:00+14:00",
        "01-01T09:00:00+14:00",
    ]
    assert told("0 9 30 12 *", "Pacific/Apia", "2011-01-01", "2013-01-01", gap="skip") == ["12-30T09:00:00+14:00"]


def test_a_midnight_that_does_not_exist() -> None:
    assert told("@daily", "America/Sao_Paulo", "2018-11-03", "2018-11-05") == [
        "11-03T00:00:00-03:00",
        "11-04T01:00:00-02:00",
    ]


def test_half_an_hour_in_lord_howe() -> None:
    zone = "Australia/Lord_Howe"
    assert told("15 2 * * *", zone, "2026-10-03", "2026-10-04") == ["10-04T02:30:00+11:00"]
    assert told("45 1 * * *", zone, "2026-04-04", "2026-04-05", fold="both") == [
        "04-05T01:45:00+11:00",
        "04-05T01:45:00+10:30",
    ]


def test_the_last_reading_of_a_rule_comes_twice_too() -> None:
    rule = "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;UNTIL=20261025T023000"
    schedule = Timing(name="x", rule=read_rule(rule, "2026-01-01T00:00:00"), zone="Europe/Berlin", fold=Fold.BOTH)
    first, second = instant("2026-10-25T02:30:00+02:00"), instant("2026-10-25T02:30:00+01:00")
    assert list(fires(schedule, first - 1)) == [first, second]
    assert list(fires(schedule, first)) == [second]
    assert next_fire(schedule, second) is None


def test_a_yearly_rule_on_the_fold_fires_twice_and_goes_on() -> None:
    schedule = Timing(name="x", rule=Cron("30 2 25 10 *"), zone="Europe/Berlin", fold=Fold.BOTH)
    found = [local_iso(fire, "Europe/Berlin") for fire in fires(schedule, instant("2026-01-01T00:00:00Z"), limit=3)]
    assert found == ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2027-10-25T02:30:00+02:00"]
