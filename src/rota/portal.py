"""The way from ordinary code into the async core: an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="rota-sync", daemon=True).start()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._wind_up)

    def _wind_up(self) -> None:
        """Whoever still waits in another thread hears that it is over."""
        for task in asyncio.all_tasks(self._loop):
            if task is not asyncio.current_task(self._loop):
                task.cancel()
        self._loop.call_soon(self._loop.call_soon, self._loop.stop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
