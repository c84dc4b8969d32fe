"""How long statistics take with a million ended jobs: counted by the tallier, and by the raw rows alone."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench import raw
from bench.figure import Figure, Size
from rota.clock import Chance, SystemClock
from rota.control.tallier import BATCH
from rota.model.principal import LOCAL, SYSTEM
from rota.model.statistics import Window
from rota.model.times import DAY, HOUR, MINUTE
from rota.store.base import Store
from rota.store.sqlite import SqliteStore

REPEATS = 5
SPAN = DAY  # over which the jobs have ended
TASKS = 20
# i runs from 1 to the number of jobs; the jobs are of one user, 20 tasks and 3 queues, and one in fifty failed.
_INSERT = """
INSERT INTO jobs (seq, id, owner, state, queue, kind, task, priority, rank, run_at, created_at, started_at, finished_at,
                  fence, tries)
SELECT i, printf('%08x-0000-7000-8000-%012x', i, i), 'local', iif(i % 50, 'succeeded', 'failed'), 'queue-' || (i % 3),
       'function', 'task-' || (i % :tasks), 5, 0, at, at, at + i % 9000, at + i % 9000 + i % 70000, 1, 1
FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :jobs)
      SELECT i, :now - :span + i * (:span / :jobs) AS at FROM n)"""


def reading(folder: Path, size: Size) -> Iterator[Figure]:
    path = str(folder / "store.db")
    connection = raw.create(path)
    now = time.time_ns() // 1000
    with raw.transaction(connection):
        connection.execute(_INSERT, {"now": now, "jobs": size.waiting, "span": SPAN, "tasks": TASKS})
    connection.close()
    yield from figures(lambda: SqliteStore(path, SystemClock(), Chance()), "SQLite", size.waiting)


def figures(make: Callable[[], Store], engine: str, jobs: int) -> Iterator[Figure]:
    found, seconds = asyncio.run(_measure(make()))
    for what, value in found.items():
        goal = None if "raw" in what else 200.0
        yield Figure(f"{engine}: {what}, {jobs:,} ended jobs", value * 1000, "ms", most=goal)
    yield Figure(f"{engine}: counting {jobs:,} ended jobs", seconds / jobs * 1e6, "us a job")


async def _measure(store: Store) -> tuple[dict[str, float], float]:
    await store.open()
    questions: dict[str, Callable[[], Awaitable[object]]] = {
        "statistics of an hour": lambda: store.statistics(LOCAL, Window(HOUR)),
        "statistics of a day": lambda: store.statistics(LOCAL, Window(DAY)),
        "history of a day by 15 minutes": lambda: store.history(LOCAL, Window(DAY, 15 * MINUTE)),
        "history of an hour by minutes, one task": lambda: store.history(LOCAL, Window(HOUR, MINUTE, task="task-7")),
    }
    questions["history of 12 hours by minutes"] = lambda: store.history(LOCAL, Window(12 * HOUR, MINUTE))
    first = next(iter(questions))
    found = {f"{first} from raw rows": await _seconds(questions[first], 1)}
    began = time.perf_counter()
    while await store.tally(SYSTEM, BATCH):
        pass
    counting = time.perf_counter() - began
    for what, question in questions.items():
        found[what] = await _seconds(question, REPEATS)
    await store.close()
    return found, counting


async def _seconds(question: Callable[[], Awaitable[object]], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        await question()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)
