"""What a node costs while it has nothing to do, and how fast it is on its feet when something comes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from bench import paced, processes
from bench.figure import Figure, Size
from bench.throughput import waiting

# What comes with the start is not idleness.
SETTLING = 2.0


def idle(folder: Path, size: Size) -> Iterator[Figure]:
    with processes.node(folder / "idle.db") as pid:
        time.sleep(SETTLING)
        family = processes.family(pid)
        before, begun = processes.cpu_seconds(family), time.perf_counter()
        time.sleep(size.idle)
        share = (processes.cpu_seconds(family) - before) / (time.perf_counter() - begun)
        node, *keeper = (processes.pss_bytes(one) / 1e6 for one in family)
    yield Figure(f"idle rota up, part of a core over {size.idle:g} s", share * 100, "%", most=1.0)
    parts = f"node {node:.1f}, keeper {sum(keeper):.1f}"
    yield Figure("idle rota up, PSS of its processes", node + sum(keeper), "MB", most=80.0, ours=parts)


def latency(folder: Path, size: Size) -> Iterator[Figure]:
    store = folder / "latency.db"

    def results() -> list[str]:
        processes.until(lambda: not waiting(store))
        return [result for (result,) in processes.rows(store, "SELECT result FROM attempts")]

    with processes.node(store):
        yield from paced.figures(paced.lines(size), store, results, "submit to start, one idle node", 5.0, 25.0)
