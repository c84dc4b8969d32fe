"""How many jobs a second are run with the hot tier, and after its loss."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import processes
from bench.figure import Figure, Size
from bench.hot.pair import SETTLING, Pair, beside, named, pair
from bench.paced import Line, run
from bench.postgres import raw
from bench.postgres.server import Store, nodes, until_no, work_off
from bench.postgres.throughput import SLOTS, rate
from bench.postgres.timing import LIVE
from rota.config import Settings
from rota.model.times import MILLISECOND, SECOND

DRAIN, AFTER_FAULT = 1.0, 0.9
# Seconds after the loss of the hot tier by which nothing is to be noticed any more.
RECOVERED = 3.0
# Fewer jobs would be over by then.
LEAST_JOBS = 20_000
# The stream of orders that it is lost in.
ORDERS, BEFORE, AFTER = 200, 4.0, 8.0


def drain(folder: Path, size: Size) -> Iterator[Figure]:
    """Of jobs that are there already, by a node that has relied on the hot tier for a while."""
    with pair(folder) as both:
        for slots in (Settings().queues["default"], SLOTS):
            rates: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(size.runs):
                for hot, runs in rates.items():
                    with both.store(hot) as place, nodes(place, slots=slots):
                        runs.append(_drained(place, size.drained))
            name = f"drain of {size.drained:,} async no-ops, {slots} slots"
            yield beside(name, rates[True], rates[False], "/s", least=DRAIN)


def _drained(place: Store, jobs: int) -> float:
    time.sleep(SETTLING)
    begun = place.now()
    raw.fill(place.url, jobs)
    work_off(place)
    return rate(place, jobs, begun)


def fault(folder: Path, size: Size) -> Iterator[Figure]:
    with pair(folder) as both:
        yield from _drain_after_fault(both, size)
        yield from _orders_after_fault(both, size)


def _drain_after_fault(both: Pair, size: Size) -> Iterator[Figure]:
    """The node has the default slots, so that there is enough left to run after the fault."""
    jobs = max(size.drained, LEAST_JOBS)
    shortly: dict[bool, list[float]] = {True: [], False: []}
    later: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(size.runs):
        for hot in (True, False):
            with both.store(hot) as place, nodes(place):
                time.sleep(SETTLING)
                raw.fill(place.url, jobs)
                third: int = jobs // 3
                processes.until(lambda: place.value("SELECT count(*) FROM rota.history") > third)  # noqa: B023
                lost = place.now()
                if hot:
                    both.valkey.kill()
                work_off(place)
                shortly[hot].append(_ended(place, lost, lost + round(RECOVERED * SECOND)))
                later[hot].append(_ended(place, lost + round(RECOVERED * SECOND), None))
            if hot:
                both.valkey.start()
    name = f"drain of {jobs:,} async no-ops, the hot tier is killed"
    yield beside(f"{name}: first {RECOVERED:g} s", shortly[True], shortly[False], "/s")
    yield beside(f"{name}: after {RECOVERED:g} s", later[True], later[False], "/s", least=AFTER_FAULT)


def _ended(place: Store, first: int, last: int | None) -> float:
    """Jobs that ended in this time, a second; by their last end if it is open."""
    count, until = place.row(
        "SELECT count(*), max(finished_at) FROM rota.history WHERE finished_at >= %s AND finished_at < %s",
        first, last or 1 << 60,
    )  # fmt: skip
    return int(count) * SECOND / ((last or int(until or first + SECOND)) - first)


def _orders_after_fault(both: Pair, size: Size) -> Iterator[Figure]:
    """How late jobs start that are ordered before and after it, by the stamps in the store. The program that orders
    them relies on the hot tier too."""
    parts: dict[str, dict[bool, list[float]]] = {
        title: {True: [], False: []}
        for title in ("before", f"within {RECOVERED:g} s after", f"later than {RECOVERED:g} s after")
    }
    for _ in range(size.runs):
        for hot in (True, False):
            with both.store(hot) as place, nodes(place):
                time.sleep(SETTLING)
                lost = _order_through_fault(both, place, hot)
                rows = place.connection.execute(
                    "SELECT created_at - %s, started_at - created_at FROM rota.history"
                    " WHERE task = 'latency' AND created_at >= %s",
                    (lost, lost - round(BEFORE / 2 * SECOND)),
                ).fetchall()
            if hot:
                both.valkey.start()
            for title, late in zip(parts, _apart(rows), strict=True):
                parts[title][hot].append(late)
    for title, found in parts.items():
        name = f"{ORDERS}/s ordered {title} the hot tier is killed: p99 to start"
        for hot in (True, False):
            yield Figure(named(name, hot), statistics.median(found[hot]), "ms", runs=found[hot])


def _order_through_fault(both: Pair, place: Store, hot: bool) -> int:
    """Returns when the hot tier was killed, or would have been."""
    line = Line(1, ORDERS, int(ORDERS * (BEFORE + AFTER)), "random", hears=True)
    orders = threading.Thread(target=run, args=(line, place.url, place.settings))
    orders.start()
    ordered = "SELECT (SELECT count(*) FROM rota.jobs) + (SELECT count(*) FROM rota.history) > %s"
    processes.until(lambda: bool(place.value(ordered, ORDERS * BEFORE)))
    lost = place.now()
    if hot:
        both.valkey.kill()
    orders.join()
    until_no(place, LIVE)
    return lost


def _apart(rows: Sequence[tuple[int, ...]]) -> list[float]:
    """p99 in ms of those before, shortly after and long after."""
    groups: list[list[float]] = [[], [], []]
    for after, late in rows:
        groups[0 if after < 0 else 1 if after < RECOVERED * SECOND else 2].append(late / MILLISECOND)
    return [sorted(group)[len(group) * 99 // 100] for group in groups]
