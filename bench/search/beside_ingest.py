"""What ingest costs other jobs: a drain of no-ops beside commands that print lines of the corpus, against one alone.

The commands run in the same node, one after the other, each at its time. So lines come in at the rate that rota has to
reach: through pipes, the spool and the shipper into the store, and from there into segments.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

from bench import processes, raw
from bench.figure import Figure, Size
from bench.postgres import raw as pg_raw
from bench.postgres import server as postgres
from bench.search import goals
from bench.search.corpus import attempts
from rota.clients.jobs import LARGEST_ORDER
from rota.clock import Chance, SystemClock
from rota.model.job import NewJob, Spec
from rota.model.principal import LOCAL
from rota.model.times import SECOND
from rota.store.base import Store
from rota.store.postgres import PostgresStore
from rota.store.sqlite import SqliteStore
from rota.work.worker import LARGEST_CLAIM

QUEUE = "loud"
LINES = 50_000  # of one command
AHEAD = 2.0  # seconds until the first of them: the node is up by then
LONGEST = 120.0  # seconds of lines
_SPAN = "SELECT count(*), min(started_at), max(finished_at) FROM {} WHERE queue = 'default' AND state = 'succeeded'"
_LOUD = "SELECT count(*) FROM {} WHERE queue = 'loud' AND state = 'succeeded' AND finished_at BETWEEN {:d} AND {:d}"
_LAST: LiteralString = "SELECT id FROM rota.jobs WHERE queue = 'default' ORDER BY rank DESC, id DESC LIMIT 1"
_AT_WORK: LiteralString = "SELECT EXISTS (SELECT FROM rota.jobs WHERE queue = 'default')"
_UP = [*processes.UP, "--app", processes.APP, "--queues", f"default:{2 * LARGEST_CLAIM},{QUEUE}:2"]


class Drained(NamedTuple):
    rate: float  # no-ops a second
    lines: float  # that came in meanwhile, a second


def sqlite(folder: Path, size: Size) -> Iterator[Figure]:
    numbers = iter(range(1_000))

    def drain(loud: Sequence[NewJob]) -> Drained:
        path = folder / f"{next(numbers)}.db"
        connection = raw.create(str(path))
        raw.insert(connection, size.beside, LARGEST_ORDER)
        connection.close()
        asyncio.run(_order(SqliteStore(str(path), SystemClock(), Chance()), loud))
        waiting = "SELECT EXISTS (SELECT 1 FROM jobs WHERE state IN ('ready', 'running') AND queue = 'default')"
        with processes.killed_at_last(_UP, f"sqlite:///{path}", path.with_suffix(".log")):
            processes.until(lambda: not processes.ask(path, waiting))
        return _drained("jobs", size.beside, lambda query: processes.rows(path, query)[0])

    yield _compared("SQLite", drain, folder, size)


def on_postgres(folder: Path, size: Size) -> Iterator[Figure]:
    with postgres.server(folder) as one:

        def drain(loud: Sequence[NewJob]) -> Drained:
            with ExitStack() as stack:
                place = stack.enter_context(postgres.store(one, folder))
                pg_raw.fill(place.url, size.beside)
                asyncio.run(_order(PostgresStore(place.url, SystemClock(), Chance()), loud))
                stack.enter_context(processes.killed_at_last(_UP, place.url, folder / f"{place.name}.log"))
                postgres.until_gone(place, _LAST)
                postgres.until_no(place, _AT_WORK)
                return _drained("rota.history", size.beside, lambda query: _row(place, query))

        yield _compared("PostgreSQL", drain, folder, size)


def _row(place: postgres.Store, query: str) -> Sequence[Any]:
    return place.connection.execute(query.encode()).fetchall()[0]


def _drained(table: str, jobs: int, ask: Callable[[str], Sequence[Any]]) -> Drained:
    """By the stamps that the node leaves in the store: from the first start of a no-op to the last end of one."""
    done, first, last = ask(_SPAN.format(table))
    if done != jobs:
        raise RuntimeError(f"{done:,} of {jobs:,} no-ops have succeeded")
    (loud,) = ask(_LOUD.format(table, first, last))
    seconds = (last - first) / SECOND
    return Drained(jobs / seconds, loud * LINES / seconds)


def _compared(engine: str, drain: Callable[[Sequence[NewJob]], Drained], folder: Path, size: Size) -> Figure:
    text = folder / "lines.txt"
    bodies = (piece.body for attempt in attempts(LINES) for piece in attempt.pieces)
    text.write_bytes(b"".join(bodies))
    beside: list[Drained] = []
    alone: list[Drained] = []
    for _ in range(size.runs):
        beside.append(drain(_loud(text, goals.INGEST[engine])))
        alone.append(drain(()))
    ratios = [one.rate / other.rate for one, other in zip(beside, alone, strict=True)]
    lines = statistics.median(one.lines for one in beside)
    return Figure(
        f"{engine}: drain of {size.beside:,} beside ingest of {lines:,.0f} lines/s, against alone",
        statistics.median(ratios), "x", least=goals.DRAIN, runs=ratios,
        ours=f"{statistics.median(one.rate for one in beside):,.0f}/s",
        other=f"{statistics.median(one.rate for one in alone):,.0f}/s",
    )  # fmt: skip


def _loud(text: Path, rate: float) -> list[NewJob]:
    begin, step = SystemClock().now() + round(AHEAD * SECOND), LINES / rate
    chance, spec = Chance(), Spec.command(["cat", str(text)])
    return [
        NewJob(id, "cat", spec, at=begin + round(number * step * SECOND), queue=QUEUE)
        for number, id in enumerate(chance.job_ids(begin, round(LONGEST / step)))
    ]


async def _order(store: Store, jobs: Sequence[NewJob]) -> None:
    await store.open()
    rest = iter(jobs)
    while some := list(islice(rest, LARGEST_ORDER)):
        await store.submit(LOCAL, [[job] for job in some])
    await store.close()
