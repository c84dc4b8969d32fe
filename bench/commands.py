"""`/bin/true` as a job, against a bare loop that starts it and waits: what a command costs beyond its own process.

`python -m bench.commands JOBS [BOUND=VALUE...]` orders them and prints the seconds that this took; the loop is
`bench.starting`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import rota
from bench import processes
from bench.figure import Figure, Size, against_floor
from bench.quiet import SETTLING
from bench.starting import PROGRAM
from bench.throughput import rate, waiting
from rota.model.options import Options

BOUNDS = ("files=100", "memory=1GiB", "file_size=1GiB")


def commands(folder: Path, size: Size) -> Iterator[Figure]:
    """Session, no_new_privs, no core and a private folder are always there; bounds are what an order may add."""
    for name, words in (("", ()), (" with bounds", BOUNDS)):
        ours: list[float] = []
        floor: list[float] = []
        for run in range(size.runs):
            store = folder / f"commands-{len(words)}-{run}.db"
            with processes.node(store):
                time.sleep(SETTLING)  # what a node does once, when it starts, is no part of a command
                processes.seconds_of("bench.commands", size.commands, *words, store=store)
                processes.until(lambda: not waiting(store))  # noqa: B023 - it is called before the next round
            ours.append(rate(store, size.commands))
            floor.append(_loop("spawn", size.commands))
        yield against_floor(
            f"{size.commands:,} commands{name}, against a bare posix_spawn loop", ours, floor, least=0.5
        )


def starts(folder: Path, size: Size) -> Iterator[Figure]:
    """Ways to start a process with limits, against one without."""
    for way, what in (("prlimit", "posix_spawn, limits from outside"), ("fork", "fork, limits from inside")):
        ours, floor = [], []
        for _ in range(size.runs):
            ours.append(_loop(way, size.commands))
            floor.append(_loop("spawn", size.commands))
        yield against_floor(f"{what}: against posix_spawn without", ours, floor, least=None)


def _loop(way: str, count: int) -> float:
    return count / processes.seconds_of("bench.starting", way, count, store="")


async def order(count: int, bounds: list[str]) -> float:
    begun = time.perf_counter()
    async with rota.App() as app:
        spec, task = app._core.command([PROGRAM], resources=dict(word.split("=") for word in bounds))
        await app._core.submit_orders(spec, task, ["{}"] * count, Options())
    return time.perf_counter() - begun


if __name__ == "__main__":
    print(asyncio.run(order(int(sys.argv[1]), sys.argv[2:])))
