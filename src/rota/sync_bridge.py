"""Runs coroutines for sync code, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from rota import forking
from rota.errors import StoreUnavailable

T = TypeVar("T")
# Seconds for cancelled tasks to end, then as many for async generators (they close connections).
LAST_STEPS = 2.0


class SyncBridge:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._handing_in = threading.Lock()
        self._closing = False
        self._ended = threading.Event()
        # A function and not a method: the thread must not keep the bridge, and with it an unused app, alive.
        self._thread = threading.Thread(target=_serve, args=(self._loop, self._ended), name="rota-sync", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        with self._handing_in:  # work that is handed in before the end is cancelled by it
            if self._closing:
                work.close()
                raise StoreUnavailable("the app was closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def here(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def close(self, wait: float = 2 * LAST_STEPS) -> None:
        """Callers that wait in other threads get an error. Called on the loop itself it does not wait."""
        with self._handing_in:
            if not self._closing:
                self._closing = True
                # Stops two iterations later, so that a coroutine that calls close() on this loop has returned.
                self._loop.call_soon_threadsafe(self._loop.call_soon, self._loop.call_soon, self._loop.stop)
        if not self.here:
            self._ended.wait(wait)  # not a join, which would register a foreign thread with Python

    def forget(self) -> None:
        """For a forked child, which has no such thread and must not touch the loop."""
        forking.keep_for_ever(self)
        self._selector.close()


def _serve(loop: asyncio.AbstractEventLoop, ended: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_wind_up(loop))
    finally:
        loop.close()
        ended.set()


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    try:
        async with asyncio.timeout(LAST_STEPS):
            while tasks := asyncio.all_tasks(loop) - {asyncio.current_task(loop)}:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        async with asyncio.timeout(LAST_STEPS):
            await loop.shutdown_asyncgens()
    except TimeoutError:
        pass  # the sockets are closed with the loop's last reference
