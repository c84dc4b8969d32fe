"""Deletes records older than their retention, in small steps so that no write lasts long. Only the leader does it."""

from __future__ import annotations

from collections.abc import Callable

from rota.config import Settings
from rota.model.principal import SYSTEM
from rota.model.times import DAY
from rota.store.base import Store
from rota.store.values import Retention

BATCH = 200
PERIOD = 60.0
# Delay before a new leader begins.
SOON = 5.0
# Pause between two batches, so that other writers get their turn.
BREATH = 0.02
# A tick drops a few partitions, which may take up to ten minutes each.
LIMIT = 3600.0


def retention(settings: Settings) -> Retention:
    kept = settings.retention
    return Retention(kept, settings.dead_retention, kept, DAY, settings.audit_retention)


class Janitor:
    name = "janitor"

    def __init__(self, store: Store, retention: Retention, leads: Callable[[], bool]) -> None:
        self._store, self._retention, self._leads = store, retention, leads

    async def tick(self) -> float:
        if not self._leads():
            return SOON
        deleted = await self._store.prune(SYSTEM, self._retention, BATCH)
        return BREATH if deleted else PERIOD
