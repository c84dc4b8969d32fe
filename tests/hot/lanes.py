"""Lanes of each kind to test, on servers that are empty."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rota.clock import ManualClock
from rota.hot.lane import Due, Lane
from rota.hot.local import LocalLane, LocalServer
from rota.hot.redis import RedisLane
from tests.servers.valkey import Valkey, programs, shared_valkey

STORE = "5f3a9c"
SERVERS = list(programs())
KINDS = ["local", *SERVERS]
NOON = 1_800_000_000_000_000
PATIENT = 10.0  # seconds, on a machine that is busy with other tests
Make = Callable[[], Lane]


@asynccontextmanager
async def opened(*lanes: Lane, store: str = STORE) -> AsyncIterator[tuple[Lane, ...]]:
    try:
        for lane in lanes:
            await lane.open(store)
        yield lanes
    finally:
        for lane in lanes:
            await lane.close()


def empty(kind: str) -> Valkey:
    server = shared_valkey(kind)
    server.calls(("FLUSHALL",), ("SCRIPT", "FLUSH"), ("CONFIG", "SET", "maxmemory", "0"))
    return server


def maker(kind: str) -> Make:
    """Makes lanes on one empty server."""
    if kind == "local":
        local = LocalServer(ManualClock())
        return lambda: LocalLane(local)
    server = empty(kind)
    return lambda: RedisLane(server.url(), PATIENT)


def due(*pairs: tuple[str, int]) -> list[Due]:
    """Jobs and the seconds after noon at which they are due."""
    return [Due(job, NOON + second * 1_000_000) for job, second in pairs]


class Ear:
    """Remembers what a subscription says."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.losses = 0
        self._news = asyncio.Event()

    def hear(self, text: str) -> None:
        self.texts.append(text)
        self._news.set()

    def lose(self) -> None:
        self.losses += 1
        self._news.set()

    async def until(self, what: Callable[[Ear], bool]) -> None:
        async with asyncio.timeout(20):
            while not what(self):
                self._news.clear()
                await self._news.wait()
