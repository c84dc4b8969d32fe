"""Celery on Valkey, the broker that it is fastest with. Results are kept, and what a lost worker held is run again
(acks_late). The server appends all to a file and brings that to the disk once a second: less than PostgreSQL does.

`python -m bench.peers.with_celery submit|rate JOBS`, with the server's address in BENCH_ADDRESS.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime
from importlib import import_module
from json import loads
from typing import Any

from bench.payload import TEXT

celery: Any = import_module("celery")  # it is not there where types are checked
ADDRESS = os.environ["BENCH_ADDRESS"]
RESULTS = f"{ADDRESS}/1"

app = celery.Celery("bench", broker=f"{ADDRESS}/0", backend=RESULTS)
app.conf.update(
    task_acks_late=True,
    worker_concurrency=2,
    worker_prefetch_multiplier=64,  # tried: 1, 4, 64 and 500; the machine varied more than they did
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(text: str) -> None:
    pass


def submit(jobs: int) -> float:
    """One by one, as Celery does it; over one connection."""
    with app.producer_pool.acquire(block=True) as producer:
        noop.apply_async((TEXT,), producer=producer)  # connects; one more than is counted
        begun = time.perf_counter()
        for _ in range(jobs):
            noop.apply_async((TEXT,), producer=producer)
        return time.perf_counter() - begun


def rate(jobs: int) -> float:
    """Waits for all results; tasks a second by their stamps, from the first end to the last."""
    server = import_module("redis").Redis.from_url(RESULTS)
    while server.dbsize() < jobs:
        time.sleep(0.1)
    results = [loads(text) for text in server.mget(server.keys("celery-task-meta-*"))]
    if any(one["status"] != "SUCCESS" for one in results):
        raise RuntimeError("some tasks have not succeeded")
    ended = sorted(datetime.fromisoformat(one["date_done"]) for one in results)
    return (len(ended) - 1) / (ended[-1] - ended[0]).total_seconds()


if __name__ == "__main__":
    print({"submit": submit, "rate": rate}[sys.argv[1]](int(sys.argv[2])))
