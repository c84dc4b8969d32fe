"""How many jobs a second go in, and how many are run, against the floor of `bench.raw`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench import processes, raw
from bench.figure import Figure, Size, against_floor
from rota.clients.jobs import LARGEST_ORDER
from rota.config import Settings
from rota.model.times import SECOND
from rota.work.worker import LARGEST_CLAIM


def submit_many(folder: Path, size: Size) -> Iterator[Figure]:
    ours: list[float] = []
    floor: list[float] = []
    for run in range(size.runs):
        ours.append(
            size.jobs / processes.seconds_of("bench.load", "submit", size.jobs, store=folder / f"ours-{run}.db")
        )
        path = folder / f"floor-{run}.db"
        raw_seconds = processes.seconds_of("bench.raw", "insert", path, size.jobs, LARGEST_ORDER, store=path)
        floor.append(size.jobs / raw_seconds)
    yield against_floor(f"submit_many, {size.jobs:,} jobs", ours, floor, least=0.5)


def drain(folder: Path, size: Size) -> Iterator[Figure]:
    # Twice what one claim takes: while one half runs, the other half's ends are written.
    yield _drain(folder, size, 2 * LARGEST_CLAIM, LARGEST_CLAIM, least=0.2)


def drain_by_default(folder: Path, size: Size) -> Iterator[Figure]:
    slots = Settings().queues["default"]
    yield _drain(folder, size, slots, slots, least=None)


def _drain(folder: Path, size: Size, slots: int, batch: int, least: float | None) -> Figure:
    """The floor claims and finishes as many at a time as the node does when there is work enough."""
    ours: list[float] = []
    floor: list[float] = []
    for run in range(size.runs):
        ours.append(drained_by(folder / f"ours-{run}.db", size.jobs, slots, processes.APP))
        store = _filled(folder / f"floor-{run}.db", size.jobs)
        processes.seconds_of("bench.raw", "drain", store, size.jobs, batch, store=store)
        floor.append(rate(store, size.jobs))
    return against_floor(f"drain of {size.jobs:,} async no-ops, {slots} slots", ours, floor, least)


def drained_by(store: Path, jobs: int, slots: int, app: str) -> float:
    """Jobs a second of one node."""
    _filled(store, jobs)
    with processes.node(store, slots, app):
        processes.until(lambda: not waiting(store))
    return rate(store, jobs)


def _filled(store: Path, jobs: int) -> Path:
    connection = raw.create(str(store))
    raw.insert(connection, jobs, LARGEST_ORDER)
    connection.close()
    return store


def waiting(store: Path) -> int:
    return processes.ask(store, "SELECT EXISTS (SELECT 1 FROM jobs WHERE state IN ('ready', 'running'))")


def rate(store: Path, jobs: int) -> float:
    """Jobs a second by the stamps that either side leaves in the store: from the first start to the last end."""
    succeeded = "SELECT count(*) FROM attempts JOIN jobs ON seq = job WHERE state = 'succeeded' AND outcome = state"
    if processes.ask(store, succeeded) != jobs:
        raise RuntimeError(f"{store}: some jobs have not succeeded once and only once")
    return jobs * SECOND / processes.ask(store, "SELECT max(finished_at) - min(started_at) FROM attempts")
