"""Procrastinate on PostgreSQL, with an async worker.

`python -m bench.peers.with_procrastinate submit JOBS` or `drain JOBS CONCURRENCY`, with the database's address
in BENCH_ADDRESS.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from importlib import import_module
from typing import Any

from bench.payload import TEXT

procrastinate: Any = import_module("procrastinate")  # it is not there where types are checked
psycopg: Any = import_module("psycopg")
ADDRESS = os.environ["BENCH_ADDRESS"]
BATCH = 1_000

logging.getLogger("procrastinate").setLevel(logging.ERROR)  # it minds that this is the main module; here it may be

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=ADDRESS, min_size=2, max_size=10))


@app.task(name="noop")
async def noop(text: str) -> None:
    pass


async def submit(jobs: int) -> float:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        begun = time.perf_counter()
        for first in range(0, jobs, BATCH):
            await noop.batch_defer_async(*({"text": TEXT} for _ in range(min(BATCH, jobs - first))))
        return time.perf_counter() - begun


async def drain(jobs: int, concurrency: int) -> float:
    """Jobs a second by the stamps in the store, from the first start to the last end."""
    async with app.open_async():
        await app.run_worker_async(wait=False, concurrency=concurrency, install_signal_handlers=False)
    with psycopg.connect(ADDRESS) as connection:
        done, seconds = connection.execute(
            "SELECT count(*) FILTER (WHERE type = 'succeeded'),"
            " extract(epoch FROM max(at) FILTER (WHERE type = 'succeeded') - min(at) FILTER (WHERE type = 'started'))"
            " FROM procrastinate_events"
        ).fetchone()
    if done != jobs:
        raise RuntimeError(f"{done} of {jobs} jobs have succeeded")
    return jobs / float(seconds)


if __name__ == "__main__":
    verb, *numbers = sys.argv[1:]
    verbs: dict[str, Any] = {"submit": submit, "drain": drain}
    print(asyncio.run(verbs[verb](*map(int, numbers))))
