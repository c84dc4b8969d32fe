"""A crowd: a million jobs that wait, a million that ended, and some of every other kind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from rota.clock import Chance, ManualClock
from rota.model.times import DAY, HOUR, MINUTE
from rota.store import sql_files
from rota.store.postgres import PostgresStore
from tests.servers.postgres import database, shared_server

ROWS = 1_000_000
NOW = 1_800_000_000_000_000
QUERIES = sql_files.load("postgres")
CLOCK = ManualClock(NOW)

# Of each sort so many, with ids of a range of their own.
SCHEDULED, READY, RUNNING, AHEAD, DUE, EXPIRED, ENDED, DEAD = range(1, 9)
COUNTS = dict(zip(range(1, 9), (ROWS, 7_000, 2_000, 100, 1_000, 300, ROWS, 20_000), strict=True))


def uid(sort: int, number: int) -> str:
    return f"{sort:08x}-0000-7000-8000-{number:012x}"


def uids(sort: int, *numbers: int) -> list[str]:
    return [uid(sort, number) for number in numbers]


def sql_id(sort: int) -> str:
    return f"('{sort:08x}-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid"


ADMISSION = "requirements, special, held_by, level, own_step"
SHARED = (
    "id, owner, state, queue, kind, task, priority, rank, run_at, expires_at, created_at, spec, digest, args, retry"
)


def live(sort: int, state: str, run_at: str, more: str = "", values: str = "", expires: str = "NULL") -> str:
    return f"""
INSERT INTO rota.jobs ({SHARED}{more})
SELECT {sql_id(sort)}, CASE WHEN i % 1000 = 0 THEN 'alice' ELSE 'local' END, '{state}', 'q' || i % 7,
       CASE WHEN i % 2 = 0 THEN 'function' ELSE 'command' END, 't' || i % 20, i % 10, {run_at} + i % 10 * 60000000,
       {run_at}, {expires}, {NOW}, '{{}}', 'd', '{{}}', '{{}}'{values}
FROM generate_series(1, {COUNTS[sort]}) AS i"""


def ended(sort: int, state: str, first: int = 1, step: int = 1) -> str:
    return f"""
INSERT INTO rota.history ({SHARED}, fence, tries, node, started_at, outcome, finished_at, lasting, reason)
SELECT {sql_id(sort)}, CASE WHEN i % 1000 = 0 THEN 'alice' ELSE 'local' END, '{state}', 'q' || i % 7, 'command',
       't' || i % 20, 5, {NOW} + i, {NOW} + i, NULL, {NOW}, '{{}}', 'd', '{{}}', '{{}}', 1, 1, 'n', {NOW}, '{state}',
       {NOW} + i % 3 * {DAY} + i, {state == "failed"}, 'boom'
