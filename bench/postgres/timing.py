"""How fast a node is on its feet, and how punctual."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, Size
from bench.postgres.server import nodes, server, store, until_no
from rota.model.times import MILLISECOND
from tests.servers.postgres import Server

SLOTS = 1_000
LIVE = "SELECT EXISTS (SELECT FROM rota.jobs)"


def latency(folder: Path, size: Size) -> Iterator[Figure]:
    """The submitter is a process of its own; each job says how long ago it was ordered when it starts."""
    with server(folder) as one:
        for count in (1, 2):
            yield from _latency(one, folder, size.submissions, count)


def _latency(one: Server, folder: Path, submissions: int, count: int) -> Iterator[Figure]:
    with store(one, folder) as place:
        with nodes(place, count):
            submitting = place.seconds_of("bench.load", "trickle", submissions) / submissions
            until_no(place, LIVE)
        results = place.connection.execute("SELECT result FROM rota.history").fetchall()
    took = sorted(float(result) * 1000 for (result,) in results)
    name = f"PostgreSQL: submit() to start, {count} idle node{'s' * (count > 1)}, {len(took)} times"
    mean = f"submit() itself {submitting * 1000:.1f} ms"
    yield Figure(f"{name}: p50", statistics.median(took), "ms", most=4.0, ours=mean)
    yield Figure(f"{name}: p99", took[len(took) * 99 // 100], "ms", most=15.0, ours=f"slowest {took[-1]:.1f} ms")


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
            with nodes(place, slots=SLOTS):
                place.seconds_of("bench.load", "timers", size.timers, spread)
                until_no(place, LIVE)
            rows = place.connection.execute("SELECT started_at - run_at FROM rota.history").fetchall()
        late = sorted(int(microseconds) / MILLISECOND for (microseconds,) in rows)
        worst.append(late[len(late) * 99 // 100])
        middle.append(statistics.median(late))
        early += sum(one < 0 for one in late)
    when = f"over {spread:g} s" if spread else "at one instant"
    name = f"PostgreSQL: {size.timers:,} due {when}, {SLOTS} slots"
    parts = f"p50 {statistics.median(middle):.1f} ms"
    yield Figure(f"{name}: p99 late", statistics.median(worst), "ms", most=most, ours=parts, runs=worst)
    yield Figure(f"{name}: early", early, "jobs", most=0)
