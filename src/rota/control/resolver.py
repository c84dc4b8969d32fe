"""Lets jobs go on that waited for others: for their parents, and fires for earlier ones of their schedule.

A job's end is mostly settled by the write that ends it. What that leaves (large fan-outs, children that someone else
held just then) is announced, and done here in pieces. Fires that wait are looked at whenever a job has ended.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import Clock
from rota.model.principal import SYSTEM
from rota.store.base import Store

# Edges, and schedules, that one write goes through.
EDGES, SCHEDULES = 2_000, 200
# Jobs end by the thousand: between two looks there is this much time at least.
PAUSE = 0.02
# And so many times as long as the look took, with many thousands that wait: others need the store too.
PART = 10
# While some fires wait, for the case that the news of an end got lost.
POLL = 1.0
# What is left although there was room for it is in someone else's hands for a moment.
SOON = 0.01
LONGEST_SLEEP = 60.0


class Resolver:
    name = "resolver"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._unsettled = self._waiting = True  # until a look tells otherwise
        self._rest_until = float("-inf")

    def when_some_wait(self, wake: Callable[[], None]) -> Callable[[], None]:
        """For news of jobs that ended: wakes only if a fire waits for that."""

        def ended() -> None:
            if self._waiting:
                wake()

        return ended

    def when_tied(self, wake: Callable[[], None]) -> Callable[[], None]:
        def left() -> None:
            self._unsettled = True
            wake()

        return left

    def when_fires_wait(self, wake: Callable[[], None]) -> Callable[[], None]:
        def wait() -> None:
            self._waiting = True
            wake()

        return wait

    async def tick(self) -> float:
        return min(await self._settle(), await self._release())

    async def _settle(self) -> float:
        if not self._unsettled:
            return LONGEST_SLEEP
        self._unsettled = False  # before looking: what is left meanwhile counts
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
