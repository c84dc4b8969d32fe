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
# While some wait, for the case that the news of an end got lost.
POLL = 1.0
LONGEST_SLEEP = 60.0


class Resolver:
    name = "resolver"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._waiting = True  # until a look tells otherwise
        self._looked = float("-inf")

    def when_some_wait(self, wake: Callable[[], None]) -> Callable[[], None]:
        """For news of jobs that ended: wakes only if that may concern somebody."""

        def ended() -> None:
            if self._waiting:
                wake()

        return ended

    async def tick(self) -> float:
        pause = self._looked + PAUSE - self._clock.monotonic()
        if pause > 0:
            return pause
        released, waiting = await self._store.release(SYSTEM, BATCH)
        self._looked, self._waiting = self._clock.monotonic(), bool(waiting)
        if released and waiting:
            return PAUSE
        return POLL if waiting else LONGEST_SLEEP
