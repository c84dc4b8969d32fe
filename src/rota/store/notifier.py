"""Wakes other processes: one notification at a time, and the next leaves as soon as the last has gone.

NOTIFY takes a lock that all notifications of the server share until they are committed, so none is sent inside the
transaction that it is about. Topics that come while one is on its way go out together in the next: the busier the
server, the more topics per notification. The budget bounds the cost of a flood for listeners, and delays a topic by a
few milliseconds at most. The last notification is sent even when `asyncio.run` ends the event loop; it is lost only
with a loop that was closed by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set

from rota.store.loops import may_be_abandoned

# More would gain nothing: a worker that finds work at this rate looks again by itself (`work/worker.py`).
PER_SECOND = 250.0
# Notifications without a pause after a quiet time.
BURST = 50
# How long the end of the loop, or of the store, may wait for the last one.
LAST_LIMIT = 1.0


class Notifier:
    """Belongs to one event loop."""

    def __init__(self, ring: Callable[[str], Awaitable[None]]) -> None:
        self._ring = ring
        self._pending: set[str] = set()
        self._leaving: set[str] = set()  # on their way
        self._budget = _Budget()
        self._task: asyncio.Task[None] | None = None

    def ring(self, topics: Set[str]) -> None:
        """Never waits, never fails."""
        self._pending |= topics
        if self._task is None:
            self._task = may_be_abandoned(asyncio.get_running_loop().create_task(self._pump()))

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                if (wait := self._budget.wait(loop.time())) > 0:
                    await asyncio.sleep(wait)
                self._budget.spend()
                await self._send()
        except asyncio.CancelledError:
            await self._send_last()  # asyncio.run() cancels all tasks when its main one has ended, and waits for them
            raise
        finally:
            self._task = None

    async def _send(self) -> None:
        self._leaving, self._pending = self._pending, set()
        await self._ring("".join(sorted(self._leaving)))
        self._leaving = set()

    async def _send_last(self) -> None:
        self._pending |= self._leaving
        try:
            async with asyncio.timeout(LAST_LIMIT):
                await self._send()
        except TimeoutError:
            pass

    async def close(self) -> None:
        """Sends the pending notifications: other processes may wait for them."""
        if self._task is not None:
            try:
                async with asyncio.timeout(LAST_LIMIT):
                    await asyncio.shield(self._task)
            except TimeoutError:
                self._task.cancel()


class _Budget:
    """A token bucket of notifications."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at: float | None = None

    def wait(self, now: float) -> float:
        """Seconds until there is one to spend."""
        if self._at is not None:
            self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        return max(0.0, 1 - self._left) / PER_SECOND

    def spend(self) -> None:
        self._left -= 1
