"""Pages of lists: `{"items": [...], "next": "..."}`. The value of `next` is the parameter `cursor` of the next page.

A cursor is the sort key of the last item, so nothing is lost or repeated when items come and go meanwhile. It is opaque
to callers, and bound to the conditions of its list: with others it would lead to a place that means nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from rota.errors import InvalidInput

T = TypeVar("T")
LONGEST_CURSOR = 2_000
MOST_ITEMS = 1_000
Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST_ITEMS, description="at most so many items")]
Cursor = Annotated[str, msgspec.Meta(max_length=LONGEST_CURSOR, description="`next` of the page before")]


class Page(msgspec.Struct, Generic[T]):
    items: list[T]
    next: str | None = None


def cursor_of(key: Any, conditions: Any) -> str:
    """`key`: of the last item; a plain value."""
    body = msgspec.json.encode([_mark(conditions), key])
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def read_cursor(text: str, kind: type[T], conditions: Any) -> T:
    """The key of the last item of the page before. Raises InvalidInput."""
    try:
        body = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        mark, key = msgspec.json.decode(body, type=tuple[str, kind])  # type: ignore[valid-type]
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise InvalidInput("cursor", text, "`next` of the page before") from None
    if mark != _mark(conditions):
        raise InvalidInput("cursor", text, "one of a page with the same conditions")
    found: T = key
    return found


def _mark(conditions: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(conditions, order="deterministic")).hexdigest()[:8]
