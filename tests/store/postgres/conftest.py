"""A schema of one's own on the server that all tests share, and stores on it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rota.clock import Chance, ManualClock
from rota.store.postgres import PostgresStore
from tests.contracts.world import World
from tests.servers.postgres import Server
from tests.store.postgres import rule_cases
from tests.store.postgres.backends import Postgres
from tests.store.postgres.callers import app, heard, schema  # noqa: F401 - fixtures
from tests.store.postgres.ranking import Place


@pytest.fixture
def backend(tmp_path: Path, clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """A module with `EMPTY_SCHEMA = True` gets schemas with nothing in them, that no other test gets."""
    backend = Postgres(tmp_path, clock)
    backend.virgin = getattr(request.module, "EMPTY_SCHEMA", False)
    yield backend
    backend.close()


@pytest.fixture
async def place(backend: Postgres) -> AsyncIterator[Place]:
    """Gives stores that go by the server's clock, or by `clock=`."""
    place = Place(backend.url)
    yield place
    await place.close()


@pytest.fixture
async def store(place: Place, clock: ManualClock) -> PostgresStore:
    """Goes by the clock of the test."""
    return await place.store(clock=clock)


@pytest.fixture
def world(store: PostgresStore, backend: Postgres, clock: ManualClock, chance: Chance) -> World:
    return World(store, backend, clock, chance)


@pytest.fixture(scope="session")
def created(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that tests may stop and fill up. What was committed survives a crash of it."""
    folder = tmp_path_factory.mktemp("postgres")
    server = Server.create(folder / "data", synchronous_commit=True, max_connections=30)
    server.start()
    yield server
    server.stop("immediate")
    shutil.rmtree(folder)


@pytest.fixture
async def own(created: Server) -> AsyncIterator[Place]:
    """A place on it."""
    if not created.running:
        created.start()
    place = Place(created.url())
    yield place
    await place.close()
    created.execute("DROP SCHEMA IF EXISTS rota CASCADE")


@pytest.fixture
def rule_tables(place: Place, store: PostgresStore) -> Iterator[rule_cases.Connection]:
    """Empty tables, and one node."""
    with place.connect() as connection:
        rule_cases.clear(connection)
        rule_cases.put_node(connection)
        yield connection
