"""Wakes other processes by NOTIFY: the first time at once, then at most about twenty times a second per topic.

A notification takes a lock that all commits of the server share, so none is sent inside the transaction that it is
about, and what comes in quick succession goes out together. The last one is never swallowed, only late by a twentieth
of a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rota.store.base import Topic

SPACING = 0.05


class Bell:
    """Belongs to one event loop."""

    def __init__(self, ring: Callable[[str], Awaitable[None]]) -> None:
        self._ring = ring
        self._pending: set[Topic] = set()
        self._rung_at: dict[Topic, float] = {}
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
                now = loop.time()
                due = {topic for topic in self._pending if now - self._rung_at.get(topic, -1.0) >= SPACING}
                if due:
                    self._pending -= due
                    self._rung_at |= dict.fromkeys(due, now)
                    await self._ring("".join(sorted(due)))
                else:
                    soonest = min(self._rung_at[topic] for topic in self._pending) + SPACING
                    await asyncio.sleep(max(0.0, soonest - now))
        finally:
            self._task = None

    async def close(self) -> None:
        """What is still pending goes out: somebody may be waiting for it."""
        if self._task is not None:
            try:
                async with asyncio.timeout(1):
                    await asyncio.shield(self._task)
            except TimeoutError:
                self._task.cancel()
