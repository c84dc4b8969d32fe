"""Removes sealed output: what is older than the store should keep, what is more than it should keep, and segments whose
jobs are gone.

Output that is removed before its job leaves the row of its segment behind, without what was in it: from that a reader
of the job knows that there was output. The row goes with the last of its jobs.

A segment whose time is over, but which holds a job that is still there (it was run again, or is a dead letter), is from
then on *lasting*: it is looked at once a day. Jobs in it that are gone count as purged, so their output leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.model.times import DAY, Duration
from rota.store.carriers.sealing import job_ids, list_purged
from rota.store.carriers.unit import Unit
from rota.store.log_store import LogRetention

# A lasting segment is looked at this often.
LOOK_AGAIN: Duration = DAY
# Segments that one write looks at for their jobs: each may have thousands.
MOST_LOOKED = 20


async def prune_output(unit: Unit, retention: LogRetention, limit: int) -> int:
    await unit.begin()
    removed = 0
    if retention.age is not None:
        removed += await _too_old(unit, retention.age, limit)
    if retention.space is not None:
        removed += await _too_much(unit, retention.space, limit)
    removed += await past(unit, False, retention.ended, min(limit, MOST_LOOKED))
    return removed + await past(unit, True, LOOK_AGAIN, min(limit, MOST_LOOKED))


async def _too_old(unit: Unit, age: Duration, limit: int) -> int:
    ids: list[str] = []
    for lasting in (False, True):
        ids += [found for (found,) in await _aged(unit, "segments_by_age", lasting, age, limit)]
    return await _empty(unit, ids, "age")


async def _too_much(unit: Unit, space: int, limit: int) -> int:
    over = await unit.value("segment_space") - space
    if over <= 0:
        return 0
    ids: list[str] = []
    for found, size in await unit.rows("oldest_segments", limit=limit):
        if over > 0:
            ids.append(found)
            over -= size
    return await _empty(unit, ids, "space")


async def _empty(unit: Unit, ids: Sequence[str], why: str) -> int:
    return await unit.run("empty_segments", ids=list(ids), why=why, nothing=b"") if ids else 0


async def past(unit: Unit, lasting: bool, age: Duration, limit: int) -> int:
    """Deletes segments of this age without jobs."""
    rows = await _aged(unit, "segments_past", lasting, age, limit)
    jobs = {segment: job_ids(ids) for segment, ids in rows}
    wanted = sorted({job for some in jobs.values() for job in some})
    there = {job for (job,) in await unit.rows("existing_jobs", ids=wanted)} if wanted else set()
    over = [segment for segment, some in jobs.items() if there.isdisjoint(some)]
    kept = [segment for segment, some in jobs.items() if not there.isdisjoint(some)]
    if over:
        await unit.run("delete_segments", ids=over)
    if kept:
        await unit.run("keep_segments", ids=kept, now=unit.now)
        await list_purged(unit, {job for segment in kept for job in jobs[segment]} - there)
    return len(rows)


async def _aged(unit: Unit, query: str, lasting: bool, age: Duration, limit: int) -> list[Any]:
    return await unit.rows(query, lasting=lasting, age=age, limit=limit, now=unit.now)
