"""Scheduled jobs, for a hot tier that knows what is due soon."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.times import Instant
from rota.store.carriers.unit import Unit
from rota.store.cells import is_id
from rota.store.hints import ScheduledJob

_LOWEST = "00000000-0000-0000-0000-000000000000"


async def scheduled(unit: Unit, after: ScheduledJob, until: Instant, limit: int) -> list[ScheduledJob]:
    behind = after.id if is_id(after.id) else _LOWEST
    rows = await unit.rows("scheduled_jobs", at=after.at, id=behind, until=until, limit=limit)
    return [ScheduledJob(at, job) for at, job in rows]


async def due_times(unit: Unit, ids: Sequence[str]) -> list[ScheduledJob]:
    wanted = [job for job in ids if is_id(job)]  # a hot tier may name anything
    return [ScheduledJob(at, job) for at, job in await unit.rows("due_times", ids=unit.ids(wanted))]
