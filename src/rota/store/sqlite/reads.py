"""Reads for people: jobs with their attempts, output, tasks, counts, events."""

from __future__ import annotations

from typing import Any

from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.store.rows import AttemptRow, job_info, job_row, read_object, task_infos
from rota.store.sqlite import graph, schedules
from rota.store.sqlite.database import Database, encode
from rota.store.values import Chunk, JobFilter, OutboxEvent, Position

_DEAD = ("failed",)


def get(db: Database, who: Principal, job_id: str) -> JobInfo | None:
    seq = db.value("job_by_id", id=job_id, sees=who.sees)
    return None if seq is None else _infos(db, [seq])[0]


def find(db: Database, who: Principal, query: JobFilter) -> list[JobInfo]:
    text, values = _search(who, query)
    seqs = [seq for (seq,) in db.connection.execute(text, values)]
    by_seq = dict(zip(sorted(seqs, reverse=True), _infos(db, seqs), strict=True))
    return [by_seq[seq] for seq in seqs]


def _search(who: Principal, query: JobFilter) -> tuple[str, dict[str, Any]]:
    """The only query built at run time: an unused condition must not prevent the use of an index."""
    conditions: list[str] = []
    values: dict[str, Any] = {"limit": query.limit}

    def where(condition: str, **given: Any) -> None:
        conditions.append(condition)
        values.update(given)

    if who.sees is not None:
        where("owner = :sees", sees=who.sees)
    if query.ids is not None:
        where("id IN (SELECT value FROM json_each(:ids))", ids=encode(query.ids).decode())
    if query.states is not None:
        # Literals from the table of states, not parameters: partial indexes only match literals, and `=` where they
        # say so.
        names = [repr(State(state).value) for state in query.states]
        where(f"state = {names[0]}" if len(names) == 1 else f"state IN ({', '.join(names)})")
    if query.queue is not None:
        where("queue = :queue", queue=query.queue)
    if query.task is not None:
        where("task GLOB :task", task=query.task)
    if query.error is not None:
        where("instr(reason, :error) > 0", error=query.error)
    if query.ended_before is not None:
        where("finished_at < :ended_before", ended_before=query.ended_before)
    order = "finished_at DESC, seq DESC" if query.states == _DEAD else "seq DESC"
    text = f"SELECT seq FROM jobs WHERE {' AND '.join(conditions) or '1'} ORDER BY {order} LIMIT :limit"  # noqa: S608
    return text, values


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
