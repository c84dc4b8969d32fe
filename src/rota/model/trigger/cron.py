"""Cron: five fields (minute, hour, day of month, month, day of week), or six with seconds first.

`cronsim` reads the grammar, and gives us sets. It is not asked for the times: what it does at a gap or a fold can't be
chosen. If both day fields are restricted, a day that matches either is taken, as in every cron since Vixie's; a field
that begins with `*` restricts nothing in this sense.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

from rota.errors import InvalidInput
from rota.model.trigger.spread import expand
from rota.model.trigger.zones import DAY_SECONDS

LAST_YEAR = 9890  # instants end soon after
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EXPECTED = "five fields (minute hour day month weekday), six with seconds first, or a word such as @daily"
_FIELDS = (
    # name, what it may be, and where H may fall: on days that every month has
    ("second", "0-59", 0, 59),
    ("minute", "0-59", 0, 59),
    ("hour", "0-23", 0, 23),
    ("day of month", "1-31, L (the last) or LW (the last from Monday to Friday)", 1, 28),
    ("month", "1-12 or JAN-DEC", 1, 12),
    ("day of week", "0-7 or SUN-SAT (0 and 7 are Sunday), 5L (the last Friday), MON#2 (the second Monday)", 0, 6),
)
_DAY, _MONTH = 3, 4
_LONGEST_TEXT = 1_000
_WRITTEN = re.compile(r"[0-9A-Z*/,#()\s-]+", re.ASCII)
_RANGE = re.compile(r"([0-9A-Z]+)-([0-9A-Z]+)(?:/0*[1-9]\d*)?", re.ASCII)
_EPOCH = date(1970, 1, 1).toordinal()
_ANY_TIME = datetime(2000, 1, 1)
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class CronPlan:
    """The fields as sets, and the readings that match them."""

    def __init__(self, parsed: CronSim) -> None:
        self.seconds = tuple(sorted(parsed.seconds))
        self.minutes = tuple(sorted(parsed.minutes))
        self.hours = tuple(sorted(parsed.hours))
        self.months = frozenset(parsed.months)
        self._parsed = parsed
        # The days that match depend on the weekday of the first and on the length: 28 kinds of month, not 95,000.
        self._days: dict[tuple[int, int], tuple[int, ...]] = {}

    @property
    def elapsed(self) -> bool:
        """Fires every hour or more often, and so keeps its pace when clocks change."""
        return len(self.hours) == 24

    @property
    def possible(self) -> bool:
        lengths = {_LENGTHS[month - 1] for month in self.months} | ({28} if 2 in self.months else set())
        return any(self._matching(weekday, length) for weekday in range(7) for length in lengths)

    def since(self, reading: int) -> Iterator[int]:
        """All readings that match, from this one on, in order."""
        today, clock = divmod(reading, DAY_SECONDS)
        for day in self._days_from(today):
            midnight = day * DAY_SECONDS
            for second in self._times_from(clock if day == today else 0):
                yield midnight + second

    def _times_from(self, clock: int) -> Iterator[int]:
        rest, second = divmod(clock, 60)
        hour, minute = divmod(rest, 60)
        for h in self.hours[bisect_left(self.hours, hour) :]:
            minutes = self.minutes if h > hour else self.minutes[bisect_left(self.minutes, minute) :]
            for m in minutes:
                now = h == hour and m == minute
                seconds = self.seconds[bisect_left(self.seconds, second) :] if now else self.seconds
                for s in seconds:
                    yield h * 3600 + m * 60 + s

    def _days_from(self, today: int) -> Iterator[int]:
        """Month by month. A possible rule has a match within 40 years, so this never runs long without a result."""
        start = date.fromordinal(_EPOCH + today)
        year, month, floor = start.year, start.month, start.day
        while year <= LAST_YEAR:
            if month in self.months:
                first = date(year, month, 1).toordinal()
                for day in self._matching((first + 6) % 7, monthrange(year, month)[1]):
                    if day >= floor:
                        yield first - _EPOCH + day - 1
            year, month, floor = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)

    def _matching(self, weekday: int, length: int) -> tuple[int, ...]:
        """Days that match in a month of that length whose first is that weekday (0 is Monday)."""
        known = self._days.get((weekday, length))
        if known is None:
            known = self._days[weekday, length] = tuple(
                day for day in range(1, length + 1) if self._match(day, (weekday + day - 1) % 7, length)
            )
        return known

    def _match(self, day: int, weekday: int, length: int) -> bool:
        by_month, by_week = self._match_month(day, weekday, length), self._match_week(day, weekday, length)
        return by_month and by_week if self._parsed.day_and else by_month or by_week

    def _match_month(self, day: int, weekday: int, length: int) -> bool:
        days = self._parsed.days
        if day in days or (day == length and CronSim.LAST in days):
            return True
        # The last working day: the last day itself, or the Friday of which only a weekend is left.
        working = (weekday < 4 and day == length) or (weekday == 4 and day + 2 >= length)
        return working and CronSim.LAST_WEEKDAY in days

    def _match_week(self, day: int, weekday: int, length: int) -> bool:
        weekdays = self._parsed.weekdays
        nth = (day + 6) // 7
        last = CronSim.LAST if day + 7 > length else nth
        names = (weekday + 1, (weekday + 1) % 7)  # Sunday has two
        return any(name in weekdays or (name, nth) in weekdays or (name, last) in weekdays for name in names)


@lru_cache(maxsize=2048)
def cron_plan(text: str, name: str) -> CronPlan:
    """Reads a cron text; `name` is the schedule's, for `H`."""
    fields = _fields(text)
    missing = 6 - len(fields)  # 1 if there is no field of seconds
    plain = [_plain(index, field, missing, name) for index, field in enumerate(fields, start=missing)]
    try:
        plan = CronPlan(_parse(plain))
    except CronSimError:
        plan = None
    if plan is None or not plan.possible:
        raise _complaint(fields, plain, missing)
    return plan


