"""How fast output comes in and is sealed, what it takes on the disk, and how fast lines are found in it.

The rate that counts is the one that can go on for ever: all lines, over the time until the last of them is sealed, with
the sealer at work beside the appends. Appends alone, and sealing alone, are shown beside it.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from bench import processes
from bench.figure import Figure, Size
from bench.postgres import server as postgres
from bench.search import found_lines, goals
from bench.search.corpus import attempts
from bench.search.ingest import Ingested, ingest, ingest_and_seal, printed
from rota.clock import Chance, SystemClock
from rota.store.base import Store
from rota.store.postgres import PostgresStore
from rota.store.sqlite import SqliteStore
from tests.servers.postgres import Server

_SQLITE_SIZES = """
SELECT iif(name = 'segments', 'table', 'indexes'), sum(pgsize) FROM dbstat
WHERE aggregate = TRUE AND (name = 'segments' OR name GLOB 'segments_*' OR name GLOB 'sqlite_autoindex_segments*')
GROUP BY 1"""
_SQLITE_PARTS = "SELECT sum(length(body)), sum(length(words)) FROM segments"
_POSTGRES_SIZES = """
SELECT coalesce(sum(pg_table_size(relid)), 0)::bigint, coalesce(sum(pg_indexes_size(relid)), 0)::bigint
FROM pg_partition_tree('rota.segments')"""
_POSTGRES_PARTS = "SELECT sum(octet_length(body))::bigint, sum(octet_length(words))::bigint FROM rota.segments"


class Place(NamedTuple):
    """A store that was just made."""

    make: Callable[[], Store]
    sizes: Callable[[], Mapping[str, int]]  # bytes on disk of the segments' table and indexes, of texts and of filters
    server: Server | None = None


def sqlite(folder: Path, size: Size) -> Iterator[Figure]:
    paths = (folder / f"{number}.db" for number in range(1_000))

    def places(_: ExitStack) -> Place:
        path = str(next(paths))
        return Place(lambda: SqliteStore(path, SystemClock(), Chance()), lambda: _sqlite_sizes(path))

    yield from _measure("SQLite", places, size)


def on_postgres(folder: Path, size: Size) -> Iterator[Figure]:
    with postgres.server(folder) as one:

        def places(stack: ExitStack) -> Place:
            place = stack.enter_context(postgres.store(one, folder))
            return Place(lambda: PostgresStore(place.url, SystemClock(), Chance()), lambda: _postgres_sizes(place), one)

        yield from _measure("PostgreSQL", places, size)


def _measure(engine: str, places: Callable[[ExitStack], Place], size: Size) -> Iterator[Figure]:
    with ExitStack() as stack:
        place = places(stack)
        yield from _sustained(engine, place, size.lines)
        yield from found_lines.answers(place.make, f"{engine}, {size.lines:,} lines", size.lines, size.runs)
    appending, sealing = list[float](), list[float]()
    for _ in range(size.runs):
        with ExitStack() as stack:
            taken, _ = asyncio.run(_taken(places(stack), lambda store: ingest(store, attempts(size.ingested))))
        appending.append(size.ingested / taken.appending)
        sealing.append(size.ingested / taken.sealing)
    for what, rates in (("appends alone", appending), ("sealing alone", sealing)):
        name = f"{engine}: {what}, {size.ingested:,} lines"
        yield Figure(name, statistics.median(rates), "/s", runs=rates)


def _sustained(engine: str, place: Place, lines: int) -> Iterator[Figure]:
    given = list(printed(attempts(lines)))
    gc.collect()
    gc.freeze()  # or the collector would go through the corpus again and again
    taken, cpu = asyncio.run(_taken(place, lambda store: ingest_and_seal(store, given)))
    gc.unfreeze()
    used = ", ".join(f"{who} {1e5 * seconds / lines:.2f} s" for who, seconds in cpu.items())
    yield Figure(
        f"{engine}: ingest with sealing, {lines:,} lines", lines / taken.sealing, "/s", least=goals.INGEST[engine],
        ours=f"CPU for 100,000 lines: {used}",
    )  # fmt: skip
    share = {part: 100 * number / taken.size for part, number in place.sizes().items()}
    parts = ", ".join(f"{part} {value:.1f} %" for part, value in share.items())
    yield Figure(
        f"{engine}: segments against raw lines, {lines:,} lines", share["table"] + share["indexes"], "%",
        most=goals.SIZE, ours=f"{parts}, of {taken.size / 1e6:,.0f} MB",
    )  # fmt: skip


async def _taken(
    place: Place, take: Callable[[Store], Coroutine[Any, Any, Ingested]]
) -> tuple[Ingested, Mapping[str, float]]:
    """Returns seconds of CPU too, by who has used them."""
    store = place.make()
    await store.migrate()
    await store.open()
    try:
        node, server = time.process_time(), _of_server(place)
        taken = await take(store)
        cpu = {"node": time.process_time() - node, "packing": taken.packing}
        if place.server is not None:
            cpu["server"] = _of_server(place) - server
        return taken, cpu
    finally:
        await store.close()


def _of_server(place: Place) -> float:
    return 0.0 if place.server is None else processes.cpu_seconds(processes.family(place.server.pid))


def _sqlite_sizes(path: str) -> Mapping[str, int]:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    found = dict(connection.execute(_SQLITE_SIZES))
    text, words = connection.execute(_SQLITE_PARTS).fetchall()[0]
    connection.close()
    return {"table": found["table"], "indexes": found["indexes"], "texts": text, "filters": words}


def _postgres_sizes(place: postgres.Store) -> Mapping[str, int]:
    table, indexes = place.row(_POSTGRES_SIZES)
    text, words = place.row(_POSTGRES_PARTS)
    return {"table": table, "indexes": indexes, "texts": text, "filters": words}
