"""Deletes what is older than its retention, in small steps so that no write lasts long. The leader does it alone."""

from __future__ import annotations

from collections.abc import Callable

from rota.model.principal import SYSTEM
from rota.store.base import Retention, Store

BATCH = 200
PERIOD = 60.0
# How soon a new leader begins.
SOON = 5.0
# Between two batches, so that others get their turn.
BREATH = 0.02
# Partitions are dropped without hurry, a few of them in one tick, for up to ten minutes each.
LIMIT = 3600.0


class Janitor:
    name = "janitor"

    def __init__(self, store: Store, retention: Retention, leads: Callable[[], bool]) -> None:
        self._store, self._retention, self._leads = store, retention, leads

    async def tick(self) -> float:
        if not self._leads():
            return SOON
        deleted = await self._store.prune(SYSTEM, self._retention, BATCH)
        return BREATH if deleted else PERIOD
