"""Answers of a server as values or errors: an error of rota's tree is raised as the same error."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.errors import RotaError, StoreDenied, StoreError, StoreUnavailable, WrongVersion
from rota.remote.connection import Reply
from rota.remote.problems import KINDS, error_from
from rota.remote.versions import OURS

# A proxy, or the server itself, says that trying again may help.
PASSING = (502, 503, 504)
# Codes of a newer server that we don't know yet.
_BY_STATUS = {400: "invalid_input", 403: "not_allowed", 404: "not_found", 413: "invalid_input", 422: "invalid_input"}
_HEAD = ("code", "title", "status", "detail", "type", "instance")


def error_of(reply: Reply, place: str) -> RotaError:
    """The error that an answer other than a success stands for. `place`: the address of the server."""
    body = _body(reply)
    code, detail = str(body.get("code", "")), str(body.get("detail", "")) or f"status {reply.status}"
    fields = {name: value for name, value in body.items() if name not in _HEAD}
    if reply.status == 401 or code == "too_many_wrong_keys":
        return StoreDenied(f"the server at {place} refuses the key: {detail}; check ROTA_KEY, or run `rota login`")
    if code == "wrong_version":
        return WrongVersion(OURS, str(fields.get("server", "unknown")), place)
    if code and code not in KINDS:
        code = _BY_STATUS.get(reply.status, code)
    if code in KINDS and not issubclass(KINDS[code], StoreError):
        return error_from(code, detail, fields)
    text = f"the server at {place} answers: {detail}"
    if code in KINDS:
        return error_from(code, text, fields)
    return StoreUnavailable(text) if reply.status in PASSING else StoreError(text)


def _body(reply: Reply) -> dict[str, Any]:
    """A proxy may answer with anything, such as a page."""
    try:
        found = msgspec.json.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
