"""Charges flows for the slots that they use, while they use them: a flood falls behind before its first job ends."""

from __future__ import annotations

from collections.abc import Callable, Collection

from rota.model.principal import SYSTEM
from rota.store.base import Store
from rota.work.worker import Worker

PERIOD = 1.0


class Meter:
    name = "meter"

    def __init__(self, store: Store, worker: Worker, queues: Callable[[], Collection[str]]) -> None:
        self._store, self._worker, self._queues = store, worker, queues

    async def tick(self) -> float:
        """A charge that is lost by an error is not repeated: charges affect fairness, not correctness."""
        await self._store.charge(SYSTEM, self._worker.used(self._queues()))
        return PERIOD
