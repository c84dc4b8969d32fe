"""An app on PostgreSQL whose orders are given in the transactions of others, and what is heard of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import asyncpg
import pytest

import rota
from rota.clock import ManualClock
from rota.model.node import NewNode
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from rota.store.values import JobFilter
from tests.servers.postgres import shared_server
from tests.store.postgres.backends import Postgres


class Rollback(Exception):
    """What a caller changes its mind with."""


class OfCallers(Postgres):
    """A schema whose partitions are those of the server's time."""

    _used: ClassVar[list[str]] = []


@pytest.fixture
def schema(tmp_path: Path, clock: ManualClock) -> Iterator[OfCallers]:
    backend = OfCallers(tmp_path, clock)
    yield backend
    backend.close()


@pytest.fixture
async def app(schema: OfCallers) -> AsyncIterator[rota.App]:
    app = rota.App(schema.url)

    @app.task(queue="mail", priority=2, timeout="30s", retry=7)
    async def welcome(user_id: int, name: str = "") -> str:
        return "sent"

    app.welcome = welcome  # type: ignore[attr-defined]
    async with app:
        client = await app._core.client()
        node = NewNode("n", "n", ("worker",), {"mail": 5}, "1", 10 * SECOND)
        await client.store.register(SYSTEM, node, app._core.catalogue.infos())
        yield app


async def jobs(app: rota.App) -> list[Any]:
    return await (await app._core.client()).find(JobFilter())


class Heard:
    """What is said on the channel of a schema."""

    def __init__(self, connection: asyncpg.Connection, schema: str) -> None:
        self._connection, self._schema = connection, schema
        self._payloads: asyncio.Queue[str] = asyncio.Queue()

    def put(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        self._payloads.put_nowait(payload.partition("/")[0])

    async def so_far(self) -> list[str]:
        """Topics, by notification. The server delivers in the order of commits, so a mark comes after all of them."""
        await self._connection.execute("SELECT pg_notify($1, '-')", self._schema)
        found: list[str] = []
        async with asyncio.timeout(10):
            while (payload := await self._payloads.get()) != "-":
                found.append(payload)
        return found

    async def next(self) -> str:
        async with asyncio.timeout(10):
            return await self._payloads.get()


@pytest.fixture
async def heard(app: rota.App) -> AsyncIterator[Heard]:
    schema = app.settings.store.rpartition("=")[2]
    connection = await asyncpg.connect(shared_server().url())
    heard = Heard(connection, schema)
    await connection.add_listener(schema, heard.put)
    yield heard
    await connection.close()
