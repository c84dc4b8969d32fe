"""Wakes other processes by NOTIFY: at once as long as it is rare, and at most about twenty times a second per topic.

A notification takes a lock that all commits of the server share, so none is sent inside the transaction that it is
about, and what comes in quick succession goes out together. The last one is never swallowed, only late by a twentieth
of a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rota.store.base import Topic

PER_SECOND = 20
# So many may go out at once after a time of quiet: a person's clicks should not have to wait for each other.
BURST = 20


class Bell:
    """Belongs to one event loop."""

    def __init__(self, ring: Callable[[str], Awaitable[None]]) -> None:
        self._ring = ring
        self._pending: set[Topic] = set()
        self._budgets: dict[Topic, _Budget] = {}
        self._task: asyncio.Task[None] | None = None

    def ring(self, topics: set[Topic]) -> None:
        """Never waits, never fails."""
        self._pending |= topics
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._pump())

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                waits = {topic: self._budget(topic).wait(loop.time()) for topic in self._pending}
                if due := {topic for topic, wait in waits.items() if wait <= 0}:
                    self._pending -= due
                    for topic in due:
                        self._budgets[topic].spend()
                    await self._ring("".join(sorted(due)))
                else:
                    await asyncio.sleep(min(waits.values()))
        finally:
            self._task = None

    def _budget(self, topic: Topic) -> _Budget:
        return self._budgets.setdefault(topic, _Budget())

    async def close(self) -> None:
        """What is still pending goes out: somebody may be waiting for it."""
        if self._task is not None:
            try:
                async with asyncio.timeout(1):
                    await asyncio.shield(self._task)
            except TimeoutError:
                self._task.cancel()


class _Budget:
    """Rings that may still go out; they grow again with time."""

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
