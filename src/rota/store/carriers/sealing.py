"""Seals output: chunks become segments, and segments are rewritten without the output of purged jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from rota.model.times import DAY, Duration
from rota.store.carriers.output import hold
from rota.store.carriers.unit import Columns, Unit
from rota.store.cells import cell_around, cells_of, is_id
from rota.store.log_store import ChunkCursor, NewSegment, Purged, Run, RunPage, RunsRead, Sealing, Stored
from rota.store.values import Chunk

_NO_JOB = "00000000-0000-0000-0000-000000000000"
_START = ChunkCursor(-1, _NO_JOB, 0, -1)
# Segments that one call reads or rewrites: at most some megabytes.
MOST = 16
# So many small segments are worth joining.
WORTH_JOINING = 8
MOST_JOINED = 64


async def runs(unit: Unit, after: ChunkCursor | None, age: Duration, limit: int) -> RunPage:
    """A job whose id was written by hand, and is none, keeps its chunks."""
    cursor = after or _START
    place = {"kept_at": cursor.kept_at, "job": cursor.job_id, "fence": cursor.fence, "number": cursor.number}
    rows = await unit.rows("runs", age=age, limit=limit, now=unit.now, **place)
    ends = await unit.rows("end_of_runs", age=age, before=limit - 1, now=unit.now, **place)
    found = [replace(Run(*row), dead=bool(row[-1])) for row in rows if is_id(row[0])]
    return RunPage(found, ChunkCursor(*ends[0]) if ends else None)


async def read_runs(unit: Unit, runs: Sequence[Run], room: int) -> RunsRead:
    rows = await unit.rows("run_chunks", _ranges(runs), room=room)
    found: dict[int, list[Any]] = {}
    for place, *row in rows:
        found.setdefault(place, []).append(row)
    read = [_as_read(runs[place], chunks) for place, chunks in found.items()]
    chunks = [
        Chunk(runs[place].job_id, runs[place].fence, *row)
        for place, some in found.items()
        for row in {row[0]: row for row in some}.values()  # one may have been kept twice
    ]
    if not rows or sum(one.size for one in read) < room:
        return RunsRead(read, chunks, [])
    last = rows[-1][0]
    behind = replace(runs[last], low=rows[-1][1] + 1)
    return RunsRead(read, chunks, [behind, *runs[last + 1 :]] if behind.low <= behind.high else [*runs[last + 1 :]])


def _as_read(run: Run, rows: Sequence[Any]) -> Run:
    return replace(run, low=rows[0][0], high=rows[-1][0], count=len(rows), size=sum(len(body) for *_, body in rows))


def _ranges(runs: Sequence[Run]) -> Columns:
    return {
        "jobs": [one.job_id for one in runs],
        "fences": [one.fence for one in runs],
        "lows": [one.low for one in runs],
        "highs": [one.high for one in runs],
    }


async def seal(unit: Unit, sealings: Sequence[Sealing], purged: Sequence[str] = ()) -> list[bool]:
    await hold(unit)
    wanted = list(chain.from_iterable(one.runs for one in sealings))
    there = {place: (count, size) for place, count, size in await _held(unit, wanted)}
    ids = sorted(chain.from_iterable(one.segments for one in sealings))
    held = {found for (found,) in await unit.rows("hold_segments", ids=ids)} if ids else set()
    sealed: list[bool] = []
    replaced: list[Run] = []
    dropped: list[str] = []
    first = 0
    for one in sealings:
        own = range(first, first := first + len(one.runs))
        same = all(there.get(place) == (wanted[place].count, wanted[place].size) for place in own)
        sealed.append(same and held.issuperset(one.segments))
        if sealed[-1]:
            replaced += one.runs
            dropped += one.segments
            held.difference_update(one.segments)  # a call may name one twice
    if replaced:
        await unit.run("delete_raw", _ranges(replaced))
    if dropped:
        await unit.run("delete_segments", ids=dropped)
    for one, done in zip(sealings, sealed, strict=True):
        if done and one.segment is not None:
            await unit.run("insert_segment", now=unit.now, **_row(one.segment))
    if purged:
        await _forget(unit, purged)
    return sealed


async def _held(unit: Unit, runs: Sequence[Run]) -> Sequence[Any]:
    return await unit.rows("hold_raw", _ranges(runs)) if runs else ()


def _row(segment: NewSegment) -> dict[str, Any]:
    ids = segment.jobs
    low_job, high_job = _text(ids[:16]), _text(ids[-16:])
    return {
        "id": segment.id, "owner": segment.owner, "task": segment.task, "lasting": segment.lasting,
        "kept_at": segment.kept_at, "first_at": segment.first_at, "last_at": segment.last_at, "lines": segment.lines,
        "size": segment.size, "cell": cell_around(low_job, high_job), "low_job": low_job, "high_job": high_job,
        "low_fence": segment.low.fence, "low_number": segment.low.number, "high_fence": segment.high.fence,
        "high_number": segment.high.number, "stored": len(ids) + len(segment.words) + len(segment.body),
        "jobs": ids, "words": segment.words, "body": segment.body,
    }  # fmt: skip


def job_ids(jobs: bytes) -> list[str]:
    """The ids in the column `jobs`."""
    return [_text(jobs[place : place + 16]) for place in range(0, len(jobs), 16)]


def _text(job: bytes) -> str:
    digits = job.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


# -- purged jobs -----------------------------------------------------------------------------------------------------
async def list_purged(unit: Unit, jobs: Iterable[str]) -> None:
    """Their sealed output has to go. After their chunks were deleted, so that none of these is sealed any more."""
    await unit.run("list_purged", _in_cells(jobs))


def _in_cells(jobs: Iterable[str]) -> Columns:
    """A row for each cell in which a segment of a job may be."""
    rows = [(job, cell) for job in jobs for cell in cells_of(job)]
    return {"jobs": [job for job, _ in rows], "cells": [cell for _, cell in rows]}


async def purged_output(unit: Unit, limit: int) -> Purged:
    jobs = [job for (job,) in await unit.rows("purged_jobs", limit=limit)]
    if not jobs:
        return Purged([], [])
    ids = [found for (found,) in await unit.rows("segments_of_purged", _in_cells(jobs), most=MOST)]
    return Purged(jobs, await _stored(unit, ids))


async def _stored(unit: Unit, ids: Sequence[str]) -> list[Stored]:
    rows = await unit.rows("stored_segments", ids=ids) if ids else []
    return [Stored(job, owner, task, bool(lasting), *rest) for job, owner, task, lasting, *rest in rows]


async def _forget(unit: Unit, purged: Sequence[str]) -> None:
    left = {job for (job,) in await unit.rows("still_in_segments", _in_cells(purged))}
    await unit.run("forget_purged", ids=[job for job in purged if job not in left])


# -- joining ---------------------------------------------------------------------------------------------------------
async def small_segments(unit: Unit, limit: int) -> list[list[Stored]]:
    groups: list[list[Stored]] = []
    for owner, task, lasting, day in await unit.rows("small_segments", day=DAY, least=WORTH_JOINING, limit=limit):
        rows = await unit.rows(
            "small_segments_of", owner=owner, task=task, lasting=bool(lasting), since=day * DAY, until=(day + 1) * DAY,
            most=MOST_JOINED,
        )  # fmt: skip
        groups.append(await _stored(unit, [found for found, _ in rows]))
    return groups


async def set_segments_aside(unit: Unit, ids: Sequence[str]) -> int:
    return await unit.run("set_segments_aside", ids=list(ids))
