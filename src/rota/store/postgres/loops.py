"""The connections of one event loop to PostgreSQL, as `store.loops` keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import asyncpg

from rota.store.postgres.pool import ConnectionPool


class LoopPools:
    """Pools that are closed together."""

    @property
    def all(self) -> Sequence[ConnectionPool]:
        raise NotImplementedError

    async def close(self) -> None:
        mine = self._connections()
        try:
            await asyncio.gather(*(pool.close() for pool in self.all))
        finally:  # the caller may cancel this
            for connection in mine:
                if not connection.is_closed():
                    connection.terminate()

    def drop(self) -> None:
        for connection in self._connections():
            drop(connection)

    def descriptors(self) -> list[int]:
        return [number for connection in self._connections() for number in descriptors(connection)]

    def _connections(self) -> list[asyncpg.Connection]:
        return [connection for pool in self.all for connection in pool.connections]


def descriptors(connection: asyncpg.Connection) -> list[int]:
    transport = getattr(connection, "_transport", None)
    peer = transport.get_extra_info("socket") if transport else None
    return [peer.fileno()] if peer is not None and peer.fileno() >= 0 else []


def drop(connection: asyncpg.Connection) -> None:
    """Closes the socket of a connection whose loop was closed: the driver can't close it without a loop."""
    transport = connection._transport
    connection._aborted, connection._protocol = True, None  # no warning that it was not closed
    inner = getattr(getattr(transport, "_ssl_protocol", None), "_transport", transport)
    if (peer := getattr(inner, "_sock", None)) is not None:
        inner._sock = None
        peer.close()
    with suppress(AttributeError):
        transport._closed = True
