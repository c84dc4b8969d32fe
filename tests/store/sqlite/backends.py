"""SQLite for the contract suite: a file with its threads, and memory without any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import apsw

from rota.clock import Chance, ManualClock
from rota.model.lifecycle import TERMINAL, State
from rota.model.rank import AGEING_STEP
from rota.store.base import Store
from rota.store.forwarding import ForwardingStore, innermost
from rota.store.sqlite import SqliteStore, migrate
from rota.store.sqlite.database import MEMORY, Database
from tests.store.backends import Backend, Contents


@cache
def pattern() -> apsw.Connection:
    """What every migration from nothing leads to."""
    database = Database(MEMORY, ManualClock(), AGEING_STEP)
    migrate.migrate(database)
    return database.connection


class _Sqlite(Backend):
    async def prepare(self, store: Store) -> None:
        """Takes its pages from a pattern: a migration takes longer than most tests."""
        assert isinstance(store, SqliteStore)
        fresh = store

        def copy() -> None:
            with fresh._write_side().connection.backup("main", pattern(), "main") as backup:
                backup.step()

        await fresh._run(True, copy)

    @contextmanager
    def _connection(self) -> Iterator[apsw.Connection]:
        raise NotImplementedError
        yield

    def contents(self, *only: str) -> Contents:
        with self._connection() as db:
            names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            tables = only or sorted(name for (name,) in names)
            return {name: sorted(db.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in tables}

    def put(self, job_id: str, state: State) -> None:
        ended = "created_at" if state in TERMINAL else "NULL"
        with self._connection() as db:
            db.execute(f"UPDATE jobs SET state = ?, finished_at = {ended} WHERE id = ?", (state.value, job_id))
            assert db.changes() == 1

    def stamp(self, version: int) -> None:
        with self._connection() as db:
            db.pragma("user_version", version)

    def bury_node(self, incarnation: str) -> None:
        with self._connection() as db:
            db.execute("UPDATE nodes SET state = 'dead' WHERE incarnation = ?", (incarnation,))
            assert db.changes() == 1

    def forget_groups(self) -> None:
        with self._connection() as db:
            db.execute("UPDATE jobs SET error_group = NULL")

    def lose_node(self, incarnation: str) -> None:
        with self._connection() as db:
            db.execute("DELETE FROM nodes WHERE incarnation = ?", (incarnation,))
            assert db.changes() == 1


class SqliteFile(_Sqlite):
    shared = True

    @property
    def path(self) -> str:
        return str(self.folder / "rota.db")

    def store(self, chance: Chance) -> SqliteStore:
        return SqliteStore(self.path, self.clock, chance)

    @contextmanager
    def _connection(self) -> Iterator[apsw.Connection]:
        connection = apsw.Connection(self.path)
        connection.set_busy_timeout(5_000)
        try:
            yield connection
        finally:
            connection.close()


class SqliteForwarded(SqliteFile):
    """The same behind a store that passes every call on."""

    def store(self, chance: Chance) -> Store:  # type: ignore[override]
        return ForwardingStore.around(super().store(chance))

    async def prepare(self, store: Store) -> None:
        await super().prepare(innermost(store))


class SqliteMemory(_Sqlite):
    shared = False
    _store: SqliteStore | None = None

    def store(self, chance: Chance) -> SqliteStore:
        assert self._store is None, "memory is not shared"
        self._store = SqliteStore(":memory:", self.clock, chance, inline=True)
        return self._store

    @contextmanager
    def _connection(self) -> Iterator[apsw.Connection]:
        assert self._store is not None
        yield self._store._write_side().connection
