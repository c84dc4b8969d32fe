"""The heap of due jobs: what an entry costs among many, and how long it takes to fill."""

from __future__ import annotations

import asyncio
import random
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import LiteralString

import msgspec

from bench import processes
from bench.figure import Figure, Size
from bench.hot.pair import Pair, beside, named, pair
from bench.postgres.server import Store, nodes
from bench.postgres.timing import SLOTS
from rota.clock import Chance
from rota.hot.heap import FILLING
from rota.hot.lane import Due
from rota.hot.redis import RedisLane
from rota.model.job import Spec
from rota.model.retry import Retry
from rota.model.times import HOUR, MILLISECOND, MINUTE, Instant
from tests.servers.valkey import valkey

FEW = 1_000
SLOWER, REFILL = 1.5, 20.0
BATCH = 500  # as many as a promotion takes
PAGE = 5_000
# Timers that start meanwhile: so many a second.
PUNCTUAL = 100


def heap(folder: Path, size: Size) -> Iterator[Figure]:
    """Two heaps on one server, each of a store of its own; calls to them take turns."""
    with valkey() as server:
        took = asyncio.run(_heap([server.url(database=0), server.url(database=1)], size))
    for name, (many, few) in took.items():
        title = f"heap of {size.waiting:,} entries, {name}, against {FEW:,}"
        ratio = statistics.median(many) / statistics.median(few)
        shown = [f"{statistics.median(one):.3f} ms" for one in (many, few)]
        yield Figure(title, ratio, "x", most=SLOWER, ours=shown[0], other=shown[1])


async def _heap(urls: Sequence[str], size: Size) -> dict[str, tuple[list[float], ...]]:
    lanes = [RedisLane(url, limit=30.0) for url in urls]
    chance, now = Chance(), time.time_ns() // 1_000
    for lane, count in zip(lanes, (size.waiting, FEW), strict=True):
        await lane.open("bench")
        for _ in range(0, count, PAGE):
            await lane.add_due(_entries(chance, now, min(PAGE, count)))
        await lane.begin_epoch("bench")
    took: dict[str, tuple[list[float], ...]] = {}
    for batch in (1, BATCH):
        adds, takes = f"adding {batch}", f"taking {batch}"
        took |= {adds: ([], []), takes: ([], [])}
        for turn in range(size.claims):
            for index in (0, 1) if turn % 2 else (1, 0):
                lane, entries = lanes[index], _entries(chance, now, batch)
                took[adds][index].append(await _milliseconds(lambda: lane.add_due(entries)))  # noqa: B023
                took[takes][index].append(await _milliseconds(lambda: _take(lane, now + 2 * HOUR, batch)))  # noqa: B023
    for lane in lanes:
        await lane.close()
    return took


async def _take(lane: RedisLane, until: Instant, count: int) -> None:
    found = await lane.look(until, count)
    assert len(found.due) == count
    await lane.drop_due(found.due)


async def _milliseconds(call: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await call()
    return (time.perf_counter() - begun) * 1_000


def _entries(chance: Chance, now: Instant, count: int) -> list[Due]:
    return [Due(id, now + random.randrange(HOUR)) for id in chance.job_ids(now, count)]


def refill(folder: Path, size: Size) -> Iterator[Figure]:
    """The server is emptied while a node starts timers on time."""
    with pair(folder) as both:
        took: list[float] = []
        late: dict[bool, list[float]] = {True: [], False: []}
        worst: dict[bool, list[float]] = {True: [], False: []}
        # Once: a million jobs in the table for each side is what takes the time.
        for hot in (True, False):
            with both.store(hot) as place:
                _schedule(place, size.waiting)
                with nodes(place, slots=SLOTS):
                    if hot:
                        _until_filled(both, size)
                    for _ in range(min(size.runs, 3)):
                        started, seconds = _timers_beside(both, place, size, hot)
                        took += [seconds] if hot else []
                        late[hot].append(started[len(started) * 99 // 100])
                        worst[hot].append(started[-1])
    name = f"refill of {size.waiting:,} scheduled jobs"
    yield Figure(name, statistics.median(took), "s", most=REFILL, runs=took)
    title = f"{PUNCTUAL} timers a second during a {name}, p99 late"
    for hot in (True, False):
        shown = f"latest {statistics.median(worst[hot]):.1f} ms"
        yield Figure(named(title, hot), statistics.median(late[hot]), "ms", ours=shown, runs=late[hot])
    yield beside(title, late[True], late[False], "ms")


def _timers_beside(both: Pair, place: Store, size: Size, hot: bool) -> tuple[list[float], float]:
    """Empties the hot tier while timers are due. Returns how late each was, and how long the refill took."""
    begun, jobs = place.now(), int(PUNCTUAL * size.beside_refill)
    orders = threading.Thread(target=place.seconds_of, args=("bench.load", "timers", jobs, size.beside_refill))
    orders.start()
    due: LiteralString = "SELECT count(*) FROM rota.history WHERE run_at > %s"
    processes.until(lambda: bool(place.value(due, begun)))
    seconds = 0.0
    if hot:
        emptied = time.perf_counter()
        both.valkey.call("FLUSHALL", "ASYNC")
        _until_filled(both, size)
        seconds = time.perf_counter() - emptied
    orders.join()
    processes.until(lambda: bool(place.value(due, begun) == jobs))
    rows = place.connection.execute("SELECT started_at - run_at FROM rota.history WHERE run_at > %s", (begun,))
    return sorted(int(microseconds) / MILLISECOND for (microseconds,) in rows), seconds


def _until_filled(both: Pair, size: Size) -> None:
    """The heap has an epoch: the one entry with an infinite score."""

    def filled() -> bool:
        keys = both.valkey.call("KEYS", "rota:*:due")
        epochs = both.valkey.call("ZRANGEBYSCORE", keys[0], "inf", "inf") if keys else []
        return len(epochs) == 1 and FILLING.encode() not in epochs[0]

    processes.until(filled)
    keys = both.valkey.call("KEYS", "rota:*:due")
    assert both.valkey.call("ZCARD", keys[0]) >= size.waiting


def _schedule(place: Store, jobs: int) -> None:
    """So many that are due within the hour, but not while it is measured."""
    spec, retry, now = Spec.function("noop"), msgspec.json.encode(Retry()).decode(), place.now()
    place.run("SET synchronous_commit = off")
    place.run(
        """
        INSERT INTO rota.jobs (id, owner, state, queue, kind, task, priority, rank, run_at, created_at,
                               spec, digest, args, retry)
        SELECT rota.new_id(%s), 'local', 'scheduled', 'default', 'function', 'noop', 5, at, at, %s, %s, %s, '{}', %s
        FROM (SELECT %s + n * %s / %s AS at FROM generate_series(1, %s::bigint) n) one""",
        now, now, spec.body, spec.digest, retry, now + 20 * MINUTE, 35 * MINUTE, jobs, jobs,
    )  # fmt: skip
    place.run("VACUUM (ANALYZE) rota.jobs")
    place.run("CHECKPOINT")
