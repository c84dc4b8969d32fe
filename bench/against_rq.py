"""RQ's workers with sync no-ops: next to rota's warm processes, in the same run.

Its ordinary worker forks for every job; `SimpleWorker` runs them in its own process, where a job that hangs or crashes
takes the worker along. One of them uses a core, so there are also two: as many as the machine has cores.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.figure import Size
from bench.peers import home
from bench.peers.valkey import valkey
from bench.peers.with_rq import QUEUE
from bench.processes import program


class Way(NamedTuple):
    name: str
    kind: str
    workers: int
    least: float | None  # how many times as fast rota should be


WAYS = (
    Way("one worker", "rq.Worker", 1, 10.0),
    Way("two workers", "rq.Worker", 2, 10.0),
    Way("one SimpleWorker, without processes", "rq.SimpleWorker", 1, None),
    Way("two SimpleWorkers", "rq.SimpleWorker", 2, None),
)


def drained(folder: Path, way: Way, size: Size) -> float:
    """Jobs a second."""
    folder.mkdir()
    with ExitStack() as stack:
        address = stack.enter_context(valkey(folder))
        command = [str(home.PYTHON), "-m", "rq.cli", "worker", "--url", address, "--worker-class", way.kind]
        for number in range(way.workers):
            log = folder / f"worker-{number}.log"
            stack.enter_context(program([*command, "--quiet", QUEUE], home.environment(address), log))
        return home.answer("with_rq", "rate", size.rq, way.workers, address=address)
