"""A transaction that is open elsewhere keeps every dead row and index entry; draining must not suffer for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import psycopg

from bench.figure import Figure, Size, against_floor
from bench.postgres import raw
from bench.postgres.server import Store, nodes, server, store, work_off
from bench.postgres.throughput import SLOTS, drained, rate
from bench.processes import PATIENCE
from rota.model.times import SECOND
from tests.servers.postgres import Server


def horizon(folder: Path, size: Size) -> Iterator[Figure]:
    pinned: list[float] = []
    free: list[float] = []
    with server(folder) as one:
        jobs = size.pinned
        if size.held:
            with store(one, folder) as place:
                jobs = int(size.held * drained(place, size.drained, SLOTS))
        for _ in range(size.runs):
            free.append(_last_fifth(one, folder, jobs, size.held, pin=False))
            pinned.append(_last_fifth(one, folder, jobs, size.held, pin=True))
    name = f"PostgreSQL: last fifth of {jobs:,} jobs, horizon pinned"
    yield against_floor(name, pinned, free, least=0.8)


def _last_fifth(one: Server, folder: Path, jobs: int, held: float, pin: bool) -> float:
    """Jobs a second at the end of a drain, when most of what is dead has piled up."""
    with store(one, folder) as place:
        raw.fill(place.url, jobs)
        begun = place.now()
        with open_transaction(place) if pin else nullcontext(), nodes(place, slots=SLOTS):
            work_off(place, PATIENCE + 4 * held)
        rate(place, jobs, begun)  # for its check
        last = place.value("SELECT max(finished_at) FROM rota.history")
        before = place.value(
            "SELECT finished_at FROM rota.history ORDER BY finished_at DESC OFFSET %s LIMIT 1", jobs // 5
        )
        return jobs // 5 * SECOND / int(last - before)


@contextmanager
def open_transaction(place: Store) -> Iterator[None]:
    """As a backup or a forgotten session would: it has looked once, and may look again."""
    with psycopg.connect(place.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM rota.nodes")
        yield
        connection.rollback()
