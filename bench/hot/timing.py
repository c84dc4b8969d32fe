"""How punctual nodes are, and how fast on their feet."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.figure import Figure, Size
from bench.hot.pair import SETTLING, Pair, beside, named, pair
from bench.paced import Line, durations, run
from bench.postgres.server import Store, nodes, until_no
from bench.postgres.timing import LIVE, lateness

P99_LATE, LAST_LATE, P50_LATENCY = 5.0, 150.0, 2.5
# (orders a second, seconds)
RATES = ((20, 10.0), (50, 6.0), (200, 5.0), (1_000, 4.0))
# What naps return is no list.
RESULTS = "SELECT result FROM rota.history WHERE task = 'latency'"
# A step between 200 a second and all at once.
DENSE = 1.0


def timers(folder: Path, size: Size) -> Iterator[Figure]:
    with pair(folder) as both:
        yield from _timers(both, size, size.spread, 0.99, P99_LATE)
        yield from _timers(both, size, DENSE, 0.99, None)
        yield from _timers(both, size, 0.0, 1.0, LAST_LATE)
        yield from _untold(both, size)


def _timers(both: Pair, size: Size, spread: float, part: float, most: float | None) -> Iterator[Figure]:
    found: dict[bool, list[list[float]]] = {True: [], False: []}
    for _ in range(size.runs):
        for hot, runs in found.items():
            with both.store(hot) as place:
                runs.append(lateness(place, size.timers, spread))
    when = f"over {spread:g} s" if spread else "at one instant"
    title = f"{size.timers:,} timers {when}"
    measured = "last started" if part == 1 else f"p{part * 100:g} late"
    ends = {hot: [late[min(int(len(late) * part), len(late) - 1)] for late in runs] for hot, runs in found.items()}
    for hot, runs in found.items():
        parts = f"p50 {statistics.median(statistics.median(late) for late in runs):.1f} ms"
        name = named(f"{title}, {measured}", hot)
        yield Figure(name, statistics.median(ends[hot]), "ms", most=most if hot else None, ours=parts, runs=ends[hot])
    yield beside(f"{title}, {measured}", ends[True], ends[False], "ms")
    yield Figure(named(f"{title}, early", True), sum(one < 0 for late in found[True] for one in late), "jobs", most=0)


def _untold(both: Pair, size: Size) -> Iterator[Figure]:
    """Timers that the heap is not told of: of a program that has no hot tier. The leader reads them ahead."""
    worst: list[float] = []
    for _ in range(size.runs):
        with both.store(True) as place:
            late = lateness(place, size.timers, size.spread, told=False)
            worst.append(late[len(late) * 99 // 100])
    name = named(f"{size.timers:,} timers over {size.spread:g} s of a program without it, p99 late", True)
    yield Figure(name, statistics.median(worst), "ms", runs=worst)


def latency(folder: Path, size: Size) -> Iterator[Figure]:
    """One idle node with each. A program that only orders jobs uses the database's wake-ups; one that waits for jobs
    too, such as a server, those of the hot tier."""
    with pair(folder) as both, both.store(True) as ours, both.store(False) as other, nodes(ours), nodes(other):
        time.sleep(SETTLING)
        places = {True: ours, False: other}
        number = 0
        for hears in (True, False):
            for rate, spent in RATES:
                jobs = max(int(rate * spent * size.paced), 3)
                lines = [Line(number + turn + 1, rate, jobs, "random", hears=hears) for turn in range(size.runs)]
                number += size.runs
                yield from _line(places, lines)


def _line(places: Mapping[bool, Store], lines: list[Line]) -> Iterator[Figure]:
    """`lines`: the turns of one stream of orders."""
    middle: dict[bool, list[float]] = {True: [], False: []}
    worst: dict[bool, list[float]] = {True: [], False: []}
    for line in lines:
        for hot, place in places.items():
            run(line, place.url, place.settings)
            until_no(place, LIVE)
            results = [result for (result,) in place.connection.execute(RESULTS).fetchall()]
            took = durations(results, line)
            middle[hot].append(statistics.median(took))
            worst[hot].append(took[len(took) * 99 // 100])
    who = "a program that hears" if lines[0].hears else "a program that only orders"
    title = f"submit to start, {lines[0].rate:,}/s, {who}"
    for hot in (True, False):
        goal = P50_LATENCY if hot else None
        parts = f"p99 {statistics.median(worst[hot]):.1f} ms"
        p50 = statistics.median(middle[hot])
        yield Figure(named(f"{title}: p50", hot), p50, "ms", most=goal, ours=parts, runs=middle[hot])
    yield beside(f"{title}: p50", middle[True], middle[False], "ms")
    yield beside(f"{title}: p99", worst[True], worst[False], "ms")
