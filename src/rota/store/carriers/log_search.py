"""Pages of segments and of unsealed chunks, for searches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rota.model.principal import Principal
from rota.store import log_search
from rota.store.carriers.unit import Columns, Unit
from rota.store.log_search import Dialect, Query
from rota.store.log_store import (
    ChunkCursor,
    Extent,
    RawPage,
    RawScan,
    Segment,
    SegmentCursor,
    SegmentPage,
    SegmentScan,
)
from rota.store.values import Chunk

Fetch = Callable[[Query], Awaitable[Sequence[Any]]]  # carries out a query that was built


async def segments(fetch: Fetch, dialect: Dialect, who: Principal, scan: SegmentScan) -> SegmentPage:
    found = [tuple(row) for row in await fetch(log_search.fitting(dialect, who, scan))]
    chosen = within(found, scan.room)
    down_to: tuple[int, str] | None = None
    if len(found) == scan.limit or len(chosen) < len(found):
        down_to = chosen[-1][0], chosen[-1][1]
    elif ends := await fetch(log_search.looked_at(dialect, who, scan)):
        down_to = ends[0][0], ends[0][1]  # all that fit among those that were looked at
    ids = [one for _, one, _ in chosen]
    rows = await fetch(log_search.bodies(dialect, ids)) if ids else []
    bodies = {row[0]: Segment(*row) for row in rows}
    looked, size = (await fetch(log_search.extent(dialect, who, scan, down_to)))[0]
    last = None if down_to is None else SegmentCursor(*down_to)
    return SegmentPage([bodies[one] for one in ids if one in bodies], last, looked, size)


def within(found: Sequence[tuple[Any, ...]], room: int) -> list[tuple[Any, ...]]:
    """The first of these rows that have room together; their last column is a size. At least one."""
    chosen: list[tuple[Any, ...]] = []
    for row in found:
        room -= row[-1]
        if chosen and room < 0:
            break
        chosen.append(row)
    return chosen


async def segment_extent(fetch: Fetch, dialect: Dialect, who: Principal, scan: SegmentScan) -> Extent:
    return Extent(*(await fetch(log_search.extent(dialect, who, scan)))[0])


async def unsealed(unit: Unit, fetch: Fetch, dialect: Dialect, who: Principal, scan: RawScan) -> RawPage:
    found = [tuple(row) for row in await fetch(log_search.chunks(dialect, who, scan))]
    chosen = [(ChunkCursor(*place), task) for *place, task, _ in (within(found, scan.room) if scan.bodies else found)]
    places = [place for place, _ in chosen]
    if not scan.bodies:
        empty = [Chunk(one.job_id, one.fence, one.number, one.kept_at, "", b"") for one in places]
        return RawPage(empty, [task for _, task in chosen], places[-1] if places else None)
    columns: Columns = {
        "jobs": [one.job_id for one in places],
        "fences": [one.fence for one in places],
        "numbers": [one.number for one in places],
    }
    chunks: dict[int, Chunk] = {}
    for index, *row in await unit.rows("raw_bodies", columns) if places else ():
        chunks[index] = Chunk(places[index].job_id, places[index].fence, places[index].number, *row)
    there = sorted(chunks)
    last = places[-1] if places else None
    return RawPage([chunks[index] for index in there], [chosen[index][1] for index in there], last)
