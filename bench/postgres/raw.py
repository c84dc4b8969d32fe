"""The floor on PostgreSQL: the durable writes that rota makes, by hand, with nothing around them.

The same schema (the project's own migrations), the same columns filled, the same history kept, the same session
settings for steady plans, prepared statements, one connection. No fences are checked, nobody is told, nothing is run
between claim and finish. Ids are made before the clock starts.

Inserts go by COPY, which is about twice as fast as unnest here: `python -m bench.postgres.raw compare JOBS BATCH`.

Run as `python -m bench.postgres.raw insert|drain JOBS BATCH`, with the address in ROTA_STORE; prints the seconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

import asyncpg
import msgspec

from bench.payload import ARGUMENTS
from bench.raw import NODE
from rota.clock import Chance
from rota.model.job import Spec
from rota.model.rank import AGEING_STEP, DEFAULT_PRIORITY
from rota.model.retry import Retry
from rota.store.postgres.address import STEADY_PLANS

COLUMNS = (
    "id", "owner", "state", "queue", "kind", "task", "priority", "rank", "run_at", "expires_at", "created_at",
    "spec", "digest", "args", "retry", "timeout",
)  # fmt: skip
TYPES = (
    "uuid", "text", "text", "text", "text", "text", "smallint", "bigint", "bigint", "bigint", "bigint",
    "text", "text", "text", "text", "bigint",
)  # fmt: skip
UNNEST = f"""
INSERT INTO rota.jobs ({", ".join(COLUMNS)})
SELECT * FROM unnest({", ".join(f"${number}::{kind}[]" for number, kind in enumerate(TYPES, 1))})"""
CLAIM = """
WITH chosen AS MATERIALIZED (
    SELECT ctid AS place FROM rota.jobs
    WHERE state = 'ready' AND queue = 'default' AND kind = 'function' AND (expires_at IS NULL OR expires_at > $2)
    ORDER BY rank, id LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE rota.jobs j SET state = 'running', fence = fence + 1, tries = tries + 1, node = $1, claimed_at = $2,
                       started_at = $2
FROM chosen WHERE j.ctid = chosen.place
RETURNING j.id, j.fence, j.owner, j.queue, j.kind, j.task, j.priority, j.rank, j.tries, j.failures, j.spec, j.args,
          j.retry, j.timeout"""
FINISH = """
WITH gone AS (
    DELETE FROM rota.jobs WHERE id = ANY ($1::uuid[]) RETURNING *
)
INSERT INTO rota.history (id, owner, state, queue, kind, task, priority, rank, run_at, created_at, started_at, fence,
                          tries, failures, crashes, interruptions, replays, node, spec, digest, args, retry, timeout,
                          key, finished_at, outcome, result, lasting)
SELECT id, owner, 'succeeded', queue, kind, task, priority, rank, run_at, created_at, started_at, fence,
       tries, failures, crashes, interruptions, replays, node, spec, digest, args, retry, timeout, key,
       $2, 'succeeded', 'null', false
FROM gone"""
Rows = list[tuple[Any, ...]]


def _now() -> int:
    return time.time_ns() // 1000


async def connect(url: str) -> asyncpg.Connection:
    return await asyncpg.connect(url, server_settings=STEADY_PLANS)


async def insert(connection: asyncpg.Connection, jobs: int, batch: int, by_copy: bool = True) -> float:
    chance, spec, retry = Chance(), Spec.function("noop"), msgspec.json.encode(Retry()).decode()
    ids = chance.job_ids(_now(), jobs)
    begun = time.perf_counter()
    for first in range(0, jobs, batch):
        now = _now()
        rank = now + DEFAULT_PRIORITY * AGEING_STEP
        rows: Rows = [
            (id, "local", "ready", "default", "function", "noop", DEFAULT_PRIORITY, rank, now, None, now, spec.body,
             spec.digest, ARGUMENTS, retry, None) for id in ids[first : first + batch]
        ]  # fmt: skip
        if by_copy:
            await connection.copy_records_to_table("jobs", schema_name="rota", columns=COLUMNS, records=rows)
        else:
            await connection.execute(UNNEST, *map(list, zip(*rows, strict=True)))
    return time.perf_counter() - begun


async def drain(connection: asyncpg.Connection, batch: int) -> float:
    claim, finish = await connection.prepare(CLAIM), await connection.prepare(FINISH)
    begun = time.perf_counter()
    while rows := await claim.fetch(NODE, _now(), batch):
        await finish.fetch([row[0] for row in rows], _now())
    return time.perf_counter() - begun


async def compare(connection: asyncpg.Connection, jobs: int, batch: int) -> str:
    rates: list[str] = []
    for by_copy in (True, False) * 3:
        took = await insert(connection, jobs, batch, by_copy)
        rates.append(f"{'copy' if by_copy else 'unnest'} {jobs / took:,.0f}/s")
        await drain(connection, batch)
    return ", ".join(rates)


async def main(verb: str, jobs: int, batch: int) -> str:
    connection = await connect(os.environ["ROTA_STORE"])
    try:
        match verb:
            case "insert":
                return str(await insert(connection, jobs, batch))
            case "drain":
                return str(await drain(connection, batch))
            case _:
                return await compare(connection, jobs, batch)
    finally:
        await connection.close()


def fill(url: str, jobs: int, batch: int = 5_000) -> None:
    async def run() -> None:
        connection = await connect(url)
        await insert(connection, jobs, batch)
        await connection.close()

    asyncio.run(run())


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
