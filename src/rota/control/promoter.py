"""Moves jobs whose time has come to the ready shelf, and ends those that expired before they started.

It sleeps to the exact next instant and is woken when an earlier one appears.
"""

from __future__ import annotations

from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from rota.store.base import Store

# One write stays well under 50 ms.
BATCH = 500
# The renewal of the node's lease is the backstop for lost wake-ups; this only bounds a single sleep.
LONGEST_SLEEP = 60.0


class Promoter:
    name = "promoter"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def tick(self) -> float:
        _, upcoming = await self._store.promote(SYSTEM, BATCH)
        if upcoming is None:
            return LONGEST_SLEEP
        return min(max(0.0, (upcoming - self._store.now()) / SECOND), LONGEST_SLEEP)
