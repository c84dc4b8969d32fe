"""Connections of the API: uvicorn's HTTP on Python's own protocol interface, with bounds on time, size and number.

A caller may be slow, but not for ever:

- A request's head must be there within HEAD_TIME of its first byte, or of the connection; it may have MOST_HEAD bytes.
- A body must bring BODY_STEP bytes, or its end, within each BODY_TIME. What frames its pieces may have no more than
  MOST_FRAMING bytes for each byte of it, beside MOST_HEAD: extensions of chunks and trailers are read by nobody.
- An answer must be taken: a caller that reads nothing for SEND_TIME is cut off.
- After an answer that did not need the whole request, the rest of it may come for LINGER.
- A connection without a request is closed after IDLE_TIME. If there are too many connections, the one that has been
  idle for longest makes room for a new one; if none is idle, one without a complete request does.

One sweep a second checks all of them, and none runs while there are no connections.

A request that a proxy might read in another way than we do is refused, and its connection is closed: other versions of
HTTP, other codings of a body, fragments. Trailers are dropped: a proxy that removes a header may let them through.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import OrderedDict
from collections.abc import Callable, Sequence
from email.utils import formatdate
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, cast

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from rota.api.answers import WHOLE, Headers
from rota.api.problems import MEDIA, Refusal
from rota.clock import Clock

HEAD_TIME = 10.0
MOST_HEAD = 64 << 10
BODY_TIME = 10.0
BODY_STEP = 4 << 10
MOST_FRAMING = 8  # a chunk of one byte has five others
SEND_TIME = 30.0
LINGER = 5.0
IDLE_TIME = 75.0
SWEEP = 1.0
SPARE_DESCRIPTORS = 100  # for the store, the keeper and processes
_BROKEN = Refusal(400, "broken_request", "this is no HTTP request that can be understood")
_LONG_HEAD = Refusal(431, "head_too_large", f"the head of a request may have {MOST_HEAD} bytes")
_SLOW = Refusal(408, "too_slow", "the request did not arrive in time")


class _Silent(logging.Logger):
    """uvicorn's own lines are about what callers do. What concerns the node is told by events."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        super().__init__("rota.api", logging.CRITICAL)
        self._failed = failed

    def error(self, msg: object, *args: object, **more: Any) -> None:
        error = more.get("exc_info")
        if error is None or isinstance(error, asyncio.CancelledError):
            return
        self._failed(f"{type(error).__name__}: {error}")


