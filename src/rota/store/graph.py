"""The contract of a store, part dependencies: jobs that wait for others; see `store.base` for what all verbs share.

A job that others wait for is *tied*. Any verb that ends it puts it on a list in the same transaction. Settling an entry
of the list releases or skips the children. Most verbs settle before they commit. The rest (a fan-out too large for one
write, a child that another transaction holds) stays on the list for `settle`, so nothing is forgotten. Each edge is
marked once and each child counts down under a lock, so no transaction sees another's work half done.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime

import msgspec

from rota.model.graph import Edge, ParentInfo, workflow_state
from rota.model.lifecycle import State
from rota.model.principal import Principal
from rota.model.times import Instant
from rota.store.verbs import NODE, READ, WRITE, Verbs, verb


class Settled(msgspec.Struct, frozen=True):
    moved: int  # children that went on or were skipped
    unsettled: bool  # there is more to do
    waiting: bool  # some job waits for another


class WorkflowInfo(msgspec.Struct, frozen=True):
    id: str
    owner: str
    name: str  # "": it has none
    created_at: datetime
    counts: dict[State, int] = {}
    unneeded: int = 0  # skipped jobs that had nothing to do, such as an alarm

    @property
    def state(self) -> str:
        """Running, waiting, failed, cancelled, succeeded or ended (otherwise). It has succeeded if all jobs that were
        needed have."""
        return workflow_state(self.counts, self.unneeded)

    def __repr__(self) -> str:
        counts = {str(state): count for state, count in self.counts.items()}
        return f"WorkflowInfo(id={self.id!r}, name={self.name!r}, state={self.state!r}, counts={counts!r})"

    @property
    def succeeded(self) -> bool:
        return self.state == State.SUCCEEDED


class WorkflowJob(msgspec.Struct, frozen=True):
    id: str
    task: str
    state: State
    reason: str | None
    started_at: datetime | None
    finished_at: datetime | None
    parents: tuple[Edge, ...] = ()
    name: str = ""  # in the workflow; "": it has none
    args: str = ""  # as JSON; "" if they are long


class WorkflowFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which workflows; all given conditions must hold. Newest first."""

    ids: tuple[str, ...] | None = None
    name: str | None = None
    after: tuple[Instant, str] | None = None  # creation and id of the last one of the page before
    limit: int = 50


class Graph(Verbs):
    @verb(WRITE, NODE)
    @abstractmethod
    async def settle(self, who: Principal, /, limit: int) -> Settled:
        """Settles jobs that ended, and edges to jobs that had ended before; at most about `limit` edges."""

    @verb(READ)
    @abstractmethod
    async def parents(self, who: Principal, /, job_id: str) -> list[ParentInfo]:
        """The parents of the job, with their results."""

    @verb(READ)
    @abstractmethod
    async def workflows(self, who: Principal, /, query: WorkflowFilter) -> list[WorkflowInfo]:
        """The workflows that fit, newest first, with the number of their jobs in each state."""

    @verb(READ)
    @abstractmethod
    async def workflow(self, who: Principal, /, workflow_id: str) -> Sequence[WorkflowJob]:
        """The jobs of a workflow in the order in which they were ordered; none if it is not there."""

    @verb(READ)
    @abstractmethod
    async def resolve_workflow(self, who: Principal, /, part: str) -> list[str]:
        """Ids of workflows that begin or end with this text, or have it as their name; at most three, latest first."""
