"""How many jobs a second go in and are run, against the floor of `bench.postgres.raw`; and in full tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench import processes
from bench.figure import Figure, Size, against_floor
from bench.postgres import crowd, raw
from bench.postgres.server import Store, nodes, server, store, work_off
from rota.config import Settings
from rota.model.times import SECOND
from rota.work.worker import LARGEST_CLAIM
from tests.servers.postgres import Server

BATCH = 500
# Twice what one claim takes: while one half runs, the other half's ends are written.
SLOTS = 2 * LARGEST_CLAIM


def submit_many(folder: Path, size: Size) -> Iterator[Figure]:
    jobs = size.drained
    ours: list[float] = []
    floor: list[float] = []
    with server(folder) as one:
        for _ in range(size.runs):
            with store(one, folder) as place:
                ours.append(jobs / place.seconds_of("bench.load", "submit", jobs))
            with store(one, folder) as place:
                floor.append(jobs / place.seconds_of("bench.postgres.raw", "insert", jobs, BATCH))
    yield against_floor(f"PostgreSQL: submit_many, {jobs:,} jobs", ours, floor, least=0.6)


def drain(folder: Path, size: Size) -> Iterator[Figure]:
    with server(folder) as one:
        yield _against_raw(one, folder, size, SLOTS, BATCH, least=0.4)
        slots = Settings().queues["default"]
        yield _against_raw(one, folder, size, slots, slots, least=None)


def _against_raw(one: Server, folder: Path, size: Size, slots: int, batch: int, least: float | None) -> Figure:
    """The floor claims and finishes as many at a time as the node does when there is work enough."""
    jobs = size.drained
    ours: list[float] = []
    floor: list[float] = []
    for _ in range(size.runs):
        with store(one, folder) as place:
            ours.append(drained(place, jobs, slots))
        with store(one, folder) as place:
            raw.fill(place.url, jobs)
            begun = place.now()
            place.seconds_of("bench.postgres.raw", "drain", jobs, batch)
            floor.append(rate(place, jobs, begun))
    return against_floor(f"PostgreSQL: drain of {jobs:,} async no-ops, {slots} slots", ours, floor, least)


def full(folder: Path, size: Size) -> Iterator[Figure]:
    """The crowded database is built once and used by all runs: what they add to it is little beside what is there."""
    ours: list[float] = []
    floor: list[float] = []
    with ExitStack() as stack:
        one = stack.enter_context(server(folder))
        crowded = stack.enter_context(store(one, folder))
        crowd.fill(crowded, size.waiting)
        for _ in range(size.runs):
            ours.append(drained(crowded, size.drained, SLOTS))
            with store(one, folder) as empty:
                floor.append(drained(empty, size.drained, SLOTS))
    name = f"PostgreSQL: drain among {size.waiting:,} scheduled and {size.waiting:,} ended jobs"
    yield against_floor(name, ours, floor, least=0.9)


def drained(place: Store, jobs: int, slots: int | None, app: str = processes.APP) -> float:
    """Jobs a second of one node."""
    raw.fill(place.url, jobs)
    begun = place.now()
    with nodes(place, slots=slots, app=app):
        work_off(place)
    return rate(place, jobs, begun)


def rate(place: Store, jobs: int, begun: int) -> float:
    """By the stamps that either side leaves in the store: from the first start to the last end."""
    done, length = place.row(
        "SELECT count(DISTINCT id), max(finished_at) - min(started_at) FROM rota.history"
        " WHERE finished_at >= %s AND state = 'succeeded' AND tries = 1",
        begun,
    )
    if done != jobs:
        raise RuntimeError(f"{done} of {jobs} jobs have succeeded once and only once")
    return jobs * SECOND / int(length)
