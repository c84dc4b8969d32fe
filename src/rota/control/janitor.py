"""Deletes what is older than its retention, in small steps so that no write lasts long."""

from __future__ import annotations

from rota.model.principal import SYSTEM
from rota.store.base import Retention, Store

BATCH = 200
PERIOD = 60.0
# Between two batches, so that others get their turn.
BREATH = 0.02


class Janitor:
    name = "janitor"

    def __init__(self, store: Store, retention: Retention) -> None:
        self._store, self._retention = store, retention

    async def tick(self) -> float:
        deleted = await self._store.prune(SYSTEM, self._retention, BATCH)
        return BREATH if deleted else PERIOD
