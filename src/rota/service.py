"""The one service loop.

A service looks at its shelf once per `tick()` and says how long it may sleep. The loop owns everything else:
sleeping, waking, backing off after errors, stopping. No service calls another; they meet in the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from rota.clock import Chance

FIRST_BACK_OFF = 0.1
# When the store is back, work should be too: within a second, and nobody has to be restarted for it.
LONGEST_BACK_OFF = 1.0


class Service(Protocol):
    @property
    def name(self) -> str: ...

    async def tick(self) -> float:
        """Does one step; returns for how many seconds there will be nothing to do unless someone wakes it."""


class Loop:
    """Runs one service until it is stopped."""

    def __init__(
        self,
        service: Service,
        chance: Chance,
        failed: Callable[[str, Exception], None],
        longest_back_off: float = LONGEST_BACK_OFF,
    ) -> None:
        self.service = service
        self._chance, self._failed, self._longest = chance, failed, longest_back_off
        self._woken = asyncio.Event()
        self._stopping = False

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()

    async def run(self) -> None:
        errors = 0
        while not self._stopping:
            self._woken.clear()
            try:
                delay = await self.service.tick()
                errors = 0
            except Exception as error:
                errors += 1
                self._failed(self.service.name, error)
                await self._back_off(errors)
            else:
                await self._sleep(delay)

    async def _sleep(self, delay: float) -> None:
        if delay <= 0 or self._woken.is_set():
            await asyncio.sleep(0)  # a busy service must not starve the others
            return
        alarm = asyncio.get_running_loop().call_later(delay, self._woken.set)
        await self._woken.wait()
        alarm.cancel()

    async def _back_off(self, errors: int) -> None:
        """Wake-ups don't count here, only stopping does: they must not turn a back-off into a tight loop."""
        longest = min(FIRST_BACK_OFF * 2 ** min(errors, 10), self._longest)
        until = asyncio.get_running_loop().time() + longest * (0.5 + self._chance.random() / 2)
        while not self._stopping and (left := until - asyncio.get_running_loop().time()) > 0:
            self._woken.clear()
            await self._sleep(left)
