"""Values of tasks as JSON: arguments, results, saved states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from rota.errors import NotSerialisable, TooLarge
from rota.tasks.annotations import written

_encode = msgspec.json.Encoder(enc_hook=written).encode
ONLY_THERE = "values; a job stands for its result in task.submit(...) and workflow.add(task, ...) only"


class JobReference:
    """A job that stands for its result among the arguments of an order (`tasks.results`); the base of `Job`."""

    def __init__(self, job_id: str) -> None:
        self.id = job_id


def to_json(value: Any, limit: int, what: str) -> str:
    """A value as JSON; refuses what JSON can't carry and what is too large."""
    try:
        body = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        if not isinstance(error, RecursionError) and (job := job_in(value)) is not None:
            raise NotSerialisable(what, job, ONLY_THERE) from None
        raise NotSerialisable(what, str(error), "values that JSON can carry") from None
    if len(body) > limit:
        raise TooLarge(what, len(body), limit)
    if b"null" in body:
        _refuse_non_finite(msgspec.to_builtins(value, enc_hook=_unknown), what)
    return body.decode()


def _unknown(value: Any) -> Any:
    return None if isinstance(value, msgspec.Raw) else written(value)  # raw JSON has no NaN


def job_in(value: Any) -> JobReference | None:
    """The first job in a value."""
    if isinstance(value, JobReference):
        return value
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    parts = value if isinstance(value, list | tuple | set | frozenset) else ()
    return next((job for job in map(job_in, parts) if job is not None), None)


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
