"""RRULE of RFC 5545, evaluated by `dateutil` on readings of the wall clock.

`dateutil` counts from DTSTART to wherever it is asked for, which takes minutes for a rule that fires each second and
began years ago. So what DTSTART implies (the hour, the weekday...) is first written out, and then the rule is entered
at a later period of the same phase. COUNT and UNTIL become one last reading that we compare with ourselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from rota.errors import InvalidInput
from rota.model.trigger.recurrence_text import (
    DATE_PARTS,
    DAY_TERM,
    EXPECTED,
    FREQUENCIES,
    WEEKDAYS,
    Parts,
    read_begin,
    read_parts,
    read_until,
)
from rota.model.trigger.zones import DAY_SECONDS, zone

_UNITS = {"SECONDLY": 1, "MINUTELY": 60, "HOURLY": 3600, "DAILY": DAY_SECONDS, "WEEKLY": 7 * DAY_SECONDS}
_EPOCH = datetime(1970, 1, 1)
_LATE = datetime(9600, 1, 1)  # a year 2000, of the calendar's last 400 years
_FAR_SECONDS = 100 * 366 * DAY_SECONDS


def _rrule(text: str, dtstart: datetime) -> Any:
    from dateutil.rrule import rrulestr  # type: ignore[import-untyped]  # hardly anybody needs it

    return rrulestr(text, dtstart=dtstart)


class RecurrencePlan:
    """The rule, ready to be entered anywhere."""

    def __init__(self, parts: Parts, begin: datetime, last: int | None) -> None:
        self._interval = int(parts.get("INTERVAL", "1"))
        self._frequency = parts["FREQ"]
        self._week_start = WEEKDAYS.index(parts.get("WKST", "MO"))
        self._begin = begin
        self._rule: Any = _rrule(_text(_explicit(parts, begin)), dtstart=begin)
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

    @property
    def possible(self) -> bool:
        """Looks at the end of the calendar, where the search in vain is a short one. It repeats every 400 years."""
        late = self._begin.replace(year=self._begin.year + (_LATE.year + 300 - self._begin.year) // 400 * 400)
        return next(iter(self._rule.replace(dtstart=late)), None) is not None

    def _rule_near(self, target: datetime) -> Any:
        steps = self._periods(target) // self._interval
        return self._rule.replace(dtstart=self._period(steps * self._interval)) if steps > 0 else self._rule

    def _periods(self, target: datetime) -> int:
        """How many periods from the first to that of the target, or one less."""
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
    parts = read_parts(text)
    start = read_begin(begin)
    end = read_until(parts.pop("UNTIL", None), zone(zone_name))
    until = None if end is None else _reading(end)
    count = int(parts.pop("COUNT", "0"))
    _check_possible(text, parts, start)
    try:
        plan = RecurrencePlan(parts, start, until)
        if not plan.possible:
            raise ValueError
        return RecurrencePlan(parts, start, _nth(plan, start, count)) if count else plan
    except (ValueError, OverflowError):  # the former also from `dateutil`, for hours that its steps never meet
        raise InvalidInput("rrule", text, f"{EXPECTED}; this one never fires") from None


def _explicit(parts: Parts, begin: datetime) -> Parts:
    """With all that DTSTART implies written out, so that another DTSTART of the same phase changes nothing."""
    whole = dict(parts)
    level = FREQUENCIES.index(parts["FREQ"])
    if not any(part in parts for part in DATE_PARTS):
        if level == 0:
            whole.setdefault("BYMONTH", str(begin.month))
        if level <= 1:
            whole["BYMONTHDAY"] = str(begin.day)
        elif level == 2:
            whole["BYDAY"] = WEEKDAYS[begin.weekday()]
    for finer, (key, value) in enumerate(
        (("BYHOUR", begin.hour), ("BYMINUTE", begin.minute), ("BYSECOND", begin.second))
    ):
        if level < 4 + finer:
            whole.setdefault(key, str(value))
    return whole


def _keeps_pace(parts: Parts) -> bool:
    """Fires every hour or more often, like a cron rule with `*` for the hour."""
    step = int(parts.get("INTERVAL", "1"))
    finer = any(key in parts for key in ("BYMINUTE", "BYSECOND"))
    unit = _UNITS.get(parts["FREQ"], DAY_SECONDS)
    return "BYHOUR" not in parts and step * unit <= 3600 and (step == 1 or not finer)


def _check_possible(text: str, parts: Parts, begin: datetime) -> None:
    """Refuses what `dateutil` would look for day by day, in vain."""
    whole = _explicit(parts, begin)
    dates = {key: whole[key] for key in ("BYMONTH", *DATE_PARTS) if key in whole}
    if dates and parts["FREQ"] != "YEARLY":
        dates["BYDAY"] = DAY_TERM.sub(r"\2", dates["BYDAY"]) if "BYDAY" in dates else ",".join(WEEKDAYS)
    by_year = _rrule(_text({"FREQ": "YEARLY", **dates}), dtstart=_LATE)
    if next(iter(by_year), None) is None:
        raise InvalidInput("rrule", text, f"{EXPECTED}; there is no such date")
    if "BYSETPOS" in whole and min(abs(int(n)) for n in whole["BYSETPOS"].split(",")) > _largest_set(whole):
        raise InvalidInput("rrule BYSETPOS", whole["BYSETPOS"], "a position within the set of one period")


def _largest_set(whole: Parts) -> int:
    level = FREQUENCIES.index(whole["FREQ"])
    sizes = [
        len(set(whole[key].split(",")))
        for key in ("BYHOUR", "BYMINUTE", "BYSECOND")[max(0, level - 3) :]
        if key in whole
    ]
    days = (366, 31, len(set(whole.get("BYDAY", ",").split(","))), 1, 1, 1, 1)[level]
    for size in sizes:
        days *= size
    return days


def _nth(plan: RecurrencePlan, begin: datetime, count: int) -> int | None:
    """The last of so many readings; None if it is too far away to matter."""
    far = _reading(begin) + _FAR_SECONDS
    for number, found in enumerate(plan.since(_reading(begin)), start=1):
        if number == count or found > far:
            return found if number == count else None
    return None


def _text(parts: Parts) -> str:
    return ";".join(f"{key}={value}" for key, value in parts.items())


def _reading(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(seconds=1)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0)
