"""One connection of HTTP/1.1 to a server of rota's, with one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import httptools


class Lost(Exception):
    """The connection ended, or what came is no HTTP, before the whole answer was there."""


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.usable = False  # open, and the last answer was complete
        self.used_at = 0.0  # on the clock of its loop
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._reply: asyncio.Future[Reply] | None = None
        self._piece: Callable[[bytes], None] | None = None
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    async def ask(self, request: bytes, piece: Callable[[bytes], None] | None = None) -> Reply:
        """Sends a request and returns the answer. `piece` gets the parts of the body of a success as they come."""
        loop = asyncio.get_running_loop()
        self.usable = False
        if self._transport is None or self._transport.is_closing():
            raise Lost("the connection was closed")
        self._reply, self._piece = loop.create_future(), piece
        self._transport.write(request)
        try:
            return await self._reply
        except BaseException:  # whoever asks next must not get this answer
            self.abort()
            raise
        finally:
            self._reply, self._piece, self.used_at = None, None, loop.time()

    def abort(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._transport

    # -- of asyncio --------------------------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.usable = cast("asyncio.Transport", transport), True

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"what it answered is no HTTP ({error})")
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._fail(f"it closed the connection{f' ({error})' if error else ''}")

    def _fail(self, why: str) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(Lost(why))

    # -- of the parser -----------------------------------------------------------------------------------------------
    def on_message_begin(self) -> None:
        self._headers, self._body = {}, []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        if self._piece is not None and self._parser.get_status_code() == 200:
            self._piece(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # "100 Continue" and the like
            return
        self.usable = bool(self._parser.should_keep_alive())
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(Reply(status, self._headers, b"".join(self._body)))
        else:  # an answer that nobody asked for
            self.abort()
