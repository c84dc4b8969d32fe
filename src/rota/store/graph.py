"""The part of the contract of a store that is about jobs that wait for others; see `store.base` for what verbs share.

A job that others wait for is *tied*. Whatever ends it, by whatever verb, puts it on a list in the same transaction, and
whoever works on that list lets its children go on or skips them. Most verbs do so before they commit. What they leave
(a fan-out too large for one write, a child that someone else holds) `settle` finds on the list: nothing is forgotten,
and no two of them see each other half done, because each edge is marked once and each child counts down under a lock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from rota.model.graph import Edge, ParentInfo
from rota.model.lifecycle import State
from rota.model.principal import Principal
from rota.model.times import Instant


class Settled(msgspec.Struct, frozen=True):
    moved: int  # children that went on or were skipped
    unsettled: bool  # there is more to do
    waiting: bool  # some job waits for another


class WorkflowInfo(msgspec.Struct, frozen=True):
    id: str
    owner: str
    name: str  # "": it has none
    created_at: Instant
    counts: dict[State, int] = {}


class WorkflowJob(msgspec.Struct, frozen=True):
    id: str
    task: str
    state: State
    reason: str | None
    started_at: Instant | None
    finished_at: Instant | None
    parents: tuple[Edge, ...] = ()


class WorkflowFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which workflows; all given conditions must hold. Newest first."""

    ids: tuple[str, ...] | None = None
    name: str | None = None
    limit: int = 50


class Graph(ABC):
    @abstractmethod
    async def settle(self, who: Principal, limit: int) -> Settled:
        """Looks after jobs that ended or that someone has begun to wait for, at most about `limit` edges."""

    @abstractmethod
    async def parents(self, who: Principal, job_id: str) -> list[ParentInfo]:
        """What the job was ordered after, with the results."""

    @abstractmethod
    async def workflows(self, who: Principal, query: WorkflowFilter) -> list[WorkflowInfo]: ...

    @abstractmethod
    async def workflow(self, who: Principal, workflow_id: str) -> Sequence[WorkflowJob]:
        """The jobs of a workflow in the order in which they were ordered; none if it is not there."""

    @abstractmethod
    async def resolve_workflow(self, who: Principal, part: str) -> list[str]:
        """Ids of workflows that begin or end with this text, or have it as their name; at most three, latest first."""
