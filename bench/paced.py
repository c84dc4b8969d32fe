"""How long an order takes until its function starts, at given rates.

The submitters are processes of their own, the node another; and an order leaves at its instant, whether or not those
before it have started (`bench.load`), so nothing is spared by waiting for it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from bench import processes
from bench.figure import Figure, Size

# (orders a second, seconds): enough orders for a p99 where the rate allows it.
RATES = ((1, 15.0), (10, 8.0), (50, 6.0), (200, 5.0), (1_000, 4.0))
MANY = 4
# In all, by so many processes: several connections commit in another order than they began.
TOGETHER = ((50, 6.0), (1_000, 4.0))


class Line(msgspec.Struct, frozen=True):
    """One stream of orders."""

    number: int
    rate: int  # in all
    jobs: int
    spacing: str
    submitters: int = 1
    hears: bool = False  # the submitters wait for jobs first, and so for wake-ups from then on

    @property
    def name(self) -> str:
        spaced = "evenly spaced" if self.spacing == "even" else "randomly spaced"
        by = f", {self.submitters} submitters" if self.submitters > 1 else ""
        return f"{self.rate:,}/s {spaced}{by}"


def lines(size: Size) -> list[Line]:
    """At one a second the spacing makes no difference."""
    streams = [(rate, spent, "even", 1) for rate, spent in RATES]
    streams += [(rate, spent, "random", 1) for rate, spent in RATES if rate > 1]
    streams += [(rate, spent, "random", MANY) for rate, spent in TOGETHER]
    return [
        Line(number, rate, max(int(rate * spent * size.paced), 3 * by), spacing, by)
        for number, (rate, spent, spacing, by) in enumerate(streams, start=1)
    ]


def run(line: Line, store: Path | str, settings: Mapping[str, object] | None = None) -> float:
    """Orders them all; returns by how many seconds the calls of the worst submitter came late (p99)."""
    verb, jobs, rate = "hearing" if line.hears else "paced", line.jobs // line.submitters, line.rate / line.submitters
    words = [verb, jobs, rate, line.number, line.spacing]
    command = [sys.executable, "-m", "bench.load", *map(str, words)]
    environment, pipe = processes.environment(store, **(settings or {})), subprocess.PIPE
    submitters = [
        subprocess.Popen(command, env=environment, cwd=processes.ROOT, stdin=pipe, stdout=pipe, text=True)
        for _ in range(line.submitters)
    ]
    for one in submitters:
        assert one.stdout is not None
        one.stdout.readline()
    for one in submitters:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    answers = [one.communicate()[0] for one in submitters]
    if any(one.returncode for one in submitters):
        raise RuntimeError(f"a submitter has failed: {command}")
    return max(map(float, answers))


def figures(
    wanted: Iterable[Line],
    store: Path | str,
    results: Callable[[], Sequence[str]],
    name: str,
    p50: float | None,
    p99: float | None,
) -> Iterator[Figure]:
    """`results`: what the functions of all orders so far have returned, once none is left to run."""
    for line in wanted:
        late = run(line, store)
        took = durations(results(), line)
        calls = f"calls up to {late * 1000:.1f} ms late (p99)"
        title = f"{name}, {line.name}"
        yield Figure(f"{title}: p50", statistics.median(took), "ms", most=p50, ours=f"{len(took)} orders; {calls}")
        yield Figure(f"{title}: p99", took[len(took) * 99 // 100], "ms", most=p99, ours=f"slowest {took[-1]:.1f} ms")


def durations(results: Sequence[str], line: Line) -> list[float]:
    """From order to start, in milliseconds, the quickest first."""
    answers = map(json.loads, results)
    took = sorted(seconds * 1000 for number, seconds in answers if number == line.number)
    if len(took) != line.jobs // line.submitters * line.submitters:
        raise RuntimeError(f"{len(took)} of {line.jobs} orders have started")
    return took
