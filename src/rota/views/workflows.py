"""Workflows and their jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rota.model.graph import Need
from rota.model.lifecycle import State
from rota.model.times import iso
from rota.store.graph import WorkflowInfo, WorkflowJob
from rota.tasks.results import shown
from rota.views.moments import Moment, moment


class WorkflowView(msgspec.Struct, kw_only=True):
    id: str
    name: str
    owner: str
    created_at: Moment
    state: str
    succeeded: bool
    counts: dict[State, int]
    unneeded: int

    @classmethod
    def of(cls, info: WorkflowInfo) -> WorkflowView:
        return cls(**_fields(info))


def _fields(info: WorkflowInfo) -> dict[str, Any]:
    counts = {one: info.counts[one] for one in State if info.counts.get(one)}
    same = {name: getattr(info, name) for name in ("id", "name", "owner", "state", "succeeded", "unneeded")}
    return same | {"created_at": iso(info.created_at), "counts": counts}


class EdgeView(msgspec.Struct):
    """A parent of a job. `result`: the arguments that are its result."""

    id: str
    need: Need
    result: list[str]


class WorkflowJobView(msgspec.Struct):
    id: str
    name: str
    task: str
    state: State
    reason: str | None
    started_at: Moment | None
    finished_at: Moment | None
    after: list[EdgeView]

    @classmethod
    def of(cls, job: WorkflowJob) -> WorkflowJobView:
        after = [EdgeView(edge.parent, edge.need, [*map(shown, edge.fills)]) for edge in job.parents]
        times = moment(job.started_at), moment(job.finished_at)
        return cls(job.id, job.name, job.task, job.state, job.reason, *times, after)


class WorkflowDetailView(WorkflowView, kw_only=True):
    jobs: list[WorkflowJobView]

    @classmethod
    def with_jobs(cls, info: WorkflowInfo, jobs: Sequence[WorkflowJob]) -> WorkflowDetailView:
        return cls(**_fields(info), jobs=[WorkflowJobView.of(job) for job in jobs])


class OrderedWorkflowView(msgspec.Struct):
    """A workflow that was ordered; `jobs`: ids by the names of its description."""

    id: str
    name: str
    jobs: dict[str, str]


class WorkflowChangeView(msgspec.Struct):
    id: str
    done: bool
    jobs: int
