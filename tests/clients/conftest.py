"""A store in memory for the clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.clock import Chance, ManualClock
from tests.contracts.world import World
from tests.store.sqlite.backends import SqliteMemory


@pytest.fixture
async def world(tmp_path: Path, clock: ManualClock, chance: Chance) -> AsyncIterator[World]:
    backend = SqliteMemory(tmp_path, clock)
    store = backend.store(Chance(2))
    await backend.prepare(store)
    await store.open()
    yield World(store, backend, clock, chance)
    await store.close()
