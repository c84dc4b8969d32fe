"""When cron rules fire, told again without any of rota's code: slowly, and by the words of the policies.

It looks at every minute (or second) of UTC around a change of clocks, asks `zoneinfo` what the wall shows, and matches
that against fields it reads with a parser of its own.
"""

from __future__ import annotations

import calendar
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Asia/Kathmandu",
)
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
LOWEST_HIGHEST = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def number(text: str) -> int:
    """Of a name, short or in full, or of digits."""
    if text[:3] in MONTHS:
        return MONTHS.index(text[:3]) + 1
    return WEEKDAYS.index(text[:3]) if text[:3] in WEEKDAYS else int(text)


def special(term: str) -> bool:
    """`L`, `L-3`, `LW`, `15W`, `FRIL`, `5L` and `MON#2` are looked at by those who know the date."""
    return re.fullmatch(r"L(-\d+)?W?|\d+W|(\d|[A-Z]+)L|.*#.*", term) is not None and term not in ("JUL", "APRIL")


def numbers(text: str, low: int, high: int) -> set[int]:
    """The plain terms of a field."""
    found: set[int] = set()
    for term in text.split(","):
        if special(term):
            continue
        body, _, step = term.partition("/")
        first, dash, last = body.partition("-")
        everything = body in ("*", "?")
        bottom = low if everything else number(first)
        top = number(last) if dash else high if everything or step else bottom
        if top < bottom:  # weekdays, round the week: each one is walked to
            top += 7
        walked = range(bottom, top + 1, int(step or 1))
        found |= {n % 7 for n in walked} if high == 7 else set(walked)
    return found


class Matching(Protocol):
    """Which readings a rule names, and whether it follows elapsed time."""

    all_hours: bool

    def match(self, day: date, hour: int, minute: int, second: int) -> bool: ...


class Fields:
    def __init__(self, text: str) -> None:
        given = text.upper().split()
        self.texts = given if len(given) == 6 else ["0", *given]
        self.plain = [numbers(field, *LOWEST_HIGHEST[i]) for i, field in enumerate(self.texts)]
        self.all_hours = self.plain[2] >= set(range(24))
        self._known: dict[date, bool] = {}

    def match_day(self, day: date) -> bool:
        if day not in self._known:
            self._known[day] = day.month in self.plain[4] and self._by_day(day)
        return self._known[day]

    def match(self, day: date, hour: int, minute: int, second: int) -> bool:
        seconds, minutes, hours = self.plain[:3]
        return second in seconds and minute in minutes and hour in hours and self.match_day(day)

    def _by_day(self, day: date) -> bool:
        of_month, of_week = self._by_month(day), self._by_week(day)
        if self.texts[3][0] in "*?" or self.texts[5][0] in "*?":
            return of_month and of_week
        return of_month or of_week

    def _by_month(self, day: date) -> bool:
        return day.day in self.plain[3] or any(day == self._meant(term, day) for term in self.texts[3].split(","))

    def _meant(self, term: str, day: date) -> date | None:
        """The day of this month that `L`, `L-3`, `LW`, `L-3W` or `15W` means, if there is one."""
        if not special(term):
            return None
        days = month_days(day)
        body = term.removesuffix("W")
        place = len(days) - int(body[2:] or 0) if body.startswith("L") else int(body)
        if not 1 <= place <= len(days):
            return None
        target = days[place - 1]
        if not term.endswith("W"):
            return target
        working = [one for one in days if one.isoweekday() <= 5]
        return min(working, key=lambda one: abs(one - target))

    def _by_week(self, day: date) -> bool:
        names = {day.isoweekday(), day.isoweekday() % 7}
        if names & self.plain[5]:
            return True
        for term in self.texts[5].split(","):
            last = special(term) and term.endswith("L")
            if last and number(term[:-1]) in names and (day + timedelta(days=7)).month != day.month:
                return True
            name, hash_sign, nth = term.partition("#")
            if hash_sign and number(name) in names:
                same = [d for d in month_days(day) if d.weekday() == day.weekday()]
                if len(same) >= int(nth) and same[int(nth) - 1] == day:
                    return True
        return False


def month_days(day: date) -> list[date]:
    return _month_days(day.year, day.month)


@lru_cache(maxsize=2000)
def _month_days(year: int, month: int) -> list[date]:
    return [date(year, month, n) for n in range(1, calendar.monthrange(year, month)[1] + 1)]


class Moment:
    __slots__ = ("day", "hour", "minute", "reading", "second", "utc")

    def __init__(self, utc: int, zone: ZoneInfo) -> None:
        local = datetime.fromtimestamp(utc, zone)
        self.utc = utc
        self.day = local.date()
        self.hour, self.minute, self.second = local.hour, local.minute, local.second
        self.reading = local.replace(tzinfo=None)


class Window:
    """Every step of UTC in a span, with what the wall showed."""

    def __init__(self, zone: str, start: int, end: int, step: int) -> None:
        self.zone, self.start, self.end, self.step = zone, start, end, step
        info = ZoneInfo(zone)
        self.moments = [Moment(utc, info) for utc in range(start, end, step)]
        self.readings = list(self._readings())
        self.shown: dict[datetime, list[int]] = defaultdict(list)
        for moment in self.moments:
            self.shown[moment.reading].append(moment.utc)

    def fires(self, fields: Matching, policies: Sequence[tuple[str, str]]) -> Iterator[list[int]]:
        """What fires under each of the policies (gap, fold)."""
        if fields.all_hours:
            shown = [m.utc for m in self.moments if fields.match(m.day, m.hour, m.minute, m.second)]
            yield from (shown for _ in policies)
            return
        matched = [r for r in self.readings if fields.match(r.date(), r.hour, r.minute, r.second)]
        for gap, fold in policies:
            yield sorted({utc for reading in matched for utc in self._instants(reading, gap, fold)})

    def _readings(self) -> Iterator[datetime]:
        """Every reading from the first to the last, whether the wall ever showed it or not."""
        reading, last = self.moments[0].reading, self.moments[-1].reading
        step = timedelta(seconds=self.step)
        while reading <= last:
            yield reading
            reading += step

    def _instants(self, reading: datetime, gap: str, fold: str) -> list[int]:
        times = self.shown.get(reading)
        if not times:
            return [] if gap == "skip" else [next(m.utc for m in self.moments if m.reading > reading)]
        return {"first": times[:1], "second": times[-1:], "both": times}[fold]


@lru_cache(maxsize=64)
def changes(zone: str, first: int, last: int) -> tuple[int, ...]:
    """The seconds of UTC from year `first` to before `last` at which the offset is another one than before."""
    info = ZoneInfo(zone)

    def offset(utc: int) -> timedelta | None:
        return datetime.fromtimestamp(utc, info).utcoffset()

    found = []
    hour = 3600
    start, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (first, last))
    for utc in range(start, end, 12 * hour):
        if offset(utc) != offset(utc + 12 * hour):
            near = range(utc, utc + 12 * hour + 60, 60)
            found.append(next(t for t in near[1:] if offset(t) != offset(t - 60)))
    return tuple(found)
