"""Dependencies: edges from parents to children, and the effect of a parent's end on a child.

A child starts when every parent has ended as its edge needs it. If one parent ends otherwise, the child is skipped, and
so are jobs that need its success, through the whole graph. A child that waits for trouble needs one parent with
trouble, and waits for all of them; without any it is skipped, since there is nothing for it to do.

A job that is skipped for its parents keeps the cause. So a child sees what is behind a skipped parent without a walk
through the graph, also when jobs further up were deleted or run again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import msgspec

from rota.errors import InvalidInput
from rota.model.lifecycle import LIVE, TERMINAL, State
from rota.model.rank import rank
from rota.model.times import Duration, Instant

MOST_PARENTS = 100_000
# Jobs of a cycle that a message shows: enough to find it, short enough for a line.
MOST_SHOWN = 8
NOTHING_FAILED = "nothing before it failed"


class Need(StrEnum):
    SUCCESS = "success"
    FINISH = "finish"  # however it ended, also if it never ran
    FAILURE = "failure"  # it failed for good
    FINE = "fine"  # it succeeded, or was not needed
    TROUBLE = "trouble"  # it failed, or was skipped because a job before it failed; one parent like that is enough


class EdgeState(StrEnum):
    OPEN = "open"
    MET = "met"
    BROKEN = "broken"
    CLEAR = "clear"  # the child waits for trouble, and this parent has ended without


class SkipCause(StrEnum):
    """Why a job was skipped for its parents."""

    TROUBLE = "trouble"  # a job before it failed
    STOPPED = "stopped"  # a job before it was cancelled or dropped, or is gone
    UNNEEDED = "unneeded"  # it waited for a failure, and there was none


Path = tuple[str | int, ...]  # of a value inside arguments: the name of the argument, then keys and positions


class Edge(msgspec.Struct, frozen=True, gc=False, array_like=True):
    parent: str
    need: Need = Need.SUCCESS
    fills: tuple[Path, ...] = ()  # arguments of the child that are the parent's result


class ParentInfo(msgspec.Struct, frozen=True):
    """A parent as its child sees it; `result` is its return value, if it succeeded."""

    id: str
    task: str
    state: State | None  # None: it was purged
    need: Need = Need.SUCCESS
    edge: EdgeState = EdgeState.OPEN
    result: Any = None
    name: str = ""  # in its workflow; "": it has none
    fills: tuple[Path, ...] = ()


class ParentEnd(NamedTuple):
    """The state of a parent, and the cause if it was skipped for its own parents."""

    state: State | None  # None: it was purged, so it has ended in an unknown way
    cause: SkipCause | None = None

    @property
    def troubled(self) -> bool:
        return self.state is State.FAILED or self.cause is SkipCause.TROUBLE

    @property
    def fine(self) -> bool:
        return self.state is State.SUCCEEDED or self.cause is SkipCause.UNNEEDED


def edge_state(need: Need, parent: ParentEnd) -> EdgeState:
    """The state of an edge whose parent has ended like this."""
    if parent.state is not None and parent.state not in TERMINAL:
        return EdgeState.OPEN
    match need:
        case Need.TROUBLE:
            return EdgeState.MET if parent.troubled else EdgeState.CLEAR
        case Need.FINE:
            met = parent.fine
        case Need.SUCCESS:
            met = parent.state is State.SUCCEEDED
        case Need.FAILURE:
            met = parent.state is State.FAILED
        case Need.FINISH:
            met = True
    return EdgeState.MET if met else EdgeState.BROKEN


def is_unneeded(edges: Iterable[tuple[Need, EdgeState]]) -> bool:
    """Whether a child whose parents have all ended has nothing to do: it waits for trouble, and there was none."""
    marks = {state for need, state in edges if need is Need.TROUBLE}
    return bool(marks) and EdgeState.MET not in marks


def skip_cause(broken: Iterable[tuple[Need, ParentEnd]]) -> SkipCause:
    """The cause of a skip, from all broken edges of the child. None are broken if the child was unneeded."""
    found = {_cause(need, parent) for need, parent in broken}
    return next((one for one in (SkipCause.TROUBLE, SkipCause.STOPPED) if one in found), SkipCause.UNNEEDED)


def _cause(need: Need, parent: ParentEnd) -> SkipCause:
    if need is Need.FAILURE:
        return SkipCause.UNNEEDED
    return SkipCause.TROUBLE if parent.troubled else parent.cause or SkipCause.STOPPED


class Child(NamedTuple):
    """A job that waits for others, when a parent ends."""

    state: State
    waits: int  # parents that have not ended as needed
    run_at: Instant
    priority: int
    rank: int


def after_parents(child: Child, ended: int, now: Instant, step: Duration, unneeded: bool = False) -> Child:
    """The child after `ended` more of its parents have ended, none of them otherwise than needed. After the last it
    goes on, or is skipped if it is unneeded; its rank counts from the first instant at which it is due and its parents
    have ended."""
    waits = max(child.waits - ended, 0)
    if waits or child.state is not State.BLOCKED:
        return child._replace(waits=waits)
    if unneeded:
        return child._replace(waits=0, state=State.SKIPPED)
    due = max(child.run_at, now)
    state = State.READY if child.run_at <= now else State.SCHEDULED
    return Child(state, 0, due, child.priority, rank(due, child.priority, step))


def why_skipped(parent: str, need: Need, called: str | None, state: str | None) -> str:
    """`called`: the name of the parent in its workflow, or else its task."""
    if state is None:
        return f"its parent {parent} is gone"
    name = f"its parent {parent} ({called})"
    if need is Need.FAILURE:
        return f"{name} did not fail: it {state}"
    return f"{name} {state}" if state in (State.SUCCEEDED, State.FAILED) else f"{name} was {state}"


def workflow_state(counts: Mapping[State, int], unneeded: int) -> str:
    """The state of a whole workflow in a word, from the numbers of its jobs. `unneeded`: skipped jobs that had nothing
    to do; they don't count against its success."""
    if State.RUNNING in counts:
        return "running"
    if LIVE & counts.keys():
        return "waiting"
    for bad in (State.FAILED, State.CANCELLED):
        if bad in counts:
            return bad
    succeeded = counts.get(State.SUCCEEDED, 0) + unneeded
    return "succeeded" if succeeded == sum(counts.values()) > 0 else "ended"


def need(given: object) -> Need:
    try:
        return Need(given)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidInput("on", given, f"one of {', '.join(Need)}") from None


def edges(parents: Iterable[Edge]) -> tuple[Edge, ...]:
    """Each parent once, in order of ids. Raises if a parent has two different needs."""
    found: dict[str, Edge] = {}
    for edge in parents:
        known = found.setdefault(edge.parent, edge)
        if known.need is not edge.need:
            raise InvalidInput("after", edge.parent, "each parent once, with one need")
        if known.fills != edge.fills:
            fills = dict.fromkeys((*known.fills, *edge.fills))
            found[edge.parent] = msgspec.structs.replace(known, fills=tuple(fills))
    if len(found) > MOST_PARENTS:
        raise InvalidInput("after", f"{len(found)} parents", f"at most {MOST_PARENTS}")
    return tuple(found[parent] for parent in sorted(found))


def after_all(need: Need, others: Iterable[str], given: Sequence[Edge] = ()) -> tuple[Edge, ...]:
    """The edges of a job that comes after all others of its order. `given`: those that it has anyway."""
    known = {edge.parent: edge for edge in given}
    return edges([*given, *(Edge(job, need) for job in others if job not in known)])


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
