"""Sync functions in warm processes: how many a second, and what the processes cost while they wait."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench import against_rq, processes
from bench.figure import Figure, Size, against_floor
from bench.peers import home
from bench.quiet import SETTLING
from bench.throughput import drained_by
from rota.work.worker import LARGEST_CLAIM

APP = "bench.functions_load:app"
LEAST = 4_000.0  # a second
WARM = 4
MOST = 200.0  # MB
SLOTS = 2 * LARGEST_CLAIM  # as in the drain of async ones


def sync_noops(folder: Path, size: Size) -> Iterator[Figure]:
    ways = against_rq.WAYS if home.set_up() else ()
    ours: list[float] = []
    theirs: dict[against_rq.Way, list[float]] = {way: [] for way in ways}
    for run in range(size.runs):
        ours.append(drained_by(folder / f"sync-{run}.db", size.jobs, SLOTS, APP))
        for number, way in enumerate(ways):
            theirs[way].append(against_rq.drained(folder / f"rq-{run}-{number}", way, size))
    yield figure(f"{size.jobs:,} sync no-ops in warm processes, {SLOTS} slots", ours)
    for way, rates in theirs.items():
        yield against_floor(f"the same against RQ, {way.name}", ours, rates, way.least)


def figure(name: str, rates: list[float]) -> Figure:
    return Figure(name, statistics.median(rates), "/s", least=LEAST, runs=rates)


def idle(folder: Path, size: Size) -> Iterator[Figure]:
    with processes.node(folder / "idle.db", app=APP, warm_processes=WARM) as pid:
        processes.until(
            lambda: len(processes.family(pid)) >= 1 + 2 + 1 + WARM
        )  # node; keeper, warden; fork server; these
        time.sleep(SETTLING)
        node, *others = (processes.pss_bytes(one) / 1e6 for one in processes.family(pid))
    parts = f"node {node:.1f}, others {sum(others):.1f}"
    name = f"idle rota up with {WARM} warm processes, PSS of all its processes"
    yield Figure(name, node + sum(others), "MB", most=MOST, ours=parts)
