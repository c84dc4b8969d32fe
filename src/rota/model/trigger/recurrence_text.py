"""Reads the text of an RRULE into its parts. Each is checked, so that an error can point at it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from rota.errors import InvalidInput
from rota.model.times import Instant, instant

FIRST_YEAR, LAST_YEAR = 3, 9000  # of DTSTART: counting from it looks into the two years before
MOST_COUNTED = 10_000  # the fires of COUNT are counted once, when the rule is read
_MOST_INTERVAL = 10_000
_LONGEST_TEXT = 2_000
EXPECTED = "a rule of RFC 5545 such as FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9;BYMINUTE=0"
_EXPECTED_START = "a local time without offset such as 2027-01-01T09:00:00"
_EXPECTED_LINES = "one RRULE and at most one DTSTART such as DTSTART;TZID=Europe/Berlin:20270101T090000"
_EXPECTED_UNTIL = "a time such as 20271231T235959 or 20271231T225959Z"
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
# key: its field of `Parts`, lowest, highest, and whether it may count from the end
_NUMBERS = {
    "BYSECOND": ("seconds", 0, 60, False),
    "BYMINUTE": ("minutes", 0, 59, False),
    "BYHOUR": ("hours", 0, 23, False),
    "BYMONTHDAY": ("month_days", 1, 31, True),
    "BYYEARDAY": ("year_days", 1, 366, True),
    "BYWEEKNO": ("week_numbers", 1, 53, True),
    "BYMONTH": ("months", 1, 12, False),
    "BYSETPOS": ("positions", 1, 366, True),
    "INTERVAL": ("interval", 1, _MOST_INTERVAL, False),
    "COUNT": ("count", 1, MOST_COUNTED, False),
}
_DAY_TERM = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,5}", re.ASCII)
_MOMENT = re.compile(r"(\d{8})(?:T(\d{6})(Z?))?", re.ASCII)
_LINES = re.compile(r"[\r\n]+|\s+(?=RRULE|DTSTART)", re.ASCII | re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1)
_Texts = dict[str, str]


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """A rule by parts; missing parts are empty."""

    frequency: str
    interval: int = 1
    count: int | None = None
    until: str | None = None
    week_start: int = 0  # 0 is Monday, here and below
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[tuple[int, int], ...] = ()  # which one (0: all, -1: the last), and the weekday
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()


def split(text: str) -> tuple[str, str | None, str | None]:
    """The rule, and of a DTSTART before it the local time as ISO 8601 and the zone, if it names one."""
    rule = begin = where = None
    for line in _LINES.split(text.strip()):
        name, _, value = line.strip().rpartition(":")
        head, *parameters = name.split(";")
        match head.upper():
            case "" | "RRULE" if rule is None and not parameters:
                rule = value
            case "DTSTART" if begin is None:
                begin, where = _read_dtstart(value, parameters)
            case _:
                raise InvalidInput("rrule", line, _EXPECTED_LINES)
    if rule is None:
        raise InvalidInput("rrule", text, EXPECTED)
    return rule, begin, where


def _read_dtstart(value: str, parameters: list[str]) -> tuple[str, str | None]:
    where = None
    for parameter in parameters:
        key, _, said = parameter.partition("=")
        if key.upper() == "TZID" and said:
            where = said
        elif parameter.upper() not in ("VALUE=DATE-TIME", "VALUE=DATE"):
            raise InvalidInput("rrule DTSTART", parameter, "TZID=<zone> or VALUE=DATE")
    moment, utc = _moment(value.upper(), "000000") or (None, False)
    if moment is None or (utc and where):
        expected = "a time such as 20270101T090000, or 20270101T080000Z without TZID"
        raise InvalidInput("rrule DTSTART", value, expected)
    return moment.isoformat(), "UTC" if utc else where


def _moment(text: str, clock: str) -> tuple[datetime, bool] | None:
    """The time, and whether it is in UTC; None if it is invalid. `clock`: the time of day of a date alone."""
    found = _MOMENT.fullmatch(text)
    try:
        return (datetime.strptime(found[1] + (found[2] or clock), "%Y%m%d%H%M%S"), bool(found[3])) if found else None
    except ValueError:
        return None


def read_begin(given: str) -> datetime:
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidInput("rrule DTSTART", given, _EXPECTED_START) from None
    if moment.tzinfo is not None or moment.microsecond:
        raise InvalidInput("rrule DTSTART", given, f"{_EXPECTED_START}, in whole seconds")
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise InvalidInput("rrule DTSTART", given, f"a time from the year {FIRST_YEAR} to {LAST_YEAR}")
    return moment


def read_parts(text: str) -> Parts:
    if len(text) > _LONGEST_TEXT:
        raise InvalidInput("rrule", text, f"at most {_LONGEST_TEXT:,} characters")
    texts: _Texts = {}
    fields: dict[str, Any] = {}
    for part in text.upper().removeprefix("RRULE:").strip().rstrip(";").split(";"):
        key, equals, value = part.partition("=")
        if not equals or key in texts:
            raise InvalidInput("rrule", part, f"{EXPECTED}, each part once")
        texts[key] = value
        field, read = _read_part(key, value)
        fields[field] = read
    if "FREQ" not in texts:
        raise InvalidInput("rrule", text, f"{EXPECTED}; FREQ is missing")
    if "COUNT" in texts and "UNTIL" in texts:
        raise InvalidInput("rrule", text, "COUNT or UNTIL, not both")
    parts = Parts(**fields)
    _check_together(texts, parts)
    return parts


def _check_together(texts: _Texts, parts: Parts) -> None:
    """Refuses combinations that the RFC forbids."""
    frequency = parts.frequency
    if parts.week_numbers and frequency != "YEARLY":
        raise InvalidInput("rrule BYWEEKNO", texts["BYWEEKNO"], "FREQ=YEARLY beside it")
    if parts.year_days and frequency in ("DAILY", "WEEKLY", "MONTHLY"):
        raise InvalidInput("rrule BYYEARDAY", texts["BYYEARDAY"], f"another FREQ beside it than {frequency}")
    if parts.month_days and frequency == "WEEKLY":
        raise InvalidInput("rrule BYMONTHDAY", texts["BYMONTHDAY"], "another FREQ beside it than WEEKLY")
    if parts.positions and not any(key.startswith("BY") and key != "BYSETPOS" for key in texts):
        raise InvalidInput("rrule BYSETPOS", texts["BYSETPOS"], "another BY... part beside it, to choose from")
    _check_numbered_days(texts.get("BYDAY", ""), parts)


def _check_numbered_days(days: str, parts: Parts) -> None:
    """2MO is the second Monday of the month or, in a yearly rule without months, of the year."""
    highest = max((abs(number) for number, _ in parts.weekdays), default=0)
    if highest and parts.frequency not in ("YEARLY", "MONTHLY"):
        raise InvalidInput("rrule BYDAY", days, "plain weekdays; numbered ones need FREQ=MONTHLY or YEARLY")
    if highest and parts.week_numbers:
        raise InvalidInput("rrule BYDAY", days, "plain weekdays beside BYWEEKNO; a week has one of each")
    if highest > 5 and (parts.frequency == "MONTHLY" or parts.months):
        raise InvalidInput("rrule BYDAY", days, "numbers up to 5; no month has more")


def _read_part(key: str, value: str) -> tuple[str, Any]:
    """The field of `Parts`, and its value."""
    what = f"rrule {key}"
    match key:
        case "FREQ":
            return "frequency", FREQUENCIES[_place(what, value, FREQUENCIES)]
        case "WKST":
            return "week_start", _place(what, value, WEEKDAYS)
        case "BYDAY":
            return "weekdays", tuple(_weekday(what, term) for term in value.split(","))
        case "UNTIL":
            read_until(value)
            return "until", value
        case _ if key in _NUMBERS:
            field, low, high, from_end = _NUMBERS[key]
            if not key.startswith("BY"):
                return field, _number(what, value, low, high, from_end)
            numbers = tuple(_number(what, term, low, high, from_end) for term in value.split(","))
            # Without leap seconds, second 60 means 59, by the RFC.
            return field, tuple(min(number, 59) for number in numbers) if field == "seconds" else numbers
        case _:
            raise InvalidInput("rrule", key, f"one of FREQ, UNTIL, BYDAY, WKST, {', '.join(_NUMBERS)}")


def _place(what: str, value: str, words: tuple[str, ...]) -> int:
    if value not in words:
        raise InvalidInput(what, value, f"one of {', '.join(words)}")
    return words.index(value)


def _weekday(what: str, term: str) -> tuple[int, int]:
    found = _DAY_TERM.fullmatch(term)
    if not found or (found[1] and not 1 <= abs(int(found[1])) <= 53):
        raise InvalidInput(what, term, "a weekday such as MO, 2MO (the second) or -1FR (the last)")
    return int(found[1] or 0), WEEKDAYS.index(found[2])


def _number(what: str, term: str, low: int, high: int, from_end: bool) -> int:
    number = int(term) if _NUMBER.fullmatch(term) else None
    if number is None or not low <= (abs(number) if from_end else number) <= high:
        below = f" or -{high} to -{low}" if from_end else ""
        raise InvalidInput(what, term, f"a number from {low} to {high}{below}")
    return number


def read_until(value: str) -> tuple[int | None, Instant | None]:
    """The last reading of the wall clock, or for a time in UTC (Z) the last instant. A date alone means the whole of
    that day."""
    moment, utc = _moment(value, "235959") or (None, False)
    if moment is None:
        raise InvalidInput("rrule UNTIL", value, _EXPECTED_UNTIL)
    if utc:
        return None, instant(moment.replace(tzinfo=UTC), "rrule UNTIL")
    return (moment - _EPOCH) // timedelta(seconds=1), None
