"""How long the first page of a list takes, of millions of ended jobs, and how fast a list goes on that no index helps.

Every kind of condition is asked several times, each time with other values. Pages are those of a user with nine tenths
of all jobs, through a store that has just been opened; each kind is asked once before it is timed.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from bench import raw
from bench.figure import Figure, Size
from bench.postgres import server as postgres
from bench.search import goals, history
from rota.clock import Chance, SystemClock
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.query.parse import parse
from rota.store.base import Store
from rota.store.postgres import PostgresStore
from rota.store.sqlite import SqliteStore
from rota.store.values import JobFilter

PAGE = 100
LEAST = 20  # pages of each kind, so that there is a 95th percentile
STATES = ("failed", "cancelled", "succeeded", "ended", "live")
# What of a list that no index helps is read before it is left.
PAGES_STREAMED = 50
STREAMED = "args.user_id=4321"


# Conditions of a kind, with values by chance.
KINDS: dict[str, Callable[[random.Random], str]] = {
    "all": lambda _: "*",
    "state": lambda by: f"state:{by.choice(STATES)}",
    "task": lambda by: f"task:task{by.randrange(40)}",
    "rare task": lambda by: f"task:{by.choice(('rare', 'nobody'))}",
    "tasks by a pattern": lambda by: f"task:task{by.randrange(4)}*",
    "queue": lambda by: f"queue:q{by.randrange(5)}",
    "state, task and queue": lambda by: (
        f"state:{by.choice(STATES)} task:task{by.randrange(40)} queue:q{by.randrange(5)}"
    ),
    "neither": lambda by: f"NOT state:succeeded -task:task{by.randrange(40)}",
    "either": lambda by: f"task:rare OR (queue:q{by.randrange(5)} state:{by.choice(STATES)})",
    "workflow": lambda by: f"workflow:import {by.choice(('', 'state:failed', 'state:succeeded'))}",
    "schedule": lambda by: f"schedule:nightly {by.choice(('', 'state:failed', 'state:succeeded'))}",
    "finished after": lambda by: f"finished>-{by.randrange(1, 29 * 24)}h",
    "finished in a span": lambda by: _span("finished", by),
    "created before": lambda by: f"created<-{by.randrange(1, 29 * 24)}h",
    "created in a span, and task": lambda by: f"{_span('created', by)} task:task{by.randrange(40)}",
    "finished in a span, and state": lambda by: f"{_span('finished', by)} state:{by.choice(STATES)}",
}
OF_ALL_USERS: dict[str, Callable[[random.Random], str]] = {
    "user": lambda by: f"user:user{by.randrange(9)}",
    "user and state": lambda by: f"user:user{by.randrange(9)} state:{by.choice(STATES)}",
    "user and task": lambda by: f"user:{by.choice(('local', 'user3'))} task:task{by.randrange(40)}",
}


def _span(field: str, by: random.Random) -> str:
    """From minutes to days."""
    begin = by.randrange(2 * 60, 29 * 24 * 60)
    end = max(1, begin - int(10 ** (1 + 3 * by.random())))
    return f"{field}>-{begin}m {field}<-{end}m"


def sqlite(folder: Path, size: Size) -> Iterator[Figure]:
    path = str(folder / "jobs.db")
    raw.create(path).close()
    history.fill(path, size.listed)
    yield from figures("SQLite", lambda: SqliteStore(path, SystemClock(), Chance()), size)


def on_postgres(folder: Path, size: Size) -> Iterator[Figure]:
    with postgres.server(folder) as one, postgres.store(one, folder) as place:
        history.fill(place.url, size.listed)
        yield from figures("PostgreSQL", lambda: PostgresStore(place.url, SystemClock(), Chance()), size)


def figures(engine: str, make: Callable[[], Store], size: Size) -> Iterator[Figure]:
    yield from asyncio.run(_measure(f"{engine}, {size.listed:,} ended jobs", make(), max(LEAST, size.runs)))


async def _measure(place: str, store: Store, count: int) -> list[Figure]:
    await store.open()
    chance = random.Random(1)
    found: list[Figure] = []
    for who, kinds in ((LOCAL, KINDS), (SYSTEM, OF_ALL_USERS)):
        for kind, make in kinds.items():
            queries = [make(chance) for _ in range(count + 1)]
            found.append(
                _figure(f"{place}: {kind}", [await _first_page(store, who, one) for one in queries][1:], queries[1:])
            )
    found += await _streamed(place, store)
    await store.close()
    return found


async def _first_page(store: Store, who: Principal, query: str) -> float:
    """Milliseconds until there are jobs to show, or there are none."""
    began = time.perf_counter()
    wanted = JobFilter(where=parse(query, store.now()), limit=PAGE)
    page = await store.page(who, wanted)
    while not page.jobs and page.last is not None:
        page = await store.page(who, replace(wanted, after=page.last))
    return 1000 * (time.perf_counter() - began)


async def _streamed(place: str, store: Store) -> list[Figure]:
    """A list that no index helps, page by page."""
    wanted = JobFilter(where=parse(STREAMED, store.now()), limit=PAGE)
    examined = found = 0
    first = longest = 0.0
    began = last = time.perf_counter()
    for _ in range(PAGES_STREAMED):
        page = await store.page(LOCAL, wanted)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
        examined, found = examined + (page.progress.examined if page.progress else 0), found + len(page.jobs)
        first = first or (now - began if found else 0.0)
        if page.last is None:
            break
        wanted = replace(wanted, after=page.last)
    name, made_of = f"{place}: {STREAMED}", f"{found:,} of {examined:,} jobs in {last - began:.1f} s"
    return [
        Figure(f"{name}, examined", examined / (last - began), "/s", ours=made_of),
        Figure(f"{name}, first result", 1000 * first, "ms"),
        Figure(f"{name}, longest time without news", 1000 * longest, "ms"),
    ]


def _figure(name: str, taken: Sequence[float], queries: Sequence[str]) -> Figure:
    p95 = statistics.quantiles(taken, n=20, method="inclusive")[-1]
    slowest = queries[max(range(len(taken)), key=lambda place: taken[place])]
    return Figure(
        f"{name}, p95", p95, "ms", most=goals.JOB_LIST, runs=list(taken),
        ours=f"p50 {statistics.median(taken):.0f} ms, slowest {max(taken):.0f} ms: {slowest}",
    )  # fmt: skip
