"""How much less the database is asked: by idle nodes, and by jobs that tell their progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import processes
from bench.figure import Figure, Size
from bench.hot.pair import Pair, beside, named, pair
from bench.load import REPORTS
from bench.postgres.quiet import LOGGED, STATEMENT
from bench.postgres.server import Store, nodes
from rota.model.times import SECOND

IDLE, OF_REPORTS = 0.3, 50.0
PROCESSES, TASKS = 8, 50
REPORTERS = 200
# More connections than the default: each of the nodes in one process has its own.
ROOM = {"max_connections": 500}


def statements(folder: Path, size: Size) -> Iterator[Figure]:
    with pair(folder, **LOGGED, **ROOM) as both:
        yield from _idle(both, size, PROCESSES, in_one=False, most=None)
        yield from _idle(both, size, TASKS, in_one=True, most=IDLE)
        yield from _reports(both, size)


def _idle(both: Pair, size: Size, count: int, in_one: bool, most: float | None) -> Iterator[Figure]:
    """One after the other in one run: what is counted does not depend on how busy the machine is."""
    found: dict[bool, float] = {}
    title = f"{count} idle nodes in {'one process' if in_one else 'processes'}, statements"
    for hot in (True, False):
        with both.store(hot) as place, _crowd(place, count) if in_one else nodes(place, count):
            time.sleep(size.settling)
            found[hot] = _a_second(both, size.watched)
        yield Figure(named(title, hot), found[hot], "/s", ours=f"each {found[hot] / count:.2f}")
    yield beside(title, [found[True]], [found[False]], "/s", most=most)


@contextmanager
def _crowd(place: Store, count: int) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.hot.crowd", str(count)]
    environment = processes.environment(place.url, **place.settings)
    with processes.program(command, environment, place.folder / f"crowd-{place.name}.log") as one:

        def joined() -> bool:
            if one.poll() is not None:
                raise RuntimeError((place.folder / f"crowd-{place.name}.log").read_text())
            return int(place.value("SELECT count(*) FROM rota.nodes WHERE state = 'live'")) == count

        processes.until(joined)
        yield


def _reports(both: Pair, size: Size) -> Iterator[Figure]:
    title = f"{REPORTERS} jobs that report {REPORTS} times a second, statements"
    found: dict[bool, float] = {}
    for hot in (True, False):
        with both.store(hot) as place, nodes(place, slots=REPORTERS):
            time.sleep(size.settling)
            lasts = size.reported + 4.0
            place.seconds_of("bench.load", "report", REPORTERS, lasts)
            running = "SELECT count(*) FROM rota.jobs WHERE state = 'running'"
            processes.until(lambda: place.value(running) == REPORTERS)  # noqa: B023
            time.sleep(1.0)
            found[hot] = _a_second(both, size.reported)
            processes.until(lambda: place.value("SELECT count(*) FROM rota.jobs") == 0)
            rows = place.connection.execute(
                "SELECT result::integer * %s / (finished_at - started_at)::float FROM rota.history", (SECOND,)
            ).fetchall()
        told = f"{sum(rate for (rate,) in rows):,.0f} reports/s"
        goal = OF_REPORTS if hot else None
        yield Figure(named(title, hot), found[hot], "/s", most=goal, ours=told)
    yield beside(title, [found[True]], [found[False]], "/s")


def _a_second(both: Pair, seconds: float) -> float:
    """By the server's log, in which each statement of rota is a line."""
    logged, begun = len(both.postgres.log()), time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - begun
    return len(STATEMENT.findall(both.postgres.log()[logged:])) / took
