"""A caller of the whole API, as the user ann. Every test runs on SQLite, and on PostgreSQL in `make test-slow`."""

from __future__ import annotations

import pytest

from rota.model.principal import Principal
from tests.api.caller import Caller
from tests.api.described import DescribedCaller
from tests.contracts.world import World
from tests.store.postgres.backends import Postgres
from tests.store.sqlite.backends import SqliteMemory

ANN = Principal("ann", operator=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" in metafunc.fixturenames:
        stores = [
            pytest.param(SqliteMemory, id="sqlite"),
            pytest.param(Postgres, id="postgres", marks=pytest.mark.slow),
        ]
        metafunc.parametrize("world", stores, indirect=True)


@pytest.fixture
def caller(world: World) -> Caller:
    return DescribedCaller(world)


@pytest.fixture
def other(world: World) -> Caller:
    """Another server of the same store."""
    return DescribedCaller(world)
