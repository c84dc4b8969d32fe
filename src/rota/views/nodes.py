"""Nodes, and the tasks that they offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rota.model.limits import Policy, key_text, rate_text
from rota.model.node import FarAccess, NodeInfo, NodeState
from rota.model.options import Drained, TaskOptions
from rota.model.task import TaskInfo
from rota.model.times import Instant, as_instant, iso, short
from rota.views.jobs import RetryView
from rota.views.moments import Moment, Period, period


def shown_state(node: NodeInfo, now: Instant) -> str:
    """The state to show: the row says "live" until another node has taken over."""
    if node.state not in (NodeState.LIVE, NodeState.STOPPING):
        return node.state
    if node.gone:
        return "gone"
    return "silent" if now - as_instant(node.seen_at) > node.lease else node.state


class NodeView(msgspec.Struct):
    """A node. `state`: that of its row, `gone` or `silent`; `fading`: microseconds until it counts as gone."""

    id: str
    incarnation: str
    roles: list[str]
    queues: dict[str, int]
    version: str
    state: str
    started_at: Moment
    seen_at: Moment
    lease: Period
    beats: int
    running: int
    leader: bool
    gone: bool
    fading: int | None
    slots: int
    access: FarAccess | None  # of a worker that joined through a server

    @classmethod
    def of(cls, node: NodeInfo, now: Instant) -> NodeView:
        return cls(
            node.id, node.incarnation, list(node.roles), node.queues, node.version, shown_state(node, now),
            iso(node.started_at), iso(node.seen_at), short(node.lease), node.beats, node.running, node.leader,
            node.gone, node.fading, sum(node.queues.values()), node.access,
        )  # fmt: skip


class ParameterView(msgspec.Struct):
    """A parameter of a task. `types`: those of JSON; none: any."""

    name: str
    types: list[str]
    required: bool


class TaskView(msgspec.Struct, kw_only=True):
    """A task with the options that its jobs have unless their orders have others. `open`: takes any argument."""

    name: str
    parameters: list[ParameterView]
    open: bool
    queue: str
    priority: int
    retry: RetryView
    timeout: Period | None
    secrets: list[str]
    labels: list[str]
    flow: str | None
    exclusive: str | None
    rate: str | None
    limits: list[str]
    full: Policy
    alone: str | None
    drain: Period
    drained: Drained
    nodes: list[str]

    @classmethod
    def of(cls, task: TaskInfo, nodes: Sequence[str]) -> TaskView:
        return cls(**task_fields(task, nodes))


class TaskJobsView(msgspec.Struct):
    live: int
    dead: int


class TaskDetailView(TaskView, kw_only=True):
    jobs: TaskJobsView


def task_fields(task: TaskInfo, nodes: Sequence[str]) -> dict[str, Any]:
    """The fields of TaskView."""
    options = {name: getattr(task, name) for name in TaskOptions.__struct_fields__}
    parameters = [
        ParameterView(name, list(task.types.get(name, ())), name in task.required) for name in task.parameters
    ]
    texts = {
        "timeout": period(task.timeout), "retry": RetryView.of(task.retry), "drain": short(task.drain),
        "rate": None if task.rate is None else rate_text(task.rate), "labels": list(task.labels),
        "limits": [key_text(key) for key in task.limits],
    }  # fmt: skip
    head = {"name": task.name, "parameters": parameters, "open": task.open, "nodes": list(nodes)}
    return head | options | texts
