"""The text of a cron expression: minute, hour, day of month, month, day of week; or six fields, with seconds first.

The terms of crontab, and those of Quartz, Spring and Jenkins: `?`, `L`, `L-3`, `LW`, `15W`, `FRIL`, `MON#2`, `H`, full
names. Weekdays count as in crontab, from SUN=0 to SUN=7. Quartz counts from SUN=1, and `?` suggests that an expression
comes from there: beside it weekdays must be names.
"""

from __future__ import annotations

import re

import msgspec

from rota.errors import InvalidInput
from rota.model.trigger.spread import expand

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
_LONGEST_TEXT = 1_000
# Terms of other crons that are options here.
_ELSEWHERE = (
    (re.compile(r"(?:CRON_)?TZ\s*=.*", re.DOTALL), "the fields alone; the time zone is given apart, as tz or --tz"),
    (
        re.compile(r".*%.*", re.DOTALL),
        "fields without %; what a command reads as its input does not belong to its times",
    ),
    (re.compile(r".*~.*", re.DOTALL), "H or H(0-29) instead of ~: one value, picked by the name of the schedule"),
    (re.compile(r"\S+(?:\s+\S+){6}"), "five fields, or six with seconds first; for years use start and end"),
)
_WRITTEN = re.compile(r"[0-9A-Z*/,#()?\s-]+", re.ASCII)
_PLAIN = re.compile(r"(\*|\d+|[A-Z]+)(?:-(\d+|[A-Z]+))?(?:/(\d+))?", re.ASCII)
_FROM_END = re.compile(r"L(?:-(\d{1,2}))?(W?)", re.ASCII)
_WORKING = re.compile(r"(\d{1,2})W", re.ASCII)
_OF_MONTH = re.compile(r"(\d+|[A-Z]+?)(?:(L)|#([1-5]))", re.ASCII)
_SPECIAL_WITH_STEP = re.compile(r"(?:L.*|\?|\d*L?W|.*#\d|(?:\d|[A-Z]{3,})L)/.*", re.ASCII)
_COUNTED_WEEKDAY = re.compile(r"(?:^|[,-])\d|(?:^|,)[A-Z]+/", re.ASCII)

_MONTHS = (
    "JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE",
    "JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER",
)  # fmt: skip
_WEEKDAYS = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")


class _Field(msgspec.Struct, frozen=True):
    name: str
    expected: str
    low: int
    high: int  # the highest number that may be written
    spread: tuple[int, int]  # the range of H: days that every month has
    names: tuple[str, ...] = ()
    period: str = ""  # the unit of this field in `every`

    @property
    def size(self) -> int:
        return 7 if self.name == _DAY_OF_WEEK else self.high - self.low + 1

    def value(self, text: str) -> int | None:
        if text.isdigit():
            return int(text) if self.low <= int(text) <= self.high else None
        return next((n for n, name in enumerate(self.names, self.low) if text in (name, name[:3])), None)


_DAY_OF_WEEK = "day of week"
_FIELDS = (
    _Field("second", "0-59", 0, 59, (0, 59), period="s"),
    _Field("minute", "0-59", 0, 59, (0, 59), period="m"),
    _Field("hour", "0-23", 0, 23, (0, 23), period="h"),
    _Field(
        "day of month",
        "1-31, ?, L (the last), L-3 (three days before it), 15W (the day from Monday to Friday next to it) or LW",
        1, 31, (1, 28),
    ),
    _Field("month", "1-12 or JAN-DEC", 1, 12, (1, 12), _MONTHS),
    _Field(
        _DAY_OF_WEEK,
        "0-7 or SUN-SAT (0 and 7 are Sunday), ?, FRIL (the last Friday), MON#2 (the second Monday)",
        0, 7, (0, 6), _WEEKDAYS,
    ),
)  # fmt: skip
_DAY, _MONTH, _WEEKDAY = 3, 4, 5


class MonthDays(msgspec.Struct, frozen=True):
    numbers: frozenset[int] = frozenset()
    from_end: frozenset[int] = frozenset()  # 0 is the last day
    working: frozenset[int] = frozenset()  # the day from Monday to Friday next to this one, in the same month
    working_from_end: frozenset[int] = frozenset()


class WeekDays(msgspec.Struct, frozen=True):
    """0 is Sunday."""

    numbers: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    nth: frozenset[tuple[int, int]] = frozenset()  # weekday, and which one in its month


class CronFields(msgspec.Struct, frozen=True):
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    days: MonthDays
    months: frozenset[int]
    weekdays: WeekDays
    both: bool  # one of the day fields restricts nothing: a day must match both; otherwise either


def read_cron(text: str, name: str) -> CronFields:
    """`name` is the schedule's, for `H`."""
    fields, whats = _split(text)
    if "?" in fields and _COUNTED_WEEKDAY.search(fields[_WEEKDAY]):
        expected = "weekdays by name, such as MON-FRI; beside ? numbers may be those of Quartz, where 1 is Sunday"
        raise InvalidInput(whats[_WEEKDAY], fields[_WEEKDAY], expected)
    terms = [_terms(*one, name) for one in zip(_FIELDS, whats, fields, strict=True)]
    seconds, minutes, hours, months = (
        frozenset(n for term in terms[index] for n in _numbers(_FIELDS[index], whats[index], term))
        for index in (0, 1, 2, _MONTH)
    )
    return CronFields(
        seconds,
        minutes,
        hours,
        _month_days(whats[_DAY], terms[_DAY]),
        months,
        _week_days(whats[_WEEKDAY], terms[_WEEKDAY]),
        both=any(fields[index].startswith(("*", "?")) for index in (_DAY, _WEEKDAY)),
    )


