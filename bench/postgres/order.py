"""What order and admission cost: crowds that may not run, jobs that wait for each other, jobs with keys.

Fillers are ordered by programs of their own, through the SDK (`bench.postgres.ordering`), before the node is there.
Rates are by the stamps in the store, from the first start to the last end.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import processes
from bench.figure import Figure, Size, against_floor
from bench.postgres import raw
from bench.postgres.ordering import SIDE
from bench.postgres.server import Store, nodes, server, store, until_gone, until_no, work_off
from bench.postgres.throughput import SLOTS, drained, rate
from rota.model.times import MILLISECOND
from tests.servers.postgres import Server

ORDERING = "bench.postgres.ordering"
# The last of them is the holder of the key, which never ends.
AT_WORK = """
SELECT EXISTS (SELECT FROM rota.jobs WHERE state = 'ready')
    OR EXISTS (SELECT FROM rota.jobs WHERE node IS NOT NULL AND task <> 'hold')"""


# -- crowds -----------------------------------------------------------------------------------------------------------
def behind(folder: Path, size: Size) -> Iterator[Figure]:
    """The same drain on both, with the same holder of a key beside it; on one of them the crowd waits for that key, and
    another one behind a gate."""
    ours: list[float] = []
    floor: list[float] = []
    with ExitStack() as stack:
        one = stack.enter_context(server(folder))
        crowded, empty = (stack.enter_context(store(one, folder)) for _ in range(2))
        for place in (crowded, empty):
            stack.enter_context(_door_held(place))
        crowded.seconds_of(ORDERING, "behind-key", size.crowd)
        crowded.seconds_of(ORDERING, "behind-gate", size.crowd)
        yield _aside(crowded, size.crowd)
        for _ in range(size.runs):
            floor.append(_drained_beside(empty, size.drained))
            ours.append(_drained_beside(crowded, size.drained))
    name = f"PostgreSQL: drain with {size.crowd:,} behind a key, {size.crowd:,} behind a gate"
    yield against_floor(name, ours, floor, least=0.9)


@contextmanager
def _door_held(place: Store) -> Iterator[None]:
    """By a node of its own, which does nothing else and is killed in the end: the key must never become free."""
    place.seconds_of(ORDERING, "holder")
    command = [*processes.UP, "--app", processes.APP, "--queues", f"{SIDE}:1", "--roles", "worker"]
    with processes.killed_at_last(command, place.url, place.folder / f"holder-{place.name}.log"):
        processes.until(lambda: place.value("SELECT EXISTS (SELECT FROM rota.jobs WHERE task = 'hold' AND node <> '')"))
        yield


def _aside(place: Store, jobs: int) -> Figure:
    """How long it takes until none of them is in the way of claims any more. (Nothing starts meanwhile: claims see to
    that.)"""
    begun = time.perf_counter()
    with nodes(place, others=1):
        processes.until(lambda: not place.value(AT_WORK))
        took = time.perf_counter() - begun
    held = place.value("SELECT count(*) FROM rota.jobs WHERE state = 'held'")
    if held != 2 * jobs:
        raise RuntimeError(f"{held} of {2 * jobs} jobs are held")
    place.run("VACUUM (ANALYZE) rota.jobs")
    place.run("CHECKPOINT")
    return Figure(f"PostgreSQL: {jobs:,} ready jobs set aside by a gate, with start of a node", took, "s")


def _drained_beside(place: Store, jobs: int) -> float:
    raw.fill(place.url, jobs)
    begun = place.now()
    with nodes(place, slots=SLOTS, others=1):
        work_off(place, at_work=AT_WORK)
    return rate(place, jobs, begun)


# -- jobs that wait for each other ------------------------------------------------------------------------------------
def graphs(folder: Path, size: Size) -> Iterator[Figure]:
    jobs = size.fan + 1
    rates: dict[str, list[float]] = {"fan-out": [], "fan-in": [], "none": []}
    with server(folder) as one:
        for _ in range(size.runs):
            for verb in ("fan-out", "fan-in"):
                with store(one, folder) as place:
                    rates[verb].append(_ordered(place, jobs, verb, jobs))
            with store(one, folder) as place:
                rates["none"].append(drained(place, jobs, SLOTS))
        for verb in ("fan-out", "fan-in"):
            name = f"PostgreSQL: {size.fan:,}-way {verb}, against independent jobs"
            yield against_floor(name, rates[verb], rates["none"], least=0.5)
        yield _chain(one, folder, size)


def _ordered(place: Store, jobs: int, verb: str, *arguments: object) -> float:
    """Jobs a second of one node."""
    place.seconds_of(ORDERING, verb, *arguments)
    begun = place.now()
    with nodes(place, slots=SLOTS):
        until_gone(place, "SELECT id FROM rota.jobs ORDER BY id DESC LIMIT 1")
        until_no(place, "SELECT EXISTS (SELECT FROM rota.jobs)")
    return rate(place, jobs, begun)


def _chain(one: Server, folder: Path, size: Size) -> Figure:
    middle: list[float] = []
    slowest: list[float] = []
    for _ in range(size.runs):
        with store(one, folder) as place:
            _ordered(place, size.chain, "chain", size.chain)
            links = "SELECT started_at - lag(started_at) OVER (ORDER BY started_at) FROM rota.history"
            rows = place.connection.execute(links).fetchall()
        took = sorted(int(link) / MILLISECOND for (link,) in rows if link is not None)
        middle.append(statistics.median(took))
        slowest.append(took[len(took) * 99 // 100])
    name = f"PostgreSQL: chain of {size.chain:,} jobs, start to start: p50"
    p99 = f"p99 {statistics.median(slowest):.1f} ms"
    return Figure(name, statistics.median(middle), "ms", most=5.0, ours=p99, runs=middle)


# -- jobs with keys ---------------------------------------------------------------------------------------------------
def keys(folder: Path, size: Size) -> Iterator[Figure]:
    jobs, count = size.keyed, min(size.keys, size.keyed)
    rates: dict[str, list[float]] = {"keyed": [], "plain": []}
    with server(folder) as one:
        for _ in range(size.runs):
            for verb, found in rates.items():
                with store(one, folder) as place:
                    found.append(_ordered(place, jobs, verb, jobs, count))
    name = f"PostgreSQL: drain of {jobs:,} jobs over {count:,} mutex keys, against none"
    yield against_floor(name, rates["keyed"], rates["plain"], least=0.4)
