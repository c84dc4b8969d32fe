"""Finding jobs on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.model.error_groups import ErrorGroup
from rota.model.job import JobInfo
from rota.model.principal import Principal
from rota.store.carriers import reads
from rota.store.carriers.error_groups import GroupRow, shown
from rota.store.job_search import Dialect, groups, search
from rota.store.rows import job_row
from rota.store.sqlite.database import Database, encode
from rota.store.sqlite.unit import SqliteUnit
from rota.store.values import JobFilter, JobPage


def _array(given: tuple[str, ...]) -> str:
    return encode(given).decode()


_DIALECT = Dialect(
    mark="?{}",
    conditions={
        "ids": "id IN (SELECT value FROM json_each({}))",
        "task": "task GLOB {}",
        "tasks": "task IN (SELECT value FROM json_each({}))",
        "error": "instr(reason, {}) > 0",
        "label": "EXISTS (SELECT 1 FROM json_each(iif(json_valid(requirements), requirements, 'null'), '$.labels') "
        "WHERE value = {})",
        "workflow": "id IN (SELECT job FROM members WHERE workflow = {})",
    },
    values={"ids": _array, "tasks": _array},
)


async def get_many(unit: SqliteUnit, who: Principal, ids: Sequence[str]) -> list[JobInfo | None]:
    return [*map((await _infos(unit, who, ids)).get, ids)]


async def page(unit: SqliteUnit, who: Principal, query: JobFilter) -> JobPage:
    found = list(unit.db.connection.execute(*page_query(who, query)))
    infos = await _infos(unit, who, [job for job, _ in found])
    last = query.cursor(*found[-1]) if found and len(found) == query.limit else None
    return JobPage([infos[job] for job, _ in found if job in infos], last)


def page_query(who: Principal, query: JobFilter) -> tuple[str, list[Any]]:
    condition, order, values = search(_DIALECT, who, query)
    text = f"SELECT id, finished_at FROM jobs WHERE {condition} ORDER BY {order} LIMIT {query.limit:d}"  # noqa: S608
    return text, values


def count(db: Database, who: Principal, query: JobFilter) -> int:
    condition, _, values = search(_DIALECT, who, query)
    ((number,),) = db.connection.execute(f"SELECT count(*) FROM jobs WHERE {condition}", values)  # noqa: S608
    return int(number)


async def error_groups(unit: SqliteUnit, who: Principal, query: JobFilter) -> list[ErrorGroup]:
    text, values = groups(_DIALECT, who, query, "jobs")
    found = [GroupRow(*row) for row in unit.db.connection.execute(text, values)]
    return shown(found, await _infos(unit, who, [row.example for row in found]))


def resolve(db: Database, who: Principal, part: str) -> list[str]:
    found = db.rows("ids_beginning", low=part, high=part + "\x7f", sees=who.sees)
    return [job for (job,) in found or db.rows("ids_ending", tail=part, sees=who.sees)]


async def _infos(unit: SqliteUnit, who: Principal, ids: Sequence[str]) -> dict[str, JobInfo]:
    rows = map(job_row, await unit.rows("job_rows", ids=ids, sees=who.sees))
    return await reads.infos(unit, {row["id"]: row for row in rows})
