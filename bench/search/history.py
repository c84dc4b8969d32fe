"""Millions of ended jobs, made by SQL: some users, queues and tasks, every state, a schedule and workflows.

The same rows on both engines, spread evenly over so many days before `now`. Job `i` of `jobs`:

- nine of ten are of the user `local`, the others of nine more users;
- 40 tasks in 5 queues, `task0` to `task39`; one in a thousand is `rare`;
- one in 20 has failed, one in 50 was cancelled, the others have succeeded;
- one in 100 has the label `nightly`, and one in 100 is a fire of the schedule `nightly`;
- 1,000 are in the workflow `import`; all have the argument `user_id`, from 0 to 9,999.

Run as `python -m bench.search.history STORE JOBS`, with the address of a store that was migrated.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

import apsw
import asyncpg

from rota.model.times import DAY
from rota.store.postgres import partitions

DAYS = 30
WORKFLOW = "ffffffff-0000-7000-8000-000000000001"
IN_WORKFLOW = 1_000
_OF_JOB = {
    "owner": "CASE WHEN i % 10 = 0 THEN 'user' || (i / 10 % 9) ELSE 'local' END",
    "state": "CASE WHEN h % 20 = 0 THEN 'failed' WHEN h % 50 = 1 THEN 'cancelled' ELSE 'succeeded' END",
    "queue": "'q' || (h / 100 % 5)",
    "task": "CASE WHEN h % 1000 = 7 THEN 'rare' ELSE 'task' || (h / 500 % 40) END",
    "requirements": """CASE WHEN h % 100 = 3 THEN '{"labels":["nightly"]}' END""",
    "reason": "CASE WHEN h % 20 = 0 THEN 'connection timeout ' || (h % 7) END",
    "error": """CASE WHEN h % 20 = 0
        THEN '{"type":"smtp.Timeout","message":"connection timeout ' || (h % 7) || '"}' END""",
    "args": """'{"user_id":' || (h % 10000) || '}'""",
}
_SQLITE = f"""
CREATE TEMP TABLE made AS
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :jobs)
SELECT i, i * 2654435761 % 1000003 AS h, :first + i * :step AS at FROM n;
INSERT INTO jobs (seq, id, owner, state, queue, kind, task, priority, rank, run_at, created_at, started_at, finished_at,
                  fence, tries, requirements, reason)
SELECT i, printf('%08x-%04x-7%03x-8000-%012x', at / 1000 >> 16, at / 1000 & 65535, i & 4095, i), {_OF_JOB["owner"]},
       {_OF_JOB["state"]}, {_OF_JOB["queue"]}, 'function', {_OF_JOB["task"]}, h % 10, at, at, at, at + 5000,
       at + 9000 + h % 1000, 1, 1, {_OF_JOB["requirements"]}, {_OF_JOB["reason"]} FROM made;
INSERT INTO payloads (seq, spec, digest, args, retry)
SELECT i, '{{"name":"f"}}', 'd', {_OF_JOB["args"]}, '{{}}' FROM made;
INSERT INTO attempts (job, fence, number, node, started_at, finished_at, outcome, error, result)
SELECT i, 1, 1, 'n', at + 5000, at + 9000 + h % 1000, {_OF_JOB["state"]}, {_OF_JOB["error"]}, 'null' FROM made;
INSERT INTO fires SELECT 'local', 'nightly', at, id, 'rule', at, 0, 0 FROM made JOIN jobs ON seq = i WHERE i % 100 = 9;
INSERT INTO workflows VALUES ('{WORKFLOW}', 'local', 'import', :first);
INSERT INTO members SELECT '{WORKFLOW}', id, i, '' FROM made JOIN jobs ON seq = i
WHERE i % (:jobs / {IN_WORKFLOW}) = 5 AND owner = 'local' LIMIT {IN_WORKFLOW};
DROP TABLE made;
"""
_MADE = "(SELECT i, i * 2654435761 % 1000003 AS h, $2 + i * $3 AS at FROM generate_series($1, $4::bigint) AS i) made"
_ID = """(lpad(to_hex(at / 1000), 12, '0') || '7' || lpad(to_hex(i & 4095), 3, '0') || '8000'
          || lpad(to_hex(i), 12, '0'))::uuid"""
_POSTGRES = f"""
INSERT INTO rota.history (id, owner, state, queue, kind, task, priority, rank, run_at, created_at, started_at,
                          finished_at, fence, tries, requirements, reason, error, args, spec, digest, retry, outcome,
                          result, node, lasting)
SELECT {_ID}, {_OF_JOB["owner"]}, {_OF_JOB["state"]}, {_OF_JOB["queue"]}, 'function', {_OF_JOB["task"]}, h % 10, at, at,
       at, at + 5000, at + 9000 + h % 1000, 1, 1, {_OF_JOB["requirements"]}, {_OF_JOB["reason"]}, {_OF_JOB["error"]},
       {_OF_JOB["args"]}, '{{"name":"f"}}', 'd', '{{}}', {_OF_JOB["state"]}, 'null', 'n', h % 20 = 0
FROM {_MADE}"""
_FIRES = f"""INSERT INTO rota.fires SELECT 'local', 'nightly', at, {_ID}, 'rule', at, false, false FROM {_MADE}
WHERE i % 100 = 9"""
_MEMBERS = f"""INSERT INTO rota.members SELECT '{WORKFLOW}', {_ID}, i, '' FROM {_MADE}
WHERE i % $5 = 5 AND i % 10 <> 0 LIMIT {IN_WORKFLOW}"""
PIECE = 500_000


def of_sqlite(path: str, jobs: int, now: int) -> None:
    connection = apsw.Connection(path)
    connection.pragma("synchronous", "off")
    connection.pragma("cache_size", -1_000_000)  # the index has thousands of places at which it grows
    step = DAYS * DAY // jobs
    connection.execute("BEGIN")
    connection.execute(_SQLITE, {"jobs": jobs, "first": now - jobs * step, "step": step}).fetchall()
    connection.execute("COMMIT")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()


async def of_postgres(url: str, jobs: int, now: int) -> None:
    connection = await asyncpg.connect(url)
    step = DAYS * DAY // jobs
    first = now - jobs * step
    for day in range(first // DAY * DAY, now + DAY, DAY):
        await connection.execute(
            f"CREATE TABLE IF NOT EXISTS rota.{partitions.name('history', day)} PARTITION OF rota.history_dated "
            f"FOR VALUES FROM ({day}) TO ({day + DAY})"
        )
    for begin in range(1, jobs + 1, PIECE):
        part = begin, first, step, min(begin + PIECE - 1, jobs)
        await connection.execute(_POSTGRES, *part)
        await connection.execute(_FIRES, *part)
    await connection.execute(f"INSERT INTO rota.workflows VALUES ('{WORKFLOW}', 'local', 'import', $1)", first)
    await connection.execute(_MEMBERS, 1, first, step, jobs, jobs // IN_WORKFLOW)
    await connection.execute("VACUUM ANALYZE rota.history")
    await connection.close()


def fill(store: str, jobs: int, now: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
    if store.startswith("postgres"):
        asyncio.run(of_postgres(store, jobs, now()))
    else:
        of_sqlite(store, jobs, now())


if __name__ == "__main__":
    fill(sys.argv[1], int(sys.argv[2]))
