"""What msgspec says about a value that does not fit its type, as a complaint that a person understands.

It names the field with its place, the value that was given, and what would be right. Only requests that are refused
anyway come here, so it may take its time.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import inspect

from rota.errors import InvalidInput

_PLACE = re.compile(r"(?P<problem>.*?)(?: - at `(?:key in )?\$?\.?(?P<place>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_STEP = re.compile(r"[^.\[\]]+|\[\d+\]|\[\.\.\.\]")
FEW = 15  # fields that a complaint may name
_ABSENT: Final = object()
_PLAIN = {
    "Invalid RFC3339 encoded date": "a date such as 2027-01-31",
    "Invalid RFC3339 encoded datetime": "a time in ISO 8601 with offset such as 2027-01-01T09:00:00+01:00",
    "Invalid base64 encoded string": "bytes in base64",
    "Number out of range": "a number of 64 bits",
    "Integer value out of range": "a whole number of 64 bits",
}


def misfit(message: str, whole: str, kind: Any, given: Any) -> InvalidInput:
    """A complaint about `given`, whose type should have been `kind`. `whole` is the name of all of it."""
    found = _PLACE.fullmatch(message)
    problem, place = (found["problem"], found["place"] or "") if found else (message, "")
    types = list(_types_at(inspect.type_info(kind), _STEP.findall(place)))
    if named := _MISSING.fullmatch(problem):
        return _missing(_below(place, named[1]))
    if named := _UNKNOWN.fullmatch(problem):
        name = _below(place, named[1])
        value = _value_at(given, _STEP.findall(name))
        return InvalidInput(name, None if value is _ABSENT else value, _no_such_field(named[1], types))
    expected, _, got = problem.removeprefix("Expected ").replace("`", "").partition(", got ")
    value = _value_at(given, _STEP.findall(place))
    if value is _ABSENT:
        value = got or ("a larger number" if problem.endswith("out of range") else None)
    return InvalidInput(place or whole, value, _right(expected, types))


def _below(place: str, name: str) -> str:
    name = name or "''"
    return f"{place}.{name}" if place else name


def _missing(name: str) -> InvalidInput:
    error = InvalidInput(name, None, "this field, which is missing")
    error.args = (f"{name}: this field is missing",)
    return error


def _no_such_field(name: str, types: Sequence[inspect.Type]) -> str:
    known = [field.encode_name for one in types if isinstance(one, inspect.StructType) for field in one.fields]
    if close := difflib.get_close_matches(name, known, n=1):
        return f"no such field; did you mean {close[0]}?"
    return f"no such field; there are {', '.join(known)}" if 0 < len(known) <= FEW else "no such field"


def _right(expected: str, types: Sequence[inspect.Type]) -> str:
    if expected.startswith("Invalid enum value"):
        return f"one of {', '.join(_choices(types))}"
    return _PLAIN.get(expected, expected)


def _choices(types: Sequence[inspect.Type]) -> Iterator[str]:
    for one in types:
        if isinstance(one, inspect.EnumType):
            yield from (str(member.value) for member in one.cls)
        elif isinstance(one, inspect.LiteralType):
            yield from map(str, one.values)


def _types_at(kind: inspect.Type, steps: Sequence[str]) -> Iterator[inspect.Type]:
    """The types that a value at this place may have."""
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _types_at(one, steps)
    elif not steps:
        yield kind
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name == steps[0]:
                yield from _types_at(field.type, steps[1:])
    elif isinstance(kind, inspect.DictType):
        yield from _types_at(kind.value_type, steps[1:])
    elif isinstance(kind, inspect.CollectionType):
        yield from _types_at(kind.item_type, steps[1:])


def _value_at(given: Any, steps: Sequence[str]) -> Any:
    """The value at this place; msgspec does not tell the key of a mapping, so not behind one."""
    for step in steps:
        if step.startswith("["):
            index = step[1:-1]
            if not (index.isdigit() and isinstance(given, list) and int(index) < len(given)):
                return _ABSENT
            given = given[int(index)]
        elif isinstance(given, Mapping) and step in given:
            given = given[step]
        else:
            return _ABSENT
    return given
