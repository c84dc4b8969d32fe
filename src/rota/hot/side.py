"""What the hot tier has on one event loop: its members, the heap, the wake-ups, and the news of running jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from rota.clock import Chance, Clock
from rota.errors import StoreError
from rota.hot.behind import WriteBehind
from rota.hot.counts import Counts
from rota.hot.due import DueJobs
from rota.hot.heap import DueHeap
from rota.hot.lane import Due, Lane
from rota.hot.member import Member
from rota.hot.reports import MEMORY, Reports
from rota.hot.status import Status
from rota.hot.wakes import KNOWN_DUE, Wakes, known_to_heap
from rota.store.base import Store
from rota.store.loops import may_be_abandoned
from rota.store.values import Topic

# Entries of one call to the heap. More submits than that wait for the next call.
AT_ONCE = 2_000
# How long the end of the loop, or of the store, may wait for the last ones.
LAST_LIMIT = 1.0


class HotSide:
    def __init__(
        self,
        store: Store,
        lanes: Sequence[Lane],
        name: str,
        clock: Clock,
        chance: Chance,
        counts: Counts,
        changed: Callable[[Member], None],
        memory: int = MEMORY,
    ) -> None:
        """`name`: of the store, in its keys. `memory`: bytes that the news of running jobs may take."""
        self._store = store
        self.members = [Member(lane, name, chance, changed) for lane in lanes]
        self.heap = DueHeap(self.members, counts)
        self.due = DueJobs(store, self.heap, clock, counts)
        self.wakes = Wakes(store, self.members, chance.token(), counts)
        self.reports = Reports(self.members, memory)
        self.behind = WriteBehind(store, self.reports, counts)
        self.status = Status(store, self.reports, counts)
        self._new: list[Due] = []
        self._adding: asyncio.Task[None] | None = None
        self._ends: list[Callable[[], None]] = []
        for member in self.members:
            member.begin()

    async def reached(self, patience: float) -> None:
        """Returns when all members have answered or failed to, or after so many seconds."""
        await self.reports.reached(patience)

    def listen(self) -> None:
        """This process waits for wake-ups."""
        if not self._ends:
            self._ends = [self._store.listen(frozenset({Topic.DUE}), self._due_appeared), self.wakes.start()]

    def _due_appeared(self) -> None:
        if not known_to_heap.get():
            self.due.doubt()

    # -- jobs that were ordered --------------------------------------------------------------------------------------
    def add(self, entries: Sequence[Due]) -> None:
        """Soon; the caller does not wait for it."""
        self._new += entries
        if self._adding is None:
            self._adding = may_be_abandoned(asyncio.get_running_loop().create_task(self._add()))

    async def _add(self) -> None:
        entries: list[Due] = []
        try:
            await self.reached(LAST_LIMIT)  # the first entries of a process wait for its connections
            while self._new:
                entries, self._new = self._new[:AT_ONCE], self._new[AT_ONCE:]
                placed = await self.heap.add(entries)
                if placed.lost or placed.earliest:
                    await self._wake_promoters(known=not placed.lost)
        except asyncio.CancelledError:
            # asyncio.run() cancels all tasks when its main one has ended, and waits for them, but not for new ones: so
            # nobody is woken. Promoters look every two seconds, and read ahead.
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_LIMIT):
                    await self.heap.add([*entries, *self._new])
            raise
        finally:
            self._adding = None

    async def _wake_promoters(self, known: bool) -> None:
        known_to_heap.set(known)  # of this task alone
        self._store.heard({Topic.DUE})
        if not self.wakes.carry({KNOWN_DUE if known else Topic.DUE}):
            with suppress(StoreError):  # the sweep finds the jobs
                await self._store.tell({Topic.DUE})

    # -- for `store.loops` -------------------------------------------------------------------------------------------
    async def close(self) -> None:
        if self._adding is not None:
            await asyncio.wait([self._adding], timeout=LAST_LIMIT)
        await self.behind.close()
        self.status.end()
        for end in self._ends:
            end()
        await self.wakes.close()
        for member in self.members:
            await member.close()

    def drop(self) -> None:
        for member in self.members:
            member.drop()

    def descriptors(self) -> Iterable[int]:
        return [number for member in self.members for number in member.descriptors()]
