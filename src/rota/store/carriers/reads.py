"""Reads for people: attempts, tasks, counts, events. Each store finds jobs in its own tables."""

from __future__ import annotations

from collections.abc import Mapping

from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.principal import SYSTEM, Principal
from rota.model.task import TaskInfo
from rota.store.carriers import graph, schedules
from rota.store.carriers.unit import Unit
from rota.store.rows import AttemptRow, JobRow, job_info, read_object, task_infos
from rota.store.values import OutboxEvent, OutboxSpan

NO_ATTEMPTS: Mapping[str, AttemptRow] = {}


async def infos(
    unit: Unit, rows: Mapping[str, JobRow], last: Mapping[str, AttemptRow] = NO_ATTEMPTS
) -> dict[str, JobInfo]:
    """`last`: attempts that are not in the table of attempts."""
    ids = list(rows)
    attempts: dict[str, list[AttemptRow]] = {}
    for row in await unit.rows("attempt_rows", ids=ids) if ids else ():
        attempts.setdefault(row[0], []).append(AttemptRow(*row))
    for job, attempt in last.items():
        attempts.setdefault(job, []).append(attempt)
    fires, workflows = await schedules.of_jobs(unit, ids), await graph.of_jobs(unit, ids)
    return {job: job_info(row, attempts.get(job, []), fires.get(job), workflows.get(job)) for job, row in rows.items()}


async def tasks(unit: Unit) -> list[TaskInfo]:
    return task_infos(info for (info,) in await unit.rows("task_rows"))


async def counts(unit: Unit, who: Principal) -> dict[State, int]:
    return {State(state): count for state, count in await unit.rows("state_counts", sees=who.sees)}


async def events(unit: Unit, who: Principal, after: int, limit: int) -> list[OutboxEvent]:
    shared = SYSTEM.user if who.operates else who.sees
    rows = await unit.rows("event_rows", after=after, sees=who.sees, shared=shared, limit=limit)
    return [
        OutboxEvent(seq, at, kind, owner, subject, read_object(data)) for seq, at, kind, owner, subject, data in rows
    ]


async def outbox_span(unit: Unit) -> OutboxSpan:
    first, last = (await unit.rows("outbox_span"))[0]
    return OutboxSpan(last + 1 if first is None else first, last)
