"""Holds jobs behind gates and full keys, and releases them when they may run.

Claims ensure that no such job starts. This service only tidies: it holds a gated job before a claim has to meet it, and
releases waiting jobs promptly.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import Clock
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from rota.store.base import Store

# Jobs that one write moves.
BATCH = 1_000
# Pause between two looks, plus the duration of the last look.
PAUSE, PART = 0.01, 1
# Followers wait for the leader to act first.
FOLLOWERS_WAIT = 1.5
# While jobs are held, the renewal of the node's lease wakes this service once a second.
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
