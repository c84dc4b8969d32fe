"""Instants and durations.

An *instant* is an integer count of microseconds since 1970 in UTC, a *duration* an integer count of microseconds:
exact, cheap to compare, the same in every store. People write durations as `90s`, `5m`, `2h`, `1d` (also `1h30m`,
`250ms`) and times as ISO 8601 with an offset.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

from rota.errors import InvalidInput

Instant = int
Duration = int
Span = str | int | float | timedelta  # accepted for a duration

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# Far enough for any job, near enough that sums of instants and durations stay inside 64 bits and inside datetime.
LONGEST: Duration = 100 * 366 * DAY
LATEST: Instant = 250_000_000_000 * SECOND  # in the year 9892
_LAST_SHOWN: Instant = LATEST + LONGEST

_UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+", re.ASCII)
# The characters of ISO 8601; `fromisoformat` alone takes any character between date and time.
_TIME = re.compile(r"[0-9W-]+[T ][0-9:.,]+(?:Z|[+-][0-9:.]+)?", re.ASCII)
_EXPECTED_DURATION = "a duration such as 90s, 5m, 2h or 1d"
_EXPECTED_TIME = "a time in ISO 8601 with offset such as 2027-01-01T09:00:00+01:00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def duration(given: object, what: str = "duration") -> Duration:
    """Reads `90s`, a `timedelta`, or a plain number of seconds."""
    if isinstance(given, timedelta):
        value = given / timedelta(microseconds=1)
    elif isinstance(given, bool):
        raise InvalidInput(what, given, _EXPECTED_DURATION)
    elif isinstance(given, int | float):
        value = given * SECOND
    elif isinstance(given, str) and _WHOLE.fullmatch(given.strip()):
        value = sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(given))
    else:
        raise InvalidInput(what, given, _EXPECTED_DURATION)
    if not 0 <= value <= LONGEST:  # also refuses NaN
        raise InvalidInput(what, given, f"{_EXPECTED_DURATION}, not negative, at most 100 years")
    return round(value)


def some_time(given: object, what: str) -> Duration:
    span = duration(given, what)
    if span == 0:
        raise InvalidInput(what, given, "a duration longer than 0s")
    return span


def duration_between(given: object, what: str, least: Duration, most: Duration) -> Duration:
    span = duration(given, what)
    if not least <= span <= most:
        raise InvalidInput(what, given, f"a duration from {short(least)} to {short(most)}")
    return span


def instant(given: object, what: str = "time") -> Instant:
    """Reads an ISO 8601 text with offset, or an aware `datetime`. Times before 1970 count as 1970."""
    moment = given
    if isinstance(given, str):
        try:
            if not _TIME.fullmatch(given.strip()):
                raise ValueError
            moment = datetime.fromisoformat(given.strip())
        except ValueError:
            raise InvalidInput(what, given, _EXPECTED_TIME) from None
    if not isinstance(moment, datetime):
        raise InvalidInput(what, given, _EXPECTED_TIME)
    if moment.utcoffset() is None:
        raise InvalidInput(what, given, f"{_EXPECTED_TIME}; the offset is missing")
    value = as_instant(moment)
    if value > LATEST:
        raise InvalidInput(what, given, "a time before the year 9892")
    return max(value, 0)


def aware(moment: Instant) -> datetime:
    """An instant as people get it: a datetime in UTC."""
    if not 0 <= moment <= _LAST_SHOWN:  # a row may hold anything; showing it must not fail
        moment = max(0, min(moment, _LAST_SHOWN))
    return _EPOCH + timedelta(0, 0, moment)  # by place: half the time that it takes by name


def as_instant(moment: datetime) -> Instant:
    """The instant of an aware datetime that rota itself has made: nothing is checked."""
    return (moment - _EPOCH) // _MICROSECOND


def aware_or_none(moment: Instant | None) -> datetime | None:
    return None if moment is None else aware(moment)


def as_timedelta(span: Duration) -> timedelta:
    """A duration as people get it."""
    return timedelta(0, 0, span)


def as_duration(span: timedelta) -> Duration:
    """The duration of a timedelta that rota itself has made: nothing is checked."""
    return span // _MICROSECOND


def timedelta_or_none(span: Duration | None) -> timedelta | None:
    return None if span is None else as_timedelta(span)


def iso(moment: Instant | datetime) -> str:
    """`2027-01-01T08:00:00.000000+00:00`: always UTC, always with microseconds, so that texts sort like instants."""
    given = moment if isinstance(moment, datetime) else aware(moment)
    # A fifth of the time of `isoformat`: with Z, and without microseconds if there are none.
    text: str = msgspec.to_builtins(given if given.tzinfo is UTC else given.astimezone(UTC))
    return f"{text[:-1]}+00:00" if given.microsecond else f"{text[:-1]}.000000+00:00"


def short(given: Duration | timedelta) -> str:
    """A duration as a person would write it: `90s`, `1h30m`, `250ms`, `0s`."""
    span = as_duration(given) if isinstance(given, timedelta) else given
    if 0 < span < SECOND:
        return f"{span / MILLISECOND:g}ms"
    parts: list[str] = []
    rest = span
    for name, size in (("d", DAY), ("h", HOUR), ("m", MINUTE)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{name}")
    if rest or not parts:
        parts.append(f"{rest / SECOND:.6f}".rstrip("0").rstrip(".") + "s")
    return "".join(parts)
