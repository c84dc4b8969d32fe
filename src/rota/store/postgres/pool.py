"""Connections of one event loop: few, kept open, and thrown away at the first doubt.

Written here because a scheduler needs other manners than a web application's pool has: when the server has no slot
left for one more connection, callers share those that are open instead of failing; connections are never closed for
being idle; and a call that was cut off in its middle costs its connection, never the next caller's answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import asyncpg


class Pool:
    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection]], size: int) -> None:
        self._connect, self._size = connect, size
        self._idle: list[asyncpg.Connection] = []
        self._out: set[asyncpg.Connection] = set()
        self._opening = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def take(self) -> asyncpg.Connection:
        while True:
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    self._out.add(connection)
                    return connection
            if len(self._out) + self._opening < self._size and (opened := await self._open()):
                return opened
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled():
                    self._wake()  # it was our turn; let the next one have it
                raise

    async def _open(self) -> asyncpg.Connection | None:
        self._opening += 1
        try:
            connection = await self._connect()
        except asyncpg.TooManyConnectionsError:
            if not self._out:
                raise
            return None  # there is none to be had, so wait for one of ours
        except BaseException:
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
        if sound and not self._closed and not connection.is_closed():
            self._idle.append(connection)
        else:
            connection.terminate()
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return

    def clear(self) -> None:
        """Drops the idle ones: they may lead to a server that is no more."""
        for connection in self._idle:
            connection.terminate()
        self._idle.clear()

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in self._out:
            connection.terminate()
        await asyncio.gather(*(_part(connection) for connection in idle))


async def _part(connection: asyncpg.Connection) -> None:
    try:
        await connection.close(timeout=1)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
