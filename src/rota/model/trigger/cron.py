"""Cron: the wall-clock readings that match the fields.

If both day fields are restricted, a day that matches either is taken, as in every cron since Vixie's; a field that
begins with `*` or is `?` restricts nothing in this sense.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from datetime import date
from functools import lru_cache

from rota.model.trigger.clock_times import DAY_SECONDS, ClockTimes
from rota.model.trigger.cron_text import CronFields, impossible, read_cron
from rota.model.trigger.effort import Effort

LAST_YEAR = 9890  # instants end soon after
_EPOCH = date(1970, 1, 1).toordinal()
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class CronPlan:
    """The fields, and the readings that match them."""

    def __init__(self, fields: CronFields) -> None:
        self._fields = fields
        self._times = ClockTimes(fields.hours, fields.minutes, fields.seconds)
        self.seconds, self.minutes, self.hours = self._times.seconds, self._times.minutes, self._times.hours
        # The matching days depend on the weekday of the first and on the length: 28 kinds of month, not 95,000.
        self._days: dict[tuple[int, int], tuple[int, ...]] = {}

    @property
    def elapsed(self) -> bool:
        """Fires every hour or more often, and so keeps its pace when clocks change."""
        return len(self.hours) == 24

    @property
    def possible(self) -> bool:
        months = self._fields.months
        lengths = {_LENGTHS[month - 1] for month in months} | ({28} if 2 in months else set())
        return any(self._matching(weekday, length) for weekday in range(7) for length in lengths)

    def since(self, reading: int, effort: Effort) -> Iterator[int]:
        """All readings that match, from this one on, in order."""
        today, clock = divmod(reading, DAY_SECONDS)
        for day in self._days_from(today, effort):
            midnight = day * DAY_SECONDS
            for second in self._times.since(clock if day == today else 0):
                yield midnight + second

    def _days_from(self, today: int, effort: Effort) -> Iterator[int]:
        """Month by month. A possible rule has a match within 40 years, so this never runs long without a result."""
        start = date.fromordinal(_EPOCH + today)
        year, month, floor = start.year, start.month, start.day
        while year <= LAST_YEAR:
            effort.spend()
            if month in self._fields.months:
                first = date(year, month, 1).toordinal()
                if first - _EPOCH > effort.last_day:
                    return
                for day in self._matching((first + 6) % 7, monthrange(year, month)[1]):
                    if day >= floor:
                        yield first - _EPOCH + day - 1
            year, month, floor = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)

    def _matching(self, weekday: int, length: int) -> tuple[int, ...]:
        """Days that match in a month of that length whose first is that weekday (0 is Monday)."""
        known = self._days.get((weekday, length))
        if known is None:
            by_month, by_week = self._by_month(weekday, length), self._by_week(weekday, length)
            found = by_month & by_week if self._fields.both else by_month | by_week
            known = self._days[weekday, length] = tuple(sorted(found))
        return known

    def _by_month(self, weekday: int, length: int) -> set[int]:
        terms = self._fields.days
        found = set(terms.numbers) | {length - n for n in terms.from_end}
        near = set(terms.working) | {length - n for n in terms.working_from_end}
        found |= {_working_day(day, weekday, length) for day in near if 1 <= day <= length}
        return {day for day in found if 1 <= day <= length}

    def _by_week(self, weekday: int, length: int) -> set[int]:
        terms = self._fields.weekdays
        found: set[int] = set()
        for day in range(1, length + 1):
            name = (weekday + day) % 7  # 0 is Sunday
            nth = (day + 6) // 7
            if name in terms.numbers or (name, nth) in terms.nth or (name in terms.last and day + 7 > length):
                found.add(day)
        return found


def _working_day(day: int, weekday: int, length: int) -> int:
    """The day from Monday to Friday next to this one, in the same month, whose first is that weekday."""
    match (weekday + day - 1) % 7:
        case 5:
            return day - 1 if day > 1 else day + 2
        case 6:
            return day + 1 if day < length else day - 2
        case _:
            return day


@lru_cache(maxsize=2048)
def cron_plan(text: str, name: str) -> CronPlan:
    """Reads a cron text; `name` is the schedule's, for `H`."""
    plan = CronPlan(read_cron(text, name))
    if not plan.possible:
        raise impossible(text)
    return plan
