"""RRULE told again from the text of RFC 5545, without any of rota's code: slowly, and one candidate after the other.

For each period that FREQ and INTERVAL name it looks at every day (or at the one hour, minute or second that the period
is) and asks of each BY... part whether that counts, as the RFC's table of "expand" and "limit" has it.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import lru_cache

DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
UNITS = {"HOURLY": timedelta(hours=1), "MINUTELY": timedelta(minutes=1), "SECONDLY": timedelta(seconds=1)}
ONE_DAY = timedelta(days=1)


class NaiveRule:
    def __init__(self, text: str, begin: datetime) -> None:
        self.parts = dict(part.split("=") for part in text.split(";"))
        self.begin = begin
        self.frequency = self.parts["FREQ"]
        self.interval = int(self.parts.get("INTERVAL", "1"))
        self.week_start = DAYS.index(self.parts.get("WKST", "MO"))
        self.by = {
            key: [int(n) for n in value.split(",")]
            for key, value in self.parts.items()
            if key.startswith("BY") and key != "BYDAY"
        }
        self.days = [
            (int(term[:-2] or 0), DAYS.index(term[-2:])) for term in self.parts.get("BYDAY", "").split(",") if term
        ]

    def until(self, stop: datetime) -> list[datetime]:
        """All occurrences that are not later than `stop`."""
        count = int(self.parts.get("COUNT", "1000000000"))
        found: list[datetime] = []
        for low, high in self.periods(stop):
            candidates = sorted(self.candidates(low, high))
            for moment in self.chosen(candidates):
                if self.begin <= moment <= stop and len(found) < count:
                    found.append(moment)
        return found

    def chosen(self, candidates: list[datetime]) -> list[datetime]:
        if "BYSETPOS" not in self.by:
            return candidates
        last = len(candidates)
        return [c for place, c in enumerate(candidates, 1) if {place, place - last - 1} & set(self.by["BYSETPOS"])]

    # -- periods: from, and up to but without ------------------------------------------------------------------------
    def periods(self, stop: datetime) -> Iterator[tuple[datetime, datetime]]:
        number = 0
        while True:
            low, high = self.period(number * self.interval)
            if low > stop:
                return
            yield low, high
            number += 1

    def period(self, number: int) -> tuple[datetime, datetime]:
        begin, today = self.begin, datetime(self.begin.year, self.begin.month, self.begin.day)
        match self.frequency:
            case "YEARLY" if "BYWEEKNO" in self.by:
                year = self.week_year(begin.date()) + number
                return midnight(weeks(year, self.week_start)[0]), midnight(weeks(year + 1, self.week_start)[0])
            case "YEARLY":
                return datetime(begin.year + number, 1, 1), datetime(begin.year + number + 1, 1, 1)
            case "MONTHLY":
                months = [begin.year * 12 + begin.month - 1 + number + n for n in (0, 1)]
                low, high = (datetime(n // 12, n % 12 + 1, 1) for n in months)
                return low, high
            case "WEEKLY":
                while today.weekday() != self.week_start:
                    today -= ONE_DAY
                return today + timedelta(weeks=number), today + timedelta(weeks=number + 1)
            case "DAILY":
                return today + timedelta(days=number), today + timedelta(days=number + 1)
        unit = UNITS[self.frequency]
        minute = 0 if self.frequency == "HOURLY" else begin.minute
        second = begin.second if self.frequency == "SECONDLY" else 0
        low = begin.replace(minute=minute, second=second) + number * unit
        return low, low + unit

    # -- candidates of a period --------------------------------------------------------------------------------------
    def candidates(self, low: datetime, high: datetime) -> Iterator[datetime]:
        day = low.date()
        while midnight(day) < high:
            if self.match(day):
                yield from self.times(day, low, high)
            day += ONE_DAY

    def times(self, day: date, low: datetime, high: datetime) -> Iterator[datetime]:
        """BYHOUR, BYMINUTE, BYSECOND: what is finer than the period expands it, the rest limits it."""
        coarse = self.frequency not in UNITS
        hours = self.by.get("BYHOUR", [self.begin.hour] if coarse else [low.hour])
        minutes = self.by.get("BYMINUTE", [self.begin.minute] if coarse or self.frequency == "HOURLY" else [low.minute])
        seconds = self.by.get("BYSECOND", [low.second if self.frequency == "SECONDLY" else self.begin.second])
        for hour in set(hours):
            for minute in set(minutes):
                for second in set(seconds):
                    moment = datetime(day.year, day.month, day.day, hour, minute, second)
                    if low <= moment < high:
                        yield moment

    def match(self, day: date) -> bool:
        by = self.by
        return (
            ("BYMONTH" not in by or day.month in by["BYMONTH"])
            and ("BYWEEKNO" not in by or self.in_week(day))
            and ("BYYEARDAY" not in by or numbered(day, year_of(day), by["BYYEARDAY"]))
            and ("BYMONTHDAY" not in by or numbered(day, month_of(day), by["BYMONTHDAY"]))
            and (not self.days or any(self.is_weekday(day, *term) for term in self.days))
            and self.as_begin(day)
        )

    def is_weekday(self, day: date, number: int, weekday: int) -> bool:
        if day.weekday() != weekday or number == 0:
            return day.weekday() == weekday
        of_month = self.frequency == "MONTHLY" or "BYMONTH" in self.by
        same = [one for one in (month_of(day) if of_month else year_of(day)) if one.weekday() == weekday]
        return numbered(day, same, [number])

    def as_begin(self, day: date) -> bool:
        """What no part says is taken from DTSTART."""
        if self.days or "BYMONTHDAY" in self.by or "BYYEARDAY" in self.by:
            return True
        match self.frequency:
            case "YEARLY" if "BYWEEKNO" in self.by:
                return day.weekday() == self.begin.weekday()
            case "YEARLY":
                return day.day == self.begin.day and ("BYMONTH" in self.by or day.month == self.begin.month)
            case "MONTHLY":
                return day.day == self.begin.day
            case "WEEKLY":
                return day.weekday() == self.begin.weekday()
        return True

    def in_week(self, day: date) -> bool:
        first = day - timedelta(days=(day.weekday() - self.week_start) % 7)
        return numbered(first, weeks(self.week_year(day), self.week_start), self.by["BYWEEKNO"])

    def week_year(self, day: date) -> int:
        """The year of the week that the day is in."""
        first = day - timedelta(days=(day.weekday() - self.week_start) % 7)
        return next(year for year in (day.year - 1, day.year, day.year + 1) if first in weeks(year, self.week_start))


@lru_cache(maxsize=1000)
def weeks(year: int, week_start: int) -> list[date]:
    """The first days of all weeks that have at least four days in the year."""
    near = [date(year, 1, 1) + timedelta(days=n) for n in range(-7, 367)]
    return [
        day
        for day in near
        if day.weekday() == week_start and sum((day + timedelta(days=n)).year == year for n in range(7)) >= 4
    ]


def numbered(day: date, days: list[date], numbers: list[int]) -> bool:
    """Whether it is one of the days by these numbers: 1 is the first, -1 the last."""
    place = days.index(day)
    return place + 1 in numbers or place - len(days) in numbers


@lru_cache(maxsize=10_000)
def _span(year: int, month: int) -> list[date]:
    return [date(year, month, n) for n in range(1, monthrange(year, month)[1] + 1)]


def month_of(day: date) -> list[date]:
    return _span(day.year, day.month)


@lru_cache(maxsize=500)
def _year(year: int) -> list[date]:
    return [day for month in range(1, 13) for day in _span(year, month)]


def year_of(day: date) -> list[date]:
    return _year(day.year)


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)
