"""What a claim costs while functions of another app are ready in front of a node's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.claims import beside_foreign, take_turns
from bench.figure import Figure, Size
from bench.payload import ARGUMENTS
from bench.postgres.server import Store, server, store
from rota.clock import Chance, SystemClock
from rota.model.job import Spec
from rota.model.retry import Retry
from rota.store.postgres import PostgresStore


def foreign(folder: Path, size: Size) -> Iterator[Figure]:
    with ExitStack() as stack:
        one = stack.enter_context(server(folder))
        alone, crowded = (stack.enter_context(store(one, folder)) for _ in range(2))
        _fill(crowded, size.waiting)
        for batch in (100, 1):
            chance = Chance()
            places = [PostgresStore(place.url, SystemClock(), chance) for place in (alone, crowded)]
            took = asyncio.run(take_turns(places, batch, size.claims))
            yield beside_foreign("PostgreSQL: ", size.waiting, batch, *took)


def _fill(place: Store, jobs: int) -> None:
    spec, retry = Spec.function("foreign"), msgspec.json.encode(Retry()).decode()
    place.run("SET synchronous_commit = off")
    place.run(
        """
        INSERT INTO rota.jobs (id, owner, state, queue, kind, task, priority, rank, run_at, created_at,
                               spec, digest, args, retry)
        SELECT rota.new_id(%s), 'local', 'ready', 'default', 'function', 'foreign', 5, n, n, n, %s, %s, %s, %s
        FROM generate_series(1, %s::bigint) n""",
        place.now(), spec.body, spec.digest, ARGUMENTS, retry, jobs,
    )  # fmt: skip
    place.run("VACUUM (ANALYZE) rota.jobs")
    place.run("CHECKPOINT")
