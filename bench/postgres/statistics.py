"""How long statistics take with a million ended jobs on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench import statistics
from bench.figure import Figure, Size
from bench.postgres.server import server, store
from rota.clock import Chance, SystemClock
from rota.store.postgres import PostgresStore

_INSERT = """
INSERT INTO rota.history (id, owner, state, queue, kind, task, priority, rank, run_at, created_at, started_at,
                          finished_at, fence, tries, spec, digest, args, retry, lasting)
SELECT gen_random_uuid(), 'local', CASE WHEN i %% 50 = 0 THEN 'failed' ELSE 'succeeded' END, 'queue-' || (i %% 3),
       'function', 'task-' || (i %% %(tasks)s), 5, 0, at, at, at + i %% 9000, at + i %% 9000 + i %% 70000, 1, 1,
       '{}', '', '{}', '{}', i %% 50 = 0
FROM (SELECT i, %(now)s::bigint - %(span)s + i * (%(span)s / %(jobs)s) AS at
      FROM generate_series(1, %(jobs)s) AS n(i)) AS given"""


def reading(folder: Path, size: Size) -> Iterator[Figure]:
    with server(folder) as one, store(one, folder) as place:
        values = {"now": place.now(), "span": statistics.SPAN, "tasks": statistics.TASKS, "jobs": size.waiting}
        place.connection.execute(_INSERT, values)
        place.run("VACUUM ANALYZE rota.history")
        yield from statistics.figures(
            lambda: PostgresStore(place.url, SystemClock(), Chance()), "PostgreSQL", size.waiting
        )
