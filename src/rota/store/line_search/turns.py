"""Turns of searches of output: how many pages are made at a time in one process.

A page holds what it reads (the unsealed output of some jobs, decompressed segments) and takes time of the processor. So
callers beyond a few wait, in their order; one user has few of the turns, and the others don't wait behind all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary, WeakValueDictionary

TOGETHER = 4  # pages at a time
OF_USER = 2


class _OfLoop:
    def __init__(self) -> None:
        self.all = asyncio.Semaphore(TOGETHER)
        self.of_users: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()


class Turns:
    """A semaphore belongs to one event loop; a store may be used by several."""

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop] = WeakKeyDictionary()

    @asynccontextmanager
    async def take(self, user: str) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        turns = self._loops.setdefault(loop, _OfLoop())
        mine = turns.of_users.setdefault(user, asyncio.Semaphore(OF_USER))
        async with mine, turns.all:
            yield
