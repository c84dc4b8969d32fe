"""What the settings that trade latency against cost are worth: slots (the size of a batch) and claiming ahead.

Each is set against the default, in turns.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, Size
from bench.postgres import raw
from bench.postgres.server import Store, nodes, server, store, work_off
from bench.postgres.throughput import rate
from rota.config import Settings
from tests.servers.postgres import Server

SLOTS = (4, 64, 256, 1_000)
AHEAD = (16, 64, 256)


def tuning(folder: Path, size: Size) -> Iterator[Figure]:
    with server(folder) as one:
        yield from _throughput(one, folder, size)


def _throughput(one: Server, folder: Path, size: Size) -> Iterator[Figure]:
    usual = Settings().queues["default"]
    ways = [(slots, 0) for slots in (usual, *SLOTS)] + [(usual, ahead) for ahead in AHEAD]
    rates: dict[tuple[int, int], list[float]] = {way: [] for way in ways}
    statements: dict[tuple[int, int], float] = {}
    for _ in range(size.runs):
        for way, found in rates.items():
            with store(one, folder) as place:
                found.append(_drained(place, size.jobs, *way))
                statements[way] = _commits(place) / size.jobs
    floor = rates[usual, 0]
    for (slots, ahead), found in rates.items():
        ratios = [ours / other for ours, other in zip(found, floor, strict=True)]
        name = f"PostgreSQL: drain with {slots} slots, prefetch {ahead}, against {usual} and 0"
        per_job = f"{statistics.median(found):,.0f}/s, {1000 * statements[slots, ahead]:.0f} commits per 1,000 jobs"
        yield Figure(name, statistics.median(ratios), "x", ours=per_job, runs=ratios)


def _drained(place: Store, jobs: int, slots: int, ahead: int) -> float:
    raw.fill(place.url, jobs)
    place.run("SELECT pg_stat_reset()")
    begun = place.now()
    with nodes(place, slots=slots, prefetch=ahead):
        work_off(place)
    return rate(place, jobs, begun)


def _commits(place: Store) -> float:
    """By any who works on this database; those who look on take few."""
    return float(place.value("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"))
