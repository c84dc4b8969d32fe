"""Fills the heap from the store: at the start, every half hour, and whenever a member has lost what it knew."""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import Chance, Clock
from rota.hot.batches import pieces
from rota.hot.counts import Counts
from rota.hot.heap import HORIZON, PAGE, DueHeap
from rota.hot.lane import Due
from rota.model.principal import SYSTEM
from rota.model.times import MINUTE, SECOND, Duration
from rota.store.base import Store
from rota.store.hints import ScheduledJob

PERIOD: Duration = 30 * MINUTE
# A new leader goes on with the heap of its predecessor, and so refills half an hour later than that one would have.
KEPT = HORIZON + PERIOD
# Seconds between two looks at the heap's epoch, and the least between two refills.
LOOK, REST = 0.5, 1.0


async def refill(store: Store, heap: DueHeap, epoch: str) -> int:
    """Adds all jobs that will be due before the next refill; returns how many."""
    now, count = store.now(), 0
    after, until = ScheduledJob(now, ""), now + KEPT
    while jobs := await store.scheduled_jobs(SYSTEM, after, until, PAGE):
        for batch in pieces(jobs):  # one at a time: whoever looks for due jobs meanwhile waits behind them
            await heap.add([Due(job.id, job.at) for job in batch])
        count += len(jobs)
        after = jobs[-1]
        if len(jobs) < PAGE:
            break
    await heap.begin_epoch(epoch)
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
        self._again_at = 0.0
        self._not_before = 0.0

    async def tick(self) -> float:
        if not self._leads():
            self._epoch = ""
        elif self._needed and self._clock.monotonic() >= self._not_before:
            self._not_before = self._clock.monotonic() + REST
            await refill(self._store, self._heap, epoch := self._chance.token())
            self._counts.refills += 1
            self._epoch = epoch
            self._again_at = self._clock.monotonic() + PERIOD / SECOND
        return LOOK

    @property
    def _needed(self) -> bool:
        """A member has another epoch than that of the last refill: it was emptied, or restored from a copy, or was
        away. A new leader goes on with the epoch of its predecessor."""
        epochs = {self._heap.epochs.get(member.place, "") for member in self._heap.members if member.healthy}
        if not self._epoch and len(epochs) == 1 and "" not in epochs:
            (self._epoch,) = epochs
            self._again_at = self._clock.monotonic() + PERIOD / SECOND
        return bool(epochs) and (epochs != {self._epoch} or self._clock.monotonic() >= self._again_at)
