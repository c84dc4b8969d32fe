"""What a hot tier in front of a store asks of it, a part of the contract of a store (`store.base`).

The hot tier knows which jobs are due soon and carries wake-ups. It may be wrong about both: these verbs move only what
the store itself finds due, and a wake-up that nobody carries goes by the store.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from rota.model.principal import Principal
from rota.model.times import Instant
from rota.service import Service
from rota.store.values import Topic
from rota.store.verbs import NODE, READ, WRITE, Verbs, verb


class ScheduledJob(NamedTuple):
    """A job and its due time. As a place in their order the job need not exist, and a text that is no id stands before
    all jobs of its instant."""

    at: Instant
    id: str


class Hints(Verbs):
    @verb(WRITE, NODE, "promote", batch="ids", nothing=int)
    @abstractmethod
    async def promote_jobs(self, who: Principal, /, ids: Sequence[str]) -> int:
        """Moves those of these jobs to ready that are scheduled, due now by the store's clock, and not expired; returns
        how many. Nothing happens to others, nor to jobs that another transaction holds."""

    @verb(READ, NODE, "list scheduled")
    @abstractmethod
    async def scheduled_jobs(
        self, who: Principal, /, after: ScheduledJob, until: Instant, limit: int
    ) -> list[ScheduledJob]:
        """Scheduled jobs by due time and id: those behind `after` that are due at `until` or before, at most `limit`.
        A page that begins among jobs of one instant reads all of these, so pages should not be small where many jobs
        share an instant. A walk begins at the present: overdue jobs are the promoter's, and the time before is full of
        entries of promoted ones."""

    @verb(READ, NODE, "list scheduled", batch="ids")
    @abstractmethod
    async def due_times(self, who: Principal, /, ids: Sequence[str]) -> list[ScheduledJob]:
        """Those of these jobs that are scheduled, in no order."""

    def carry_wakes(self, carry: Callable[[set[Topic]], bool]) -> None:
        """From now on `carry` is asked, on the loop of the call, before other processes are told of a commit. True:
        somebody else tells them, and the store need not. Listeners of this process are woken by the store as always. A
        store that tells others for next to nothing never asks."""

    def heard(self, topics: Set[Topic]) -> None:
        """Wakes the listeners of this process alone, for a wake-up that came another way."""

    def tell_people(self, tell: Callable[[str], None]) -> None:
        """From now on `tell` gets a line about what people should know of the store, such as the loss of a part that it
        can do without."""

    def services(self, leads: Callable[[], bool]) -> Sequence[Service]:
        """What a node with the role `control` runs for this store. `leads`: whether this node leads."""
        return ()
