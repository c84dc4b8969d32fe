"""Services on the store of the world."""

from __future__ import annotations

import pytest

from tests.contracts.world import World
from tests.control.stage import Company


@pytest.fixture
def company(world: World) -> Company:
    return Company(world)
