"""What people see: jobs with their attempts, output, tasks, counts, events."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from rota.model.job import NO_RETRY, AttemptInfo, JobInfo, Kind
from rota.model.lifecycle import State
from rota.model.outcome import Ending, Problem
from rota.model.principal import Principal
from rota.model.retry import Retry
from rota.store.base import Chunk, JobFilter, OutboxEvent, Position, TaskInfo
from rota.store.sqlite.database import Database, encode

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
    """The one query that is put together: a condition that isn't asked for must not keep an index from being used."""
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
    attempts: dict[int, list[tuple[Any, ...]]] = {}
    for job, *rest in db.rows("attempt_rows", seqs=text):
        attempts.setdefault(job, []).append(tuple(rest))
    rows = [_Row(*values) for values in db.rows("job_rows", seqs=text)]
    return [_info(row, attempts.get(row.seq, [])) for row in rows]


class _Row(NamedTuple):
    """The columns of `job_rows`, in their order."""

    seq: int
    id: str
    owner: str
    task: str
    kind: str
    spec: str | None
    args: str | None
    queue: str
    priority: int
    state: str
    reason: str | None
    run_at: int
    created_at: int
    started_at: int | None
    finished_at: int | None
    expires_at: int | None
    timeout: int | None
    retry: str | None
    fence: int
    tries: int
    failures: int
    crashes: int
    interruptions: int
    replays: int
    node: str | None
    cancelling: int
    key: str | None


_PLAIN = (
    "id", "owner", "task", "queue", "priority", "reason", "run_at", "created_at", "started_at", "finished_at",
    "expires_at", "timeout", "fence", "failures", "crashes", "interruptions", "replays", "node", "key",
)  # fmt: skip


def _info(row: _Row, past: list[tuple[Any, ...]]) -> JobInfo:
    state = State(row.state)
    attempts = [_attempt(values) for values in past]
    if state is State.RUNNING and row.started_at is not None:
        attempts.append(AttemptInfo(row.tries, row.fence, row.node or "", row.started_at))
    return JobInfo(
        **{name: getattr(row, name) for name in _PLAIN},
        state=state,
        kind=_kind(row.kind),
        spec=_object(row.spec),
        args=_object(row.args),
        retry=_retry(row.retry),
        cancelling=bool(row.cancelling),
        attempts=attempts,
        result=_json(past[-1][8]) if past and state is State.SUCCEEDED else None,
        error=_error(state, attempts, row.reason),
    )


def _attempt(values: tuple[Any, ...]) -> AttemptInfo:
    number, fence, node, started_at, finished_at, outcome, exit_code, error, _ = values
    problem = _problem(error) if error is not None else None
    return AttemptInfo(number, fence, node, started_at, finished_at, Ending(outcome), exit_code, problem)


def _error(state: str, attempts: list[AttemptInfo], reason: str | None) -> Problem | None:
    """The last error, unless a later success or a fresh start has made it history."""
    if state == State.SUCCEEDED:
        return None
    last = next((a.error for a in reversed(attempts) if a.error is not None), None)
    if last is None and state == State.FAILED:
        return Problem("rota.SetAside", reason or "set aside")
    return last


# Rows may have been written by anyone with access to the file: what doesn't decode is shown as it is.


def _json(text: str | None) -> Any:
    try:
        return msgspec.json.decode(text or "null")
    except (msgspec.DecodeError, RecursionError):
        return {"broken": text}


def _object(text: str | None) -> dict[str, Any]:
    found = _json(text)
    return found if isinstance(found, dict) else {"broken": text}


def _retry(text: str | None) -> Retry:
    try:
        return msgspec.json.decode(text or "", type=Retry)
    except (msgspec.MsgspecError, RecursionError):
        return NO_RETRY


def _problem(text: str) -> Problem:
    try:
        return msgspec.json.decode(text, type=Problem)
    except (msgspec.MsgspecError, RecursionError):
        return Problem("unknown", text)


def _kind(text: str) -> Kind:
    return Kind(text) if text in Kind._value2member_map_ else Kind.COMMAND


def output(db: Database, who: Principal, job_id: str, after: Position, limit: int) -> list[Chunk]:
    seq = db.value("job_by_id", id=job_id, sees=who.sees)
    if seq is None:
        return []
    rows = db.rows("output_rows", seq=seq, fence=after.fence, number=after.number, limit=limit)
    return [Chunk(job_id, *row) for row in rows]


def tasks(db: Database) -> list[TaskInfo]:
    found: list[TaskInfo] = []
    for (info,) in db.rows("task_rows"):
        with suppress(msgspec.MsgspecError):  # written by hand, or by a newer version
            found.append(msgspec.json.decode(info, type=TaskInfo))
    return found


def counts(db: Database, who: Principal) -> dict[State, int]:
    return {State(state): count for state, count in db.rows("state_counts", sees=who.sees)}


def events(db: Database, who: Principal, after: int, limit: int) -> list[OutboxEvent]:
    rows = db.rows("event_rows", after=after, sees=who.sees, limit=limit)
    return [OutboxEvent(seq, at, kind, owner, subject, _object(data)) for seq, at, kind, owner, subject, data in rows]
