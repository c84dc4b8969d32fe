"""Errors of rota as data, and back: an error that a server answers with is the same error for its caller.

An error travels as its code (the name of its class in lower case: `key_conflict`), its message and its fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rota.errors import RotaError, arrived


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error inside an answer, such as the refusal of one order of several."""

    code: str
    detail: str
    fields: dict[str, Any] = {}


def code_of(kind: type[RotaError]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def _tree(kind: type[RotaError]) -> Iterator[type[RotaError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == kind.__module__:  # a user may derive errors of their own
            yield from _tree(below)


KINDS: dict[str, type[RotaError]] = {code_of(kind): kind for kind in _tree(RotaError)}


def as_body(error: RotaError) -> ErrorBody:
    return ErrorBody(known_code(type(error)), str(error), plain_fields(error))


def known_code(kind: type[RotaError]) -> str:
    """The code of the nearest class that callers know: an error may be of a class of its module's own."""
    return next(code for one in kind.__mro__ if (code := code_of(one)) in KINDS)


def plain_fields(error: RotaError) -> dict[str, Any]:
    """The fields of an error as JSON can carry them."""
    _, (_, _, fields) = error.__reduce__()
    return {name: msgspec.to_builtins(value, enc_hook=str) for name, value in fields.items()}


def from_body(body: ErrorBody) -> RotaError:
    return error_from(body.code, body.detail, body.fields)


def error_from(code: str, message: str, fields: Mapping[str, Any]) -> RotaError:
    """An error as `as_body` took it apart. A code of a newer rota gives the base class."""
    return arrived(KINDS.get(code, RotaError), (message,), dict(fields))
