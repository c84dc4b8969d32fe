"""Sets aside jobs whose task no node has ever offered, after the grace. Only the leader does it.

Clients may be deployed before nodes, so an unknown task is no mistake at first: its job stays ready, and the first node
that offers the task takes it. A task that stays unknown is a mistake.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import Clock
from rota.model.principal import SYSTEM
from rota.model.times import SECOND, Duration
from rota.store.base import Store
from rota.telemetry.events import Bus, UnofferedSetAside

# Jobs of one write.
BATCH = 200
PERIOD = 10.0
# Pause between two writes, so that other writers get their turn.
BREATH = 0.02
# A new leader waits this long, or for the grace: after a full stop, nodes that offer more tasks may still be starting.
SETTLING: Duration = 300 * SECOND


class UnofferedSweep:
    name = "unoffered"

    def __init__(self, store: Store, clock: Clock, bus: Bus, grace: Duration, leads: Callable[[], bool]) -> None:
        self._store, self._clock, self._bus, self._grace, self._leads = store, clock, bus, grace, leads
        self._leading_since: float | None = None

    async def tick(self) -> float:
        if not self._leads():
            self._leading_since = None
            return PERIOD
        now = self._clock.monotonic()
        self._leading_since = now if self._leading_since is None else self._leading_since
        left = min(self._grace, SETTLING) / SECOND - (now - self._leading_since)
        if left > 0:
            return min(left, PERIOD)
        gone = await self._store.set_aside_unoffered(SYSTEM, self._grace, BATCH)
        for task, jobs in sorted(gone.items()):
            self._bus.emit(UnofferedSetAside(task, jobs, self._grace))
        return BREATH if gone else PERIOD
