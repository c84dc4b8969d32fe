"""A caller of the whole API, as the user ann."""

from __future__ import annotations

import pytest

from rota.model.principal import Principal
from tests.api.caller import Caller
from tests.contracts.world import World

ANN = Principal("ann", operator=True)


@pytest.fixture
def caller(world: World) -> Caller:
    return Caller(world)
