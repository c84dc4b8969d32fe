"""Makes due jobs ready, and ends jobs that expired before they started.

It sleeps to the exact next instant and is woken when an earlier one appears. Every control node does so. The leader
acts at once, the others only on jobs that have been due for a while.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.model.principal import SYSTEM
from rota.model.times import MILLISECOND, SECOND, Duration
from rota.store.base import Store

# One write stays well under 50 ms.
BATCH = 500
# Bounds a single sleep. For lost wake-ups the renewal of the node's lease wakes this service.
LONGEST_SLEEP = 60.0
# Followers wait for the leader to act first. Promoting a job twice is harmless.
FOLLOWERS_WAIT: Duration = 300 * MILLISECOND


class Promoter:
    name = "promoter"

    def __init__(self, store: Store, leads: Callable[[], bool]) -> None:
        self._store, self._leads = store, leads

    async def tick(self) -> float:
        late = 0 if self._leads() else FOLLOWERS_WAIT
        _, upcoming = await self._store.promote(SYSTEM, BATCH, late)
        if upcoming is None:
            return LONGEST_SLEEP
        return min(max(0.0, (upcoming - self._store.now()) / SECOND), LONGEST_SLEEP)
