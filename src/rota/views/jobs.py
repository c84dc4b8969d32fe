"""Jobs, their attempts, their parents and their output."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from rota.model.graph import EdgeState, Need, ParentInfo
from rota.model.job import AttemptInfo, JobInfo, Kind
from rota.model.lifecycle import State
from rota.model.outcome import Ending, Problem, Usage
from rota.model.progress import Progress
from rota.model.requirements import Alone, Requirements
from rota.model.retry import Retry
from rota.model.times import SECOND, iso, short
from rota.store.values import Chunk
from rota.tasks.results import shown
from rota.views.moments import Moment, Period, moment, period


class RetryView(msgspec.Struct):
    """`rules`: what follows an error, by the name of its class."""

    retries: int
    backoff: str
    jitter: float
    rules: dict[str, Any]

    @classmethod
    def of(cls, retry: Retry) -> RetryView:
        return cls(**retry.parts())


class AloneView(msgspec.Struct):
    scope: str
    drain: Period
    drained: str

    @classmethod
    def of(cls, alone: Alone) -> AloneView:
        return cls(alone.match.scope(), short(alone.drain), "cancel" if alone.cancel else "yield")


class ErrorView(msgspec.Struct, omit_defaults=True):
    """The error of an attempt, or of a job."""

    type: str
    message: str
    trace: str | None = None

    @classmethod
    def of(cls, error: Problem | None) -> ErrorView | None:
        return None if error is None else cls(error.type, error.message, error.trace)


class UsageView(msgspec.Struct):
    """Seconds and bytes."""

    wall: float
    cpu: float
    memory: int
    isolation: list[str]

    @classmethod
    def of(cls, usage: Usage | None) -> UsageView | None:
        if usage is None:
            return None
        return cls(usage.wall_time / SECOND, usage.cpu_time / SECOND, usage.memory, list(usage.isolation))


class ProgressView(msgspec.Struct):
    fraction: float | None
    text: str
    at: Moment

    @classmethod
    def of(cls, progress: Progress | None) -> ProgressView | None:
        return None if progress is None else cls(progress.fraction, progress.text, iso(progress.at))


class AttemptView(msgspec.Struct):
    number: int
    fence: int
    node: str
    started_at: Moment
    finished_at: Moment | None
    outcome: Ending | None
    exit_code: int | None
    error: ErrorView | None
    usage: UsageView | None

    @classmethod
    def of(cls, attempt: AttemptInfo) -> AttemptView:
        return cls(
            attempt.number, attempt.fence, attempt.node, iso(attempt.started_at), moment(attempt.finished_at),
            attempt.outcome, attempt.exit_code, ErrorView.of(attempt.error), UsageView.of(attempt.usage),
        )  # fmt: skip


class Needs(msgspec.Struct, kw_only=True):
    """The parts of a job, or of a schedule's order, that admission reads."""

    labels: list[str]
    keys: list[str]
    alone: AloneView | None
    flow: str | None


def needs(requirements: Requirements) -> dict[str, Any]:
    """The fields of Needs."""
    alone = AloneView.of(requirements.alone) if requirements.alone else None
    names = [key.name for key in requirements.keys]
    return {"labels": list(requirements.labels), "keys": names, "alone": alone, "flow": requirements.flow}


class JobView(Needs, kw_only=True):
    id: str
    owner: str
    task: str
    kind: Kind
    spec: dict[str, Any]
    args: dict[str, Any]
    queue: str
    priority: int
    state: State
    reason: str | None
    run_at: Moment
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    expires_at: Moment | None
    timeout: Period | None
    retry: RetryView
    fence: int
    failures: int
    crashes: int
    interruptions: int
    replays: int
    node: str | None
    cancelling: bool
    key: str | None
    schedule: str | None
    fire_time: Moment | None
    workflow: str | None
    name: str
    meta: dict[str, Any]
    progress: ProgressView | None
    attempts: list[AttemptView]
    result: Any
    error: ErrorView | None
    error_group: str | None

    @classmethod
    def of(cls, info: JobInfo) -> JobView:
        return cls(**job_fields(info))


_MOMENTS = tuple(name for name in JobInfo.__struct_fields__ if name.endswith(("_at", "_time")))


def job_fields(info: JobInfo) -> dict[str, Any]:
    """The fields of JobView."""
    fields = msgspec.structs.asdict(info)
    del fields["requirements"]
    for name in _MOMENTS:
        if (at := fields[name]) is not None:
            fields[name] = iso(at)
    fields["timeout"] = period(info.timeout)
    fields["retry"] = RetryView.of(info.retry)
    fields["progress"] = ProgressView.of(info.progress)
    fields["error"] = ErrorView.of(info.error)
    fields["attempts"] = [AttemptView.of(attempt) for attempt in info.attempts]
    fields.update(needs(info.requirements))
    return fields


class ParentView(msgspec.Struct):
    """A job that another waits for. `state`: None if it is gone; `result`: the arguments that are its result."""

    id: str
    name: str
    task: str
    state: State | None
    need: Need
    edge: EdgeState
    result: list[str]

    @classmethod
    def of(cls, parent: ParentInfo) -> ParentView:
        """Without the result, which may be large."""
        places = [*map(shown, parent.fills)]
        return cls(parent.id, parent.name, parent.task, parent.state, parent.need, parent.edge, places)


class WaitReason(msgspec.Struct, frozen=True):
    """One reason for the state of a job: a sentence, and the same as data."""

    kind: str  # ended, parent, time, gate, key, alone, held, queue, worker, rank, running, schedule
    text: str
    data: dict[str, Any] = {}


class Explanation(msgspec.Struct, frozen=True):
    """Why a job is in its state; the most important reason comes first."""

    job: str
    state: State
    reasons: list[WaitReason]

    def __str__(self) -> str:
        return "\n".join(reason.text for reason in self.reasons)


class JobDetailView(JobView, kw_only=True):
    """A job with its relations. `held_by`: the gates and keys that hold it."""

    workflow_name: str | None
    parents: list[ParentView]
    held_by: list[WaitReason]


class ChunkView(msgspec.Struct):
    """A piece of output as text. Bytes that are no UTF-8 are there as `base64` too."""

    at: Moment
    attempt: int
    fence: int
    stream: str
    text: str
    base64: str | None = None

    @classmethod
    def of(cls, chunk: Chunk, attempt: int) -> ChunkView:
        try:
            text, raw = chunk.body.decode(), None
        except UnicodeDecodeError:
            text, raw = chunk.body.decode("utf-8", "replace"), base64.b64encode(chunk.body).decode()
        return cls(iso(chunk.at), attempt, chunk.fence, chunk.stream, text, raw)


class DoneView(msgspec.Struct):
    """What was done to one job."""

    id: str
    done: bool
    answer: str


def done_views(ids: Sequence[str], done: Sequence[bool], words: Sequence[str]) -> list[DoneView]:
    return [DoneView(*one) for one in zip(ids, done, words, strict=True)]
