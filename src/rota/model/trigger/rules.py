"""Rules of schedules, as values: kept as JSON and checked when they are made."""

from __future__ import annotations

import re

import msgspec

from rota.errors import InvalidInput
from rota.model.times import LATEST, LONGEST, SECOND, Duration, Instant, duration, instant
from rota.model.trigger.cron import cron_plan
from rota.model.trigger.recurrence_text import read_begin, read_parts, split

MOST_TIMES = 10_000
_EXPECTED = "a cron expression, 'every 90s', an RRULE, or 'at' with times in ISO 8601"
_EVERY = re.compile(r"@?every\s+(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_PERIOD = re.compile(r"(\S+)(?:\s+from\s+(\S+))?", re.ASCII | re.IGNORECASE)
_RECURRENCE = re.compile(
    r"\s*(?:(?:RRULE|DTSTART|FREQ)\b|(?:INTERVAL|COUNT|UNTIL|WKST|BY[A-Z]+)=)", re.ASCII | re.IGNORECASE
)


class Cron(msgspec.Struct, frozen=True, tag="cron", tag_field="kind"):
    text: str

    def __post_init__(self) -> None:
        cron_plan(self.text, "")


class Every(msgspec.Struct, frozen=True, tag="every", tag_field="kind", omit_defaults=True):
    """At `anchor` and after every further period: elapsed time, whatever the clocks do."""

    period: Duration
    anchor: Instant = 0

    def __post_init__(self) -> None:
        if not SECOND <= self.period <= LONGEST:
            raise InvalidInput("every", self.period, "a period from 1s to 100 years, in microseconds")
        if not 0 <= self.anchor <= LATEST:
            raise InvalidInput("anchor", self.anchor, "an instant from 1970 to 9892")


class Recurrence(msgspec.Struct, frozen=True, tag="rrule", tag_field="kind", omit_defaults=True):
    """An RRULE and its DTSTART (`begin`), which is local time as ISO 8601 without offset. `implied`: no
    beginning was given, so it began when it was first made."""

    text: str
    begin: str
    implied: bool = False

    def __post_init__(self) -> None:
        read_parts(self.text)
        read_begin(self.begin)


class Times(msgspec.Struct, frozen=True, tag="times", tag_field="kind"):
    """Single instants, in order, each once."""

    instants: tuple[Instant, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.instants) <= MOST_TIMES:
            raise InvalidInput("times", f"{len(self.instants)} of them", f"from 1 to {MOST_TIMES:,} times")
        wrong = next((moment for moment in self.instants if not 0 <= moment <= LATEST), None)
        if wrong is not None:
            raise InvalidInput("times", wrong, "instants from 1970 to 9892")
        msgspec.structs.force_setattr(self, "instants", tuple(sorted(set(self.instants))))


Rule = Cron | Every | Recurrence | Times


def read_rule(given: object, begin: str | None = None) -> Rule:
    """Reads `0 9 * * MON-FRI`, `@daily`, `[@]every 90s [from <time>]`, `at <time>, <time>`, or an RRULE.

    `begin` is the DTSTART for an RRULE that comes without one.
    """
    if not isinstance(given, str) or not given.strip():
        raise InvalidInput("rule", given, _EXPECTED)
    text = given.strip()
    first = text.split(maxsplit=1)[0].lower()
    if first == "every":
        return every(text)
    if first == "at":
        return Times(tuple(instant(part, "times") for part in text[2:].split(",")))
    if is_recurrence(text):
        return recurrence(text, begin)
    return cron(text)


def cron(text: str) -> Cron | Every:
    """Reads the fields of cron, its words such as `@daily`, and `@every 5m`."""
    said = " ".join(text.split())
    return every(said, "cron") if said.lower().partition(" ")[0] == "@every" else Cron(said)


def is_recurrence(text: str) -> bool:
    return _RECURRENCE.match(text) is not None


def every(text: str, what: str = "rule") -> Every:
    """Reads `every 90s` and `every 90s from 2027-01-01T00:00:00+00:00`."""
    found = _EVERY.fullmatch(text.strip())
    read = _PERIOD.fullmatch(found[1]) if found else None
    if read is None:
        raise InvalidInput(what, text, "'every 90s' or 'every 90s from <time>'")
    return _every(read)


def period_of(text: str) -> Every:
    """Reads `90s` and `90s from 2027-01-01T00:00:00+00:00`."""
    read = _PERIOD.fullmatch(text.strip())
    if read is None:
        raise InvalidInput("every", text, "'90s' or '90s from <time>'")
    return _every(read)


def _every(found: re.Match[str]) -> Every:
    period = duration(found[1], "every")
    if period < SECOND:
        raise InvalidInput("every", found[1], "a period of at least 1s")
    return Every(period, instant(found[2], "anchor") if found[2] else 0)


def recurrence(text: str, begin: str | None = None) -> Recurrence:
    """Reads `FREQ=...`, `RRULE:FREQ=...`, and a line `DTSTART:...` before it."""
    rule, own, _ = split(text)
    start = own or begin
    if start is None:
        raise InvalidInput("rrule DTSTART", None, "a local time to count from, such as DTSTART:20270101T090000")
    return Recurrence(rule, start)
