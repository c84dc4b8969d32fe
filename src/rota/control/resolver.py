"""Releases jobs that wait for parents, and fires that wait for earlier fires of their schedule.

The write that ends a job mostly settles its edges. The rest (large fan-outs, children that another transaction held) is
announced, and settled here in pieces. Waiting fires are checked whenever a job has ended.
"""

from __future__ import annotations

from rota.clock import Clock
from rota.model.principal import SYSTEM
from rota.service import SelfWaking
from rota.store.base import Store

# Edges or schedules per write.
EDGES, SCHEDULES = 2_000, 200
# The least time between two looks: jobs end by the thousand.
PAUSE = 0.02
# And this multiple of the duration of the last look, so that other callers get their turn.
PART = 10
# The period while fires wait, in case the news of an end got lost.
POLL = 1.0
# The pause if edges are left although there was room: another transaction holds them for a moment.
SOON = 0.01
LONGEST_SLEEP = 60.0


class Resolver(SelfWaking):
    name = "resolver"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._unsettled = self._waiting = True  # unknown before the first look
        self._rest_until = float("-inf")

    def when_ended(self) -> None:
        """For news of ended jobs: wakes only if a fire waits."""
        if self._waiting:
            self.wake()

    def when_tied(self) -> None:
        self._unsettled = True
        self.wake()

    def when_fires_wait(self) -> None:
        self._waiting = True
        self.wake()

    async def tick(self) -> float:
        return min(await self._settle(), await self._release())

    async def _settle(self) -> float:
        if not self._unsettled:
            return LONGEST_SLEEP
        self._unsettled = False  # before the look: later news must not be lost
        try:
            settled = await self._store.settle(SYSTEM, EDGES)
        except BaseException:
            self._unsettled = True
            raise
        if not settled.unsettled:
            return LONGEST_SLEEP
        self._unsettled = True
        return 0.0 if settled.moved else SOON

    async def _release(self) -> float:
        if not self._waiting:
            return LONGEST_SLEEP
        began = self._clock.monotonic()
        if began < self._rest_until:
            return self._rest_until - began
        released, waiting = await self._store.release(SYSTEM, SCHEDULES)
        now = self._clock.monotonic()
        self._rest_until, self._waiting = now + max(PAUSE, PART * (now - began)), bool(waiting)
        if released and waiting:
            return self._rest_until - now
        return POLL if waiting else LONGEST_SLEEP
