"""Searches while parts of the history have no index yet, and the housekeeping that makes it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from rota.clock import Chance, SystemClock
from rota.model.principal import LOCAL
from rota.model.query.parse import parse
from rota.store.postgres import PostgresStore, partitions
from rota.store.postgres.database import UNHURRIED
from rota.store.values import JobFilter
from tests.servers.postgres import database, shared_server

JOBS = """INSERT INTO rota.history (id, owner, state, queue, kind, task, priority, rank, run_at, created_at,
                          finished_at, lasting, spec, digest, args, retry)
SELECT gen_random_uuid(), 'local', 'failed', 'q', 'function', 't' || i % 3, 5, 0, 0, 0, 0, true, '{}', 'd', '{}', '{}'
FROM generate_series(1, 30) AS i"""
VALID = (
    "SELECT count(*) FROM pg_index WHERE indrelid = 'rota.history_lasting'::regclass AND indnkeyatts = 5 AND indisvalid"
)


@pytest.fixture
def url() -> Iterator[str]:
    with database(shared_server()) as url:
        yield url


async def test_a_part_without_its_index_is_searched_and_gets_it(url: str) -> None:
    store = PostgresStore(url, SystemClock(), Chance(1))
    await store.migrate()
    await store.open()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("DROP INDEX rota.history_as")  # as after a migration of a large store
        db.execute("CREATE INDEX history_as ON ONLY rota.history (owner, state, queue, task, id)")
        db.execute(JOBS.encode())
        query = JobFilter(where=parse("task:t1", 0))
        assert len(await store.find(LOCAL, query)) == 10
        made = []
        for _ in range(2):
            async with store._database.unit(store._database.pools().reads, UNHURRIED) as unit:
                made.append(await partitions.index(unit))
        assert made == [1, 0]
        found = db.execute(VALID.encode()).fetchone()
        assert found == (1,)
        assert len(await store.find(LOCAL, query)) == 10
    await store.close()
