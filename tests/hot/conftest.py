from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rota.hot.lane import Lane
from tests.hot.lanes import KINDS, SERVERS, Make, empty, maker, opened
from tests.servers.valkey import Valkey


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Make:
    return maker(request.param)


@pytest.fixture
async def lane(make: Make) -> AsyncIterator[Lane]:
    async with opened(make()) as (lane,):
        yield lane


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Valkey:
    """Of this process, and empty."""
    return empty(request.param)
