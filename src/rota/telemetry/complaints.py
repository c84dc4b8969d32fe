"""Reports refused writes now and then, not each of them."""

from __future__ import annotations

import asyncio

from rota.telemetry.events import Bus, ServiceFailed

QUIET = 10.0


class Complaints:
    """About one kind of writes, on one event loop."""

    def __init__(self, bus: Bus, what: str) -> None:
        self._bus, self._what = bus, what
        self._quiet_until = 0.0

    def tell(self, error: Exception) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET
            self._bus.emit(ServiceFailed(self._what, f"{type(error).__name__}: {error}"))
