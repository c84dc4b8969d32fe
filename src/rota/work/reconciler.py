"""Gives back attempts that the store lists for this node and that the node does not know.

A service of its own: it writes, and may have to wait for rows that others hold. Renewals must not wait with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.job import Ref
from rota.service import SelfWaking
from rota.work.worker import Worker

# A renewal that finds lost attempts wakes it.
LONGEST_SLEEP = 60.0


class Reconciler(SelfWaking):
    name = "reconciler"

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def heard(self, holds: Sequence[Ref]) -> None:
        """Remembers the attempts that the store lists for this node, from a renewal."""
        if self._worker.compare(holds):
            self.wake()

    async def tick(self) -> float:
        await self._worker.give_back_lost()
        return LONGEST_SLEEP
