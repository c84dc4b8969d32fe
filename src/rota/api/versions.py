"""Versions of what can be edited: `ETag`, `If-Match` and `If-None-Match`. The version of a schedule is its revision;
`model.versions` has the others."""

from __future__ import annotations

from typing import Any, TypeVar

from rota.api.answers import Answer
from rota.api.problems import Refusal
from rota.api.requests import Request
from rota.model.versions import ABSENT

T = TypeVar("T")
# The declarations of routes that read, add or replace, and change what has a version.
TELLS: dict[str, Any] = {"gives": ("ETag",)}
READS: dict[str, Any] = {"also": (304,), "takes": ("If-None-Match",), **TELLS}
PUTS: dict[str, Any] = {"problems": (412,), "also": (201,), "takes": ("If-Match", "If-None-Match"), **TELLS}
EDITS: dict[str, Any] = {"problems": (412,), "takes": ("If-Match", "If-None-Match"), **TELLS}


def tagged(value: T, version: str, status: int | None = None) -> Answer[T]:
    return Answer(value, status, {"etag": f'"{version}"'})


def unless_known(request: Request[Any, Any], value: T, version: str) -> Answer[T]:
    """304 without a body if the caller has this version."""
    if _names(request, "if-none-match", version):
        return Answer(value, 304, {"etag": f'"{version}"'})
    return tagged(value, version)


def check_match(request: Request[Any, Any], version: str) -> str | None:
    """Refuses an edit of another version than the one that the caller has read (412). Returns the version that the edit
    may replace; None: any."""
    if request.header("if-match") is not None and not _names(request, "if-match", version):
        raise changed_meanwhile()
    if request.header("if-none-match") is not None and _names(request, "if-none-match", version):
        raise Refusal(412, "exists_already", "it is there already, and If-None-Match wants a new one")
    conditional = request.header("if-match") is not None or request.header("if-none-match") is not None
    return version if conditional else None


def changed_meanwhile() -> Refusal:
    detail = "it is another version than the one that If-Match names: read it again, and decide anew"
    return Refusal(412, "changed_meanwhile", detail)


def _names(request: Request[Any, Any], header: str, version: str) -> bool:
    """Whether the header names the version. `*` names any that is there. Weak tags count, as GET allows."""
    tags = [tag.strip().removeprefix("W/") for tag in (request.header(header) or "").split(",")]
    return f'"{version}"' in tags or ("*" in tags and version != ABSENT)
