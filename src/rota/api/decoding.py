"""Bodies and query parameters as values of their declared types; what does not fit is refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from rota.api.misfits import misfit
from rota.api.problems import LONGEST_GIVEN, Refusal
from rota.api.requests import Receive
from rota.errors import InvalidInput, TooLarge

DEEPEST = 64  # levels of JSON; `NotSerialisable` guards arguments of jobs in the same way
MOST_PARAMETERS = 100
_DEEP = re.compile(rb"\[{%d}" % (DEEPEST + 1))
_AS_ARRAYS = bytes.maketrans(b"{}", b"[]")
_OTHER_BYTES = bytes(set(range(256)) - set(b'[]{}"'))
_BAD_PERCENT = re.compile(r"%(?![0-9a-fA-F]{2})")
_JSON = re.compile(rb"application/json(?:\s*;\s*charset=\"?utf-?8\"?)?", re.IGNORECASE)


class Nothing(Exception):
    """The caller went away before the body was complete."""


async def read_body(receive: Receive, headers: Mapping[bytes, bytes], limit: int) -> bytes:
    """The whole body. One that is too large is refused as soon as that is known, and the rest is not read."""
    coding = headers.get(b"content-encoding", b"identity").decode("latin-1")
    if coding.lower() != "identity":
        raise Refusal(
            415, "wrong_media_type", "the body must be JSON as it is, without a content-encoding",
            what="content-encoding", given=coding[:LONGEST_GIVEN], expected="none",
        )  # fmt: skip
    declared = int(headers.get(b"content-length", b"0"))
    if declared > limit:
        raise _too_large(declared, limit)
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Nothing
        if piece := message.get("body", b""):
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise _too_large(size, limit)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(size: int, limit: int) -> Refusal:
    error = TooLarge("body", size, limit)
    return Refusal(
        413, "too_large", str(error),
        what="body", given=f"{size} bytes", expected=f"at most {limit} bytes", size=size, limit=limit,
    )  # fmt: skip


class BodyReader:
    """Decodes the bodies of one route."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        self.optional = isinstance(inspect.type_info(kind), inspect.UnionType) and _takes_none(kind)

    def read(self, body: bytes, media: bytes | None) -> Any:
        if not body and self.optional:
            return None
        if media is None or not _JSON.fullmatch(media.strip()):
            given = (media or b"").decode("latin-1")
            raise Refusal(
                415, "wrong_media_type", "the body must be JSON: content-type: application/json",
                what="content-type", given=given[:LONGEST_GIVEN], expected="application/json",
            )  # fmt: skip
        if too_deep(body):
            raise InvalidInput("body", "deeper JSON", f"at most {DEEPEST} levels of arrays and objects")
        try:
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise misfit(str(error), "body", self._kind, _plainly(body)) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput("body", str(error), "one JSON value in UTF-8") from None
        except RecursionError:
            raise InvalidInput("body", "deeper JSON", f"at most {DEEPEST} levels of arrays and objects") from None


def _plainly(body: bytes) -> Any:
    """The value of a body whose types do not fit. Behind the misfit it may be no JSON at all."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _takes_none(kind: Any) -> bool:
    try:
        msgspec.convert(None, kind)
    except msgspec.ValidationError:
        return False
    return True


def too_deep(body: bytes) -> bool:
    """Whether JSON has more than DEEPEST levels; of text that is no JSON, nothing is promised. Runs at the speed of
    memory: each step takes the innermost level away everywhere."""
    if body.count(b"[") + body.count(b"{") <= DEEPEST:
        return False
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_AS_ARRAYS, _OTHER_BYTES)
    bare = b"".join(bare.split(b'"')[::2])
    for _ in range(DEEPEST):
        if _DEEP.search(bare):
            return True
        outer = bare.replace(b"[]", b"")
        if len(outer) == len(bare):
            return False
        bare = outer
    return bool(bare)


class QueryReader:
    """Decodes the query parameters of one route. A field with a list takes a parameter several times."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        info = inspect.type_info(kind) if kind is not None else None
        self._fields = {f.encode_name: f for f in info.fields} if isinstance(info, inspect.StructType) else {}
        self._lists = {name for name, field in self._fields.items() if _is_list(field.type)}

    def read(self, raw: bytes) -> Any:
        given = self._grouped(_pairs(raw)) if raw else {}
        if self._kind is None:
            return None
        try:
            return msgspec.convert(given, self._kind, strict=False)
        except msgspec.ValidationError as error:
            raise misfit(str(error), "query", self._kind, given) from None

    def _grouped(self, pairs: list[tuple[str, str]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name not in self._fields:
                takes = ", ".join(self._fields) or "none"
                raise InvalidInput("query parameter", name, f"one that this route takes: {takes}")
            if name in self._lists:
                found.setdefault(name, []).append(value)
            elif name in found:
                raise InvalidInput(name, value, "the parameter once")
            else:
                found[name] = value
        return found


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        text = raw.decode("ascii")
        if _BAD_PERCENT.search(text):
            raise ValueError(text)
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError:  # too many, not UTF-8, or a percent sign that means nothing
        expected = f"at most {MOST_PARAMETERS} parameters in UTF-8, with percent signs where needed"
        raise InvalidInput("query", raw.decode("latin-1"), expected) from None


def _is_list(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return any(_is_list(one) for one in kind.types)
    return isinstance(kind, inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.VarTupleType)
