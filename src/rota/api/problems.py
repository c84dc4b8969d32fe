"""ProblemBody bodies (RFC 9457), made from errors in one place.

The code of a rota error is the name of its class of `rota.errors` in small letters. Beside `title`, `status` and
`detail` a body has the fields of the error that are plain values, such as `what`, `given` and `expected`. So a client
can make the same error of it again.

An error that nobody expected becomes a 500 with an incident: the number under which the node's log has the trace.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

import msgspec

from rota import errors
from rota.errors import RotaError, StoreError
from rota.remote.problems import KINDS, known_code

MEDIA = "application/problem+json"
RETRY_AFTER = 1  # seconds, while the store is away, or the first try of a request is still carried out
LONGEST_GIVEN = 200
_AWAY = "the store can't be used at the moment; the log of the node says why"
# The nearest class above an error decides.
_STATUS: Mapping[type[RotaError], int] = {
    errors.InvalidInput: 400,
    errors.TooLarge: 413,
    errors.KeyConflict: 409,
    errors.IdempotencyKeyReused: 422,
    errors.RepeatInFlight: 409,
    errors.AnswerNotKept: 409,
    errors.NotFound: 404,
    errors.NotAllowed: 403,
    errors.QuotaExceeded: 429,
    errors.IllegalEvent: 409,
    errors.ChangedMeanwhile: 412,
    errors.JobFailed: 409,
    errors.ResultMismatch: 409,
    errors.WaitTimeout: 408,
    errors.LockTaken: 409,
    errors.LockLost: 409,
    errors.Stale: 409,
}
# The codes of refusals that are no errors of rota.
_REFUSALS: Mapping[int, tuple[str, ...]] = {
    400: ("wrong_header", "broken_request"),
    401: ("unauthenticated", "wrong_key"),
    403: ("cross_origin",),
    404: ("no_such_route",),
    405: ("method_not_allowed",),
    408: ("too_slow",),
    410: ("events_gone",),
    412: ("exists_already",),
    415: ("wrong_media_type",),
    421: ("wrong_host",),
    426: ("wrong_version",),
    429: ("too_many_wrong_keys",),
    431: ("head_too_large",),
    500: ("internal_error",),
    503: ("not_ready",),
}


class ProblemBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of an answer that is not a success. `what`, `given` and `expected` are there for wrong values; for a
    query that can't be read `position`, the character at fault, counted from 1, and `problem`. Other errors have fields
    of their own."""

    code: str
    title: str
    status: int
    detail: str
    what: str | None = None
    given: Any = None
    expected: str | None = None
    position: int | None = None
    problem: str | None = None
    incident: str | None = None


class Refusal(Exception):
    """A request that is refused before or beside its handler."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        **fields: object,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.headers, self.fields = headers or {}, fields

    @property
    def body(self) -> dict[str, Any]:
        head = {"code": self.code, "title": HTTPStatus(self.status).phrase, "status": self.status}
        return head | {"detail": self.detail} | self.fields


def refusal_of(error: RotaError) -> Refusal | None:
    """The answer to an error of rota; None: it is not one of a caller, and must be treated as unexpected."""
    if isinstance(error, StoreError):
        if not error.whole:
            return None
        return Refusal(503, known_code(type(error)), _AWAY, {"retry-after": str(RETRY_AFTER)})
    status = _status_of(type(error))
    if status is None:
        return None
    return Refusal(status, known_code(type(error)), str(error), _headers(error), **_fields(error))


def codes() -> dict[int, list[str]]:
    """All codes that a status may come with."""
    found = {status: set(names) for status, names in _REFUSALS.items()}
    for code, kind in KINDS.items():
        status = 503 if issubclass(kind, StoreError) and kind.whole else _status_of(kind)
        if status is not None:
            found.setdefault(status, set()).add(code)
    return {status: sorted(names) for status, names in sorted(found.items())}


def _status_of(kind: type[RotaError]) -> int | None:
    return next((_STATUS[one] for one in kind.__mro__ if one in _STATUS), None)


def _headers(error: RotaError) -> dict[str, str]:
    if isinstance(error, errors.RepeatInFlight):
        return {"retry-after": str(RETRY_AFTER)}
    if isinstance(error, errors.QuotaExceeded) and error.retry_after is not None:
        return {"retry-after": str(error.retry_after)}
    return {}


def unexpected(incident: str) -> Refusal:
    detail = f"an error that rota did not expect; the log of the node has it under {incident}"
    return Refusal(500, "internal_error", detail, incident=incident)


def trace_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _fields(error: RotaError) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(error).items() if not name.startswith("_")}


def _plain(value: object) -> Any:
    """A value for JSON. Long and strange ones become the text that shows them."""
    match value:
        case None | bool():
            return value
        case int() if abs(value) < 1 << 53:
            return value
        case float() if value - value == 0:  # neither infinite nor NaN
            return value
        case str() if len(value) <= LONGEST_GIVEN:
            return value.encode("utf-8", "replace").decode()
        case datetime():
            return value.isoformat()
        case timedelta():
            return str(value)
        case _:
            return errors.shown(value)