def _plain(index: int, field: str, missing: int, name: str) -> str:
    """A field as cronsim should see it: with numbers for H, and without 2-2/7, which it takes for 2/7."""
    what, _, low, high = _FIELDS[index]
    text = expand(_what(index, missing), field, low, high, name, what)
    if "/" not in text or "-" not in text:
        return text
    return ",".join(_narrow(index, term) for term in text.split(","))


def _narrow(index: int, term: str) -> str:
    found = _RANGE.fullmatch(term)
    first, last = (_values(index, end) for end in found.groups()) if found else (None, None)
    return found[1] if found and first and first == last else term


def _what(index: int, missing: int) -> str:
    return f"cron field {index + 1 - missing} ({_FIELDS[index][0]})"


def _fields(text: str) -> list[str]:
    given = ALIASES.get(text.strip().lower(), text).strip().upper()
    if given.startswith("@"):
        raise InvalidInput("cron", text, f"one of {', '.join(ALIASES)}")
    fields = given.split()
    if len(given) > _LONGEST_TEXT or not _WRITTEN.fullmatch(given) or len(fields) not in (5, 6):
        raise InvalidInput("cron", text, _EXPECTED)
    return fields


def _complaint(fields: list[str], plain: list[str], missing: int) -> InvalidInput:
    """Points at the first term that makes no sense by itself; if all do, their combination is impossible."""
    for index, field in enumerate(plain, start=missing):
        for term in field.split(","):
            if not _values(index, term):
                return InvalidInput(_what(index, missing), term, _expected(index, term))
    day, month = fields[_DAY - missing], fields[_MONTH - missing]
    return InvalidInput(_what(_DAY, missing), day, f"a day that exists; month {month} never has one that matches")


def _expected(index: int, term: str) -> str:
    found = _RANGE.fullmatch(term)
    if found and all(_values(index, end) for end in found.groups()):
        return f"a range that runs upwards; {found[2]} comes before {found[1]}"
    return f"{_FIELDS[index][1]}, also ranges 1-3, steps */2, lists 1,2"


def _values(index: int, term: str) -> set[object]:
    """What a field that is just this term stands for; nothing if it makes no sense."""
    if not term:
        return set()
    try:
        parsed = _parse([term if i == index else "*" for i in range(6)])
    except CronSimError:
        return set()
    fields = (parsed.seconds, parsed.minutes, parsed.hours, parsed.days, parsed.months, parsed.weekdays)
    return set(fields[index])


def _parse(fields: list[str]) -> CronSim:
    return CronSim(" ".join(fields), _ANY_TIME)
