"""Servers on which transactions are isolated more than usual, by whatever setting: rota's own are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from rota.clock import Chance, ManualClock
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.store.postgres.database import Unit
from tests.contracts.admission import mutex
from tests.contracts.world import DONE, World
from tests.servers.postgres import shared_server
from tests.store.postgres.backends import Postgres, migrated_database
from tests.store.postgres.graphs import within
from tests.store.postgres.pooler import Pooler
from tests.store.postgres.ranking import Place

LEVELS = ["repeatable read", "serializable"]


@pytest.fixture(params=LEVELS)
async def strict(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """A database of which every session begins that way."""
    with migrated_database() as url:
        name = url.rpartition("/")[2]
        shared_server().execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{request.param}'")
        place = Place(url)
        yield place
        await place.close()


@pytest.fixture(params=[False, True], ids=["direct", "pooled"])
async def isolated(
    request: pytest.FixtureRequest, strict: Place, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[World]:
    async with Pooler("127.0.0.1", shared_server().port, strict=True) as pooler:
        url = strict.through(pooler.port) if request.param else strict.url
        store = await strict.store(url, clock=clock)
        assert store._database.pooled is request.param
        yield World(store, Postgres(tmp_path, clock), clock, Chance())
        await store.close()


async def test_every_transaction_reads_what_is_committed(strict: Place, isolated: World) -> None:
    async def alone(unit: Unit) -> str:
        return str(await unit.connection.fetchval("SHOW transaction_isolation"))

    async def together(unit: Unit) -> str:
        await unit.begin()
        return await alone(unit)

    assert strict.value("SHOW transaction_isolation") in LEVELS
    database = isolated.store._database  # type: ignore[attr-defined]
    for pool in database.pools().all:
        for work in (alone, together):
            assert await database.call(pool, work) == ("read committed", set())
    async with database.unhurried() as unit:
        assert await alone(unit) == "read committed"


async def test_claims_that_contend_all_go_through(isolated: World) -> None:
    jobs = [await isolated.one(requirements=mutex(f"m{number % 4}")) for number in range(16)]
    actors = [await isolated.node(f"n{number}") for number in range(4)]
    done: list[str] = []
    while len(done) < len(jobs):
        claims = await asyncio.gather(*(actor.claim(4) for actor in actors for _ in range(2)))
        claimed = [one for claim in claims for one in claim]
        verdicts = await asyncio.gather(*(actors[0].finish(one) for one in claimed))
        assert verdicts == [Verdict.APPLIED] * len(claimed)
        done += [one.job_id for one in claimed]
    assert sorted(done) == sorted(jobs)


# -- orders in a transaction of the caller's own ----------------------------------------------------------------------


@pytest.fixture(params=["repeatable_read", "serializable"])
async def caller(request: pytest.FixtureRequest, place: Place) -> AsyncIterator[asyncpg.Connection]:
    """In a transaction that sees the database as it is now, and not what happens to it from here on."""
    connection = await asyncpg.connect(place.url.partition("?")[0])
    await connection.execute(f"SET search_path = {place.schema}")
    await connection.execute(f"BEGIN ISOLATION LEVEL {request.param.replace('_', ' ')}")
    await connection.fetchval("SELECT count(*) FROM jobs")
    yield connection
    await connection.close()


async def test_a_parent_that_ends_meanwhile_lets_the_child_go(
    world: World, place: Place, caller: asyncpg.Connection
) -> None:
    """Where the parent stands is not looked at in the caller's transaction: a resolver does so, after its commit."""
    actor = await world.node()
    parent = await world.one()
    await caller.execute("COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ")
    await caller.fetchval("SELECT count(*) FROM jobs")
    await actor.run(DONE, parent)
    child = world.child(parent)
    await within(place, caller, child)
    await caller.execute("COMMIT")
    await world.settle()
    assert await world.state(child.id) is State.READY


async def test_a_key_that_is_used_meanwhile_ends_the_caller_s_transaction(
    world: World, place: Place, caller: asyncpg.Connection
) -> None:
    """As the server does with every conflict at these levels: the caller tries the whole of it again."""
    await world.submit(world.job(key="once"))
    with pytest.raises(asyncpg.SerializationError):
        await within(place, caller, world.job(key="once"))
    await caller.execute("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ")
    (answer,) = await within(place, caller, world.job(key="once"))
    assert not answer.created
    await caller.execute("COMMIT")
    assert len(await world.all()) == 1
