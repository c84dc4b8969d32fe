"""Streams between Python and obstore, which runs in threads of its own and knows little of cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

T = TypeVar("T")


class FromContent(Exception):
    """Carries what the content of an object raised past what the place may raise."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure


class Feed:
    """What a multipart upload reads from. While it waits for the content, which is not the place's fault, the time
    limit stands still; it begins anew with each piece.

    obstore asks for each piece in a task of its own, and leaves that behind when the upload is cancelled."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes], limit: asyncio.Timeout, seconds: float) -> None:
        self.failure: BaseException | None = None
        self.count = 0
        self._first: bytes | None = first
        self._rest, self._limit, self._seconds = rest, limit, seconds
        self._asking: asyncio.Task[object] | None = None
        self._closed = False

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> bytes:
        if self._closed:
            raise asyncio.CancelledError
        self._asking = asyncio.current_task()
        self._limit.reschedule(None)
        try:
            piece = await self._next()
        except StopAsyncIteration:
            raise
        except BaseException as failure:
            self.failure = failure
            raise
        finally:
            self._asking = None
            if not self._closed:
                self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)
        self.count += len(piece)
        return piece

    async def _next(self) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return await anext(self._rest)

    async def close(self) -> None:
        self._closed = True
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])


async def next_of(stream: AsyncIterator[T]) -> T | None:
    """The next item; None: there is no more. When this is cancelled the stream goes on until it has one, or meets its
    own time limit: a request that is under way must be dropped by a thread of obstore, or obstore panics ("there is no
    reactor running")."""
    asking: asyncio.Future[T] = asyncio.ensure_future(stream.__anext__())
    asking.add_done_callback(_heard)
    await asyncio.wait([asking])
    try:
        return asking.result()
    except StopAsyncIteration:
        return None


def _heard(asked: asyncio.Future[T]) -> None:
    if not asked.cancelled():
        asked.exception()


async def gathered(pieces: AsyncIterator[bytes], least: int) -> bytes:
    """Pieces until there are this many bytes, or no more of them."""
    found = bytearray()
    while len(found) < least and (piece := await anext(pieces, None)) is not None:
        found += piece
    return bytes(found)
