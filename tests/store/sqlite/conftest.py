"""A SQLite file of one's own, and a store on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

from rota.clock import Chance, ManualClock
from rota.store.sqlite import SqliteStore
from tests.contracts.world import World
from tests.store.sqlite.backends import SqliteFile, SqliteMemory


@pytest.fixture
def backend(tmp_path: Path, clock: ManualClock) -> SqliteFile:
    return SqliteFile(tmp_path, clock)


@pytest.fixture
def path(backend: SqliteFile) -> str:
    return backend.path


@pytest.fixture
async def store(backend: SqliteFile | SqliteMemory) -> AsyncIterator[SqliteStore]:
    store = backend.store(Chance(2))
    await backend.prepare(store)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def world(store: SqliteStore, backend: SqliteFile | SqliteMemory, clock: ManualClock, chance: Chance) -> World:
    return World(store, backend, clock, chance)


@pytest.fixture
def db(store: SqliteStore, path: str) -> Iterator[apsw.Connection]:
    """A connection of somebody else to the same file."""
    connection = apsw.Connection(path)
    connection.set_busy_timeout(5_000)
    yield connection
    connection.close()
