"""How fast a node is on its feet, and how punctual."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import paced, processes
from bench.figure import Figure, Size
from bench.postgres.server import Store, nodes, server, store, until_no
from rota.model.times import MILLISECOND
from tests.servers.postgres import Server

SLOTS = 1_000
# The rates at which two nodes are measured too: both are woken, and one of them claims.
SHARED = (50, 200)
LIVE = "SELECT EXISTS (SELECT FROM rota.jobs)"


def latency(folder: Path, size: Size) -> Iterator[Figure]:
    """With one idle node at all rates, and with two at some."""
    with server(folder) as one:
        yield from _latency(one, folder, paced.lines(size), 1)
        yield from _latency(one, folder, [line for line in paced.lines(size) if line.rate in SHARED], 2)


def _latency(one: Server, folder: Path, lines: Sequence[paced.Line], count: int) -> Iterator[Figure]:
    with store(one, folder) as place, nodes(place, count):

        def results() -> list[str]:
            until_no(place, LIVE)
            return [result for (result,) in place.connection.execute("SELECT result FROM rota.history").fetchall()]

        name = f"PostgreSQL: submit to start, {count} idle node{'s' * (count > 1)}"
        yield from paced.figures(lines, place.url, results, name, 5.0, 20.0)


def timers(folder: Path, size: Size) -> Iterator[Figure]:
    with server(folder) as one:
        yield from _timers(one, folder, size, size.spread, 15.0)
        yield from _timers(one, folder, size, 0.0, 200.0)


def _timers(one: Server, folder: Path, size: Size, spread: float, most: float) -> Iterator[Figure]:
    """All in the server's time: when each was due, and when it was started."""
    worst: list[float] = []
    middle: list[float] = []
    early = 0
    for _ in range(size.runs):
        with store(one, folder) as place:
            late = lateness(place, size.timers, spread)
        worst.append(late[len(late) * 99 // 100])
        middle.append(statistics.median(late))
        early += sum(one < 0 for one in late)
    when = f"over {spread:g} s" if spread else "at one instant"
    name = f"PostgreSQL: {size.timers:,} due {when}, {SLOTS} slots"
    parts = f"p50 {statistics.median(middle):.1f} ms"
    yield Figure(f"{name}: p99 late", statistics.median(worst), "ms", most=most, ours=parts, runs=worst)
    yield Figure(f"{name}: early", early, "jobs", most=0)


def lateness(place: Store, timers: int, spread: float, told: bool = True) -> list[float]:
    """How late each of so many timers was started by one node, in ms; the least late first. `told`: whoever orders them
    has the settings of the node."""
    with nodes(place, slots=SLOTS):
        settings = place.settings if told else {}
        processes.seconds_of("bench.load", "timers", timers, spread, store=place.url, **settings)
        until_no(place, LIVE)
    rows = place.connection.execute("SELECT started_at - run_at FROM rota.history").fetchall()
    return sorted(int(microseconds) / MILLISECOND for (microseconds,) in rows)
