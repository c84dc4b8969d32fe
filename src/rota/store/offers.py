"""The contract of a store, part offers: the functions that nodes offer; see `store.base` for what all verbs share.

A node offers the functions of its app, and claims no others. A job whose task no node offers now stays ready. If some
node has offered that task before, it waits for as long as it takes: its app is away. If none ever has, the client is
ahead of a deploy, or the name is wrong: such a job waits for a grace and is then set aside.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from types import NoneType

import msgspec

from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.model.times import Duration, Instant, short
from rota.store.verbs import NODE, READ, WRITE, Verbs, verb


class Unoffered(msgspec.Struct, frozen=True):
    """A task that ready jobs of a queue wait for, and that no node has ever offered."""

    queue: str
    task: str
    since: Instant  # when the first in line was due


def why_set_aside(task: str, grace: Duration) -> str:
    return f"no node has offered task {task!r} within {short(grace)}"


class Offers(Verbs):
    @verb(WRITE, batch="tasks", nothing=NoneType, audit=None)
    @abstractmethod
    async def make_known(self, who: Principal, /, tasks: Sequence[TaskInfo]) -> None:
        """Describes tasks that no node has offered yet, so that others can order them; known ones stay as they are."""

    @verb(READ)
    @abstractmethod
    async def offering(self, who: Principal, /) -> dict[str, list[str]]:
        """The ids of the living nodes that offer each task, by the name of the task."""

    @verb(READ, NODE, "list")
    @abstractmethod
    async def unoffered(self, who: Principal, /) -> list[Unoffered]:
        """The tasks that ready jobs wait for and that no node has ever offered. Costs one look into an index for each
        task that has ready jobs, not for each job."""

    @verb(WRITE, NODE, "set aside")
    async def set_aside_unoffered(self, who: Principal, /, grace: Duration, limit: int) -> dict[str, int]:
        """Ends jobs of unoffered tasks that have been due for the grace, about `limit` of them: they go to the dead
        letters. Returns how many of each task. A task is one write."""
        ended: Counter[str] = Counter()
        for one in await self.unoffered(who):
            if ended.total() < limit:
                ended[one.task] += await self.set_aside_task(who, one, grace, limit)
        return dict(+ended)

    @verb(WRITE, NODE, "set aside")
    @abstractmethod
    async def set_aside_task(self, who: Principal, /, one: Unoffered, grace: Duration, limit: int) -> int:
        """The same for one task, unless a node has come to offer it; returns how many jobs ended."""
