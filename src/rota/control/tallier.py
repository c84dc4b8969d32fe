"""Counts ended jobs into tallies, for statistics, in small steps. Only the leader does it."""

from __future__ import annotations

from collections.abc import Callable

from rota.model.principal import SYSTEM
from rota.store.base import Store

# Jobs of one step.
BATCH = 5_000
# Readers count by themselves what has ended since the last step.
PERIOD = 15.0
# Pause between two steps, so that others get their turn.
BREATH = 0.05


class Tallier:
    name = "tallier"

    def __init__(self, store: Store, leads: Callable[[], bool]) -> None:
        self._store, self._leads = store, leads

    async def tick(self) -> float:
        if not self._leads():
            return PERIOD
        return BREATH if await self._store.tally(SYSTEM, BATCH) else PERIOD
