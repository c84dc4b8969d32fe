"""Stores on one schema, and what a bystander with a connection of its own sees and does there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import psycopg

from rota.clock import Chance, Clock, ManualClock, SystemClock
from rota.errors import StoreError, StoreUnavailable
from rota.store.postgres import PostgresStore
from rota.store.postgres.session import lock_number

T = TypeVar("T")
LIMIT = 20.0  # seconds until a test that waits for an event gives up
Value = Any


class Place:
    def __init__(self, url: str) -> None:
        self.url = url
        self.schema = parse_qs(urlsplit(url).query).get("schema", ["rota"])[0]
        self._stores: list[PostgresStore] = []

    async def store(
        self, url: str | None = None, *, clock: Clock | None = None, opened: bool = True, **options: Any
    ) -> PostgresStore:
        """A store of a process of its own, so to speak. It goes by the server's clock unless it is given one that
        stands still."""
        options.setdefault("server_time", not isinstance(clock, ManualClock))
        store = PostgresStore(url or self.url, clock or SystemClock(), Chance(), **options)
        self._stores.append(store)
        if opened:
            await store.migrate()
            await store.open()
        return store

    async def close(self) -> None:
        for store in self._stores:
            await store.close()

    def through(self, port: int) -> str:
        """The same place by way of another port of this machine."""
        parts = urlsplit(self.url)
        return self.url.replace(f":{parts.port}/", f":{port}/", 1)

    # -- a bystander -------------------------------------------------------------------------------------------------
    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url.partition("?")[0], autocommit=True, options=f"-c search_path={self.schema}")

    def value(self, query: str, *values: object) -> Value:
        with self.connect() as db:
            row = db.execute(query.encode(), values or None).fetchone()
        return row[0] if row else None

    def row_server(self, incarnation: str) -> str | None:
        """The server on which a node's row says that it holds its lock."""
        named: str | None = self.value("SELECT server FROM nodes WHERE incarnation = %s", incarnation)
        return named

    def holder(self, incarnation: str) -> int | None:
        """The process of the server that holds a node's lock for it."""
        number = lock_number(self.schema, incarnation) & 0xFFFFFFFFFFFFFFFF
        query = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s AND objid = %s"
        holder: int | None = self.value(query, number >> 32, number & 0xFFFFFFFF)
        return holder

    async def held(self, incarnation: str, apart_from: int | None = None) -> int:
        """Waits until the lock is held (by another process than this one)."""
        await until(lambda: self.holder(incarnation) not in (None, apart_from))
        holder = self.holder(incarnation)
        assert holder is not None
        return holder

    async def free(self, incarnation: str) -> None:
        await until(lambda: self.holder(incarnation) is None)

    def end_session(self, incarnation: str) -> int:
        """Ends the connection that holds a node's lock, on the server; returns which it was."""
        holder = self.holder(incarnation)
        assert holder is not None
        assert self.value("SELECT pg_terminate_backend(%s)", holder)
        return holder

    def notify(self, payload: str) -> None:
        with self.connect() as db:
            db.execute("SELECT pg_notify(%s, %s)", (self.schema, payload))


async def until(condition: Callable[[], object], limit: float = LIMIT) -> None:
    """For what happens on the server, which sends no event."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until_so(condition: Callable[[], Awaitable[object]], limit: float = LIMIT) -> None:
    async with asyncio.timeout(limit):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def settled(call: Callable[[], Awaitable[T]]) -> T:
    """Repeats the call until it succeeds; whatever it says until then must be worth a repeat."""
    async with asyncio.timeout(LIMIT):
        while True:
            try:
                return await call()
            except StoreError as error:
                if not isinstance(error, StoreUnavailable):
                    raise
                await asyncio.sleep(0.01)
