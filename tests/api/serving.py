"""A server on a free port, and raw requests to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rota.api.desk import Desk
from rota.api.listening import listen
from rota.api.server import ApiServer
from rota.clock import Chance
from rota.config import Settings
from rota.telemetry.events import Bus, Event
from tests.api.caller import Keys
from tests.contracts.world import World

GET = b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n"
LIVE = GET % b"/health/live"


class Serving:
    def __init__(self, server: ApiServer, told: list[Event]) -> None:
        self.server, self.told = server, told
        self.port = int(server.url.rpartition(":")[2])

    async def open(self, first: bytes = b"", **more: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **more)
        writer.write(first)
        return reader, writer

    async def ask(self, request: bytes = LIVE, **more: Any) -> bytes:
        """The answer up to the end of the connection, or to the end of its first piece."""
        reader, writer = await self.open(request, **more)
        try:
            return await answer_of(reader)
        finally:
            writer.close()


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    """One answer with its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = [line for line in head.split(b"\r\n") if line.startswith(b"content-length: ")]
    return head + (await reader.readexactly(int(length[0][16:])) if length else b"")


@asynccontextmanager
async def serving(world: World, **settings: Any) -> AsyncIterator[Serving]:
    told: list[Event] = []
    bus = Bus()
    bus.subscribe(told.append)
    chosen = Settings(**{"api_port": 0} | settings)
    desk = Desk(world.store, world.clock, Chance(3), chosen, bus)
    server = ApiServer(desk, listen(chosen), Keys(world.store))
    await server.start()
    try:
        yield Serving(server, told)
    finally:
        await server.stop(1.0)
