"""Random RRULEs, held against an evaluator that is written from the text of RFC 5545."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from itertools import takewhile

import pytest

from rota.errors import InvalidInput
from rota.model.trigger.effort import Effort
from rota.model.trigger.recurrence import recurrence_plan
from rota.model.trigger.rules import read_rule
from tests.model.trigger.evaluator import ZONES
from tests.model.trigger.recurrence_evaluator import DAYS, NaiveRule
from tests.model.trigger.test_daylight import compare_fires, windows

EPOCH = datetime(1970, 1, 1)
# How far the slow evaluator looks.
WINDOWS = {
    "YEARLY": timedelta(days=365 * 12),
    "MONTHLY": timedelta(days=365 * 5),
    "WEEKLY": timedelta(days=365 * 3),
    "DAILY": timedelta(days=365 * 3),
    "HOURLY": timedelta(days=30),
    "MINUTELY": timedelta(days=1),
    "SECONDLY": timedelta(hours=1),
}


def plain(found: list[int]) -> list[datetime]:
    return [EPOCH + timedelta(seconds=reading) for reading in found]


def reading(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(seconds=1)


def some(chance: random.Random, low: int, high: int, near: int | None = None, signed: bool = False) -> str:
    numbers = [
        chance.randint(low, high) * (chance.choice((1, -1)) if signed else 1) for _ in range(chance.randint(1, 3))
    ]
    if near is not None and chance.random() < 0.6:
        numbers.append(near)
    return ",".join(map(str, numbers))


def weekdays(chance: random.Random, frequency: str, by_month: bool, by_week: bool) -> str:
    highest = 5 if frequency == "MONTHLY" or by_month else 53
    terms = []
    for _ in range(chance.randint(1, 4)):
        numbered = frequency in ("MONTHLY", "YEARLY") and not by_week and chance.random() < 0.4
        number = str(chance.choice((1, -1)) * chance.choice((1, 2, 3, 5, highest))) if numbered else ""
        terms.append(number + chance.choice(DAYS))
    return ",".join(terms)


def random_rule(chance: random.Random, begin: datetime) -> str:
    frequency = chance.choice(list(WINDOWS))
    coarse = frequency in ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
    parts: dict[str, str] = {"FREQ": frequency}

    def perhaps(key: str, likely: float, value: str) -> None:
        if chance.random() < likely:
            parts[key] = value

    perhaps("INTERVAL", 0.6, str(chance.choice((1, 2, 3, 4, 5, 7, 13, 60, 90) if not coarse else (1, 2, 3, 4, 5))))
    perhaps("WKST", 0.4, chance.choice(DAYS))
    perhaps("BYMONTH", 0.25, some(chance, 1, 12, begin.month))
    if frequency == "YEARLY":
        perhaps("BYWEEKNO", 0.3, some(chance, 1, 53, chance.choice((1, 52, 53)), signed=True))
    if frequency not in ("MONTHLY", "WEEKLY", "DAILY"):
        perhaps("BYYEARDAY", 0.15, some(chance, 1, 366, chance.choice((1, 365, 366)), signed=True))
    if frequency != "WEEKLY":
        perhaps("BYMONTHDAY", 0.25, some(chance, 1, 31, begin.day, signed=True))
    perhaps("BYDAY", 0.4, weekdays(chance, frequency, "BYMONTH" in parts, "BYWEEKNO" in parts))
    perhaps("BYHOUR", 0.3, some(chance, 0, 23, begin.hour))
    perhaps("BYMINUTE", 0.3, some(chance, 0, 59, begin.minute))
    perhaps("BYSECOND", 0.2, some(chance, 0, 59, begin.second))
    if any(key.startswith("BY") for key in parts):
        perhaps("BYSETPOS", 0.3, some(chance, 1, 6, 1, signed=True))
    return ";".join(f"{key}={value}" for key, value in parts.items())


def compare(chance: random.Random) -> int:
    """Makes up a rule, enters it at its beginning and somewhere later; tells how many occurrences were compared."""
    begin = datetime(2018, 1, 1) + timedelta(seconds=chance.randrange(4 * 365 * 86_400))
    text = random_rule(chance, begin)
    window = WINDOWS[text.partition(";")[0].removeprefix("FREQ=")]
    stop = begin + window
    expected = NaiveRule(text, begin).until(stop)
    try:
        plan = recurrence_plan(text, begin.isoformat())
    except InvalidInput as problem:
        refused = str(problem)
    else:
        refused = ""
    if refused:
        assert "never fires" in refused or "no such date" in refused, text
        assert not expected, text
        return 0
    for start in (begin, begin + timedelta(seconds=int(window.total_seconds() * chance.random()))):
        found = takewhile(lambda one: one <= reading(stop), plan.since(reading(start), Effort(10**9)))
        assert plain(list(found)) == [one for one in expected if one >= start], f"{text} of {begin}, from {start}"
    return len(expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(10))
def test_random_rules(seed: int) -> None:
    chance = random.Random(seed)
    assert sum(compare(chance) > 0 for _ in range(15)) >= 5


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_random_rules_for_long(seed: int) -> None:
    chance = random.Random(seed)
    assert sum(compare(chance) > 0 for _ in range(100)) >= 25


# -- where clocks change ---------------------------------------------------------------------------------------------
class Matched:
    """What the slow evaluator finds, as the evaluator of clock changes asks for it."""

    def __init__(self, text: str, begin: datetime, stop: datetime) -> None:
        self.readings = set(NaiveRule(text, begin).until(stop))
        parts = dict(part.split("=") for part in text.split(";"))
        minutes = {"MINUTELY": 1, "HOURLY": 60}.get(parts["FREQ"], 1440) * int(parts.get("INTERVAL", "1"))
        finer = "BYMINUTE" in parts and parts.get("INTERVAL", "1") != "1"
        self.all_hours = "BYHOUR" not in parts and minutes <= 60 and not finer

    def match(self, day: date, hour: int, minute: int, second: int) -> bool:
        return datetime(day.year, day.month, day.day, hour, minute, second) in self.readings


def rule_at_night(chance: random.Random) -> str:
    parts = {"FREQ": chance.choice(("WEEKLY", "DAILY", "HOURLY", "MINUTELY"))}
    if chance.random() < 0.6:
        parts["INTERVAL"] = str(chance.choice((1, 2, 3, 7, 10, 45) if parts["FREQ"] == "MINUTELY" else (1, 2)))
    if chance.random() < 0.4 or parts["FREQ"] == "WEEKLY":
        parts["BYDAY"] = ",".join(chance.sample(DAYS, 5))
    if chance.random() < 0.5 or parts["FREQ"] in ("WEEKLY", "DAILY"):
        parts["BYHOUR"] = ",".join(map(str, chance.sample(range(5), 3)))
    if chance.random() < 0.4:
        parts["BYMINUTE"] = ",".join(map(str, chance.sample(range(60), 2)))
        if chance.random() < 0.4:
            parts["BYSETPOS"] = "-1"
    return ";".join(f"{key}={value}" for key, value in parts.items())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zone", ZONES)
def test_random_rules_where_clocks_change(zone: str) -> None:
    chance = random.Random(zone)
    compared = 0
    for window in windows(zone, 2011, 2012):
        first, last = (moment.reading for moment in (window.moments[0], window.moments[-1]))
        begin = first - timedelta(minutes=chance.randrange(3 * 1440))
        for _ in range(8):
            text = rule_at_night(chance)
            seen = Matched(text, begin, last + timedelta(days=1))
            try:
                compare_fires(text, window, seen, read_rule(text, begin.isoformat()))
                compared += 1
            except InvalidInput:  # an interval that never meets the hours
                assert not seen.readings, text
    assert compared >= 8
