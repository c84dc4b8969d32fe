"""RRULE of RFC 5545, evaluated by `dateutil` on readings of the wall clock.

`dateutil` counts from DTSTART to wherever it is asked for, which takes minutes for a rule that fires each second and began
years ago. So what DTSTART implies (the hour, the weekday...) is first written out, and then the rule is entered at a later
period of the same phase. COUNT and UNTIL become one last reading that we compare with ourselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from dateutil.rrule import rrulestr  # type: ignore[import-untyped]

from rota.errors import InvalidInput
from rota.model.trigger.zones import DAY_SECONDS, Zone, zone

MOST_COUNTED = 10_000  # COUNT is counted out once, when the rule is read
_MOST_INTERVAL = 10_000
_LONGEST_TEXT = 2_000
_EXPECTED = "a rule of RFC 5545 such as FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9;BYMINUTE=0"
_EXPECTED_START = "a local time without offset such as 2027-01-01T09:00:00"
_UNITS = {"SECONDLY": 1, "MINUTELY": 60, "HOURLY": 3600, "DAILY": DAY_SECONDS, "WEEKLY": 7 * DAY_SECONDS}
_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DATE_PARTS = ("BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY")
# key: lowest, highest, and whether it may count from the end
_NUMBERS = {
    "BYSECOND": (0, 59, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
    "INTERVAL": (1, _MOST_INTERVAL, False),
    "COUNT": (1, MOST_COUNTED, False),
}
_DAY_TERM = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,5}", re.ASCII)
_UNTIL = re.compile(r"(\d{8})(?:T(\d{6})(Z?))?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_Parts = dict[str, str]


class RecurrencePlan:
    """The rule, ready to be entered anywhere."""

    def __init__(self, parts: _Parts, begin: datetime, last: int | None) -> None:
        self._interval = int(parts.get("INTERVAL", "1"))
        self._frequency = parts["FREQ"]
        self._week_start = _WEEKDAYS.index(parts.get("WKST", "MO"))
        self._begin = begin
        self._rule: Any = rrulestr(_text(_explicit(parts, begin)), dtstart=begin)
        self._last = last
        self.elapsed = _keeps_pace(parts)

    def since(self, reading: int) -> Iterator[int]:
        target = _EPOCH + timedelta(seconds=reading)
        for moment in self._rule_near(target):
            if moment >= target:
                found = _reading(moment)
                if self._last is not None and found > self._last:
                    return
                yield found

    def _rule_near(self, target: datetime) -> Any:
        periods = self._periods(target) // self._interval - 1  # one earlier: weeks and years overlap at their ends
        if periods < 1:
            return self._rule
        return self._rule.replace(dtstart=self._period(periods * self._interval))

    def _periods(self, target: datetime) -> int:
        match self._frequency:
            case "YEARLY":
                return target.year - self._begin.year
            case "MONTHLY":
                return (target.year - self._begin.year) * 12 + target.month - self._begin.month
            case other:
                return (_reading(target) - _reading(self._begin)) // _UNITS[other]

    def _period(self, count: int) -> datetime:
        """The beginning of the period that comes so many periods after the first."""
        match self._frequency:
            case "YEARLY":
                return datetime(self._begin.year + count, 1, 1)
            case "MONTHLY":
                years, month = divmod(self._begin.month - 1 + count, 12)
                return datetime(self._begin.year + years, month + 1, 1)
            case "WEEKLY":
                monday = _midnight(self._begin) - timedelta((self._begin.weekday() - self._week_start) % 7)
                return monday + timedelta(weeks=count)
            case "DAILY":
                return _midnight(self._begin) + timedelta(days=count)
            case other:
                return self._begin + timedelta(seconds=count * _UNITS[other])


@lru_cache(maxsize=512)
def recurrence_plan(text: str, begin: str, zone_name: str) -> RecurrencePlan:
    parts = _read(text)
    start = read_begin(begin)
    until = _until(parts.pop("UNTIL", None), zone(zone_name))
    count = int(parts.pop("COUNT", "0"))
    _check_possible(text, parts, start)
    try:
        plan = RecurrencePlan(parts, start, until)
        return RecurrencePlan(parts, start, _nth(plan, start, count)) if count else _with_a_fire(plan, text, start)
    except (ValueError, OverflowError):
        raise InvalidInput("rrule", text, f"{_EXPECTED}; this one never fires") from None


def split(text: str) -> tuple[str, str | None]:
    """The rule, and the DTSTART that may stand in a line before it, as ISO 8601."""
    rule = begin = None
    for line in text.strip().splitlines():
        name, _, value = line.strip().rpartition(":")
        match name.upper():
            case "" | "RRULE" if rule is None:
                rule = value
            case "DTSTART" if begin is None:
                begin = _compact(value)
            case _:
                raise InvalidInput("rrule", line, "one RRULE and at most one DTSTART in local time, without TZID")
    if rule is None:
        raise InvalidInput("rrule", text, _EXPECTED)
    return rule, begin


def read_begin(given: str) -> datetime:
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidInput("rrule DTSTART", given, _EXPECTED_START) from None
    if moment.tzinfo is not None or moment.microsecond or not 1970 <= moment.year <= 9000:
        raise InvalidInput("rrule DTSTART", given, f"{_EXPECTED_START}, in whole seconds, from 1970 on")
    return moment


def _compact(value: str) -> str:
    try:
        return datetime.strptime(value, "%Y%m%dT%H%M%S").isoformat()  # noqa: DTZ007
    except ValueError:
        raise InvalidInput("rrule DTSTART", value, "a local time such as 20270101T090000") from None


def _read(text: str) -> _Parts:
    if len(text) > _LONGEST_TEXT:
        raise InvalidInput("rrule", text, f"at most {_LONGEST_TEXT:,} characters")
    parts: _Parts = {}
    for part in text.upper().removeprefix("RRULE:").strip().rstrip(";").split(";"):
        key, equals, value = part.partition("=")
        if not equals or key in parts:
            raise InvalidInput("rrule", part, f"{_EXPECTED}, each part once")
        _check_part(key, value)
        parts[key] = value
    if "FREQ" not in parts:
        raise InvalidInput("rrule", text, f"{_EXPECTED}; FREQ is missing")
    if "COUNT" in parts and "UNTIL" in parts:
        raise InvalidInput("rrule", text, "COUNT or UNTIL, not both")
    return parts


def _check_part(key: str, value: str) -> None:
    what = f"rrule {key}"
    match key:
        case "FREQ":
            if value not in _FREQUENCIES:
                raise InvalidInput(what, value, f"one of {', '.join(_FREQUENCIES)}")
        case "WKST":
            if value not in _WEEKDAYS:
                raise InvalidInput(what, value, f"one of {', '.join(_WEEKDAYS)}")
        case "BYDAY":
            for term in value.split(","):
                found = _DAY_TERM.fullmatch(term)
                if not found or (found[1] and not 1 <= abs(int(found[1])) <= 53):
                    raise InvalidInput(what, term, "a weekday such as MO, 2MO (the second) or -1FR (the last)")
        case "UNTIL":
            pass
        case _ if key in _NUMBERS:
            _check_numbers(what, value, *_NUMBERS[key])
        case _:
            raise InvalidInput("rrule", key, f"one of FREQ, UNTIL, BYDAY, WKST, {', '.join(_NUMBERS)}")


def _check_numbers(what: str, value: str, low: int, high: int, from_end: bool) -> None:
    terms = value.split(",") if what.startswith("rrule BY") else [value]
    for term in terms:
        number = int(term) if _NUMBER.fullmatch(term) else None
        if number is None or not low <= (abs(number) if from_end else number) <= high:
            below = f" or -{high} to -{low}" if from_end else ""
            raise InvalidInput(what, term, f"a number from {low} to {high}{below}")


def _until(value: str | None, where: Zone) -> int | None:
    """As a reading. A date alone means the whole of that day, a time in UTC (Z) becomes local."""
    if value is None:
        return None
    found = _UNTIL.fullmatch(value)
    try:
        if not found:
            raise ValueError
        moment = datetime.strptime(found[1] + (found[2] or "235959"), "%Y%m%d%H%M%S")  # noqa: DTZ007
        if found[3]:
            moment = moment.replace(tzinfo=UTC).astimezone(where.info).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise InvalidInput("rrule UNTIL", value, "a time such as 20271231T235959 or 20271231T225959Z") from None
    return _reading(moment)


def _explicit(parts: _Parts, begin: datetime) -> _Parts:
    """With all that DTSTART implies written out, so that another DTSTART of the same phase changes nothing."""
    whole = dict(parts)
    level = _FREQUENCIES.index(parts["FREQ"])
    if not any(part in parts for part in _DATE_PARTS):
        if level == 0:
            whole.setdefault("BYMONTH", str(begin.month))
        if level <= 1:
            whole["BYMONTHDAY"] = str(begin.day)
        elif level == 2:
            whole["BYDAY"] = _WEEKDAYS[begin.weekday()]
    for finer, (key, value) in enumerate((("BYHOUR", begin.hour), ("BYMINUTE", begin.minute), ("BYSECOND", begin.second))):
        if level < 4 + finer:
            whole.setdefault(key, str(value))
    return whole


def _keeps_pace(parts: _Parts) -> bool:
    """Fires every hour or more often, like a cron rule with `*` for the hour."""
    step = int(parts.get("INTERVAL", "1"))
    finer = any(key in parts for key in ("BYMINUTE", "BYSECOND"))
    unit = _UNITS.get(parts["FREQ"], DAY_SECONDS)
    return "BYHOUR" not in parts and step * unit <= 3600 and (step == 1 or not finer)


def _check_possible(text: str, parts: _Parts, begin: datetime) -> None:
    """Refuses what `dateutil` would look for day by day until the year 9999."""
    whole = _explicit(parts, begin)
    dates = {key: whole[key] for key in ("BYMONTH", *_DATE_PARTS) if key in whole}
    if dates and parts["FREQ"] != "YEARLY":
        dates["BYDAY"] = _DAY_TERM.sub(r"\2", dates["BYDAY"]) if "BYDAY" in dates else ",".join(_WEEKDAYS)
    by_year = rrulestr(_text({"FREQ": "YEARLY", **dates}), dtstart=datetime(2000, 1, 1))
    if next(iter(by_year), None) is None:
        raise InvalidInput("rrule", text, f"{_EXPECTED}; there is no such date")
    if "BYSETPOS" in whole and min(abs(int(n)) for n in whole["BYSETPOS"].split(",")) > _largest_set(whole):
        raise InvalidInput("rrule BYSETPOS", whole["BYSETPOS"], "a position within the set of one period")


def _largest_set(whole: _Parts) -> int:
    level = _FREQUENCIES.index(whole["FREQ"])
    sizes = [len(set(whole[key].split(","))) for key in ("BYHOUR", "BYMINUTE", "BYSECOND")[max(0, level - 3) :] if key in whole]
    days = (366, 31, len(set(whole.get("BYDAY", ",").split(","))), 1, 1, 1, 1)[level]
    for size in sizes:
        days *= size
    return days


def _nth(plan: RecurrencePlan, begin: datetime, count: int) -> int:
    last = None
    for number, found in enumerate(plan.since(_reading(begin)), start=1):
        last = found
        if number == count:
            break
    if last is None:
        raise ValueError
    return last


def _with_a_fire(plan: RecurrencePlan, text: str, begin: datetime) -> RecurrencePlan:
    if next(plan.since(_reading(begin)), None) is None:
        raise InvalidInput("rrule", text, f"{_EXPECTED}; this one never fires")
    return plan


def _text(parts: _Parts) -> str:
    return ";".join(f"{key}={value}" for key, value in parts.items())


def _reading(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(seconds=1)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0)
