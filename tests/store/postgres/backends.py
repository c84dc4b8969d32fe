"""PostgreSQL for the contract suite, on a server that the test process has started.

A test has a schema to itself. Making one takes much longer than most tests, so they are emptied and used again; a test
that migrates gets a new one, and one that has changed the schema loses it. So do its connections: half of a test's time
would go by while new ones learn of tables and functions.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, ClassVar

import asyncpg
import psycopg

from rota.clock import Chance, SystemClock
from rota.model.lifecycle import TERMINAL, State
from rota.store import columns
from rota.store.postgres import PostgresStore
from tests.servers.postgres import create_database, database, fresh_schema_name, shared_server
from tests.store.backends import Backend, Contents


class Heir(PostgresStore):
    """Begins with the idle connections that others have left behind on its schema."""

    loop: ClassVar[asyncio.AbstractEventLoop | None] = None  # of those who may inherit: connections belong to a loop
    _left: ClassVar[dict[str, list[list[asyncpg.Connection]]]] = {}

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        for pool, left in zip(self._database.pools().all, self._left.pop(self._database.schema, ()), strict=False):
            pool._idle.extend(left)

    async def close(self) -> None:
        pools = self._database.pools().all
        left = self._left.setdefault(self._database.schema, [[] for _ in pools])
        for pool, kept in zip(pools, left, strict=True):
            kept.extend(connection for connection in pool._idle if not connection.is_closed())
            pool._idle.clear()
        await super().close()

    @classmethod
    async def end(cls) -> None:
        """Nobody comes after."""
        cls.loop = None
        for connection in [one for left in cls._left.values() for pool in left for one in pool]:
            await connection.close()
        cls._left.clear()


class Postgres(Backend):
    shared = True

    _used: ClassVar[list[str]] = []
    _brooms: ClassVar[dict[str, tuple[psycopg.Connection[tuple[Any, ...]], str]]] = {}  # by schema
    _schema: str | None = None

    @property
    def schema(self) -> str:
        if self._schema is None:
            again = not self.virgin and self._used
            self._schema = self._used.pop() if again else fresh_schema_name()
        return self._schema

    @property
    def url(self) -> str:
        return f"{shared_server().url()}?schema={self.schema}"

    def store(self, chance: Chance) -> PostgresStore:
        kind = Heir if _running_loop() is Heir.loop is not None else PostgresStore
        return kind(self.url, self.clock, chance, server_time=False)

    def close(self) -> None:
        if self.virgin:
            with self.connection() as db:
                db.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
            return
        if self.schema not in self._brooms:
            broom = self.connection()
            # All at once. Jobs first: their end leaves something on the lists for others.
            tables = sorted(self._tables(broom), key=lambda table: (table != "jobs", table))
            emptied = [f"DELETE FROM {table}" for table in tables]
            rest = ["INSERT INTO leader VALUES (true, 0, '', 0)", "ALTER SEQUENCE outbox_positions RESTART"]
            self._brooms[self.schema] = broom, "; ".join([*emptied, *rest])
        broom, all_of_it = self._brooms[self.schema]
        broom.execute(all_of_it)
        self._used.append(self.schema)

    def connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(shared_server().url(), autocommit=True, options=f"-c search_path={self.schema}")

    def _tables(self, db: psycopg.Connection[tuple[Any, ...]]) -> list[str]:
        """Partitions are part of theirs, and the version is no content."""
        names = db.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT relispartition AND relname <> 'schema_versions' ORDER BY relname",
            (self.schema,),
        )
        return [name for (name,) in names]

    def contents(self, *only: str) -> Contents:
        with self.connection() as db:
            tables = only or self._tables(db)
            return {name: sorted(db.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in tables}

    def put(self, job_id: str, state: State) -> None:
        with self.connection() as db:
            if state not in TERMINAL:
                cursor = db.execute("UPDATE jobs SET state = %s WHERE id = %s", (state.value, job_id))
                assert cursor.rowcount == 1
                return
            shared = columns.expand("postgres", "{jobs.kept}")
            cursor = db.execute(
                f"WITH gone AS (DELETE FROM jobs WHERE id = %s RETURNING *) "
                f"INSERT INTO history ({shared}, state, finished_at, lasting) "
                f"SELECT {shared}, %s, created_at, %s FROM gone",
                (job_id, state.value, state is State.FAILED),
            )
            assert cursor.rowcount == 1

    def stamp(self, version: int) -> None:
        with self.connection() as db:
            db.execute("DELETE FROM schema_versions WHERE version >= %s", (version,))
            db.execute("INSERT INTO schema_versions VALUES (%s, %s)", (version, version))

    def bury_node(self, incarnation: str) -> None:
        with self.connection() as db:
            cursor = db.execute("UPDATE nodes SET state = 'dead' WHERE incarnation = %s", (incarnation,))
            assert cursor.rowcount == 1

    def forget_groups(self) -> None:
        with self.connection() as db:
            db.execute("UPDATE history SET error_group = NULL WHERE lasting")

    def lose_node(self, incarnation: str) -> None:
        with self.connection() as db:
            cursor = db.execute("DELETE FROM nodes WHERE incarnation = %s", (incarnation,))
            assert cursor.rowcount == 1


@contextmanager
def migrated_database() -> Iterator[str]:
    """A database of one's own, with rota's schema in it. A copy of one takes a tenth of the time of a migration."""
    with database(shared_server(), template=_pattern(os.getpid())) as url:
        yield url


@cache
def _pattern(_: int) -> str:
    url = create_database(shared_server())

    async def migrate() -> None:
        store = PostgresStore(url, SystemClock(), Chance())
        await store.migrate()
        await store.close()

    thread = threading.Thread(target=asyncio.run, args=[migrate()])  # this one may have a running loop
    thread.start()
    thread.join()
    return url.rpartition("/")[2]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None
