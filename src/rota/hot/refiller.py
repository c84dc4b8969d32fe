"""Fills the heap from the store: at the start, every half hour, and whenever a member has lost what it knew."""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import Chance, Clock
from rota.hot.batches import pieces
from rota.hot.counts import Counts
from rota.hot.heap import HORIZON, DueHeap
from rota.hot.lane import Due
from rota.model.principal import SYSTEM
from rota.model.times import MINUTE, SECOND, Duration
from rota.store.base import Store
from rota.store.hints import ScheduledJob

PERIOD: Duration = 30 * MINUTE
# A new leader goes on with the heap of its predecessor, and so refills half an hour later than that one would have.
KEPT = HORIZON + PERIOD
# A page begins with a search among all jobs of its first instant, so small pages are slow where many jobs share one.
PAGE = 20_000
# Seconds between two looks at the heap's epoch, and the least between two refills.
LOOK, REST = 0.5, 1.0


async def refill(store: Store, heap: DueHeap, epoch: str) -> int:
    """Adds all jobs that will be due before the next refill; returns how many. A member that lacks some of them, since
    it was away or emptied meanwhile, is not marked as filled."""
    now, count, lacking = store.now(), 0, frozenset[str]()
    marks = await heap.begin_filling(epoch)
    after, until = ScheduledJob(now, ""), now + KEPT
    while jobs := await store.scheduled_jobs(SYSTEM, after, until, PAGE):
        for batch in pieces(jobs):  # one at a time: whoever looks for due jobs meanwhile waits behind them
            lacking |= (await heap.add([Due(job.id, job.at) for job in batch])).lost
        count += len(jobs)
        after = jobs[-1]
        if len(jobs) < PAGE or len(lacking) == len(heap.members):
            break
    await heap.begin_epoch(epoch, lacking | await heap.emptied(marks))
    return count


class Refiller:
    """A service of control nodes; only the leader refills."""

    name = "refiller"

    def __init__(
        self, store: Store, heap: DueHeap, clock: Clock, chance: Chance, leads: Callable[[], bool], counts: Counts
    ) -> None:
        self._store, self._heap, self._clock, self._chance, self._counts = store, heap, clock, chance, counts
        self._leads = leads
        self._epoch = ""  # of the last refill; "": none by this leader
        self._openings: dict[str, int] = {}  # of the members before it, by place
        self._again_at = 0.0
        self._not_before = 0.0

    async def tick(self) -> float:
        if not self._leads():
            self._epoch = ""
        elif self._needed() and self._clock.monotonic() >= self._not_before:
            self._not_before = self._clock.monotonic() + REST
            self._openings = self._openings_now()
            await refill(self._store, self._heap, epoch := self._chance.token())
            self._counts.refills += 1
            self._epoch = epoch
            self._again_at = self._clock.monotonic() + PERIOD / SECOND
        return LOOK

    def _needed(self) -> bool:
        """A member has another epoch than that of the last refill, since it was emptied or restored from a copy; or it
        was away, and may lack what was added meanwhile; or half an hour is over."""
        members = [member for member in self._heap.members if member.healthy]
        epochs = {self._heap.epochs.get(member.place, "") for member in members}
        if not self._epoch and len(epochs) == 1 and "" not in epochs:
            self._adopt(*epochs)
        returned = any(self._openings.get(member.place) != member.openings for member in members)
        return bool(members) and (epochs != {self._epoch} or returned or self._clock.monotonic() >= self._again_at)

    def _adopt(self, epoch: str) -> None:
        """A new leader goes on with the heap of its predecessor."""
        self._epoch, self._openings = epoch, self._openings_now()
        self._again_at = self._clock.monotonic() + PERIOD / SECOND

    def _openings_now(self) -> dict[str, int]:
        return {member.place: member.openings for member in self._heap.members}
