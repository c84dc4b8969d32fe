"""RRULE of RFC 5545, as readings of the wall clock.

FREQ and INTERVAL name periods (every second week, every tenth minute). The BY... parts select readings in each period,
and BYSETPOS selects some of those by number. The search does not visit readings one by one. It jumps in turns to the
next period of INTERVAL and to the next date, hour, minute or second that the BY... parts allow, until both agree. So in
November a rule for seconds in October costs no more than a yearly rule.

Parts that the rule leaves open come from DTSTART: the hour, the weekday of a weekly rule... DTSTART itself counts only
if the rule includes it. With BYWEEKNO the periods of a yearly rule are years of weeks: the Monday of week 1 belongs to
the year of that week, also if it is in December.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache

import msgspec

from rota.errors import InvalidInput
from rota.model.times import SECOND, Instant
from rota.model.trigger.clock_times import DAY_SECONDS, ClockTimes
from rota.model.trigger.effort import Effort, Exhausted
from rota.model.trigger.policies import Fold, Gap
from rota.model.trigger.recurrence_dates import LAST_DAY, Dates, date_of, day_number, first_week, new_year
from rota.model.trigger.recurrence_text import EXPECTED, FREQUENCIES, Parts, read_begin, read_parts, read_until
from rota.model.trigger.wall import instants
from rota.model.trigger.zones import zone

_UNITS = {"SECONDLY": 1, "MINUTELY": 60, "HOURLY": 3600}
_EPOCH = datetime(1970, 1, 1)
_FAR_SECONDS = 100 * 366 * DAY_SECONDS
# Steps to count the fires of COUNT. Most rules need one or two steps for each fire.
_COUNT_STEPS = 50_000
_RARELY = "this one never fires, or so rarely that the search for its next fire was given up"


class RecurrencePlan:
    """The rule without COUNT and without UNTIL in UTC; a search can begin at any reading."""

    def __init__(self, given: Parts, begin: datetime) -> None:
        parts = _explicit(given, begin)
        self.begin = _reading(begin)
        self.elapsed = _keeps_pace(given)
        self._until = read_until(parts.until)[0] if parts.until else None
        self._interval = parts.interval
        self._positions = parts.positions
        self._dates = Dates(parts)
        self._unit = _UNITS.get(parts.frequency)
        self._periods = _periods(parts, begin.date())
        self._first_period = self._periods.of(self.begin // DAY_SECONDS)
        until = LAST_DAY if self._until is None else min(LAST_DAY, self._until // DAY_SECONDS)
        self._last_day, self._last_period = until, self._periods.of(until)
        level = FREQUENCIES.index(parts.frequency)
        # The times of day at which periods within a day may begin, and the offsets within a period.
        self._starts = ClockTimes(
            parts.hours or range(24),
            (parts.minutes or range(60)) if level > 4 else (0,),
            (parts.seconds or range(60)) if level > 5 else (0,),
        )
        self._held = ClockTimes(
            parts.hours if level < 4 else (0,),
            parts.minutes if level < 5 else (0,),
            parts.seconds if level < 6 else (0,),
        )

    @property
    def has_dates(self) -> bool:
        return self._dates.any()

    def since(self, reading: int, effort: Effort) -> Iterator[int]:
        """All readings from this one on, in order."""
        low = max(reading, self.begin)
        found = self._by_days(low, effort) if self._unit is None else self._by_clock(low, self._unit, effort)
        for one in found:
            if self._until is not None and one > self._until:
                return
            yield one

    def _by_days(self, low: int, effort: Effort) -> Iterator[int]:
        """For periods of a day or more."""
        period = self._aligned(self._periods.of(low // DAY_SECONDS))
        last = min(self._last_period, self._periods.of(min(effort.last_day, LAST_DAY)))
        while period <= last:
            first, end = self._periods.days(period)
            days = self._dates.between(first, end)
            effort.spend(2 + len(days) // 16)
            if days:
                yield from self._chosen(days, low)
                period += self._interval
            else:
                later = self._dates.next(end, effort)
                if later is None:
                    return
                period = self._aligned(self._periods.of(later))

    def _aligned(self, period: int) -> int:
        """The first period of INTERVAL from this one on."""
        return period + (self._first_period - period) % self._interval

    def _by_clock(self, low: int, unit: int, effort: Effort) -> Iterator[int]:
        """For periods within a day."""
        phase = self.begin // unit
        a_day = DAY_SECONDS // unit
        period = low // unit
        last = min(self._last_day, effort.last_day)
        matching: int | None = None  # the latest day that is known to match
        while True:
            effort.spend()
            period += (phase - period) % self._interval
            day, clock = divmod(period * unit, DAY_SECONDS)
            if day != matching:
                if day > last:
                    return
                matching = self._dates.next(day, effort)
                if matching is None:
                    return
                if matching != day:
                    period = matching * a_day
                    continue
            start = self._starts.first(clock)
            if start == clock:
                yield from self._in_period(period * unit, low)
                period += self._interval
            else:
                period = (day + 1) * a_day if start is None else day * a_day + start // unit

    def _chosen(self, days: Sequence[int], low: int) -> Iterator[int]:
        """The readings of a period with these days, from `low` on."""
        if self._positions:
            size = len(self._held)
            for place in _places(self._positions, len(days) * size):
                found = days[place // size] * DAY_SECONDS + self._held[place % size]
                if found >= low:
                    yield found
            return
        today, clock = divmod(low, DAY_SECONDS)
        for day in days[bisect_left(days, today) :]:
            for second in self._held.since(clock if day == today else 0):
                yield day * DAY_SECONDS + second

    def _in_period(self, start: int, low: int) -> Iterator[int]:
        if self._positions:
            seconds = [self._held[place] for place in _places(self._positions, len(self._held))]
            yield from (start + second for second in seconds if start + second >= low)
        else:
            yield from (start + second for second in self._held.since(max(0, low - start)))


class _Years:
    def of(self, day: int) -> int:
        return date_of(day).year

    def days(self, period: int) -> tuple[int, int]:
        return new_year(period), new_year(period + 1)


class _WeekYears:
    def __init__(self, week_start: int) -> None:
        self._week_start = week_start

    def of(self, day: int) -> int:
        year = date_of(day).year
        if day < first_week(year, self._week_start):
            return year - 1
        return year + (day >= first_week(year + 1, self._week_start))

    def days(self, period: int) -> tuple[int, int]:
        return first_week(period, self._week_start), first_week(period + 1, self._week_start)


class _Months:
    def of(self, day: int) -> int:
        found = date_of(day)
        return found.year * 12 + found.month - 1

    def days(self, period: int) -> tuple[int, int]:
        low, high = (day_number(date(n // 12, n % 12 + 1, 1)) for n in (period, period + 1))
        return low, high


class _Days:
    """Periods of one day or of a week."""

    def __init__(self, length: int, first: int) -> None:
        self._length, self._first = length, first

    def of(self, day: int) -> int:
        return (day - self._first) // self._length

    def days(self, period: int) -> tuple[int, int]:
        low = self._first + period * self._length
        return low, low + self._length


def _periods(parts: Parts, begin: date) -> _Years | _WeekYears | _Months | _Days:
    match parts.frequency:
        case "YEARLY":
            return _WeekYears(parts.week_start) if parts.week_numbers else _Years()
        case "MONTHLY":
            return _Months()
        case "WEEKLY":
            return _Days(7, day_number(begin) - (begin.weekday() - parts.week_start) % 7)
        case _:
            return _Days(1, 0)


def _places(positions: Sequence[int], size: int) -> list[int]:
    """Positions count from 1, and from the end with -1."""
    return sorted({n - 1 if n > 0 else size + n for n in positions if abs(n) <= size})


def _explicit(parts: Parts, begin: datetime) -> Parts:
    """The parts, completed from DTSTART."""
    level = FREQUENCIES.index(parts.frequency)
    implied: dict[str, object] = {}
    if not (parts.year_days or parts.month_days or parts.weekdays):
        if parts.week_numbers or level == 2:
            implied["weekdays"] = ((0, begin.weekday()),)
        elif level <= 1:
            implied["month_days"] = (begin.day,)
            if level == 0:
                implied["months"] = parts.months or (begin.month,)
    for finer, (key, value) in enumerate((("hours", begin.hour), ("minutes", begin.minute), ("seconds", begin.second))):
        if level < 4 + finer and not getattr(parts, key):
            implied[key] = (value,)
    return msgspec.structs.replace(parts, **implied)


def _keeps_pace(parts: Parts) -> bool:
    """Fires every hour or more often, like a cron rule with `*` for the hour."""
    unit = _UNITS.get(parts.frequency, DAY_SECONDS)
    finer = bool(parts.minutes or parts.seconds)
    return not parts.hours and parts.interval * unit <= 3600 and (parts.interval == 1 or not finer)


@lru_cache(maxsize=512)
def recurrence_plan(text: str, begin: str) -> RecurrencePlan:
    """Refuses a rule that never fires, or so rarely that the search gives up."""
    plan = RecurrencePlan(read_parts(text), read_begin(begin))
    if not plan.has_dates:
        raise InvalidInput("rrule", text, f"{EXPECTED}; there is no such date")
    without_end = msgspec.structs.replace(read_parts(text), until=None)
    try:
        first = next(RecurrencePlan(without_end, read_begin(begin)).since(plan.begin, Effort()), None)
    except Exhausted:
        first = None
    if first is None:
        raise InvalidInput("rrule", text, f"{EXPECTED}; {_RARELY}")
    return plan


@lru_cache(maxsize=512)
def recurrence_end(text: str, begin: str, zone_name: str, gap: Gap, fold: Fold) -> Instant | None:
    """The last instant by COUNT, or by UNTIL in UTC; None if neither is there. COUNT counts fires,
    without times that are skipped in a gap."""
    parts = read_parts(text)
    if parts.until:
        return read_until(parts.until)[1]
    if parts.count is None:
        return None
    plan = recurrence_plan(text, begin)
    before = (plan.begin - 2 * DAY_SECONDS) * SECOND
    far = before + _FAR_SECONDS * SECOND
    try:
        found = instants(plan, zone(zone_name), gap, fold, before, Effort(_COUNT_STEPS))
        for number, fire in enumerate(found, start=1):
            if number == parts.count or fire > far:
                return fire if number == parts.count else None  # too far away to matter
    except Exhausted:
        expected = "fewer, or UNTIL, or the option `limit`: it takes too long to count this far"
        raise InvalidInput("rrule COUNT", str(parts.count), expected) from None
    return None


def _reading(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(seconds=1)
