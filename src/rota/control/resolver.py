"""Lets fires run that waited for earlier ones of their schedule.

As long as some wait, it looks whenever a job has ended; otherwise it sleeps.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import Clock
from rota.model.principal import SYSTEM
from rota.store.base import Store

# Schedules that one write goes through.
BATCH = 200
# Jobs end by the thousand: between two looks there is this much time at least.
PAUSE = 0.02
# And so many times as long as the look took, with many thousands that wait: others need the store too.
PART = 10
# While some wait, for the case that the news of an end got lost.
POLL = 1.0
LONGEST_SLEEP = 60.0


class Resolver:
    name = "resolver"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._waiting = True  # until a look tells otherwise
        self._rest_until = float("-inf")

    def when_some_wait(self, wake: Callable[[], None]) -> Callable[[], None]:
        """For news of jobs that ended: wakes only if that may concern somebody."""

        def ended() -> None:
            if self._waiting:
                wake()

        return ended

    async def tick(self) -> float:
        began = self._clock.monotonic()
        if began < self._rest_until:
            return self._rest_until - began
        released, waiting = await self._store.release(SYSTEM, BATCH)
        now = self._clock.monotonic()
        self._rest_until, self._waiting = now + max(PAUSE, PART * (now - began)), bool(waiting)
        if released and waiting:
            return self._rest_until - now
        return POLL if waiting else LONGEST_SLEEP
