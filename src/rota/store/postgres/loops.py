"""Connections belong to the event loop that opened them. A process may have several loops at once, one after the other
(each `asyncio.run` is one), and be forked: this keeps the connections of each apart, and drops those of loops that are
no more.

`asyncio.run`, and whoever ends a loop as it does, closes the async generators of a loop as the last step before it
closes the loop. So each loop gets a generator that waits for nothing but that, and closes the connections while there
is still a loop to do it on. A loop that was closed without this step is found when the next one comes, and its sockets
are closed directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import asyncpg

from rota import forking
from rota.store.postgres.pool import ConnectionPool


class HasPools(Protocol):
    @property
    def all(self) -> tuple[ConnectionPool, ...]: ...


P = TypeVar("P", bound=HasPools)


class Loops(Generic[P]):
    def __init__(self, make: Callable[[], P]) -> None:
        self._make = make
        self._pools: dict[asyncio.AbstractEventLoop, P] = {}
        self._guards: dict[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = {}

    def here(self) -> P:
        """Of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._pools.get(loop)
        if found is None:
            self.sweep()
            found = self._pools[loop] = self._make()
            self._guards[loop] = self._guard(loop)
            with suppress(StopIteration):  # as far as its only `yield`, which makes it known to the loop
                self._guards[loop].__anext__().__await__().send(None)
        return found

    async def _guard(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if pools := self._pools.pop(loop, None):
                self._guards.pop(loop, None)
                mine = _connections([pools])
                try:
                    await asyncio.gather(*(pool.close() for pool in pools.all))
                finally:  # whoever ends the loop may have no patience for this
                    for connection in mine:
                        if not connection.is_closed():
                            connection.terminate()

    def sweep(self) -> None:
        """Drops the connections of loops that were closed."""
        for loop in [loop for loop in list(self._pools) if loop.is_closed()]:
            pools, _ = self._pools.pop(loop, None), self._guards.pop(loop, None)
            for connection in _connections([pools] if pools else []):
                drop(connection)

    async def close(self) -> None:
        """Those of the running loop are closed when it returns; other loops are told to close theirs."""
        here = asyncio.get_running_loop()
        self._tell_others(here)
        if (guard := self._guards.get(here)) is not None:
            await guard.aclose()

    def let_go(self) -> None:
        """From any thread: every loop is told to close its connections."""
        self._tell_others(None)

    def _tell_others(self, here: asyncio.AbstractEventLoop | None) -> None:
        self.sweep()
        for loop, guard in list(self._guards.items()):
            if loop is not here:
                with suppress(RuntimeError):  # it was closed just now
                    loop.call_soon_threadsafe(_end, loop, guard)

    def forget(self) -> None:
        """In a forked child: all of them are the parent's."""
        forking.keep_for_ever(self._pools, self._guards)
        forking.close_copies(number for one in _connections(self._pools.values()) for number in descriptors(one))
        self._pools, self._guards = {}, {}


def _end(loop: asyncio.AbstractEventLoop, guard: AsyncGenerator[None, None]) -> None:
    async def end() -> None:
        await guard.aclose()

    _ending.add(task := loop.create_task(end()))
    task.add_done_callback(_ending.discard)


_ending: set[asyncio.Task[None]] = set()  # a loop alone does not keep its tasks


def _connections(some: Iterable[HasPools]) -> list[asyncpg.Connection]:
    return [connection for pools in some for pool in pools.all for connection in pool.connections]


def may_be_abandoned(task: asyncio.Task[None]) -> asyncio.Task[None]:
    """A loop that was closed by hand leaves its tasks pending, and asyncio complains of each. This is for tasks whose
    end nobody needs: a lost wake-up costs a second at most, and a lost session is replaced on the next loop."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # what asyncio itself does for such tasks
    return task


def descriptors(connection: asyncpg.Connection) -> list[int]:
    transport = getattr(connection, "_transport", None)
    peer = transport.get_extra_info("socket") if transport else None
    return [peer.fileno()] if peer is not None and peer.fileno() >= 0 else []


def drop(connection: asyncpg.Connection) -> None:
    """Closes the socket of a connection whose loop was closed: nothing that the driver does works without one."""
    transport = connection._transport
    connection._aborted, connection._protocol = True, None  # so that nobody complains that it was not closed
    inner = getattr(getattr(transport, "_ssl_protocol", None), "_transport", transport)
    if (peer := getattr(inner, "_sock", None)) is not None:
        inner._sock = None
        peer.close()
    with suppress(AttributeError):
        transport._closed = True
