"""Completion of a query that is being typed: for the page and for shells."""

from __future__ import annotations

import re

import msgspec

from rota.model.query.fields import Depth, Field, Searched, Type, fields_of, find
from rota.model.query.format import written

MOST = 100
_TIMES = ("now", "today", "yesterday", "-15m", "-1h", "-1d", "-7d")
_SPANS = ("1s", "10s", "1m", "10m", "1h")
_OPERATORS = {Type.JSON: ".", Type.TIME: ">", Type.SPAN: ">"}
_VALUE = re.compile(r"([A-Za-z][A-Za-z0-9_]*)((?:\.[^\s.:=<>!~]+)*)(!=|!~|<=|>=|[:=<>~])", re.DOTALL)


class Suggestion(msgspec.Struct, frozen=True):
    text: str
    meaning: str = ""


class AskedValues(msgspec.Struct, frozen=True):
    """The stored values that would complete the text: those of the field that begin with the prefix."""

    field: str
    prefix: str


class Completion(msgspec.Struct, frozen=True):
    """Candidates that replace the characters from `start` up to `end`, counted from 0. `asked`: the caller may add
    stored values, each through `written`."""

    start: int
    end: int
    candidates: tuple[Suggestion, ...] = ()
    asked: AskedValues | None = None


def complete(text: str, at: int | None = None, searched: Searched = Searched.JOBS) -> Completion:
    """The continuations at a place of the text; None: at its end. A text that can't be read has none."""
    end = len(text) if at is None else max(0, min(at, len(text)))
    piece = text[_after_last(text[:end], " \t\r\n()") : end]
    sign = 1 if piece.startswith("-") else 0
    start = end - len(piece) + sign
    if (begun := _VALUE.match(piece, sign)) is None:
        return Completion(start, end, _names(piece[sign:], searched))
    field = find(begun[1], searched)
    if field is None or field.type is Type.JSON:
        return Completion(end, end)
    value = piece[begun.end() :]
    given = value[_after_last(value, ",") :]
    return _values(field, begun[3], given, end)


def with_stored(completion: Completion, values: list[str]) -> Completion:
    """The completion with values that the store knows."""
    found = (*completion.candidates, *(Suggestion(written(value)) for value in values))
    return msgspec.structs.replace(completion, candidates=found[:MOST])


def _after_last(text: str, borders: str) -> int:
    """The place behind the last of these characters outside of quotes. It is found from the left: only from there is
    it known whether a quote opens or closes."""
    start, quoted, escaped = 0, False, False
    for place, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif char in borders and not quoted:
            start = place + 1
    return start


def _names(begun: str, searched: Searched) -> tuple[Suggestion, ...]:
    return tuple(
        Suggestion(_with_operator(field), field.meaning)
        for field in fields_of(searched)
        if field.name.startswith(begun.lower())
    )


def _with_operator(field: Field) -> str:
    """`args.` goes on with a path, `took>` is what people ask of durations."""
    return field.name + (_OPERATORS.get(field.type, ":") if field.depth is not Depth.ALLOWED else ":")


def _values(field: Field, operator: str, given: str, end: int) -> Completion:
    start = end - len(given)
    known = _known(field, operator)
    found = tuple(Suggestion(word) for word in known if word.startswith(given.lower()))
    prefix = re.sub(r"\\(.)", r"\1", given.removeprefix('"').removesuffix('"'))
    stored = field.stored and operator in (":", "=", "!=") and not given.endswith('"', 1) and "*" not in given
    return Completion(start, end, found, AskedValues(field.name, prefix) if stored else None)


def _known(field: Field, operator: str) -> tuple[str, ...]:
    if field.type is Type.WORD:
        return (*field.words, *(field.groups if operator in (":", "=", "!=") else ()))
    return {Type.TIME: _TIMES, Type.SPAN: _SPANS}.get(field.type, ())
