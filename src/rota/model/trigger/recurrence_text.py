"""The text of an RRULE: read into its parts, each of them checked, so that an error can point at it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from rota.errors import InvalidInput
from rota.model.trigger.zones import Zone

LAST_YEAR = 9000
MOST_COUNTED = 10_000  # COUNT is counted out once, when the rule is read
_MOST_INTERVAL = 10_000
_LONGEST_TEXT = 2_000
EXPECTED = "a rule of RFC 5545 such as FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9;BYMINUTE=0"
_EXPECTED_START = "a local time without offset such as 2027-01-01T09:00:00"
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
DATE_PARTS = ("BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY")
# key: lowest, highest, and whether it may count from the end
_NUMBERS = {
    "BYSECOND": (0, 59, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 51, True),  # dateutil takes some first days of January for week 53 that belong to week 52
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
    "INTERVAL": (1, _MOST_INTERVAL, False),
    "COUNT": (1, MOST_COUNTED, False),
}
DAY_TERM = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,5}", re.ASCII)
_UNTIL = re.compile(r"(\d{8})(?:T(\d{6})(Z?))?", re.ASCII)
Parts = dict[str, str]


def split(text: str) -> tuple[str, str | None]:
    """The rule, and the DTSTART that may stand in a line before it, as ISO 8601."""
    rule = begin = None
    for line in text.strip().splitlines():
        name, _, value = line.strip().rpartition(":")
        match name.upper():
            case "" | "RRULE" if rule is None:
                rule = value
            case "DTSTART" if begin is None:
                begin = _compact(value)
            case _:
                raise InvalidInput("rrule", line, "one RRULE and at most one DTSTART in local time, without TZID")
    if rule is None:
        raise InvalidInput("rrule", text, EXPECTED)
    return rule, begin


def read_begin(given: str) -> datetime:
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidInput("rrule DTSTART", given, _EXPECTED_START) from None
    if moment.tzinfo is not None or moment.microsecond or moment.year > LAST_YEAR:
        raise InvalidInput("rrule DTSTART", given, f"{_EXPECTED_START}, in whole seconds")
    return moment


def read_parts(text: str) -> Parts:
    if len(text) > _LONGEST_TEXT:
        raise InvalidInput("rrule", text, f"at most {_LONGEST_TEXT:,} characters")
    parts: Parts = {}
    for part in text.upper().removeprefix("RRULE:").strip().rstrip(";").split(";"):
        key, equals, value = part.partition("=")
        if not equals or key in parts:
            raise InvalidInput("rrule", part, f"{EXPECTED}, each part once")
        _check_part(key, value)
        parts[key] = value
    if "FREQ" not in parts:
        raise InvalidInput("rrule", text, f"{EXPECTED}; FREQ is missing")
    if "COUNT" in parts and "UNTIL" in parts:
        raise InvalidInput("rrule", text, "COUNT or UNTIL, not both")
    _check_numbered_days(parts)
    return parts


def _check_numbered_days(parts: Parts) -> None:
    """2MO is the second Monday of the month or, in a yearly rule without months, of the year."""
    days = parts.get("BYDAY", "")
    highest = max((abs(int(number)) for number, _ in DAY_TERM.findall(days) if number), default=0)
    if highest and parts["FREQ"] not in ("YEARLY", "MONTHLY"):
        raise InvalidInput("rrule BYDAY", days, "plain weekdays; numbered ones need FREQ=MONTHLY or YEARLY")
    if highest > 5 and (parts["FREQ"] == "MONTHLY" or "BYMONTH" in parts):
        raise InvalidInput("rrule BYDAY", days, "numbers up to 5; no month has more")


def _check_part(key: str, value: str) -> None:
    what = f"rrule {key}"
    match key:
        case "FREQ":
            if value not in FREQUENCIES:
                raise InvalidInput(what, value, f"one of {', '.join(FREQUENCIES)}")
        case "WKST":
            if value not in WEEKDAYS:
                raise InvalidInput(what, value, f"one of {', '.join(WEEKDAYS)}")
        case "BYDAY":
            for term in value.split(","):
                found = DAY_TERM.fullmatch(term)
                if not found or (found[1] and not 1 <= abs(int(found[1])) <= 53):
                    raise InvalidInput(what, term, "a weekday such as MO, 2MO (the second) or -1FR (the last)")
        case "UNTIL":
            pass
        case _ if key in _NUMBERS:
            _check_numbers(what, value, *_NUMBERS[key])
        case _:
            raise InvalidInput("rrule", key, f"one of FREQ, UNTIL, BYDAY, WKST, {', '.join(_NUMBERS)}")


def _check_numbers(what: str, value: str, low: int, high: int, from_end: bool) -> None:
    terms = value.split(",") if what.startswith("rrule BY") else [value]
    for term in terms:
        number = int(term) if _NUMBER.fullmatch(term) else None
        if number is None or not low <= (abs(number) if from_end else number) <= high:
            below = f" or -{high} to -{low}" if from_end else ""
            raise InvalidInput(what, term, f"a number from {low} to {high}{below}")


def read_until(value: str | None, where: Zone) -> datetime | None:
    """In local time. A date alone means the whole of that day, a time in UTC (Z) becomes local."""
    if value is None:
        return None
    found = _UNTIL.fullmatch(value)
    try:
        if not found:
            raise ValueError
        moment = datetime.strptime(found[1] + (found[2] or "235959"), "%Y%m%d%H%M%S")
        if found[3]:
            moment = moment.replace(tzinfo=UTC).astimezone(where.info).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise InvalidInput("rrule UNTIL", value, "a time such as 20271231T235959 or 20271231T225959Z") from None
    return moment


def _compact(value: str) -> str:
    try:
        return datetime.strptime(value, "%Y%m%dT%H%M%S").isoformat()
    except ValueError:
        raise InvalidInput("rrule DTSTART", value, "a local time such as 20270101T090000") from None
