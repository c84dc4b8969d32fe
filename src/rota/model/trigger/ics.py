"""Dates of an `.ics` text: public holidays, shutdowns, anything that marks days.

A day counts if an event touches it: all-day events with all their days (the end is not part of them), timed events with
every local date they touch. Recurring events count within the given span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from rota.errors import InvalidInput
from rota.model.trigger.calendars import LAST_YEAR
from rota.model.trigger.effort import Effort, Exhausted
from rota.model.trigger.policies import Fold, Gap
from rota.model.trigger.recurrence import recurrence_end, recurrence_plan
from rota.model.trigger.recurrence_text import read_parts
from rota.model.trigger.zones import DAY_SECONDS, Zone, zone

LONGEST_TEXT = 5_000_000
YEARS = 10
MOST_EVENTS = 20_000
LONGEST_SPAN = timedelta(days=40_000)
_Event = Mapping[str, Any]
_EPOCH = date(1970, 1, 1)
_ONE_DAY = timedelta(days=1)
# The library reads a damaged property as text, or as a value of another type, and leaves the rest to its user.
_LET_THROUGH = (ValueError, TypeError, AttributeError, LookupError, OverflowError)
_BY_DAY = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")


def dates_from_ics(text: str, first: date, last: date, zone_name: str = "UTC") -> tuple[date, ...]:
    """The days from `first` to `last` that events touch, in order. Times with a zone are seen from `zone_name`."""
    if not timedelta(0) <= last - first <= LONGEST_SPAN:
        raise InvalidInput("calendar span", f"{first} to {last}", "a last day not before the first, within 100 years")
    events = _events(text)
    try:
        found = _days(events, first, last, zone(zone_name))
    except InvalidInput:
        raise
    except _LET_THROUGH as problem:
        raise InvalidInput("calendar", text, f"events of RFC 5545 ({problem})") from None
    return tuple(sorted(day for day in found if first <= day <= last))


def _days(events: list[_Event], first: date, last: date, where: Zone) -> set[date]:
    moved = _moved(events, where)
    found: set[date] = set()
    for event in events:
        found.update(_touched(event, moved.get(_series(event), set()), first, last, where))
    return found


def _events(text: str) -> list[_Event]:
    if len(text) > LONGEST_TEXT:
        raise InvalidInput("calendar", f"{len(text):,} characters", f"at most {LONGEST_TEXT:,} characters")
    events = [event for calendar in _parse(text) for event in calendar.walk("VEVENT") if _counts(event)]
    if len(events) > MOST_EVENTS:
        raise InvalidInput("calendar", f"{len(events):,} events", f"at most {MOST_EVENTS:,} events")
    return events


def _parse(text: str) -> list[Any]:
    import icalendar  # takes a quarter of a second, and is rarely needed

    try:
        calendars = icalendar.Calendar.from_ical(text, multiple=True)
    except _LET_THROUGH as problem:
        raise InvalidInput("calendar", text, f"the text of an .ics file ({problem})") from None
    if not calendars or not all(isinstance(calendar, icalendar.Calendar) for calendar in calendars):
        raise InvalidInput("calendar", text, "the text of an .ics file, which begins with BEGIN:VCALENDAR")
    return calendars


def _counts(event: _Event) -> bool:
    return "DTSTART" in event and str(event.get("STATUS", "")).upper() != "CANCELLED"


def _series(event: _Event) -> str:
    """The series of this event; empty if it replaces a single occurrence."""
    return "" if "RECURRENCE-ID" in event else str(event.get("UID", ""))


def _moved(events: list[_Event], where: Zone) -> dict[str, set[date]]:
    """Single occurrences that have an event of their own, by the series they were part of."""
    moved: dict[str, set[date]] = {}
    for event in events:
        if "RECURRENCE-ID" in event:
            day = _day(_time(event, "RECURRENCE-ID"), where)
            moved.setdefault(str(event.get("UID", "")), set()).add(day)
    moved.pop("", None)
    return moved


def _touched(event: _Event, moved: set[date], first: date, last: date, where: Zone) -> Iterator[date]:
    start = _local(_time(event, "DTSTART"), where)
    length = max(1, (_end(event, start, where) - start.date()).days)
    excluded = moved | set(_listed(event, "EXDATE", where))
    for day in (*_starts(event, start, first - timedelta(days=length), last, where), *_listed(event, "RDATE", where)):
        if day not in excluded:
            for number in range(max(0, (first - day).days), min(length, (last - day).days + 1)):
                yield day + timedelta(days=number)


def _starts(event: _Event, start: datetime, first: date, last: date, where: Zone) -> Iterator[date]:
    rule = event.get("RRULE")
    if rule is None:
        yield start.date()
        return
    text = rule.to_ical().decode()
    frequency = read_parts(text).frequency
    if frequency not in _BY_DAY:
        raise InvalidInput("calendar RRULE", text, f"one of {', '.join(_BY_DAY)}")
    begin = start.replace(microsecond=0).isoformat()
    end = recurrence_end(text, begin, where.name, Gap.SHIFT, Fold.FIRST)
    stop = None if end is None else where.reading(end)
    effort = Effort()
    try:
        for reading in recurrence_plan(text, begin).since((first - _EPOCH).days * DAY_SECONDS, effort):
            effort.renew()
            day = _EPOCH + timedelta(days=reading // DAY_SECONDS)
            if day > last or (stop is not None and reading > stop):
                return
            yield day
    except Exhausted:
        raise InvalidInput("calendar RRULE", text, "a rule that fires more often") from None


def _time(event: _Event, name: str) -> Any:
    try:
        return event[name].dt
    except (AttributeError, ValueError):  # given twice, or kept as text because it is invalid
        raise InvalidInput(f"calendar {name}", str(event[name]), "one date or time of RFC 5545") from None


def _end(event: _Event, start: datetime, where: Zone) -> date:
    """The first day that is no longer part of the event."""
    if "DTEND" in event:
        end = _time(event, "DTEND")
    elif "DURATION" in event:
        end = _time(event, "DTSTART") + _time(event, "DURATION")
    else:
        return start.date() + _ONE_DAY
    local = _local(end, where)
    whole = local.time() == datetime.min.time() and local > start
    return local.date() if whole else local.date() + _ONE_DAY


def _listed(event: _Event, name: str, where: Zone) -> Iterator[date]:
    given = event.get(name, [])
    for entry in given if isinstance(given, list) else [given]:
        for item in entry.dts:
            # RDATE may hold periods, of which the beginning counts.
            yield _day(item.dt[0] if isinstance(item.dt, tuple) else item.dt, where)


def _day(given: Any, where: Zone) -> date:
    return _local(given, where).date()


def _local(given: Any, where: Zone) -> datetime:
    if not isinstance(given, datetime):
        return datetime(given.year, given.month, given.day)
    return given if given.tzinfo is None else given.astimezone(where.info).replace(tzinfo=None)


def years_after(day: date) -> date:
    """The last day that events are looked for, unless another is given."""
    year = min(day.year + YEARS, LAST_YEAR)
    return day.replace(year=year, day=28) if (day.month, day.day) == (2, 29) else day.replace(year=year)