class Connections:
    """All connections of a server, and what they share."""

    def __init__(
        self,
        app: Any,
        clock: Clock,
        most: int,
        only_from: Sequence[IPv4Network | IPv6Network] = (),
        failed: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`only_from`: networks of the proxies; connections from elsewhere are closed, except from loopback."""
        self._clock, self._only_from = clock, tuple(only_from)
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most = max(1, min(most, descriptors - SPARE_DESCRIPTORS)) if descriptors > 0 else most
        self.config = Config(
            app, interface="asgi3", loop="none", http=Connection, ws="none", lifespan="off", log_config=None,
            proxy_headers=False, server_header=False, date_header=False, timeout_keep_alive=int(IDLE_TIME),
        )  # fmt: skip
        self.config.load()
        self.state = ServerState()
        self.log = _Silent(failed)
        self.idle: OrderedDict[Connection, None] = OrderedDict()  # longest first
        self._sweep: asyncio.TimerHandle | None = None
        self._dated = -1

    def make(self) -> Connection:
        """The protocol of a new connection."""
        return Connection(self)

    def opened(self, one: Connection) -> bool:
        """Makes room for a new connection; False: there is none, or it may not connect."""
        if not self._welcome(one):
            return False
        if len(self.state.connections) > self.most:
            spare = self._spare(one)
            if spare is None:
                return False
            self.idle.pop(spare, None)
            spare.transport.abort()
        if self._sweep is None:
            self._sweep = one.loop.call_later(SWEEP, self._look)
        return True

    def _spare(self, new: Connection) -> Connection | None:
        """The longest idle connection; if none is idle, the one that has been sending a head, or the rest of a request
        that was refused, for longest. Requests that are being answered are never cut off."""
        if self.idle:
            return next(iter(self.idle))
        others = (cast("Connection", one) for one in self.state.connections if one is not new)
        return min((one for one in others if not one.answering), key=lambda one: one.since, default=None)

    def _welcome(self, one: Connection) -> bool:
        if not self._only_from or one.client is None:
            return True
        address = ip_address(one.client[0].partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        return address.is_loopback or any(address in net for net in self._only_from if net.version == address.version)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for one in list(self.state.connections):
            cast("Connection", one).check(now)
        self._sweep = loop.call_later(SWEEP, self._look) if self.state.connections else None

    def date(self) -> None:
        """Sets the header `date` of answers, once a second."""
        now = self._clock.now() // 1_000_000
        if now != self._dated:
            self._dated = now
            self.state.default_headers = [(b"date", formatdate(now, usegmt=True).encode())]

    async def end(self, within: float) -> None:
        """Lets requests end, then closes all connections."""
        for one in list(self.state.connections):
            one.shutdown()
        if self.state.tasks:
            await asyncio.wait(list(self.state.tasks), timeout=within)
        left = list(self.state.tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=1.0)
        for connection in list(self.state.connections):
            cast("Connection", connection).transport.close()
        if self._sweep is not None:
            self._sweep.cancel()


class Connection(HttpToolsProtocol):
    def __init__(self, all_: Connections) -> None:
        super().__init__(all_.config, all_.state, {})
        self._all = all_
        self.logger = all_.log
        self.access_log = False
        self._begun = False  # a request has
        self.since = 0.0  # when the current step began
        self._head: int | None = 0  # bytes of the head so far; None: it is complete
        self._got = 0  # bytes of the body in the current step
        self._framing = 0  # bytes of the body that may still come beside its content
        self._refused = False  # what still comes is dropped
        self._unsent = 0  # bytes that waited to be sent at the last look

    # -- uvicorn's protocol ------------------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        if self._all.opened(self):
            self._all.idle[self] = None
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.idle.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return
        if self._head is not None:
            if self._head == 0:  # the first bytes of a request
                self._all.idle.pop(self, None)
                self.since = self.loop.time()
            self._head += len(data)
        else:
            self._got += len(data)
            self._framing -= len(data)
        super().data_received(data)
        if self._head is not None and self._head > MOST_HEAD:
            self._refuse(_LONG_HEAD)
        elif self._head is None and self._framing < 0:
            self._refuse(_BROKEN)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:  # no trailer
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._framing += (1 + MOST_FRAMING) * len(body)
        super().on_body(body)

    def on_headers_complete(self) -> None:
        _check_form(self.url, self.parser.get_http_version(), self.headers)
        self._head, self._got, self.since, self._begun = None, 0, self.loop.time(), True
        self._framing = MOST_HEAD
        self._all.date()
        super().on_headers_complete()
        scope: dict[str, Any] = cast("dict[str, Any]", self.cycle.scope)
        scope["extensions"] = {WHOLE: partial(self._send_whole, self.cycle)}

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head = 0  # the next bytes belong to the next request
        if self.cycle.response_complete:
            self._rest()

    def on_response_complete(self) -> None:
        """Without uvicorn's timer for idle connections: the sweep closes them."""
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
        if self.cycle.response_complete:
            self._rest()

    async def _send_whole(self, cycle: RequestResponseCycle, status: int, headers: Headers, body: bytes) -> None:
        """The extension WHOLE: an answer in one piece, with one call to the system. As two messages of ASGI it takes
        two, which cost more than all the rest of a short answer."""
        # The extension holds the cycle, whose scope holds the extension. Only the collector frees such a ring, and its
        # pauses are felt by all callers.
        del cast("dict[str, Any]", cycle.scope)["extensions"]
        if self.flow.write_paused and not cycle.disconnected:
            await self.flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        parts = [STATUS_LINE[status], *(b"%b: %b\r\n" % pair for pair in (*self._all.state.default_headers, *headers))]
        parts += [b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n", body]
        self.transport.write(b"".join(parts))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def _rest(self) -> None:
        """The answer is sent. The connection is idle, unless the rest of a body is still to come."""
        self.since = self.loop.time()
        if self._head is not None and not self.transport.is_closing():
            self._all.idle[self] = None

    def send_400_response(self, msg: str) -> None:
        self._refuse(_BROKEN)

    def _unsupported_upgrade_warning(self) -> None:
        """Such a request is answered as any other. What follows it can't be read any more."""
        if self._begun:
            self.cycle.keep_alive = False

    @property
    def answering(self) -> bool:
        return self._begun and not self.cycle.response_complete

    # -- bounds ------------------------------------------------------------------------------------------------------
    def check(self, now: float) -> None:
        """Ends the connection if the caller is too slow."""
        waited = now - self.since
        if self._refused:
            if waited > LINGER:
                self.transport.abort()
        elif not self.answering and self.transport.get_write_buffer_size():
            self._check_sending(now)  # also if it is closing: that waits until all is sent
        elif self in self._all.idle:
            if waited > (IDLE_TIME if self._begun else HEAD_TIME):
                self.transport.close()
        elif not self.answering:
            if self._head is None:
                if waited > LINGER:
                    self.transport.close()
            elif waited > HEAD_TIME:
                self._refuse(_SLOW)
        elif self.flow.write_paused:
            self._check_sending(now)
        elif self.cycle.more_body and not self.flow.read_paused and waited > BODY_TIME:
            if self._got < BODY_STEP:
                self._refuse(_SLOW)
            self.since, self._got = now, 0

    def _check_sending(self, now: float) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self.since = unsent, now
        elif now - self.since > SEND_TIME:
            self.transport.abort()

    def _refuse(self, refusal: Refusal) -> None:
        """Answers outside of the application, and closes; an answer that has begun is cut off. What the caller still
        sends is dropped for a while: closing at once would reset the connection, and the answer might be lost."""
        if self._refused or self.transport.is_closing():
            return
        if (self.answering and self.cycle.response_started) or not self.transport.can_write_eof():
            self.transport.close()
            return
        body = msgspec.json.encode(refusal.body)
        head = f"HTTP/1.1 {refusal.status} {refusal.body['title']}\r\ncontent-type: {MEDIA}\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        self._refused, self.since = True, self.loop.time()
        if self.answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()


def _check_form(url: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Raises ValueError for a request that is not in the one form that we read."""
    if not url.startswith(b"/") or b"#" in url:  # another form of address: for proxies, which we are not
        raise ValueError("not a path")
    if version not in ("1.0", "1.1"):
        raise ValueError("another version")
    for name, value in headers:
        if name == b"transfer-encoding" and (value.lower() != b"chunked" or version == "1.0"):
            raise ValueError("another coding")
