"""The floor: the durable writes that rota makes, by hand, with nothing around them.

The same schema (the project's own migration), the same columns filled, the same history kept, the same batches, the
same durability, one connection. No fences are checked, nobody is told, nothing is run between claim and finish: what
is left is what any program must pay that keeps these rows in SQLite. Ids are made before the clock starts.

Run as `python -m bench.raw insert|drain STORE JOBS BATCH`; it prints the seconds it took.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import msgspec

from bench.payload import ARGUMENTS
from rota.clock import Chance
from rota.model.job import Spec
from rota.model.rank import AGEING_STEP, DEFAULT_PRIORITY
from rota.model.retry import Retry
from rota.store import sql_files
from rota.store.sqlite.database import APPLICATION

NODE = "node-raw"
INSERT_JOB = """
INSERT INTO jobs (seq, id, owner, state, queue, kind, task, priority, rank, run_at, expires_at, created_at)
VALUES (?, ?, 'local', 'ready', 'default', 'function', 'noop', ?, ?, ?, NULL, ?)"""
INSERT_PAYLOAD = (
    "INSERT INTO payloads (seq, spec, digest, args, retry, timeout, key) VALUES (?, ?, ?, ?, ?, NULL, NULL)"
)
CHOOSE = """
SELECT j.seq, j.id, j.fence, j.owner, j.queue, j.kind, j.task, j.priority, j.rank, j.tries, j.failures,
       p.spec, p.args, p.retry, p.timeout
FROM jobs j JOIN payloads p USING (seq)
WHERE j.state = 'ready' AND j.queue = 'default' AND j.kind = 'function' AND (j.expires_at IS NULL OR j.expires_at > ?)
ORDER BY j.rank, j.seq LIMIT ?"""
TAKE = "UPDATE jobs SET state = 'running', fence = fence + 1, tries = tries + 1, node = ?, started_at = ? WHERE seq = ?"
RECORD = "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, 'succeeded', NULL, NULL, 'null', NULL)"
END = "UPDATE jobs SET state = 'succeeded', node = NULL, finished_at = ? WHERE seq = ?"


def connect(path: str) -> apsw.Connection:
    connection = apsw.Connection(path)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("temp_store", "memory")
    connection.pragma("cache_size", -32_000)
    return connection


def create(path: str) -> apsw.Connection:
    """A new store with rota's own schema, so that rota can take over from here."""
    connection = connect(path)
    for number, text in sql_files.migrations("sqlite"):
        connection.execute(text).fetchall()
        connection.pragma("user_version", number)
    connection.pragma("application_id", APPLICATION)
    return connection


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[int]:
    """Durable when it ends; gives the time."""
    connection.execute("BEGIN IMMEDIATE")
    yield _now()
    connection.execute("COMMIT")


def _now() -> int:
    return time.time_ns() // 1000


def insert(connection: apsw.Connection, jobs: int, batch: int) -> float:
    chance, spec, retry = Chance(), Spec.function("noop"), msgspec.json.encode(Retry()).decode()
    ids = [chance.job_id(_now()) for _ in range(jobs)]
    begun = time.perf_counter()
    for first in range(0, jobs, batch):
        with transaction(connection) as now:
            rank = now + DEFAULT_PRIORITY * AGEING_STEP
            numbered = list(enumerate(ids[first : first + batch], first + 1))
            connection.executemany(INSERT_JOB, [(seq, id, DEFAULT_PRIORITY, rank, now, now) for seq, id in numbered])
            connection.executemany(
                INSERT_PAYLOAD, [(seq, spec.body, spec.digest, ARGUMENTS, retry) for seq, _ in numbered]
            )
    return time.perf_counter() - begun


def drain(connection: apsw.Connection, batch: int) -> float:
    begun = time.perf_counter()
    while True:
        with transaction(connection) as started:
            rows: list[Any] = connection.execute(CHOOSE, (started, batch)).fetchall()
            connection.executemany(TAKE, [(NODE, started, row[0]) for row in rows])
        if not rows:
            return time.perf_counter() - begun
        with transaction(connection) as now:
            connection.executemany(RECORD, [(row[0], row[2] + 1, row[9] + 1, NODE, started, now) for row in rows])
            connection.executemany(END, [(now, row[0]) for row in rows])


def fill_with_waiting(connection: apsw.Connection, jobs: int, foreign: bool = False) -> None:
    """Jobs whose time has not come; or functions of another app, ready and in front of all others. Built in one go,
    without waiting for the disk: only their number matters."""
    connection.pragma("synchronous", "off")
    spec, retry = Spec.function("noop"), msgspec.json.encode(Retry()).decode()
    at, salt = 0 if foreign else _now() + 24 * 3600 * 1_000_000, random.getrandbits(32)
    state, task = ("ready", "foreign") if foreign else ("scheduled", "noop")
    with transaction(connection) as now:
        connection.execute(
            """
            WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < :jobs)
            INSERT INTO jobs (seq, id, owner, state, queue, kind, task, priority, rank, run_at, created_at)
            SELECT seq, printf('%08x-%04x-7000-8000-%012x', :salt, seq % 65536, seq), 'local', :state, 'default',
                   'function', :task, 5, :at + seq * 1000, :at + seq * 1000, :now FROM n""",
            {"jobs": jobs, "salt": salt, "at": at, "now": now, "state": state, "task": task},
        )
        connection.execute(
            "INSERT INTO payloads SELECT seq, ?, ?, ?, ?, NULL, NULL FROM jobs",
            (spec.body, spec.digest, ARGUMENTS, retry),
        )
    connection.pragma("synchronous", "full")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def main(verb: str, path: str, jobs: str, batch: str) -> None:
    if verb == "insert":
        print(insert(create(path), int(jobs), int(batch)))
    else:
        print(drain(connect(path), int(batch)))


if __name__ == "__main__":
    main(*sys.argv[1:])
