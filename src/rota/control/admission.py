"""Moves aside what may not run, and lets go what may again: behind gates, and in line for keys.

Claims see to it that nothing starts that must not. This only keeps the shelves in order: a job behind a gate is `held`
before any claim has to meet it, and nobody stands in line for longer than he must.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import Clock
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from rota.store.base import Store

# Jobs that one write moves.
BATCH = 1_000
# Between two looks, and as long again as the look took.
PAUSE, PART = 0.01, 1
# Followers let the leader go first.
FOLLOWERS_WAIT = 1.5
# The renewal of the node's lease wakes it once a second while anything is held.
LONGEST_SLEEP = 60.0


class AdmissionSweep:
    name = "admission"

    def __init__(self, store: Store, clock: Clock, leads: Callable[[], bool]) -> None:
        self._store, self._clock, self._leads = store, clock, leads
        self._rest_until = float("-inf")

    async def tick(self) -> float:
        began = self._clock.monotonic()
        if began < self._rest_until:
            return self._rest_until - began
        admitted = await self._store.admit(SYSTEM, BATCH)
        now = self._clock.monotonic()
        pause = max(PAUSE, PART * (now - began)) if self._leads() else FOLLOWERS_WAIT
        self._rest_until = now + pause
        if admitted.more:
            return pause
        if admitted.next_at is None:
            return LONGEST_SLEEP
        return min(max(pause, (admitted.next_at - self._store.now()) / SECOND), LONGEST_SLEEP)
