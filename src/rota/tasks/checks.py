"""Arguments that don't fit: which one it is, what it should be, and what it is."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rota.errors import NotSerialisable
from rota.tasks.encoding import to_json

# As msgspec says it. A place in a mapping has no name there: `$.prices[...]`.
_WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `[^`]+`")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `([^`]+)`")
_PLACE = re.compile(r"(.+) - at `\$\.?(.*)`", re.DOTALL)
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def arguments_json(arguments: Mapping[str, Any], limit: int, task: str) -> str:
    """Arguments as JSON. If JSON can't carry them, the error names the first wrong one."""
    try:
        return to_json(arguments, limit, f"arguments of task {task!r}")
    except NotSerialisable:
        for name, value in arguments.items():
            to_json(value, sys.maxsize, f"argument {name!r} of task {task!r}")
        raise


def problem(text: str, body: str | bytes, start: str = "") -> str:
    """What msgspec has found wrong in the arguments, with the names and values of the user. `start`: the place of
    `body` in them."""
    found = _PLACE.fullmatch(text)
    text, below = found.groups() if found else (text, "")
    place = _joined(start, below)
    if field := _FIELD.fullmatch(text):
        how = "is missing" if field[1].startswith("missing") else "is unknown"
        return f"{_joined(place, field[2])!r} {how}"
    if not place:
        return text
    value = _value_at(below, body)
    if wrong := _WRONG_TYPE.fullmatch(text):
        return f"{place!r} must be {wrong[1].replace(' | ', ' or ')}, not {value}"
    return f"{place!r}: {text}, not {value}"


def _joined(place: str, field: str) -> str:
    return f"{place}.{field}" if place and field and field[0] != "[" else place + field


def _value_at(place: str, body: str | bytes) -> str:
    if "[...]" in place:  # in a mapping or a set
        return "what is there"
    try:
        value = msgspec.json.decode(body)
        for index, name in _STEP.findall(place):
            value = value[int(index)] if index else value[name]
    except (msgspec.MsgspecError, LookupError, TypeError):  # a name with a dot or a bracket
        return "what is there"
    return f"{value!r:.60}"


def fits(value: Any, kinds: Sequence[str]) -> bool:
    """Whether a value that came from JSON is of one of these kinds. 7.0 is no integer: nodes don't read it as one."""
    match value:
        case None:
            found = {"null"}
        case bool():
            found = {"boolean"}
        case int():
            found = {"integer", "number"} if abs(value) <= sys.float_info.max else {"integer"}
        case float():
            found = {"number"}
        case str():
            found = {"string"}
        case list():
            found = {"array"}
        case _:
            found = {"object"}
    return not kinds or bool(found & set(kinds))