FROM generate_series({first}, {COUNTS[sort]}, {step}) AS i"""


HELD = ", fence, tries, node, claimed_at, started_at"
FIRST = [
    live(SCHEDULED, "scheduled", f"{NOW} + {HOUR} + i", expires=f"CASE WHEN i % 100 = 0 THEN {NOW} + {DAY} + i END"),
    live(
        READY,
        "ready",
        f"{NOW} - {HOUR} + i",
        ", fence",
        ", i % 2",
        expires=f"CASE WHEN i % 50 = 0 THEN {NOW} + {HOUR} + i END",
    ),
    live(RUNNING, "running", f"{NOW} - {HOUR} + i", HELD, f", 1, 1, 'inc' || i % 20, {NOW} - {MINUTE} + i, {NOW}"),
    live(AHEAD, "running", f"{NOW} - {HOUR} + i", HELD, f", 1, 0, 'inc0', {NOW} - {MINUTE} + i, NULL"),
    live(DUE, "scheduled", f"{NOW} - {HOUR} + i"),
    live(EXPIRED, "ready", f"{NOW} - {HOUR} + i", expires=f"{NOW} - {MINUTE} + i"),
    f"""INSERT INTO rota.keys SELECT 'local', 'k' || i, 'c', {sql_id(ENDED)}, {NOW} - 50000 + i
        FROM generate_series(1, 100000) AS i""",
    f"""INSERT INTO rota.outbox (seq, at, kind, owner, subject, data)
        SELECT CASE WHEN i <= 49900 THEN i END, {NOW} - 25000 + i, 'job.failed', 'local', 'x', '{{}}'
        FROM generate_series(1, 50000) AS i""",
    "SELECT setval('rota.outbox_positions', 50000)",
    f"""INSERT INTO rota.repeats SELECT 'local', 'r' || i, 0, 'route', 'd', 'x', {NOW} + {DAY} + i
        FROM generate_series(1, 50000) AS i""",
    f"""INSERT INTO rota.nodes (incarnation, id, roles, queues, tasks, version, state, started_at, seen_at, lease, lock)
        SELECT 'inc' || i, 'box' || i, '["worker","control"]', '{{"q0":4,"q1":4,"none":1}}',
               array(SELECT 't' || t FROM generate_series(0, 19) AS t), '1', 'live', {NOW}, {NOW}, 1, i
        FROM generate_series(0, 19) AS i""",
    f"INSERT INTO rota.tasks SELECT 't' || i, '{{}}', {NOW} FROM generate_series(0, 19) AS i",
]
SECOND = [
    ended(ENDED, "succeeded", 1, 1),
    ended(DEAD, "failed"),
    *(
        f"INSERT INTO rota.attempts (job, fence, number, node, started_at, finished_at, outcome) "
        f"SELECT {sql_id(sort)}, 0, 1, 'n', {NOW}, {NOW} + i % 3 * {DAY}, 'failed' "
        f"FROM generate_series(1, {count}) AS i"
        for sort, count in ((ENDED, 50_000), (DEAD, 2_000), (RUNNING, 2_000))
    ),
    *(
        f"INSERT INTO rota.output (job, fence, number, at, kept_at, stream, body) "
        f"SELECT {sql_id(sort)}, 1, n, {NOW}, {NOW} + i % 3 * {DAY}, 'stdout', 'x' "
        f"FROM generate_series(1, {count}) AS i, generate_series(0, 1) AS n"
        for sort, count in ((ENDED, 25_000), (DEAD, 2_000), (RUNNING, 2_000))
    ),
    # Of its own cells, and small ones of two days.
    f"""INSERT INTO rota.segments
        SELECT {sql_id(ENDED)}, CASE WHEN i % 1000 = 0 THEN 'alice' ELSE 'local' END, 't' || i % 20, i % 50 = 0,
               {NOW} + i % 3 * {DAY} + i, {NOW} + i, {NOW} + i, 10, CASE WHEN i % 100 = 0 THEN 100 ELSE 500000 END,
               i / 100, {sql_id(ENDED)}, {sql_id(ENDED)}, 1, 0, 1, 1, 100, NULL,
               uuid_send({sql_id(ENDED)}), 'words', 'body'
        FROM generate_series(1, 50000) AS i""",
    *(
        f"INSERT INTO rota.progress (job, fence, number, fraction, text, at) "
        f"SELECT {sql_id(sort)}, 1, 5, 0.5, 'half', {NOW} FROM generate_series(1, {count}) AS i"
        for sort, count in ((ENDED, 100_000), (DEAD, 2_000), (RUNNING, 1_000))
    ),
    *(
        f"INSERT INTO rota.checkpoints (job, fence, number, state) "
        f"SELECT {sql_id(sort)}, 1, 5, '{{}}' FROM generate_series(1, {count}) AS i"
        for sort, count in ((DEAD, 20_000), (RUNNING, 1_000), (READY, 7_000))
    ),
]


class Large(NamedTuple):
    url: str
    sizes: dict[str, int]  # in pages


def migrated(url: str) -> None:
    async def migrate() -> None:
        store = PostgresStore(url, CLOCK, Chance(1), server_time=False)
        await store.migrate()
        await store.close()

    asyncio.run(migrate())


def run_all(url: str, statements: list[str]) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        for statement in statements:
            db.execute(statement.encode())


@contextmanager
def large_tables(*crowds: list[str]) -> Iterator[Large]:
    """A database with these rows, the crowds inserted side by side. The server must not find out by itself how large
    its tables are."""
    with database(shared_server()) as url:
        _in_threads([(migrated, url)])  # this thread may have a running loop
        with psycopg.connect(url, autocommit=True) as db:
            tables = db.execute(
                "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'rota'::regnamespace AND relkind = 'r'"
            )
            for (table,) in tables.fetchall():
                db.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
            _in_threads([(run_all, url, crowd) for crowd in crowds])
            sizes = db.execute(
                "SELECT relname, pg_relation_size(oid) / 8192 FROM pg_class WHERE relnamespace = 'rota'::regnamespace"
            )
            yield Large(url, dict(sizes.fetchall()))


def _in_threads(calls: Sequence[tuple[Any, ...]]) -> None:
    threads = [threading.Thread(target=call, args=values) for call, *values in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_as_owner(url: str, statements: list[str]) -> None:
    """Statements that change what the server knows about its tables."""
    run_all(url, ["SET allow_system_table_mods = on", *statements])
