"""Dependencies: edges from parents to children, and the effect of a parent's end on a child.

A child starts when every parent has ended as the edge needs it. If one parent ends otherwise, the child is skipped, and
so are jobs that need its success, through the whole graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import msgspec

from rota.errors import InvalidInput
from rota.model.lifecycle import TERMINAL, State
from rota.model.rank import rank
from rota.model.times import Duration, Instant

MOST_PARENTS = 100_000
# Jobs of a cycle that a message shows: enough to find it, short enough for a line.
MOST_SHOWN = 8


class Need(StrEnum):
    SUCCESS = "success"
    FINISH = "finish"  # however it ended, also if it never ran
    FAILURE = "failure"  # it failed for good


class EdgeState(StrEnum):
    OPEN = "open"
    MET = "met"
    BROKEN = "broken"


class Edge(msgspec.Struct, frozen=True, gc=False, array_like=True):
    parent: str
    need: Need = Need.SUCCESS


class ParentInfo(msgspec.Struct, frozen=True):
    """A parent as its child sees it; `result` is its return value, if it succeeded."""

    id: str
    task: str
    state: State | None  # None: it was purged
    need: Need = Need.SUCCESS
    edge: EdgeState = EdgeState.OPEN
    result: object = None


def edge_state(need: Need, parent: State | None) -> EdgeState:
    """The state of an edge whose parent is in this state. None: the parent was purged, so it has ended in an unknown
    way."""
    if parent is not None and parent not in TERMINAL:
        return EdgeState.OPEN
    fits = {Need.SUCCESS: parent is State.SUCCEEDED, Need.FAILURE: parent is State.FAILED, Need.FINISH: True}
    return EdgeState.MET if fits[need] else EdgeState.BROKEN


class Child(NamedTuple):
    """A job that waits for others, when a parent ends."""

    state: State
    waits: int  # parents that have not ended as needed
    run_at: Instant
    priority: int
    rank: int


def after_parents(child: Child, met: int, now: Instant, step: Duration) -> Child:
    """The child after `met` more of its parents have ended as needed. After the last it goes on; its rank counts from
    the first instant at which it is due and its parents have ended."""
    waits = max(child.waits - met, 0)
    if waits or child.state is not State.BLOCKED:
        return child._replace(waits=waits)
    due = max(child.run_at, now)
    state = State.READY if child.run_at <= now else State.SCHEDULED
    return Child(state, 0, due, child.priority, rank(due, child.priority, step))


def why_skipped(parent: str, need: Need, task: str | None, state: str | None) -> str:
    if state is None:
        return f"its parent {parent} is gone"
    name = f"its parent {parent} ({task})"
    if need is Need.FAILURE:
        return f"{name} did not fail: it {state}"
    return f"{name} {state}" if state in (State.SUCCEEDED, State.FAILED) else f"{name} was {state}"


def need(given: object) -> Need:
    try:
        return Need(given)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidInput("on", given, f"one of {', '.join(Need)}") from None


def edges(parents: Iterable[Edge]) -> tuple[Edge, ...]:
    """Each parent once, in order of ids. Raises if a parent has two different needs."""
    found: dict[str, Edge] = {}
    for edge in parents:
        if found.setdefault(edge.parent, edge).need is not edge.need:
            raise InvalidInput("after", edge.parent, "each parent once, with one need")
    if len(found) > MOST_PARENTS:
        raise InvalidInput("after", f"{len(found)} parents", f"at most {MOST_PARENTS}")
    return tuple(found[parent] for parent in sorted(found))


def check(order: Mapping[str, Sequence[Edge]], names: Mapping[str, str]) -> None:
    """Refuses an order (child: its edges) in which jobs wait for each other. `names` are for people."""
    inside = {child: [edge.parent for edge in found if edge.parent in order] for child, found in order.items()}
    for child, parents in inside.items():
        if child in parents:
            raise InvalidInput("after", names[child], "other jobs as parents; it waits for itself")
    try:
        TopologicalSorter(inside).prepare()
    except CycleError as error:
        path = [names[job] for job in reversed(error.args[1])]
        if len(path) > MOST_SHOWN:
            path = [*path[: MOST_SHOWN // 2], f"... {len(path) - MOST_SHOWN} more ...", *path[-MOST_SHOWN // 2 :]]
        wrong = InvalidInput("after", path, "jobs that don't wait for each other in a circle")
        wrong.args = (f"after: jobs wait for each other in a circle: {' -> '.join(path)}",)  # the whole path
        raise wrong from None


def below(children: Mapping[str, Collection[str]], start: Iterable[str]) -> list[str]:
    """These jobs and all jobs that wait for them, directly or not, each once."""
    found: dict[str, None] = dict.fromkeys(start)
    todo = list(found)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found[child] = None
                todo.append(child)
    return list(found)
