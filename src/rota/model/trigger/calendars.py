"""Calendars: named sets of local dates that schedules exclude or require."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

import msgspec

from rota.errors import InvalidInput
from rota.model.trigger.effort import Effort

LAST_YEAR = 9000
LONGEST_NAME = 200
MOST_DATES = 40_000  # a hundred years of days
_EPOCH = date(1970, 1, 1).toordinal()
_ONE_DAY = timedelta(days=1)
_LOOK_STEPS = 5  # the cost of a look into the calendars


class Calendar(msgspec.Struct, frozen=True):
    """Dates in order, each once."""

    name: str
    dates: tuple[date, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInput("calendar", self.name, "a name")
        if len(self.dates) > MOST_DATES:
            raise InvalidInput(f"calendar {self.name}", f"{len(self.dates)} dates", f"at most {MOST_DATES:,} dates")
        wrong = next((day for day in self.dates if not 1970 <= day.year <= LAST_YEAR), None)
        if wrong is not None:
            raise InvalidInput(f"calendar {self.name}", str(wrong), f"dates from 1970 to {LAST_YEAR}")
        msgspec.structs.force_setattr(self, "dates", tuple(sorted(set(self.dates))))


def calendar_name(given: str) -> str:
    """Lists of calendars join their names by commas."""
    if not given.isprintable() or "," in given or given != given.strip() or not 0 < len(given) <= LONGEST_NAME:
        raise InvalidInput("calendar", given, f"a name of up to {LONGEST_NAME} printable characters without commas")
    return given


Calendars = Mapping[str, Calendar]
NO_CALENDARS: Calendars = {}


class Days:
    """The days on which a schedule may fire."""

    def __init__(self, excluded: Sequence[Calendar], only: Sequence[Calendar]) -> None:
        self._excluded = [calendar.dates for calendar in excluded]
        self._only = [calendar.dates for calendar in only]

    def next(self, day: date, effort: Effort) -> date | None:
        """The first allowed day from this one on. Each step passes a date of some calendar, so it ends."""
        while day.toordinal() - _EPOCH <= effort.last_day:
            effort.spend(_LOOK_STEPS)
            later = day
            for dates in self._only:
                place = bisect_left(dates, later)
                if place == len(dates):
                    return None
                later = dates[place]
            for dates in self._excluded:
                later = _after_run(dates, later)
            if later == day:
                return day
            day = later
        return None


def _after_run(dates: Sequence[date], day: date) -> date:
    """The first day from this one on that is not among the dates. In an unbroken run, distances of dates equal
    distances of indexes, so its end is found by bisection."""
    place = bisect_left(dates, day)
    if place == len(dates) or dates[place] != day:
        return day
    ordinal = day.toordinal()
    low, high = place, len(dates)
    while high - low > 1:
        middle = (low + high) // 2
        if dates[middle].toordinal() - ordinal == middle - place:
            low = middle
        else:
            high = middle
    return dates[low] + _ONE_DAY


def allowed(exclude: Sequence[str], only: Sequence[str], calendars: Calendars) -> Days | None:
    """None: all days are allowed."""
    if not exclude and not only:
        return None
    return Days([_known(name, calendars) for name in exclude], [_known(name, calendars) for name in only])


def _known(name: str, calendars: Calendars) -> Calendar:
    found = calendars.get(name)
    if found is None:
        raise InvalidInput("calendar", name, "the name of a calendar that exists")
    return found
