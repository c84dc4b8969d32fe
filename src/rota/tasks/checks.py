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
_WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `([^`]+)`")
_PLACE = re.compile(r"(.+) - at `\$\.?(.*)`", re.DOTALL)
_KINDS = {
    "str": "a text", "array": "a list", "object": "an object", "int": "a whole number", "float": "a number",
    "bool": "true or false",
}  # fmt: skip
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
    text, below = _placed(text)
    place = _joined(start, below)
    if field := _field(text, place):
        return field
    if not place:
        return text
    value = _value_at(below, body)
    if wrong := _WRONG_TYPE.fullmatch(text):
        return f"{place!r} must be {wrong[1].replace(' | ', ' or ')}, not {value}"
    return f"{place!r}: {text}, not {value}"


def misfit(text: str) -> str:
    """What msgspec has found wrong in JSON of a user, without the value, which may be a secret."""
    text, place = _placed(text)
    if field := _field(text, place):
        return field
    if wrong := _WRONG_TYPE.fullmatch(text):
        must = f"must be {_kinds(wrong[1])}, not {_kinds(wrong[2])}"
        return f"{place!r} {must}" if place else must
    return f"{place!r}: {text}" if place else text


def malformed(error: Exception) -> str:
    """What is wrong in text that is no JSON."""
    if isinstance(error, RecursionError):
        return "too many levels of lists and objects"
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8 at byte {error.start}"
    text = str(error).removeprefix("JSON is malformed: ")
    return "it ends too early" if text == "Input data was truncated" else text


def _placed(text: str) -> tuple[str, str]:
    """A message of msgspec, and the place that it names."""
    found = _PLACE.fullmatch(text)
    return (found[1], found[2]) if found else (text, "")


def _field(text: str, place: str) -> str | None:
    if found := _FIELD.fullmatch(text):
        how = "is missing" if found[1].startswith("missing") else "is unknown"
        return f"{_joined(place, found[2])!r} {how}"
    return None


def _kinds(names: str) -> str:
    """JSON types as people call them."""
    return " or ".join(_KINDS.get(name, name) for name in names.split(" | "))


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
