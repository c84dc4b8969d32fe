"""One connection to a Redis or Valkey, for many callers at once (RESP2).

The server answers in the order of the commands, so a caller waits in a queue for its reply. One that is cancelled stays
in the queue as nobody: its reply is read and thrown away, and the others get theirs. If a reply takes longer than the
limit the connection is dead for all: whoever waits is told so, and a new one must be made.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import hiredis

from rota import dialing
from rota.dialing import why
from rota.hot.lane import HotAway, HotRefused
from rota.hot.problems import problem

LIMIT = 1.0  # seconds for a reply
# A process that was stopped for a while finds its time-outs over and the replies in its socket. So a time-out is
# noticed a little before it is over, and counts if the reply has not come a turn of the loop, or more, later.
LAST_CHANCE = 0.1  # of the limit


class _Waiting(NamedTuple):
    reply: asyncio.Future[Any]
    until: float  # on the clock of the loop


class RedisConnection(asyncio.Protocol):
    """`place` is named in errors. `hear` gets the messages of a connection that has subscribed to a channel; `ended` is
    called once, when the connection ends for whatever reason."""

    def __init__(
        self,
        place: str,
        limit: float = LIMIT,
        hear: Callable[[bytes], None] | None = None,
        ended: Callable[[], None] | None = None,
    ) -> None:
        self.place, self.limit = place, limit
        self._hear, self._ended = hear, ended
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._waiting: deque[_Waiting] = deque()
        self._unsent: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._late: _Waiting | None = None  # has its last chance
        self._end: Exception | None = None  # why it is not usable any more
        self._beat: asyncio.TimerHandle | None = None

    def call(self, *command: bytes | str | int) -> asyncio.Future[Any]:
        """Sends a command; the reply is bytes, a number, None or a list of such. Raises `hiredis.ReplyError` if the
        server answers with an error, and HotAway or HotRefused if it does not answer as it should."""
        packed = hiredis.pack_command(cast("Any", command))
        reply: asyncio.Future[Any] = self._loop.create_future()
        if self._end is not None:
            _refuse(reply, _copy(self._end))
            return reply
        if not self._unsent:  # what is called in the same turn of the loop leaves together
            self._loop.call_soon(self._send)
        self._unsent.append(packed)
        self._waiting.append(_Waiting(reply, self._loop.time() + self.limit))
        if self._timer is None:
            self._timer = self._loop.call_later(self.limit * (1 - LAST_CHANCE), self._look_at_time)
        return reply

    def keep_proving(self) -> None:
        """From now on asks for a sign of life, so that an end is noticed on a connection where only the server
        speaks."""
        if self._end is None:
            self._beat = self._loop.call_later(self.limit / 2, self.keep_proving)
            if not self._waiting:
                self.call("PING")

    @property
    def usable(self) -> bool:
        return self._end is None

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._transport

    def abort(self, why: Exception | None = None) -> None:
        self._fail(why or HotAway(f"{self.place}: the connection was closed"))
        if self._transport is not None:
            self._transport.abort()

    def drop(self) -> None:
        """Closes the socket directly: the loop was closed."""
        self._end = self._end or HotAway(f"{self.place}: the connection was closed")
        self._ended = None
        dialing.drop(self._transport)

    # -- of asyncio --------------------------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._end is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(HotAway(f"{self.place}: it closed the connection{f' ({why(error)})' if error else ''}"))

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while self._end is None and (reply := self._reader.gets()) is not _NOTHING:
                self._take(reply)
        except hiredis.ProtocolError:
            self.abort(HotRefused(f"{self.place}: what answers there is neither Redis nor Valkey"))

    # -- inner life --------------------------------------------------------------------------------------------------
    def _take(self, reply: Any) -> None:
        if self._hear is not None and isinstance(reply, list) and len(reply) == 3 and reply[0] == b"message":
            self._loop.call_soon(self._hear, reply[2])
            return
        if not self._waiting:  # a server that is full or protected says so to whoever connects
            said = isinstance(reply, hiredis.ReplyError)
            self.abort(problem(self.place, reply) if said else HotRefused(f"{self.place}: it talks unasked"))
            return
        future = self._waiting.popleft().reply
        if not future.done():  # otherwise its caller was cancelled
            if isinstance(reply, hiredis.ReplyError):
                _refuse(future, reply)
            else:
                future.set_result(reply)

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._end is None and self._transport is not None:
            self._transport.write(b"".join(unsent))

    def _look_at_time(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        first, now = self._waiting[0], self._loop.time()
        if first is self._late:
            self.abort(HotAway(f"{self.place}: no answer within {self.limit:g}s"))
            return
        delay = first.until - self.limit * LAST_CHANCE - now
        if delay <= 0:
            self._late, delay = first, max(first.until - now, self.limit * LAST_CHANCE)
        self._timer = self._loop.call_later(delay, self._look_at_time)

    def _fail(self, why: Exception) -> None:
        if self._end is not None:
            return
        self._end = why
        for timer in (self._timer, self._beat):
            if timer is not None:
                timer.cancel()
        self._unsent.clear()
        while self._waiting:
            future = self._waiting.popleft().reply
            if not future.done():
                _refuse(future, _copy(why))
        if self._ended is not None:
            self._loop.call_soon(self._ended)


_NOTHING = object()


def _copy(error: Exception) -> Exception:
    """Each caller gets an error of its own: raising one twice would join their tracebacks."""
    return type(error)(*error.args)


def _refuse(future: asyncio.Future[Any], error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # nobody may be left to look at it, and that is no fault
