"""Reads and checks the timing options of a schedule, the same in Python and on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from rota.errors import InvalidInput
from rota.model.readers import E, one_of, printable
from rota.model.times import Instant, duration, instant, short
from rota.model.trigger.arguments import local_iso
from rota.model.trigger.policies import CatchUp, Fold, Gap, Missed, Overlap
from rota.model.trigger.recurrence_text import split
from rota.model.trigger.rules import (
    Cron,
    Every,
    Recurrence,
    Rule,
    Times,
    cron,
    is_recurrence,
    period_of,
    read_rule,
    recurrence,
)
from rota.model.trigger.schedule import Timing
from rota.model.trigger.zones import Zone, zone

LONGEST_NAME = 200
KINDS = ("rule", "cron", "every", "rrule", "at")
NAMES = (
    *KINDS, "tz", "gap", "fold", "start", "end", "jitter", "limit", "exclude", "only", "overlap", "catch_up",
    "catch_up_window", "catch_up_max",
)  # fmt: skip


def schedule_name(given: Any) -> str:
    expected = f"a name of up to {LONGEST_NAME} printable characters"
    if printable(given, "schedule name", 1, LONGEST_NAME, expected) != given.strip():
        raise InvalidInput("schedule name", given, expected)
    return str(given)


def read_schedule(owner: str, name: str, given: Mapping[str, Any], now: Instant) -> Timing:
    """`given` by the names in `NAMES`; None counts as not given. An RRULE without DTSTART begins at `start`, or now."""
    options = {key: value for key, value in given.items() if value is not None}
    for key in options:
        if key not in NAMES:
            raise InvalidInput("option", key, f"one of {', '.join(NAMES)}")
    start = _if(options, "start", instant)
    schedule_name(name)
    # The zone is checked first, so that its errors name it and not the rule.
    own_begin, own_zone = _dtstart(options)
    where = _zone(options.get("tz"), own_zone)
    begin = _begin(where.local(now if start is None else start), exact=start is not None)
    rule = _rule(options, begin)
    if isinstance(rule, Recurrence) and start is None:
        rule = Recurrence(rule.text, rule.begin, implied=own_begin is None)
    return Timing(
        name=name, owner=owner, rule=rule, zone=where.name,
        gap=_one_of(Gap, options, "gap", Gap.SHIFT), fold=_one_of(Fold, options, "fold", Fold.FIRST),
        start=start, end=_if(options, "end", instant), jitter=_if(options, "jitter", duration) or 0,
        limit=_if(options, "limit", _whole), exclude=_names(options, "exclude"), only=_names(options, "only"),
        overlap=_one_of(Overlap, options, "overlap", Overlap.ALLOW), catch_up=_catch_up(options),
    )  # fmt: skip


def _dtstart(options: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The time and the zone of a DTSTART in the rule."""
    given = options.get("rrule", options.get("rule"))
    if isinstance(given, str) and ("rrule" in options or is_recurrence(given)):
        return split(given)[1:]
    return None, None


def _zone(given: Any, of_rule: str | None) -> Zone:
    name = getattr(given, "key", given)  # the name of a ZoneInfo
    if name is None:
        return zone(of_rule or "UTC")
    if not isinstance(name, str):
        raise InvalidInput("tz", name, "the name of a time zone such as Europe/Berlin or UTC")
    if of_rule is not None and zone(of_rule).name != zone(name).name:
        raise InvalidInput("tz", name, f"{of_rule} or nothing: DTSTART names that zone")
    return zone(name)


def _begin(moment: datetime, exact: bool) -> str:
    """An RRULE without a beginning begins at a full minute."""
    return moment.replace(microsecond=0, tzinfo=None, **({} if exact else {"second": 0})).isoformat()


def _rule(options: Mapping[str, Any], begin: str) -> Rule:
    chosen = [kind for kind in KINDS if kind in options]
    if len(chosen) != 1:
        raise InvalidInput("rule", " and ".join(chosen) or None, f"one of {', '.join(KINDS[1:])}")
    given = options[chosen[0]]
    match chosen[0]:
        case "rule":
            return read_rule(given, begin)
        case "cron":
            if not isinstance(given, str) or not given.strip():
                raise InvalidInput("cron", given, "a cron expression such as '0 3 * * *'")
            return cron(given)
        case "every":
            return _every(given)
        case "rrule":
            if not isinstance(given, str):
                raise InvalidInput("rrule", given, "an RRULE such as 'FREQ=WEEKLY;BYDAY=MO'")
            return recurrence(given, begin)
        case _:
            moments = given if isinstance(given, list | tuple | set | frozenset) else [given]
            return Times(tuple(instant(moment, "at") for moment in moments))


def _every(given: Any) -> Every:
    """`90s`, `90s from 2027-01-01T00:00:00Z`, a number of seconds, or a timedelta."""
    if isinstance(given, str):
        return period_of(given)
    return Every(duration(given, "every"))


def _catch_up(options: Mapping[str, Any]) -> CatchUp:
    standard = CatchUp()
    given = options.get("catch_up")
    if isinstance(given, CatchUp):
        return given
    most = _if(options, "catch_up_max", _whole)
    return CatchUp(
        _one_of(Missed, options, "catch_up", standard.missed),
        _if(options, "catch_up_window", duration),
        standard.most if most is None else most,
        standard.grace,
    )


def _if(options: Mapping[str, Any], key: str, read: Callable[[Any, str], Any]) -> Any:
    return read(options[key], key.replace("_", " ")) if key in options else None


def _whole(given: Any, what: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidInput(what, given, "a whole number")
    return given


def _one_of(kind: type[E], options: Mapping[str, Any], key: str, otherwise: E) -> E:
    return one_of(kind, options.get(key, otherwise), key.replace("_", " "))


def _names(options: Mapping[str, Any], key: str) -> tuple[str, ...]:
    given = options.get(key, ())
    names = given.split(",") if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(one, str) and one.strip() for one in names):
        raise InvalidInput(key, given, "names of calendars")
    return tuple(one.strip() for one in names)


def recurrence_text(text: str, begin: str) -> str:
    return f"DTSTART:{begin.replace('-', '').replace(':', '')}\nRRULE:{text}"


def rule_text(rule: Rule) -> str:
    """A rule as people write it; `read_rule` reads it back."""
    match rule:
        case Cron(text):
            return text
        case Every(period, anchor):
            return f"every {short(period)}" + (f" from {local_iso(anchor, 'UTC')}" if anchor else "")
        case Recurrence(text, begin):
            return recurrence_text(text, begin)
        case _:
            return "at " + ", ".join(local_iso(moment, "UTC") for moment in rule.instants)
