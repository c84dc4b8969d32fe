"""Counts the kept output of users with a quota for it. Only the leader does it."""

from __future__ import annotations

from collections.abc import Callable

from rota.model.principal import SYSTEM
from rota.store.base import Store

# The store decides whose count is too old.
PERIOD = 10.0


class OutputCounter:
    name = "output counter"

    def __init__(self, store: Store, leads: Callable[[], bool]) -> None:
        self._store, self._leads = store, leads

    async def tick(self) -> float:
        if self._leads():
            await self._store.count_output(SYSTEM)
        return PERIOD