def impossible(text: str) -> InvalidInput:
    """The error for fields that are valid but never match together."""
    fields, whats = _split(text)
    expected = f"a day that exists; month {fields[_MONTH]} never has one that matches"
    return InvalidInput(whats[_DAY], fields[_DAY], expected)


def _split(text: str) -> tuple[list[str], list[str]]:
    """The six fields and their names."""
    given = ALIASES.get(text.strip().lower(), text).strip().upper()
    if given.startswith("@"):
        raise InvalidInput("cron", text, f"one of {', '.join(ALIASES)}, or @every 5m")
    expected = next((cure for pattern, cure in _ELSEWHERE if pattern.fullmatch(given)), _EXPECTED)
    fields = given.split()
    if len(given) > _LONGEST_TEXT or not _WRITTEN.fullmatch(given) or len(fields) not in (5, 6):
        raise InvalidInput("cron", text, expected)
    missing = 6 - len(fields)  # 1 if there is no field of seconds
    whats = [f"cron field {number} ({field.name})" for number, field in enumerate(_FIELDS, 1 - missing)]
    return ["0"] * missing + fields, whats


def _terms(field: _Field, what: str, text: str, name: str) -> list[str]:
    """The terms, with numbers for H and a star for ?."""
    if text == "?" and field.name in ("day of month", _DAY_OF_WEEK):
        return ["*"]
    return expand(what, text, *field.spread, name, field.name).split(",")


def _month_days(what: str, terms: list[str]) -> MonthDays:
    numbers, from_end, working, working_from_end = (set[int]() for _ in range(4))
    for term in terms:
        if (found := _FROM_END.fullmatch(term)) and (found[1] is None or 1 <= int(found[1]) <= 30):
            (working_from_end if found[2] else from_end).add(int(found[1] or 0))
        elif (found := _WORKING.fullmatch(term)) and 1 <= int(found[1]) <= 31:
            working.add(int(found[1]))
        else:
            numbers |= _numbers(_FIELDS[_DAY], what, term)
    return MonthDays(*map(frozenset, (numbers, from_end, working, working_from_end)))


def _week_days(what: str, terms: list[str]) -> WeekDays:
    field = _FIELDS[_WEEKDAY]
    numbers, last, nth = set[int](), set[int](), set[tuple[int, int]]()
    for term in terms:
        found = _OF_MONTH.fullmatch(term)
        weekday = field.value(found[1]) if found else None
        if found is None or weekday is None:
            numbers |= {number % 7 for number in _numbers(field, what, term)}
        elif found[2]:
            last.add(weekday % 7)
        else:
            nth.add((weekday % 7, int(found[3])))
    return WeekDays(frozenset(numbers), frozenset(last), frozenset(nth))


def _numbers(field: _Field, what: str, term: str) -> set[int]:
    """The values of a star, a number, a name or a range, with a step or without."""
    found = _PLAIN.fullmatch(term)
    step = int(found[3]) if found and found[3] else 1
    first, last = _ends(field, *found.groups()) if found else (None, None)
    if first is None or last is None or not step:
        raise InvalidInput(what, term, _expected(field, term))
    if step > field.size:
        instead = f"; write 'every {step}{field.period}' for longer periods" if field.period else ""
        raise InvalidInput(what, term, f"a step from 1 to {field.size}{instead}")
    if first <= last:
        if "-" in term and step > last - first + 1:
            raise InvalidInput(what, term, f"a step from 1 to {last - first + 1}, the size of its range")
        return set(range(first, last + 1, step))
    if field.name != _DAY_OF_WEEK or step > 1:
        raise InvalidInput(what, term, _expected_upwards(field, term))
    return {*range(first, 7), *range(last + 1)}  # over the weekend, SAT-MON


def _ends(field: _Field, first: str, last: str | None, step: str | None) -> tuple[int | None, int | None]:
    """A step without a range runs to the highest number."""
    if first == "*":
        return (None, None) if last else (field.low, field.low + field.size - 1)
    low = field.value(first)
    high = field.value(last) if last else field.high if step else low
    if last and field.name == _DAY_OF_WEEK and {low, high} != {0} and (low, high) != (7, 0):
        return (0 if low == 7 and high != 7 else low), (7 if high == 0 else high)  # Sunday comes first or last
    return low, high


def _expected(field: _Field, term: str) -> str:
    if _SPECIAL_WITH_STEP.fullmatch(term):
        return "a step after *, a number or a range only"
    if "?" in term:
        return "? alone, and only as day of month or day of week; six fields begin with seconds"
    return f"{field.expected}, also ranges 1-3, steps */2, lists 1,2"


def _expected_upwards(field: _Field, term: str) -> str:
    low, high = (range_.partition("/")[0] for range_ in term.split("-"))
    instead = f"{low}-{field.high},{field.low}-{high}" if field.name != _DAY_OF_WEEK else "the days one by one"
    return f"a range that runs upwards; {high} comes before {low}, so write {instead}"
