"""Connections of one event loop: few, kept open, and thrown away at the first doubt.

A scheduler needs other behaviour than the pool of a web application: when the server refuses new connections (no free
slot, a changed password), callers share the open connections instead of failing; idle connections are never closed; and
a call that was interrupted costs its connection, never the next caller's answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

import asyncpg

from rota.store.postgres.errors import shut_out


class ConnectionPool:
    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection]], size: int) -> None:
        self._connect, self._size = connect, size
        self._idle: list[asyncpg.Connection] = []
        self._out: set[asyncpg.Connection] = set()
        self._opening = 0
        self._waiting: deque[asyncio.Future[asyncpg.Connection | None]] = deque()
        self._closed = False

    @property
    def connections(self) -> list[asyncpg.Connection]:
        return [*self._idle, *self._out]

    async def take(self) -> asyncpg.Connection:
        turn = not self._waiting  # otherwise a busy caller would starve the others
        while True:
            if self._closed:
                raise asyncpg.InterfaceError("the store was closed")
            while turn and self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    self._out.add(connection)
                    return connection
            if turn and len(self._out) + self._opening < self._size:
                if opened := await self._open():
                    return opened
                if self._idle:
                    continue  # a connection was given back meanwhile
            if handed := await self._wait(first=turn):
                return handed
            turn = True

    async def _wait(self, first: bool) -> asyncpg.Connection | None:
        """Waits for a connection; None: it is our turn to look for one."""
        waiting: asyncio.Future[asyncpg.Connection | None] = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if first else self._waiting.append)(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.cancelled():
                with suppress(ValueError):
                    self._waiting.remove(waiting)
            elif handed := waiting.result():
                self.give(handed, True)
            else:
                self._wake()  # pass our turn to the next waiter
            raise

    async def _open(self) -> asyncpg.Connection | None:
        self._opening += 1
        try:
            connection = await self._connect()
        except BaseException as error:
            if shut_out(error) and (self._out or self._idle):
                return None  # the server gives no more: wait for an open one
            self._wake()
            raise
        finally:
            self._opening -= 1
        if self._closed:
            connection.terminate()
            raise asyncpg.InterfaceError("the store was closed")
        self._out.add(connection)
        return connection

    def give(self, connection: asyncpg.Connection, sound: bool) -> None:
        self._out.discard(connection)
        if not sound or self._closed or connection.is_closed():
            connection.terminate()
            self._wake()
        elif (waiting := self._next()) is not None:
            self._out.add(connection)
            waiting.set_result(connection)
        else:
            self._idle.append(connection)

    def _wake(self) -> None:
        if (waiting := self._next()) is not None:
            waiting.set_result(None)

    def _next(self) -> asyncio.Future[asyncpg.Connection | None] | None:
        """The first waiter that was not cancelled: a cancelled one stays in the line until its task runs."""
        while self._waiting:
            if not (waiting := self._waiting.popleft()).done():
                return waiting
        return None

    def clear(self) -> None:
        """Drops idle connections: their server may be gone."""
        for connection in self._idle:
            connection.terminate()
        self._idle.clear()

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in self._out:
            connection.terminate()
        while self._waiting:
            self._wake()
        await asyncio.gather(*(_part(connection) for connection in idle))


async def _part(connection: asyncpg.Connection) -> None:
    try:
        await connection.close(timeout=1)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
