"""RQ. Its server appends all to a file and brings that to the disk once a second.

`python -m bench.peers.with_rq rate JOBS WORKERS`, with the server's address in BENCH_ADDRESS. Workers are started by
whoever calls this.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from typing import Any

from bench.payload import TEXT

QUEUE = "bench"
POLL = 0.1


def noop(text: str) -> None:
    pass


def rate(jobs: int, workers: int) -> float:
    """Jobs a second by their stamps, from the first start to the last end. They come all at once, in one transaction,
    when the workers are there: none begins before the others, and nothing is put in while they work."""
    rq: Any = import_module("rq")  # it is not there where types are checked
    server = import_module("redis").Redis.from_url(os.environ["BENCH_ADDRESS"])
    queue = rq.Queue(QUEUE, connection=server)
    while rq.Worker.count(queue=queue) < workers:
        time.sleep(POLL)
    # By name: this module is called otherwise while it runs as a program.
    made = queue.enqueue_many([queue.prepare_data("bench.peers.with_rq.noop", (TEXT,)) for _ in range(jobs)])
    while queue.finished_job_registry.get_job_count(cleanup=False) < jobs:
        if queue.failed_job_registry.get_job_count(cleanup=False):
            raise RuntimeError("some jobs have not succeeded")
        time.sleep(POLL)
    ended = rq.job.Job.fetch_many([job.id for job in made], connection=server)
    first, last = min(job.started_at for job in ended), max(job.ended_at for job in ended)
    return jobs / float((last - first).total_seconds())


if __name__ == "__main__" and sys.argv[1] == "rate":
    print(rate(int(sys.argv[2]), int(sys.argv[3])))
