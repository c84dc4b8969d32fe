"""A store in memory (or where else a test wants it), and the world around it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.clock import Chance, ManualClock
from tests.contracts.world import World
from tests.control.stage import Company
from tests.store.backends import Backend
from tests.store.sqlite.backends import SqliteMemory


@pytest.fixture
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, chance: Chance
) -> AsyncIterator[World]:
    kind: type[Backend] = getattr(request, "param", SqliteMemory)
    backend = kind(tmp_path, clock)
    store = backend.store(Chance(2))
    await backend.prepare(store)
    await store.open()
    yield World(store, backend, clock, chance)
    await store.close()
    backend.close()


@pytest.fixture
def company(world: World) -> Company:
    return Company(world)
