"""What a handler returns beside a plain value: an answer with a status or headers of its own, or a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
Headers = Sequence[tuple[bytes, bytes]]
EVENTS = "text/event-stream"
# An extension in the scope of ASGI: `await send_whole(status, headers, body)` sends an answer in one piece.
WHOLE = "rota.whole"


class Answer(Generic[T]):
    """A value with another status than the route's, or with headers."""

    __slots__ = ("headers", "status", "value")

    def __init__(self, value: T, status: int | None = None, headers: Mapping[str, str] | None = None) -> None:
        self.value, self.status, self.headers = value, status, headers or {}


class Stream:
    """Pieces that are sent as they come. The iterator is closed when the caller has gone or the server stops, so it
    cleans up in a `finally`. `media` is the content type; the route declares the same."""

    __slots__ = ("headers", "media", "pieces")

    def __init__(
        self, pieces: AsyncIterator[bytes], media: str = EVENTS, headers: Mapping[str, str] | None = None
    ) -> None:
        self.pieces, self.media, self.headers = pieces, media, headers or {}

    async def close(self) -> None:
        close = getattr(self.pieces, "aclose", None)
        if close is not None:
            await close()
