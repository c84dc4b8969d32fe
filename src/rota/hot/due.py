"""Promotion by the heap: due jobs are made ready by their ids, and a sweep of the store finds what the heap missed.

The heap may be wrong in every way. An entry of a job that is no longer scheduled promotes nothing. An entry that is too
early is put right by the store's answer. A job without an entry is found by the sweep, and mostly before it is due: the
leader reads the next seconds of the store ahead of time, and adds what it finds. While the heap is away, or is not
filled, promotion is the store's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from rota.clock import Clock
from rota.hot.counts import Counts
from rota.hot.heap import DueHeap
from rota.hot.lane import Due, Look
from rota.model.principal import SYSTEM
from rota.model.times import LATEST, MILLISECOND, SECOND, Duration, Instant
from rota.store.base import Store
from rota.store.cells import is_id
from rota.store.hints import ScheduledJob

# Between two sweeps: of the leader, and of a follower, which stands in for a leader that is gone.
SWEEP, FOLLOWERS_SWEEP = 2.0, 10.0
# The longest sleep without the heap: those who add to it may think that the leader knows.
WITHOUT: Duration = SECOND
# Younger jobs are left to the heap: they are on their way.
YOUNG: Duration = 100 * MILLISECOND
# How far the leader reads ahead, and how many jobs at most. The next sweep comes before that is over.
AHEAD: Duration = 4 * SECOND
READ = 5_000
# In doubt it begins that far back: a job may have been made due at once.
BACK: Duration = SECOND
# At least, before the next look at a job that the store does not promote though it is due by our clock.
A_MOMENT: Duration = MILLISECOND


class DueJobs:
    """Belongs to one event loop."""

    def __init__(self, store: Store, heap: DueHeap, clock: Clock, counts: Counts) -> None:
        self._store, self._heap, self._clock, self._counts = store, heap, clock, counts
        self._swept_at = float("-inf")
        self._doubtful = True  # a job may have become scheduled that the heap was not told of
        self._read_until = ScheduledJob(0, "")  # up to there the heap knows what the store knows
        self._follows = False  # and does not lead
        self._dropped: Due | None = None  # the first entry of the last look, if it was dropped then

    def doubt(self) -> None:
        self._doubtful = True

    async def promote(self, limit: int, late: Duration) -> tuple[int, Instant | None]:
        """As `Store.promote`."""
        if late == 0 and self._follows:  # a new leader: what the last one had still to read is overdue
            self._doubtful, self._swept_at = True, float("-inf")
        self._follows = late > 0
        found = await self._look(limit, late)
        if found and found.due and found.due[0] == self._dropped:  # such a heap would be asked again and again
            await self._heap.drop(found.due[:1])
            found = None
        if found is None:
            self._counts.fallbacks += 1
            self._doubtful = True
            moved, upcoming = await self._store.promote(SYSTEM, limit, late)
            return moved, min(upcoming or LATEST, self._store.now() + WITHOUT)
        moved, upcoming = 0, found.upcoming
        if found.due:
            moved = await self._promote(found.due)
            # An entry that was added while those stood in front of it woke nobody.
            rest = await self._heap.look(0, 0)
            upcoming = rest.upcoming if rest else self._store.now()
        if self._sweep_due(late):
            moved += await self._sweep(limit, late)
        return moved, self._next(upcoming, late)

    async def _look(self, limit: int, late: Duration) -> Look | None:
        """Reads ahead before it, if that is needed."""
        needed = self._doubtful or (late == 0 and self._sweep_due(late))
        if needed and self._heap.whole:
            await self._read_ahead()
            needed = False
        found = await self._heap.look(self._store.now() - late, limit)
        if needed and found is not None:  # the heap is whole again
            await self._read_ahead()
            found = await self._heap.look(self._store.now() - late, limit)
        return found

    async def _promote(self, due: Sequence[Due]) -> int:
        """Returns how many jobs were moved."""
        ids = [entry.job for entry in due if is_id(entry.job)]  # what others write there may be no id, and no text
        moved = await self._store.promote_jobs(SYSTEM, ids)
        self._counts.promoted += moved
        left = await self._store.due_times(SYSTEM, ids) if moved < len(ids) else []
        waiting = set(left)
        over = [entry for entry in due if ScheduledJob(entry.at, entry.job) not in waiting]
        await self._heap.drop(over)
        self._dropped = due[0] if over[:1] == due[:1] else None
        if left:
            now = self._store.now()
            await self._heap.add([Due(job.id, _again(job.at, now)) for job in left])
        return moved

    async def _sweep(self, limit: int, late: Duration) -> int:
        moved, _ = await self._store.promote(SYSTEM, limit, max(late, YOUNG))
        self._counts.swept += moved
        if moved < limit:
            self._swept_at = self._clock.monotonic()
        return moved

    async def _read_ahead(self) -> None:
        now = self._store.now()
        doubtful, self._doubtful = self._doubtful, False
        after = ScheduledJob(now - BACK, "") if doubtful else max(ScheduledJob(now, ""), self._read_until)
        until = now + AHEAD
        try:
            jobs = await self._store.scheduled_jobs(SYSTEM, after, until, READ)
        except BaseException:
            self._doubtful |= doubtful
            raise
        self._read_until = jobs[-1] if len(jobs) == READ else ScheduledJob(until + 1, "")
        if jobs:
            await self._heap.add([Due(job.id, job.at) for job in jobs])

    def _sweep_due(self, late: Duration) -> bool:
        return self._until_sweep(late) <= 0

    def _until_sweep(self, late: Duration) -> float:
        """In seconds."""
        return self._swept_at + (FOLLOWERS_SWEEP if late else SWEEP) - self._clock.monotonic()

    def _next(self, upcoming: Instant | None, late: Duration) -> Instant:
        """The next sweep, or the next entry."""
        sweep = self._store.now() + ceil(max(0.0, self._until_sweep(late)) * SECOND)
        return sweep if upcoming is None else min(sweep, upcoming + late)


def _again(at: Instant, now: Instant) -> Instant:
    """When to look again at a job that is scheduled still. It has another time than its entry had; or our clock is a
    little fast, another transaction holds the job, or it has expired. So the pause is as long as it is overdue."""
    return at if at > now else now + max(now - at, A_MOMENT)
