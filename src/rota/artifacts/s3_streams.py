"""Streams between Python and obstore, which runs in threads of its own and knows little of cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Feed:
    """Hands the pieces of a content to an upload, one at a time. The content is read by the task that puts it: obstore
    asks for each piece in a task of its own, and leaves that task behind when the upload is cancelled."""

    def __init__(self) -> None:
        self._pieces = asyncio.Queue[bytes | None](1)
        self._asking: asyncio.Task[object] | None = None
        self._closed = False

    def __aiter__(self) -> Feed:
        return self

    def __anext__(self) -> Awaitable[bytes]:
        return _Asked(self)

    async def next(self) -> bytes:
        if self._closed:  # an end would be taken for the end of the content
            raise asyncio.CancelledError
        self._asking = asyncio.current_task()
        try:
            piece = await self._pieces.get()
        finally:
            self._asking = None
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def give(self, piece: bytes | None, upload: asyncio.Future[Any]) -> None:
        """Waits until the piece before was taken, or raises what the upload failed with. None: there is no more."""
        giving = asyncio.ensure_future(self._pieces.put(piece))
        try:
            await asyncio.wait((giving, upload), return_when=asyncio.FIRST_COMPLETED)
        finally:
            giving.cancel()
        if upload.done():
            upload.result()

    async def close(self) -> None:
        self._closed = True
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])


class _Asked:
    """What obstore awaits for a piece. It may never do so, if the upload is cancelled just then: Python would warn of a
    coroutine that was never awaited, so there is none before."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def __await__(self) -> Generator[Any, None, bytes]:
        return self._feed.next().__await__()


class Stream(Generic[T]):
    """Asks a stream of obstore for one item after the other. Nobody else may hold that stream: if it is dropped while a
    request is under way, a thread of obstore must be the one that drops it, or obstore panics ("there is no reactor
    running"). So it is let go of here before the request is cancelled there."""

    def __init__(self, stream: AsyncIterator[T]) -> None:
        self._stream: AsyncIterator[T] | None = stream

    async def next(self) -> T | None:
        """None: there is no more. Not to be called again after it was cancelled."""
        assert self._stream is not None
        asking: asyncio.Future[T] = asyncio.ensure_future(self._stream.__anext__())
        try:
            await asyncio.wait([asking])
        except asyncio.CancelledError:
            self._stream = None
            asking.cancel()
            raise
        try:
            return asking.result()
        except StopAsyncIteration:
            return None


async def gathered(pieces: AsyncIterator[bytes], least: int) -> bytes:
    """Pieces until there are this many bytes, or no more of them."""
    found = bytearray()
    while len(found) < least and (piece := await anext(pieces, None)) is not None:
        found += piece
    return bytes(found)
