"""Turns rows of a store into the values that people see. Every backend fetches the same columns.

Rows may have been written by hand, so a value that doesn't decode is shown as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from rota.model.graph import Edge, EdgeState, Need, ParentEnd, ParentInfo, Path, SkipCause
from rota.model.job import NO_RETRY, AttemptInfo, JobInfo, Kind, shown_order
from rota.model.lifecycle import State
from rota.model.node import FarAccess, NodeInfo, NodeState
from rota.model.outcome import Ending, Problem, Usage
from rota.model.progress import Progress
from rota.model.requirements import read_requirements
from rota.model.retry import Retry
from rota.model.task import TaskInfo
from rota.model.times import aware, aware_or_none, timedelta_or_none
from rota.model.trigger.records import FireInfo, FireKind, ScheduledFire, StoredSchedule
from rota.model.trigger.skipped import SkipReason
from rota.store.columns import SHOWN
from rota.store.graph import WorkflowInfo, WorkflowJob

T = TypeVar("T")
Otherwise = TypeVar("Otherwise")


JobRow = Mapping[str, Any]  # by the names of columns.SHOWN


def job_row(values: Iterable[Any]) -> JobRow:
    return dict(zip(_SHOWN, values, strict=True))


class AttemptRow(NamedTuple):
    """An attempt that ended, in the order of columns.ATTEMPT."""

    job: Any
    number: int
    fence: int
    node: str
    started_at: int
    finished_at: int
    outcome: str
    exit_code: int | None
    error: str | None
    result: str | None
    usage: str | None


def job_info(
    row: JobRow, past: Sequence[AttemptRow], fire: ScheduledFire | None = None, member: Member | None = None
) -> JobInfo:
    read = dict(row)
    tries = read.pop("tries")
    for name, reader in _READERS.items():
        read[name] = reader(read[name])
    for name in _TIMES:
        if (moment := read[name]) is not None:
            read[name] = aware(moment)
    state, attempts = read["state"], [_attempt(one) for one in past]
    if state is State.RUNNING and (started_at := read["started_at"]) is not None:
        attempts.append(AttemptInfo(tries, row["fence"], row["node"] or "", started_at))
    read["spec"], read["args"] = shown_order(row["kind"], read_object(row["spec"]), read["args"])
    return JobInfo(
        **read,
        attempts=attempts,
        result=_json(past[-1].result) if past and state is State.SUCCEEDED else None,
        error=_error(state, attempts, row["reason"]),
        schedule=fire.schedule if fire else None,
        fire_time=aware(fire.fire) if fire else None,
        workflow=member.workflow if member else None,
        name=member.name if member else "",
    )


def _attempt(row: AttemptRow) -> AttemptInfo:
    problem = read_problem(row.error) if row.error is not None else None
    return AttemptInfo(
        row.number, row.fence, row.node, aware(row.started_at), aware_or_none(row.finished_at), Ending(row.outcome),
        row.exit_code, problem, None if row.usage is None else _read(row.usage, Usage, Usage()),
    )  # fmt: skip


def _error(state: str, attempts: list[AttemptInfo], reason: str | None) -> Problem | None:
    """The last error, unless a later success or a fresh start has made it history."""
    if state == State.SUCCEEDED:
        return None
    last = next((a.error for a in reversed(attempts) if a.error is not None), None)
    if last is None and state == State.FAILED:
        return Problem("rota.SetAside", reason or "set aside")
    return last


def _json(text: str | None) -> Any:
    try:
        return msgspec.json.decode(text or "null")
    except (msgspec.DecodeError, RecursionError):
        return {"broken": text}


def read_object(text: str | None) -> dict[str, Any]:
    found = _json(text)
    return found if isinstance(found, dict) else {"broken": text}


def _retry(text: str | None) -> Retry:
    try:
        return _decode_retry(text or "")
    except (msgspec.MsgspecError, RecursionError):
        return NO_RETRY


def read_problem(text: str) -> Problem:
    try:
        return msgspec.json.decode(text, type=Problem)
    except (msgspec.MsgspecError, RecursionError):
        return Problem("unknown", text)


def _progress(text: str | None) -> Progress | None:
    if text is None:
        return None
    told = _read(text, tuple[float | None, str, int], None)
    return None if told is None else Progress(told[0], told[1], aware(told[2]))


def _kind(text: str) -> Kind:
    return _KINDS.get(text, Kind.COMMAND)


_decode_retry = msgspec.json.Decoder(Retry).decode
_KINDS = {kind.value: kind for kind in Kind}
_STATES = {state.value: state for state in State}
_SHOWN = tuple(column.name for column in SHOWN)
# The columns that are not shown as they are.
_READERS: dict[str, Callable[[Any], Any]] = {
    "state": _STATES.__getitem__, "kind": _kind, "args": read_object, "retry": _retry, "cancelling": bool,
    "progress": _progress, "timeout": timedelta_or_none, "requirements": read_requirements,
    "meta": lambda text: {} if text is None else read_object(text),
}  # fmt: skip
_TIMES = tuple(name for name in _SHOWN if name.endswith("_at"))


def task_infos(texts: Iterable[str]) -> list[TaskInfo]:
    found: list[TaskInfo] = []
    for text in texts:
        with suppress(msgspec.MsgspecError):  # written by hand, or by a newer version
            found.append(msgspec.json.decode(text, type=TaskInfo))
    return found


class Member(NamedTuple):
    """A job in its workflow."""

    workflow: str
    name: str


def parent_info(row: Sequence[Any]) -> ParentInfo:
    parent, task, state, need, edge_state, result, name, fills = row
    known = None if state is None else State(state)
    found = _json(result) if known is State.SUCCEEDED else None
    return ParentInfo(parent, task or "", known, Need(need), EdgeState(edge_state), found, name or "", _fills(fills))


def parent_end(state: str | None, cause: str | None) -> ParentEnd:
    return ParentEnd(None if state is None else State(state), None if cause is None else SkipCause(cause))


def edge(parent: str, need: str, fills: str | None) -> Edge:
    return Edge(parent, Need(need), _fills(fills))


def _fills(text: str | None) -> tuple[Path, ...]:
    return () if text is None else _read(text, tuple[Path, ...], ())


def workflow_infos(rows: Iterable[Sequence[Any]], counts: Iterable[Sequence[Any]]) -> list[WorkflowInfo]:
    states: dict[str, dict[State, int]] = {}
    unneeded: dict[str, int] = {}
    for workflow, state, cause, count in counts:
        known = states.setdefault(workflow, {})
        known[State(state)] = known.get(State(state), 0) + count
        if cause == SkipCause.UNNEEDED:
            unneeded[workflow] = count
    return [
        WorkflowInfo(workflow, owner, name, aware(created_at), states.get(workflow, {}), unneeded.get(workflow, 0))
        for workflow, owner, name, created_at in rows
    ]


def workflow_job(row: Sequence[Any], parents: tuple[Edge, ...]) -> WorkflowJob:
    job, task, state, reason, started_at, finished_at, name, args = row
    times = aware_or_none(started_at), aware_or_none(finished_at)
    return WorkflowJob(job, task, State(state), reason, *times, parents, name, args or "")


def schedule_info(row: Sequence[Any]) -> StoredSchedule:
    return StoredSchedule(**dict(zip(StoredSchedule.__struct_fields__, row, strict=True)))


def fire_infos(rows: Iterable[Sequence[Any]], limit: int) -> list[FireInfo]:
    """Merges made fires and runs of skipped fires, latest first. Of entries for the same time, the later decision comes
    first."""
    latest = sorted(rows, key=lambda row: (row[0], row[3]), reverse=True)[:limit]
    return [
        FireInfo(
            fire=aware(fire), last=aware(last), count=count, at=aware(at), kind=FireKind(kind) if kind else None,
            reason=_reason(reason), job_id=job_id, state=State(state) if state else None,
        )
        for fire, last, count, at, kind, reason, job_id, state in latest
    ]  # fmt: skip


def _reason(text: str | None) -> SkipReason | None:
    return SkipReason(text) if text is not None and text in SkipReason._value2member_map_ else None


class NodeRow(NamedTuple):
    incarnation: str
    id: str
    roles: str
    queues: str
    version: str
    state: str
    started_at: int
    seen_at: int
    lease: int
    beats: int
    running: int
    leads: bool
    access_key: str | None
    access_user: str | None
    line: str | None


def node_info(row: NodeRow, gone: bool = False, fading: int | None = None) -> NodeInfo:
    return NodeInfo(
        id=row.id, incarnation=row.incarnation, roles=_read(row.roles, tuple[str, ...], ()),
        queues=_read(row.queues, dict[str, int], {}), version=row.version, state=NodeState(row.state),
        started_at=aware(row.started_at), seen_at=aware(row.seen_at), lease=row.lease, beats=row.beats,
        running=row.running, leader=bool(row.leads), gone=gone, fading=fading, line=row.line,
        access=FarAccess(row.access_key, row.access_user or "") if row.access_key else None,
    )  # fmt: skip


def _read(text: str, kind: type[T], otherwise: Otherwise) -> T | Otherwise:
    """Returns the default for a broken row: it must not keep the reaper from the others."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError:
        return otherwise
