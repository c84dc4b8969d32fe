"""Runs every contract on every backend: a test asks for `world`, or for `store` alone.

A test that asks for `another` (a second store on the same place) runs where a place can be shared.
"""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from rota.clock import Chance, ManualClock
from rota.store.base import Store
from tests.contracts.world import World
from tests.hot import backends as hot
from tests.remote.worker_backends import concerns_workers
from tests.servers.postgres import MEMORY, roomy
from tests.store.backends import Backend, backends, named_backend
from tests.store.postgres.backends import Heir
from tests.store.sqlite.backends import SqliteFile

HERE = Path(__file__).parent
# Their verbs are carried out by queries that both engines share, or by one simple query of each.
ALIKE = {
    "test_calendars", "test_checkpoints", "test_declared", "test_edits", "test_error_groups", "test_fire_events",
    "test_nodes", "test_offers", "test_outbox", "test_output", "test_pages", "test_people", "test_progress",
    "test_quotas", "test_reads", "test_schedules", "test_secret_arguments", "test_statistics", "test_unoffered",
    "test_watches", "test_workflows",
}  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        alone = "another" not in metafunc.fixturenames and "raw_pair" not in metafunc.fixturenames
        own = metafunc.config.getoption("--store")
        offered = {"own": named_backend(own)} if own else backends()
        chosen = {name: kind for name, kind in offered.items() if alone or kind.shared}
        if not own and not concerns_workers(metafunc.module.__name__, metafunc.function.__name__):
            chosen = {name: kind for name, kind in chosen.items() if not name.startswith("far-")}
        if not own and metafunc.function.__name__ in hot.LEFT_OUT:
            chosen = {name: kind for name, kind in chosen.items() if not name.startswith("hot-")}
        # The code for memory is that for a file, and the others have a store behind them: left to `make test-slow`, but
        # for who may do what on a server.
        slow = ("sqlite-memory", "forwarded", "hot-sqlite", "hot-postgres", "far-sqlite", "far-postgres")
        marks = dict.fromkeys(slow, pytest.mark.slow)
        if metafunc.module.__name__.rpartition(".")[2] != "test_principals":
            marks["server"] = pytest.mark.slow
        params = [pytest.param(kind, id=name, marks=marks.get(name, ())) for name, kind in chosen.items()]
        metafunc.parametrize("backend", params, indirect=True)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All contracts share a loop, and so may share connections (`Heir`)."""
    matrices: set[tuple[str, str]] = set()
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        if pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        if isinstance(item, pytest.Function):
            leave_to_the_slow(item, matrices)


def leave_to_the_slow(item: pytest.Function, matrices: set[tuple[str, str]]) -> None:
    """`make test` runs every case of a contract on SQLite, and the first one on each other backend. Of a file in
    `ALIKE`, the first contract and those with two stores run there. The rest runs there in `make test-slow`."""
    kind = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
    if kind is None or kind is SqliteFile or item.get_closest_marker("slow") or item.config.getoption("--store"):
        return
    alike = item.path.stem in ALIKE and "another" not in item.fixturenames
    matrix = (item.path.stem if alike else item.nodeid.partition("[")[0], str(kind))
    if matrix in matrices:
        item.add_marker(pytest.mark.slow)
    matrices.add(matrix)


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def legacy() -> AsyncIterator[None]:
    Heir.loop = asyncio.get_running_loop()
    yield
    await Heir.end()


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory if there is room: no contract is about disks, and each commit would wait for one."""
    with tempfile.TemporaryDirectory(prefix="rota-contract-", dir=MEMORY if roomy(MEMORY) else None) as name:
        yield Path(name)


@pytest.fixture
def backend(request: pytest.FixtureRequest, folder: Path, clock: ManualClock) -> Iterator[Backend]:
    kind: type[Backend] = request.param
    place = kind(folder, clock)
    place.virgin = bool({"raw", "raw_pair"} & set(inspect.signature(request.function).parameters))
    yield place
    place.close()


@pytest_asyncio.fixture(loop_scope="session")
async def raw(backend: Backend) -> AsyncIterator[Store]:
    """A store that was never migrated."""
    store = backend.store(Chance(2))
    yield store
    await store.close()


@pytest_asyncio.fixture(loop_scope="session")
async def raw_pair(raw: Store, backend: Backend) -> AsyncIterator[tuple[Store, Store]]:
    """Two of them, on one place."""
    second = backend.store(Chance(3))
    yield raw, second
    await second.close()


@pytest_asyncio.fixture(loop_scope="session")
async def store(raw: Store, backend: Backend) -> Store:
    await backend.prepare(raw)
    await raw.open()
    return raw


@pytest_asyncio.fixture(loop_scope="session")
async def another(store: Store, backend: Backend) -> AsyncIterator[Store]:
    second = backend.store(Chance(3))
    await second.open()
    yield second
    await second.close()


@pytest.fixture
def world(store: Store, backend: Backend, clock: ManualClock, chance: Chance) -> World:
    return World(store, backend, clock, chance)
