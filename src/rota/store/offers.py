"""The part of the contract of a store that is about which functions nodes offer; see `store.base` for what verbs share.

A node offers the functions of its app, and claims no others. A job whose task no node offers now stays ready. If some
node has offered that task before, it waits for as long as it takes: its app is away. If none ever has, the client is
ahead of a deploy, or the name is wrong: such a job waits for a grace and is then set aside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.model.times import Duration, Instant, short


class Unoffered(msgspec.Struct, frozen=True):
    """A task that ready jobs of a queue wait for, and that no node has ever offered."""

    queue: str
    task: str
    since: Instant  # when the first in line was due


def why_set_aside(task: str, grace: Duration) -> str:
    return f"no node has offered task {task!r} within {short(grace)}"


class Offers(ABC):
    @abstractmethod
    async def make_known(self, who: Principal, tasks: Sequence[TaskInfo]) -> None:
        """Describes tasks that no node has offered yet, so that others can order them; known ones stay as they are."""

    @abstractmethod
    async def unoffered(self, who: Principal) -> list[Unoffered]:
        """Costs a look into an index for each task that has ready jobs, however many those are."""

    @abstractmethod
    async def set_aside_unoffered(self, who: Principal, grace: Duration, limit: int) -> dict[str, int]:
        """Ends jobs of unoffered tasks that have been due for the grace, about `limit` of them: they go to the dead
        letters. Returns how many of each task."""
