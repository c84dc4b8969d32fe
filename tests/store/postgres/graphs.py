"""What the suite about jobs that wait for others needs of PostgreSQL itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from rota.clock import Chance, SystemClock
from rota.model.job import Claimed, NewJob, Submitted, Verdict
from rota.model.principal import LOCAL
from rota.model.times import DAY
from rota.store.postgres.callers import CallerStore
from tests.contracts.world import DONE, Actor, World
from tests.store.postgres.ranking import Place

PATIENCE = 20.0  # seconds; whoever waits for a lock that nobody gives up waits for ever
ROUNDS = 60


@asynccontextmanager
async def transaction(place: Place) -> AsyncIterator[asyncpg.Connection]:
    """Of somebody else, open until the end of the block."""
    connection = await asyncpg.connect(place.url.partition("?")[0], server_settings={"search_path": place.schema})
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


async def within(place: Place, connection: asyncpg.Connection, *jobs: NewJob, ring: bool = True) -> list[Submitted]:
    store = CallerStore(place.url, SystemClock(), Chance(), key_life=DAY, ring=ring, server_time=True)
    (answer,) = await store.on(connection, waits=True).submit(LOCAL, [jobs])
    assert isinstance(answer, list)
    return answer


async def all_settled(world: World) -> None:
    async with asyncio.timeout(20):
        while (await world.settle()).unsettled:
            pass


def stuck(place: Place) -> int:
    """Sessions that wait for a lock."""
    return int(place.value("SELECT count(*) FROM pg_locks WHERE NOT granted"))


async def end(actor: Actor, claimed: Claimed, result: Any = DONE) -> None:
    async with asyncio.timeout(PATIENCE):
        assert await actor.finish(claimed, result) is Verdict.APPLIED
