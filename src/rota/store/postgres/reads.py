"""Reads for people: jobs with their attempts, output, tasks, counts, events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.model.job import JobInfo
from rota.model.lifecycle import LIVE, State
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.store.columns import SHOWN
from rota.store.postgres import graph, schedules
from rota.store.postgres.database import Unit
from rota.store.postgres.encoding import glob, id_range, ids_only, is_id
from rota.store.postgres.session import lock_number
from rota.store.rows import AttemptRow, JobRow, job_info, job_row, read_object, task_infos
from rota.store.values import Chunk, JobFilter, OutboxEvent, Position

_DEAD = ("failed",)


async def get(unit: Unit, who: Principal, job_id: str) -> JobInfo | None:
    return (await _infos(unit, who, ids_only([job_id]))).get(job_id)


async def find(unit: Unit, who: Principal, query: JobFilter) -> list[JobInfo]:
    text, values = _search(unit.database.schema, who, query)
    ids = [job for (job, *_) in await unit.connection.fetch(text, *values)] if text else []
    infos = await _infos(unit, who, ids)
    return [infos[job] for job in ids if job in infos]


def _search(schema: str, who: Principal, query: JobFilter) -> tuple[str, list[Any]]:
    """The only query built at run time: an unused condition must not prevent the use of an index, and a table that
    can't hold the answer need not be read."""
    conditions: list[str] = []
    values: list[Any] = [query.limit]

    def where(condition: str, value: Any) -> None:
        values.append(value)
        conditions.append(condition.format(f"${len(values)}"))

    if who.sees is not None:
        where("owner = {}", who.sees)
    if query.ids is not None:
        where("id = ANY ({}::uuid[])", ids_only(query.ids))
    if query.states is not None:
        where("state = ANY ({}::text[])", [State(state).value for state in query.states])
    if query.queue is not None:
        where("queue = {}", query.queue)
    if query.task is not None:
        where("task ~ {}", glob(query.task))
    if query.error is not None:
        where("position({}::text IN reason) > 0", query.error)
    if query.ended_before is not None:
        where("finished_at < {}", query.ended_before)
    condition = " AND ".join(conditions) or "true"
    if query.states == _DEAD:
        where_dead = f"SELECT id::text FROM {schema}.history WHERE lasting AND {condition}"  # noqa: S608
        return f"{where_dead} ORDER BY finished_at DESC, id DESC LIMIT $1", values
    parts = [
        f"(SELECT id FROM {schema}.{table} WHERE {condition} ORDER BY id DESC LIMIT $1)"  # noqa: S608
        for table in _tables(query)
    ]
    whole = " UNION ALL ".join(parts)
    return (f"SELECT id::text FROM ({whole}) f ORDER BY f.id DESC LIMIT $1" if parts else ""), values  # noqa: S608


def _tables(query: JobFilter) -> list[str]:
    """The tables that may hold the answer."""
    states = frozenset(State) if query.states is None else frozenset(query.states)
    live = states & LIVE and query.ended_before is None
    return [table for table, wanted in (("jobs", live), ("history", states - LIVE)) if wanted]


async def resolve(unit: Unit, who: Principal, part: str) -> list[str]:
    found: list[Any] = []
    if bounds := id_range(part):
        found = await unit.rows("ids_beginning", low=bounds[0], high=bounds[1], sees=who.sees)
    return [job for (job,) in found or await unit.rows("ids_ending", tail=part, sees=who.sees)]


async def _infos(unit: Unit, who: Principal, ids: Sequence[str]) -> dict[str, JobInfo]:
    """Reads live jobs, then ended ones: a job that ends in between is found by the second read. A job that is replayed
    in between is found by a third."""
    if not ids:
        return {}
    last: dict[str, AttemptRow] = {}
    rows = await _live(unit, who, ids)
    if len(rows) < len(ids):
        rows |= await _ended(unit, who, ids, last)
    if len(rows) < len(ids):
        rows |= await _live(unit, who, ids)
    attempts: dict[str, list[AttemptRow]] = {}
    for row in await unit.rows("attempt_rows", ids=ids):
        attempts.setdefault(row[0], []).append(AttemptRow(*row))
    for job_id, attempt in last.items():
        attempts.setdefault(job_id, []).append(attempt)
    fires, workflows = await schedules.of_jobs(unit, ids), await graph.of_jobs(unit, ids)
    return {
        job_id: job_info(row, attempts.get(job_id, []), fires.get(job_id), workflows.get(job_id))
        for job_id, row in rows.items()
    }


async def _live(unit: Unit, who: Principal, ids: Sequence[str]) -> dict[str, JobRow]:
    return {row["id"]: row for row in map(job_row, await unit.rows("job_rows", ids=ids, sees=who.sees))}


async def _ended(unit: Unit, who: Principal, ids: Sequence[str], last: dict[str, AttemptRow]) -> dict[str, JobRow]:
    rows: dict[str, JobRow] = {}
    for row in await unit.rows("history_rows", ids=ids, sees=who.sees):
        job = job_row(row[: len(SHOWN)])
        rows[job["id"]] = job
        if row["outcome"] is not None and job["started_at"] is not None:
            last[job["id"]] = AttemptRow(*row[len(SHOWN) :])
    return rows


async def output(unit: Unit, who: Principal, job_id: str, after: Position, limit: int) -> list[Chunk]:
    if not is_id(job_id) or not await unit.value("owns_job", id=job_id, sees=who.sees):
        return []
    rows = await unit.rows("output_rows", id=job_id, fence=after.fence, number=after.number, limit=limit)
    return [Chunk(job_id, *row) for row in rows]


async def tasks(unit: Unit) -> list[TaskInfo]:
    return task_infos(info for (info,) in await unit.rows("task_rows"))


async def counts(unit: Unit, who: Principal) -> dict[State, int]:
    return {State(state): count for state, count in await unit.rows("state_counts", sees=who.sees)}


async def events(unit: Unit, who: Principal, after: int, limit: int) -> list[OutboxEvent]:
    if await unit.value("any_unread"):
        await unit.begin()
        await unit.value("lock_number", number=lock_number(unit.database.schema, "outbox"))
        await unit.run("number_events")
    rows = await unit.rows("event_rows", after=after, sees=who.sees, limit=limit)
    return [
        OutboxEvent(seq, at, kind, owner, subject, read_object(data)) for seq, at, kind, owner, subject, data in rows
    ]
