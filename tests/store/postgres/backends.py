"""PostgreSQL for the contract suite, on a server that the test process has started.

A test has a schema to itself. Making one takes much longer than most tests, so they are emptied and used again; a test
that migrates gets a new one, and one that has changed the schema loses it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import psycopg

from rota.clock import Chance
from rota.model.lifecycle import TERMINAL, State
from rota.store.postgres import PostgresStore
from tests.servers.postgres import fresh_schema_name, shared_server
from tests.store.backends import Backend, Contents


class Postgres(Backend):
    shared = True

    _used: ClassVar[list[str]] = []
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
        return PostgresStore(self.url, self.clock, chance, server_time=False)

    def close(self) -> None:
        with self.connection() as db:
            if self.virgin:
                db.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
                return
            # All at once. Jobs first: their end leaves something on the lists for others.
            tables = sorted(self._tables(db), key=lambda table: (table != "jobs", table))
            emptied = [f"DELETE FROM {table}" for table in tables]
            rest = ["INSERT INTO leader VALUES (true, 0, '', 0)", "ALTER SEQUENCE outbox_positions RESTART"]
            db.execute("; ".join([*emptied, *rest]))
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

    def contents(self) -> Contents:
        with self.connection() as db:
            tables = self._tables(db)
            return {name: sorted(db.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in tables}

    def put(self, job_id: str, state: State) -> None:
        with self.connection() as db:
            if state not in TERMINAL:
                cursor = db.execute("UPDATE jobs SET state = %s WHERE id = %s", (state.value, job_id))
                assert cursor.rowcount == 1
                return
            shared = (
                "id, owner, queue, kind, task, priority, rank, run_at, expires_at, created_at, fence, tries, spec, "
            )
            shared += "digest, args, retry, timeout, key"
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

    def lose_node(self, incarnation: str) -> None:
        with self.connection() as db:
            cursor = db.execute("DELETE FROM nodes WHERE incarnation = %s", (incarnation,))
            assert cursor.rowcount == 1
