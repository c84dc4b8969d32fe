"""Values of tasks as JSON: arguments, results, saved states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from rota.errors import NotSerialisable, TooLarge
from rota.tasks.annotations import written

_encode = msgspec.json.Encoder(enc_hook=written).encode


def to_json(value: Any, limit: int, what: str) -> str:
    """A value as JSON; refuses what JSON can't carry and what is too large."""
    try:
        body = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotSerialisable(what, str(error), "values that JSON can carry") from None
    if len(body) > limit:
        raise TooLarge(what, len(body), limit)
    if b"null" in body:
        _refuse_non_finite(msgspec.to_builtins(value, enc_hook=_unknown), what)
    return body.decode()


def _unknown(value: Any) -> Any:
    return None if isinstance(value, msgspec.Raw) else written(value)  # raw JSON has no NaN


def _refuse_non_finite(value: Any, what: str) -> None:
    """JSON has no NaN and no infinity; they would silently become null."""
    if isinstance(value, float) and not math.isfinite(value):
        raise NotSerialisable(what, value, "values that JSON can carry")
    if isinstance(value, Mapping):
        for part in value.values():
            _refuse_non_finite(part, what)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            _refuse_non_finite(part, what)
