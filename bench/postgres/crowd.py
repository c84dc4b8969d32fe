"""Tables that are full before anything begins: what waits for its time, and what has ended."""

from __future__ import annotations

import msgspec

from bench.payload import ARGUMENTS
from bench.postgres.server import Store
from rota.model.job import Spec
from rota.model.retry import Retry
from rota.model.times import DAY

# The ended ones lie that far apart: a million of them reach back to yesterday, for which there is a partition too.
APART = 50_000


def fill(place: Store, jobs: int) -> None:
    """So many scheduled from tomorrow on, and so many that have succeeded. Swept and written to disk afterwards, so
    that the server doesn't do that while it is measured."""
    spec, retry, now = Spec.function("noop"), msgspec.json.encode(Retry()).decode(), place.now()
    content = (spec.body, spec.digest, ARGUMENTS, retry)
    place.run("SET synchronous_commit = off")
    place.run(
        """
        INSERT INTO rota.jobs (id, owner, state, queue, kind, task, priority, rank, run_at, created_at,
                               spec, digest, args, retry)
        SELECT rota.new_id(%s), 'local', 'scheduled', 'default', 'function', 'noop', 5, at, at, %s, %s, %s, %s, %s
        FROM (SELECT %s + n * 1000 AS at FROM generate_series(1, %s::bigint) n) one""",
        now, now, *content, now + DAY, jobs,
    )  # fmt: skip
    place.run(
        """
        INSERT INTO rota.history (id, owner, state, queue, kind, task, priority, rank, run_at, created_at, started_at,
                                  fence, tries, node, spec, digest, args, retry, finished_at, outcome, result, lasting)
        SELECT rota.new_id(at), 'local', 'succeeded', 'default', 'function', 'noop', 5, at, at, at, at,
               1, 1, 'node-of-old', %s, %s, %s, %s, at, 'succeeded', 'null', false
        FROM (SELECT %s - n * %s AS at FROM generate_series(1, %s::bigint) n) one""",
        *content, now, APART, jobs,
    )  # fmt: skip
    place.run("VACUUM (ANALYZE) rota.jobs")
    place.run("VACUUM (ANALYZE) rota.history")
    place.run("CHECKPOINT")
