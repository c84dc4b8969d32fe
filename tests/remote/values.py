"""Random values of the types of the contract, made from the types themselves."""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from rota.errors import KeyConflict, NotFound, QuotaExceeded
from rota.model.retry import Retry
from rota.model.statistics import Window
from rota.model.times import HOUR, MINUTE
from rota.model.trigger.calendars import Calendar

TEXTS = ["", "a", "report.monthly", "é ü \N{SNOWMAN}", 'quote " and \\', "line\nline\t", "\x00\x1f", "x" * 300]
# Types that check their values when they are made.
CHECKED: dict[Any, Callable[[random.Random], Any]] = {
    Retry: lambda chance: Retry(chance.randrange(9), "2s..10m", 0.5, {"ValueError": "fatal", "KeyError": "30s"}),
    Calendar: lambda chance: Calendar("closed", (date(2027, 1, 1), date(2027, chance.randrange(1, 13), 2))),
    Window: lambda chance: Window(HOUR, chance.choice([0, MINUTE]), chance.choice([None, "mails"]), own=True),
    KeyConflict: lambda chance: KeyConflict(chance.choice(TEXTS), "0198"),
    QuotaExceeded: lambda chance: QuotaExceeded("ann", "waiting", chance.randrange(9), "10", 2),
    NotFound: lambda chance: NotFound("job", chance.choice(TEXTS)),
}
PLAIN: dict[Any, Callable[[random.Random], Any]] = {
    str: lambda chance: chance.choice(TEXTS),
    int: lambda chance: chance.choice([0, 1, -1, 2**53 + 1, 2**63 - 1, chance.randrange(10**15)]),
    float: lambda chance: chance.choice([0.0, 0.1, 1e300, chance.random()]),
    bool: lambda chance: chance.random() < 0.5,
    bytes: lambda chance: chance.randbytes(chance.randrange(40)),
    date: lambda chance: date(2027, 1, 1) + timedelta(days=chance.randrange(9_000)),
    datetime: lambda chance: datetime(2027, 1, 1, tzinfo=UTC) + timedelta(microseconds=chance.randrange(10**15)),
    timedelta: lambda chance: timedelta(microseconds=chance.choice([0, 1, chance.randrange(10**16)])),
    type(None): lambda chance: None,
}


def made(kind: Any, chance: random.Random) -> Any:
    """A value of this type."""
    if kind in (Any, object):
        return chance.choice([None, 1, 2**70, 1.5, "text", [1, "two", None], {"a": {"b": [True]}}])
    if (plain := CHECKED.get(kind) or PLAIN.get(kind)) is not None:
        return plain(chance)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return made(chance.choice(parts), chance)
    if origin is Literal:
        return chance.choice(parts)
    if origin is tuple and parts[-1] is not Ellipsis:
        return tuple(made(part, chance) for part in parts)
    if origin in (tuple, list, Sequence):
        values = [made(parts[0], chance) for _ in range(chance.randrange(3))]
        return tuple(values) if origin is tuple else values
    if origin in (dict, Mapping):
        return {made(parts[0], chance): made(parts[1], chance) for _ in range(chance.randrange(3))}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return chance.choice(list(kind))
    if isinstance(kind, type) and issubclass(kind, tuple):  # one with names
        return kind(*(made(part, chance) for part in get_type_hints(kind).values()))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind(**{field.name: made(field.type, chance) for field in msgspec.structs.fields(kind)})
    raise AssertionError(f"no values of {kind} are known here")
