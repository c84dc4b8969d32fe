"""The dates that match the parts of an RRULE: BYMONTH, BYWEEKNO, BYYEARDAY, BYMONTHDAY and BYDAY.

The RFC distinguishes "expand" and "limit", but in both cases a date matches if it satisfies every given part, and any
one term of BYDAY. The matching dates of a year depend only on the weekday of 1 January and on leap years, so some
thirty of ten thousand years are computed.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import pairwise

import msgspec

from rota.model.trigger.effort import Effort
from rota.model.trigger.recurrence_text import Parts

LAST_YEAR = 9890  # instants end soon after
_EPOCH = date(1970, 1, 1).toordinal()
LAST_DAY = date(LAST_YEAR, 12, 31).toordinal() - _EPOCH
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_Kind = tuple[int, bool, bool, bool]


def day_number(day: date) -> int:
    """Days since 1970-01-01."""
    return day.toordinal() - _EPOCH


def date_of(day: int) -> date:
    return date.fromordinal(_EPOCH + day)


def new_year(year: int) -> int:
    return date(year, 1, 1).toordinal() - _EPOCH


def first_week(year: int, week_start: int) -> int:
    """The first day of week 1: the first week that has four days or more in the year."""
    january = new_year(year)
    return january + _first_week(_weekday(january), week_start)


class _Year(msgspec.Struct, frozen=True, gc=False):
    start: int
    end: int
    days: tuple[int, ...]  # matching days


class Dates:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._known: dict[_Kind, tuple[int, ...]] = {}
        self._latest = _Year(0, 0, ())

    def any(self) -> bool:
        """Whether there is any: the calendar repeats every 400 years."""
        return any(self._offsets(year) for year in range(2000, 2400))

    def next(self, day: int, effort: Effort) -> int | None:
        """The first from this day on."""
        last = min(LAST_DAY, effort.last_day)
        while day <= last:
            year = self._year(day)
            place = bisect_left(year.days, day)
            if place < len(year.days):
                return year.days[place]
            day = year.end
            effort.spend()
        return None

    def between(self, low: int, high: int) -> Sequence[int]:
        """From `low` up to but without `high`."""
        year = self._year(low)
        found = year.days[bisect_left(year.days, low) : bisect_left(year.days, high)]
        return found if high <= year.end else (*found, *self.between(year.end, high))

    def _year(self, day: int) -> _Year:
        """The year of this day. Mostly it is the one of the day before."""
        latest = self._latest
        if not latest.start <= day < latest.end:
            number = date_of(day).year
            start, end = new_year(number), new_year(number + 1)
            latest = self._latest = _Year(start, end, tuple(start + offset for offset in self._offsets(number)))
        return latest

    def _offsets(self, year: int) -> tuple[int, ...]:
        """As days since 1 January."""
        kind = (_weekday(new_year(year)), isleap(year), isleap(year - 1), isleap(year + 1))
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = tuple(sorted(_matching(self._parts, kind)))
        return known


def _matching(parts: Parts, kind: _Kind) -> set[int]:
    january, leap, *_ = kind
    length = 365 + leap
    months = _months(leap)
    found = set(range(length))
    if parts.months:
        found &= {day for month in parts.months for day in months[month - 1]}
    if parts.week_numbers:
        found &= _in_weeks(parts.week_numbers, parts.week_start, kind)
    if parts.year_days:
        found &= set(_numbered(range(length), parts.year_days))
    if parts.month_days:
        found &= {day for month in months for day in _numbered(month, parts.month_days)}
    if parts.weekdays:
        by_month = parts.frequency == "MONTHLY" or bool(parts.months)
        found &= _on_weekdays(parts.weekdays, months if by_month else [range(length)], january)
    return found


def _months(leap: bool) -> list[range]:
    lengths = [*_LENGTHS[:1], 28 + leap, *_LENGTHS[2:]]
    return [range(sum(lengths[:n]), sum(lengths[: n + 1])) for n in range(12)]


def _numbered(days: Sequence[int], numbers: Iterable[int]) -> list[int]:
    """1 is the first of the days, -1 the last; numbers out of range name none."""
    return [days[n - 1 if n > 0 else n] for n in numbers if abs(n) <= len(days)]


def _on_weekdays(terms: Iterable[tuple[int, int]], spans: Sequence[range], january: int) -> set[int]:
    """Numbers count within each span: the year, or its months."""
    found: set[int] = set()
    for number, weekday in terms:
        for span in spans:
            days = span[(weekday - january - span.start) % 7 :: 7]
            found.update(_numbered(days, [number]) if number else days)
    return found


def _in_weeks(numbers: Iterable[int], week_start: int, kind: _Kind) -> set[int]:
    """The first days of January may be in the last week of the year before, and the last ones of December in the first
    of the year after."""
    january, leap, leap_before, leap_after = kind
    length, before, after = 365 + leap, 365 + leap_before, 365 + leap_after
    januaries = [-before, 0, length, length + after]
    starts = [day + _first_week((january + day) % 7, week_start) for day in januaries]
    found: set[int] = set()
    for start, end in pairwise(starts):
        weeks = range(start, end, 7)
        found.update(day for first in _numbered(weeks, numbers) for day in range(first, first + 7))
    return found


def _first_week(january: int, week_start: int) -> int:
    """The first day of week 1, as days since 1 January, which is that weekday."""
    gone = (january - week_start) % 7
    return -gone if gone <= 3 else 7 - gone


def _weekday(day: int) -> int:
    return (day + 3) % 7  # 1970-01-01 was a Thursday
