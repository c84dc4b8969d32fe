"""Reads for people: jobs with their attempts, output, tasks, counts, events."""

from __future__ import annotations

from typing import Any

from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.store.job_search import Dialect, search
from rota.store.rows import AttemptRow, job_info, job_row, read_object, task_infos
from rota.store.sqlite import graph, schedules
from rota.store.sqlite.database import Database, encode
from rota.store.values import Chunk, JobFilter, JobPage, OutboxEvent, Position

_DIALECT = Dialect(
    mark="?{}",
    conditions={
        "ids": "id IN (SELECT value FROM json_each({}))",
        "task": "task GLOB {}",
        "error": "instr(reason, {}) > 0",
        "label": "EXISTS (SELECT 1 FROM json_each(iif(json_valid(requirements), requirements, 'null'), '$.labels') "
        "WHERE value = {})",
        "workflow": "id IN (SELECT job FROM members WHERE workflow = {})",
    },
    values={"ids": lambda ids: encode(ids).decode()},
)


def get(db: Database, who: Principal, job_id: str) -> JobInfo | None:
    seq = db.value("job_by_id", id=job_id, sees=who.sees)
    return None if seq is None else _infos(db, [seq])[0]


def page(db: Database, who: Principal, query: JobFilter) -> JobPage:
    found = list(db.connection.execute(*page_query(who, query)))
    seqs = [seq for seq, *_ in found]
    infos = dict(zip(sorted(seqs, reverse=True), _infos(db, seqs), strict=True))
    last = query.cursor(*found[-1][1:]) if len(found) == query.limit else None
    return JobPage([infos[seq] for seq in seqs], last)


def page_query(who: Principal, query: JobFilter) -> tuple[str, list[Any]]:
    condition, order, values = search(_DIALECT, who, query)
    text = f"SELECT seq, id, finished_at FROM jobs WHERE {condition} ORDER BY {order} LIMIT {query.limit:d}"  # noqa: S608
    return text, values


def count(db: Database, who: Principal, query: JobFilter) -> int:
    condition, _, values = search(_DIALECT, who, query)
    ((number,),) = db.connection.execute(f"SELECT count(*) FROM jobs WHERE {condition}", values)  # noqa: S608
    return int(number)


def resolve(db: Database, who: Principal, part: str) -> list[str]:
    found = db.rows("ids_beginning", low=part, high=part + "\x7f", sees=who.sees)
    return [job for (job,) in found or db.rows("ids_ending", tail=part, sees=who.sees)]


def _infos(db: Database, seqs: list[int]) -> list[JobInfo]:
    """In descending order of seq."""
    text = encode(seqs).decode()
    attempts: dict[int, list[AttemptRow]] = {}
    for row in db.rows("attempt_rows", seqs=text):
        attempts.setdefault(row[0], []).append(AttemptRow(*row))
    rows = {seq: job_row(values) for seq, *values in db.rows("job_rows", seqs=text)}
    ids = [row["id"] for row in rows.values()]
    fires, workflows = schedules.of_jobs(db, ids), graph.of_jobs(db, ids)
    return [
        job_info(row, attempts.get(seq, []), fires.get(row["id"]), workflows.get(row["id"]))
        for seq, row in rows.items()
    ]


def output(db: Database, who: Principal, job_id: str, after: Position, limit: int) -> list[Chunk]:
    seq = db.value("job_by_id", id=job_id, sees=who.sees)
    if seq is None:
        return []
    rows = db.rows("output_rows", seq=seq, fence=after.fence, number=after.number, limit=limit)
    return [Chunk(job_id, *row) for row in rows]


def tasks(db: Database) -> list[TaskInfo]:
    return task_infos(info for (info,) in db.rows("task_rows"))


def counts(db: Database, who: Principal) -> dict[State, int]:
    return {State(state): count for state, count in db.rows("state_counts", sees=who.sees)}


def events(db: Database, who: Principal, after: int, limit: int) -> list[OutboxEvent]:
    rows = db.rows("event_rows", after=after, sees=who.sees, limit=limit)
    return [
        OutboxEvent(seq, at, kind, owner, subject, read_object(data)) for seq, at, kind, owner, subject, data in rows
    ]
