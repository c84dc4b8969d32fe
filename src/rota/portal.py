"""The way from ordinary code into the async core: an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
# How long the end of the process may wait for what is still under way.
LAST_LIMIT = 2.0


class Portal:
    """`last` is run when the process ends and nobody has closed the portal: a wake-up may still be on its way."""

    def __init__(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._last, self._process = last, os.getpid()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="rota-sync", daemon=True).start()
        atexit.register(self._leave)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _leave(self) -> None:
        if os.getpid() == self._process:  # the thread does not exist in a forked child
            with suppress(Exception):  # nobody is left to be told
                asyncio.run_coroutine_threadsafe(self._last(), self._loop).result(LAST_LIMIT)

    def close(self) -> None:
        atexit.unregister(self._leave)
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
