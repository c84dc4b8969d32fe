"""The line of a far-away worker: a long answer of the server that wakes it, and whose socket shows that it lives.

`api/lines.py` has the rules. This side knows when others may go by a line that is closed. Then the worker is *exposed*,
until a renewal that names another line, or none, was answered.

- A line that the server has ended with its last word is watched by nobody.
- A server whose address refuses connections is gone, and so is the one who watched the line. Only the lease counts.
- Behind a proxy or a translated address neither side can tell the end of the other from that of what is in between.
  Such a line is not named at all: it wakes the worker and says nothing about its life.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from rota.clock import Chance, Clock
from rota.dialing import Unreachable
from rota.model.times import Duration
from rota.remote.connection import Connection, Lost
from rota.remote.pool import Dialer
from rota.remote.work_calls import ENDED, GRACE, OPENED, PULSE, address_text
from rota.store.values import Topic

SILENCE = 2.5 * PULSE  # seconds: the link is dead
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
# Seconds after the loss of a line within which it shows whether the server is gone. There is time for that, also on a
# busy machine: a server that lives waits for the whole grace from the end of the line, not from the latest renewal.
A_LOOK = 0.5
_UNDER_WAY = (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK)


class WorkerLine:
    """Opens a line, again and again, until it is closed. `request` makes the request for a line of a given name."""

    def __init__(
        self,
        dialer: Dialer,
        request: Callable[[str], bytes],
        clock: Clock,
        chance: Chance,
        heard: Callable[[set[Topic]], None],
    ) -> None:
        self._dialer, self._request, self._clock, self._chance, self._heard = dialer, request, clock, chance, heard
        self._connection: Connection | None = None
        self._peer: tuple[int, Any] | None = None  # family and address of the server
        self._name: str | None = None  # of the line that is open and watched
        self._named: set[str] = set()  # lines that the latest renewal in the store may have named
        self._lost_at = float("-inf")
        self._look: Look | None = None  # the latest after the loss of a line
        self._rest = b""
        self._opened = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self, within: float) -> None:
        """Waits for the first line, but not for long: a worker can live without."""
        self._task = asyncio.create_task(self._stay())
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._opened.wait()

    def close(self) -> None:
        self._named.clear()
        if self._task is not None:
            self._task.cancel()
            self._hang_up()
            self._end_look()

    # -- what renewals say -------------------------------------------------------------------------------------------
    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    def name(self) -> str | None:
        """The name for the renewal that is about to be sent. Its answer may get lost: assume that it arrives."""
        if self._name is not None:
            self._named.add(self._name)
        return self._name

    def told(self, name: str | None) -> None:
        """A renewal with this name was answered."""
        self._named = set() if name is None else {name}

    @property
    def exposed(self) -> Duration | None:
        if not self._named - {self._name}:
            return None
        if self._look is not None and self._look.refused:  # this loop was kept from hearing of it
            self._named = {name for name in self._named if name == self._name}
            return None
        if self._clock.monotonic() - self._lost_at < A_LOOK:
            return None  # not known yet whether the server is gone
        return GRACE

    def descriptors(self) -> Sequence[int]:
        if self._name is None or self._connection is None or self._connection.transport is None:
            return ()
        number = self._connection.transport.get_extra_info("socket").fileno()
        return (number,) if number >= 0 else ()

    # -- life --------------------------------------------------------------------------------------------------------
    async def _stay(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with suppress(Unreachable, Lost, TimeoutError, OSError):
                await self._hold()
            was_open = self._lose()
            if self._look is not None:
                await self._look.end(A_LOOK)
                if self._look.refused:
                    self._named.clear()
                self._look.close()
            pause = FIRST_PAUSE if was_open else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _hold(self) -> None:
        """Returns or raises when the line has ended, or was silent for too long."""
        loop, name = asyncio.get_running_loop(), self._chance.token()
        async with asyncio.timeout(SILENCE) as limit:
            self._connection = await self._dialer.dial()
            self._rest = b""

            def piece(data: bytes) -> None:
                limit.reschedule(loop.time() + SILENCE)
                self._take(data, name)

            reply = await self._connection.ask(self._request(name), piece)
            if reply.status != 200:
                raise Lost(f"status {reply.status}")

    def _take(self, data: bytes, name: str) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(OPENED):
                self._begin(name, line.removeprefix(OPENED).decode("latin-1").strip())
            elif line == ENDED:
                self._named.discard(name)
                self._name = None
            else:
                self._heard({Topic(letter) for letter in line.decode("latin-1") if letter in Topic._value2member_map_})

    def _begin(self, name: str, called: str) -> None:
        """`called`: the address at which the server was called, by its own word."""
        transport = self._connection.transport if self._connection else None
        sock = transport.get_extra_info("socket") if transport else None
        if sock is not None:
            self._peer = sock.family, sock.getpeername()
        self._name = name if self._peer and address_text(self._peer[1]) == called else None
        self._opened.set()
        # The next renewal names it. Work may have been missed.
        self._heard({Topic.READY, Topic.CANCEL})

    def _lose(self) -> bool:
        """True: a line was open."""
        was_open, watched = self._opened.is_set(), self._name is not None
        self._opened.clear()
        self._name = None
        self._hang_up()
        self._end_look()
        if self._peer is not None and self._named:
            self._look = Look(*self._peer)
        if watched:
            self._lost_at = self._clock.monotonic()
            # A worker should renew its lease now, and look again when more is known.
            self._heard({Topic.CANCEL})
            asyncio.get_running_loop().call_later(A_LOOK, self._heard, {Topic.CANCEL})
        return was_open

    def _hang_up(self) -> None:
        """Also ends the connection for the processes that hold its socket."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.transport is not None:
            number = connection.transport.get_extra_info("socket").fileno()
            with suppress(OSError), socket.socket(fileno=os.dup(number)) as copy:
                copy.shutdown(socket.SHUT_RDWR)
            connection.abort()

    def _end_look(self) -> None:
        look, self._look = self._look, None
        if look is not None:
            look.close()


class Look:
    """A try to connect to where a line was. The kernel carries it out, also while this process gets no time: a busy
    machine delays the question at most, and no answer is older than the loss of the line."""

    def __init__(self, family: int, address: Any) -> None:
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._code: int | None = self._socket.connect_ex(address)
        if self._code in _UNDER_WAY:
            self._code = None

    @property
    def refused(self) -> bool:
        """Nobody listens there any more. False: somebody does, or it is not known yet."""
        if self._code is None and select.select([], [self._socket], [], 0)[1]:
            self._code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return self._code == errno.ECONNREFUSED

    async def end(self, within: float) -> None:
        """Waits until it is known, but not for longer than this."""
        if self.refused or self._code is not None:
            return
        loop, known = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._socket, known.set)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await known.wait()
        finally:
            loop.remove_writer(self._socket)

    def close(self) -> None:
        """What was not known by now stays unknown."""
        if self._code is None:
            self._code = 0
        self._socket.close()
