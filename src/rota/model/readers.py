"""Readers of plain values. Each returns the value, or raises InvalidInput for `what` was given."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar

from rota.errors import InvalidInput

E = TypeVar("E", bound=StrEnum)


def whole(given: object, what: str, least: int, most: int, expected: str = "") -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        raise InvalidInput(what, given, expected or f"a whole number from {least} to {most:,}")
    return given


def printable(given: object, what: str, least: int, most: int, expected: str) -> str:
    """A text of `least` to `most` characters that every store holds and every terminal shows as it is: NUL and lone
    surrogates are not printable."""
    if not isinstance(given, str) or not least <= len(given) <= most or not given.isprintable():
        raise InvalidInput(what, given, expected)
    return given


def one_of(kind: type[E], given: Any, what: str) -> E:
    try:
        return kind(given)
    except ValueError:
        raise InvalidInput(what, given, f"one of {', '.join(kind)}") from None
