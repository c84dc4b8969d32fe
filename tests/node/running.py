"""A node of the test's own, in this process, on a real file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import rota
from rota.logs.capture import captured
from rota.node import Node
from rota.telemetry.events import Event

LONG = 20.0  # seconds until a test that waits for an event gives up


class Probe:
    """Collects a node's events, and lets a test wait for one."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self._arrived = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        self._arrived.set()

    async def until(self, kind: type[Event], fits: Callable[[Any], bool] = lambda _: True) -> Any:
        async with asyncio.timeout(LONG):
            while True:
                for event in self.seen:
                    if isinstance(event, kind) and fits(event):
                        return event
                self._arrived.clear()
                await self._arrived.wait()


def make_app(folder: Path, **settings: Any) -> rota.App:
    return rota.App(f"sqlite:///{folder / 'rota.db'}", kill_grace="500ms", **settings)


@asynccontextmanager
async def running(app: rota.App, api: bool = False) -> AsyncIterator[tuple[Node, Probe]]:
    """The app as a node until the block ends; then it is stopped, in haste if it does not stop by itself."""
    probe = Probe()
    app._core.bus.subscribe(probe)
    with captured():
        node = await app.node(api=api)
        task = asyncio.create_task(node.run())
        try:
            async with asyncio.timeout(LONG):
                started = asyncio.create_task(node.started.wait())
                await asyncio.wait({started, task}, return_when=asyncio.FIRST_COMPLETED)
                started.cancel()
            if task.done():
                task.result()
            yield node, probe
        finally:
            for _ in range(3):
                node.stop()
            async with asyncio.timeout(LONG):
                await task
            await app.close()
