"""Finding jobs on PostgreSQL; events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.model.error_groups import ErrorGroup
from rota.model.job import JobInfo
from rota.model.lifecycle import LIVE, State
from rota.model.principal import Principal
from rota.store.carriers import reads
from rota.store.carriers.error_groups import GroupRow, shown
from rota.store.columns import SHOWN
from rota.store.job_search import Dialect, groups, search
from rota.store.postgres.database import Unit
from rota.store.postgres.encoding import glob, id_range, ids_only
from rota.store.postgres.session import lock_number
from rota.store.rows import AttemptRow, JobRow, job_row
from rota.store.values import JobFilter, JobPage, OutboxEvent, OutboxSpan

_DIALECT = Dialect(
    mark="${}",
    conditions={
        "ids": "id = ANY ({}::uuid[])",
        "task": "task ~ {}",
        "tasks": "task = ANY ({}::text[])",
        "error": "position({}::text IN reason) > 0",
        "label": "coalesce(requirements::jsonb -> 'labels' ? {}, false)",
        "workflow": "id IN (SELECT m.job FROM {schema}members m WHERE m.workflow = ANY ({}::uuid[]))",
    },
    values={"ids": ids_only, "task": glob, "workflow": lambda workflow: ids_only([workflow])},
    dead="lasting",  # the partition, and the server need not guess how many rows of it have failed
)


async def get_many(unit: Unit, who: Principal, ids: Sequence[str]) -> list[JobInfo | None]:
    return [*map((await _infos(unit, who, ids_only(ids))).get, ids)]


async def page(unit: Unit, who: Principal, query: JobFilter) -> JobPage:
    text, values = page_query(unit.database.schema, who, query)
    found = await unit.connection.fetch(text, *values) if text else []
    infos = await _infos(unit, who, [job for job, _ in found])
    last = query.cursor(*found[-1]) if found and len(found) == query.limit else None
    return JobPage([infos[job] for job, _ in found if job in infos], last)


def page_query(schema: str, who: Principal, query: JobFilter) -> tuple[str, list[Any]]:
    condition, order, values = search(_DIALECT, who, query, f"{schema}.")
    limit = f"${len(values) + 1}"
    values.append(query.limit)
    if query.by_end:
        (source,) = _sources(schema, query, condition)
        return f"SELECT id::text, finished_at FROM {source} ORDER BY {order} LIMIT {limit}", values  # noqa: S608
    parts = [
        f"(SELECT id FROM {source} ORDER BY {order} LIMIT {limit})"  # noqa: S608
        for source in _sources(schema, query, condition)
    ]
    text = f"SELECT id::text, NULL FROM ({' UNION ALL '.join(parts)}) f ORDER BY f.id DESC LIMIT {limit}"  # noqa: S608
    return (text if parts else ""), values


async def count(unit: Unit, who: Principal, query: JobFilter) -> int:
    schema = unit.database.schema
    condition, _, values = search(_DIALECT, who, query, f"{schema}.")
    parts = [f"(SELECT count(*) FROM {source})" for source in _sources(schema, query, condition)]  # noqa: S608
    return int(await unit.connection.fetchval(f"SELECT {' + '.join(parts)}", *values)) if parts else 0


async def error_groups(unit: Unit, who: Principal, query: JobFilter) -> list[ErrorGroup]:
    text, values = groups(_DIALECT, who, query, "history", f"{unit.database.schema}.")
    found = [GroupRow(*row) for row in await unit.connection.fetch(text, *values)]
    return shown(found, await _infos(unit, who, [row.example for row in found]))


def _sources(schema: str, query: JobFilter, condition: str) -> list[str]:
    """The tables that may hold the answer, with their conditions; the others need not be read."""
    states = frozenset(State) if query.states is None else frozenset(query.states)
    ended = query.ended_before is not None or query.ended_after is not None or query.group is not None
    live = states & LIVE and not ended
    tables = [table for table, wanted in (("jobs", live), ("history", states - LIVE)) if wanted]
    return [f"{schema}.{table} WHERE {condition}" for table in tables]


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
    return await reads.infos(unit, rows, last)


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


async def events(unit: Unit, who: Principal, after: int, limit: int) -> list[OutboxEvent]:
    await number_events(unit)
    return await reads.events(unit, who, after, limit)


async def outbox_span(unit: Unit) -> OutboxSpan:
    await number_events(unit)
    return await reads.outbox_span(unit)


async def writers_of_jobs(unit: Unit) -> set[str]:
    """Open transactions that may have looked at the watches: they insert or start jobs."""
    return {name for (name,) in await unit.rows("writers_of_jobs")}


async def number_events(unit: Unit) -> None:
    """Gives positions to new events."""
    if await unit.value("any_unread"):
        await unit.begin()
        await unit.value("lock_number", number=lock_number(unit.database.schema, "outbox"))
        await unit.run("number_events")
