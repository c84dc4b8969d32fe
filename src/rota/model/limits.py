"""Limits: keys that jobs need in order to start, with a concurrency (1 = mutex) and/or a rate (N starts per window)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec

from rota.errors import InvalidInput
from rota.model.readers import printable, whole
from rota.model.times import DAY, MILLISECOND, MINUTE, SECOND, Duration, duration, short

MOST_AT_ONCE = 100_000
MOST_STARTS = 100_000
SHORTEST_WINDOW: Duration = 10 * MILLISECOND
LONGEST_WINDOW: Duration = 31 * DAY
MOST_KEYS = 20
# The key that all jobs of a user with a quota for running jobs need. People can't name it: their names have no blanks
# around them. The SQL of the stores says the name too, and the view `running_quotas`.
RUNNING_QUOTA = " running"
LONGEST_NAME = 200
LONGEST_WORD = 100
LONGEST_TEMPLATE = 1_000
SHORTEST_SLACK: Duration = 20 * MILLISECOND
LONGEST_SLACK: Duration = 500 * MILLISECOND
LONGEST_GROWN_SLACK: Duration = 2 * SECOND
MOST_DOUBLINGS = 6
# How long starts are kept at least, for a later job with a longer window.
KEPT_STARTS: Duration = 10 * MINUTE

_EXPECTED_RATE = "a number of starts per window such as 60/1m or 10/s"
_RATE = re.compile(r"(\d{1,6})\s*/\s*(ms|[smhd]|\d.*)", re.ASCII | re.DOTALL)
_EXPECTED_TEMPLATE = "a text with fields such as user:{user_id} or {order.customer}; braces of its own are doubled"
_PIECE = re.compile(r"(?P<text>[^{}]+|\{\{|\}\})|\{(?P<path>[\w-]+(?:\.[\w-]+)*)\}")

_WORD = re.compile(r"[\w.@-]+")


class Policy(StrEnum):
    """The treatment of a job whose key is full."""

    WAIT = "wait"
    SKIP = "skip"  # skip this job
    REPLACE = "replace"  # cancel the jobs that hold the key


class Rate(msgspec.Struct, frozen=True, array_like=True):
    count: int
    window: Duration


class Key(msgspec.Struct, frozen=True, array_like=True):
    """A key that a job needs in order to start. Without bounds it still names the key, for a limit that a person
    sets."""

    name: str
    concurrency: int | None = None
    rate: Rate | None = None
    policy: Policy = Policy.WAIT


class Limit(msgspec.Struct, frozen=True):
    """Bounds set by a person for a key; they win over the bounds that jobs bring along."""

    key: str
    concurrency: int | None = None
    rate: Rate | None = None


def rate(given: object) -> Rate:
    """Reads `60/1m`, `10/s` (the same as `10/1s`) and `5/250ms`."""
    found = given if isinstance(given, Rate) else _read_rate(given)
    bounds = f"{short(SHORTEST_WINDOW)} to {short(LONGEST_WINDOW)}"
    try:
        whole(found.count, "rate", 1, MOST_STARTS, f"{_EXPECTED_RATE}, with 1 to {MOST_STARTS:,} starts")
        whole(found.window, "rate", SHORTEST_WINDOW, LONGEST_WINDOW, f"{_EXPECTED_RATE}, with a window of {bounds}")
    except InvalidInput as wrong:
        raise InvalidInput("rate", given, wrong.expected) from None
    return found


def _read_rate(given: object) -> Rate:
    found = _RATE.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None:
        raise InvalidInput("rate", given, _EXPECTED_RATE)
    count, window = found.groups()
    try:
        return Rate(int(count), duration(window if window[0].isdigit() else f"1{window}"))
    except InvalidInput:
        raise InvalidInput("rate", given, _EXPECTED_RATE) from None


def bounds_text(at_once: int | None, starts: Rate | None) -> str:
    parts = ["" if at_once is None else f"{at_once} at once", "" if starts is None else rate_text(starts)]
    return ", ".join(part for part in parts if part)


def key_text(key: Key) -> str:
    """A key with the bounds that a job brings along."""
    full = {Policy.WAIT: "", Policy.SKIP: "else skipped", Policy.REPLACE: "replaces"}[key.policy]
    said = ", ".join(part for part in (bounds_text(key.concurrency, key.rate), full) if part)
    return f"{key.name} ({said})" if said else key.name


def rate_text(rate: Rate) -> str:
    return f"{rate.count}/{short(rate.window)}"


def concurrency(given: object, what: str = "concurrency") -> int:
    return whole(given, what, 1, MOST_AT_ONCE)


def key_name(given: object) -> str:
    return plain_name(given, "key")


def word(given: object, what: str) -> str:
    """For names that people type and lists join: of queues, nodes, users."""
    if not isinstance(given, str) or len(given) > LONGEST_WORD or not _WORD.fullmatch(given):
        raise InvalidInput(what, given, f"letters, digits and -_.@, at most {LONGEST_WORD}")
    return given


def plain_name(given: object, what: str) -> str:
    expected = f"1 to {LONGEST_NAME} printable characters without blanks around them"
    name = printable(given, what, 1, LONGEST_NAME, expected)
    if name != name.strip():
        raise InvalidInput(what, given, expected)
    return name


def fields(template: str) -> tuple[str, ...]:
    """The fields of a template; raises if it is invalid, so the error appears before the first job."""
    return tuple(path for _, path in _pieces(template) if path)


def fill(template: str, arguments: Mapping[str, Any]) -> str:
    """`user:{user_id}` with the job's own arguments; `{a.b}` reaches into objects.

    Not `str.format`: templates come from users, and attributes and format specs reach far more than the arguments.
    """
    if not isinstance(arguments, Mapping):
        raise InvalidInput("arguments", arguments, "a mapping of names to values")
    return key_name("".join(_value(path, arguments) if path else text for text, path in _pieces(template)))


def _pieces(template: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(template, str):
        raise InvalidInput("key", template, _EXPECTED_TEMPLATE)
    if len(template) > LONGEST_TEMPLATE:
        raise InvalidInput("key", template, f"{_EXPECTED_TEMPLATE}, of at most {LONGEST_TEMPLATE:,} characters")
    return _split(template)


@lru_cache(maxsize=1024)
def _split(template: str) -> tuple[tuple[str, str], ...]:
    """Pairs of (text, ""), with braces no longer doubled, and ("", path)."""
    pieces: list[tuple[str, str]] = []
    place = 0
    while place < len(template):
        found = _PIECE.match(template, place)
        if found is None:
            raise InvalidInput("key", template, _EXPECTED_TEMPLATE)
        text = found["text"] or ""
        pieces.append((text[0] if text in ("{{", "}}") else text, found["path"] or ""))
        place = found.end()
    return tuple(pieces)


def _value(path: str, arguments: Mapping[str, Any]) -> str:
    what = f"field {{{path}}} of the key"
    value: Any = arguments
    for name in path.split("."):
        if not isinstance(value, Mapping):
            raise InvalidInput(what, value, f"an object that has {name!r}")
        if name not in value:
            raise InvalidInput(what, name, _names(value))
        value = value[name]
    match value:
        case bool():
            return "true" if value else "false"  # as in JSON
        case str():
            return str.__str__(value)  # an enum's own __str__ would name its class
        case int() if value.bit_length() <= 4 * LONGEST_NAME:  # Python refuses to format far larger ones
            return int.__repr__(value)
        case _:
            raise InvalidInput(what, value, "a text, a whole number (not a huge one), true or false")


def _names(there: Mapping[Any, Any]) -> str:
    names = ", ".join(sorted(repr(name) for name in there if isinstance(name, str)))
    return f"one of {names if len(names) <= 400 else names[:397] + '...'}" if names else "no field: there are none"


def effective(key: Key, limit: Limit | None) -> Key:
    """A limit replaces both bounds of the job, also by no bound."""
    if limit is None:
        return key
    return Key(key.name, limit.concurrency, limit.rate, key.policy)


def keys(given: Sequence[Key]) -> tuple[Key, ...]:
    """Checked and sorted by name, the order in which they are reserved. Keys of the same name are merged into the
    stricter."""
    if not isinstance(given, list | tuple):
        raise InvalidInput("keys", given, "a list of keys")
    merged: dict[str, Key] = {}
    for key in given:
        _check(key)
        merged[key.name] = _stricter(merged[key.name], key) if key.name in merged else key
    if len(merged) > MOST_KEYS:
        raise InvalidInput("keys", len(merged), f"at most {MOST_KEYS} keys for a job")
    return tuple(merged[name] for name in sorted(merged))


def _check(key: object) -> None:
    if not isinstance(key, Key):
        raise InvalidInput("key", key, "a rota Key")
    key_name(key.name)
    if key.concurrency is not None:
        concurrency(key.concurrency)
    if key.rate is not None:
        _check_rate(key.rate)
    if not isinstance(key.policy, Policy):
        raise InvalidInput("policy", key.policy, f"one of {', '.join(Policy)}")


def _check_rate(given: object) -> None:
    if not isinstance(given, Rate):
        raise InvalidInput("rate", given, "a rota Rate")
    rate(given)


def _stricter(one: Key, other: Key) -> Key:
    bounds = [key.concurrency for key in (one, other) if key.concurrency is not None]
    rates = [key.rate for key in (one, other) if key.rate is not None]
    return Key(one.name, min(bounds, default=None), _lower(rates), _policy(one, other))


def _lower(rates: Sequence[Rate]) -> Rate | None:
    """The slowest rate. Of equal rates, the one with smaller bursts: 1/s implies 60/1m, but not the other way round."""
    return min(rates, key=lambda rate: (Fraction(rate.count, rate.window), rate.count), default=None)


def _policy(one: Key, other: Key) -> Policy:
    """WAIT is the default; an explicit policy overrides it."""
    asked = {one.policy, other.policy} - {Policy.WAIT}
    if len(asked) > 1:
        raise InvalidInput("policy", f"skip and replace for key {one.name}", "one policy for a key")
    return asked.pop() if asked else Policy.WAIT


def slack(window: Duration, interruptions: int = 0) -> Duration:
    """How long after its token a start may happen. More slack wastes tokens, which come back later by as much; with
    less, attempts give their turn back. An attempt that did gets twice as much the next time: its node may be far from
    the store."""
    least = min(max(window // 20, SHORTEST_SLACK), LONGEST_SLACK)
    return min(least << min(max(interruptions, 0), MOST_DOUBLINGS), LONGEST_GROWN_SLACK)
