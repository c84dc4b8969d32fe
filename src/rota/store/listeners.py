"""Callbacks of this process that wait for wake-ups; each runs on the loop it was added on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set

from rota.store.values import Topic


class Listeners:
    def __init__(self) -> None:
        self._entries: list[tuple[frozenset[Topic], Callable[[], None], asyncio.AbstractEventLoop]] = []

    def add(self, topics: frozenset[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        """Returns the call that removes the listener."""
        for orphan in [one for one in self._entries if one[2].is_closed()]:
            self._entries.remove(orphan)
        entry = (topics, wake, asyncio.get_running_loop())
        self._entries.append(entry)

        def remove() -> None:
            if entry in self._entries:
                self._entries.remove(entry)

        return remove

    def wake(self, topics: Set[Topic]) -> None:
        here = asyncio.get_running_loop()
        for wanted, wake, loop in list(self._entries):
            if wanted & topics:
                if loop is here:
                    wake()
                elif not loop.is_closed():
                    loop.call_soon_threadsafe(wake)

    def clear(self) -> None:
        self._entries.clear()
