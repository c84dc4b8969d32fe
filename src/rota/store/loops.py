"""Connections belong to the event loop that opened them. A process may have several loops at once, one after the other
(each `asyncio.run` is one), and be forked: this keeps the connections of each loop apart, and drops the connections of
closed loops.

`asyncio.run`, and any code that ends a loop in the same way, closes the loop's async generators just before the loop.
So each loop gets a generator that waits for that, and closes the connections while there is still a loop to do it on. A
loop that was closed without this step is found when the next one comes, and its sockets are closed directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from rota import forking


class Connections(Protocol):
    """Those of one loop."""

    async def close(self) -> None:
        """Closes all of them; called on their loop, and may be cancelled there."""

    def drop(self) -> None:
        """Closes the sockets directly: the loop was closed."""

    def descriptors(self) -> Iterable[int]:
        """Of the sockets."""


P = TypeVar("P", bound=Connections)


class Loops(Generic[P]):
    def __init__(self, make: Callable[[], P]) -> None:
        self._make = make
        self._pools: dict[asyncio.AbstractEventLoop, P] = {}
        self._guards: dict[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = {}

    def here(self) -> P:
        """The connections of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._pools.get(loop)
        if found is None:
            self.sweep()
            found = self._pools[loop] = self._make()
            if loop not in self._guards:
                self._guards[loop] = self._guard(loop)
                with suppress(StopIteration):  # runs to its only `yield`, which registers it with the loop
                    self._guards[loop].__anext__().__await__().send(None)
        return found

    async def _guard(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        """Ends when the loop does. Nobody else ends it: a loop that ends meanwhile would complain that it runs."""
        try:
            yield
        finally:
            self._guards.pop(loop, None)
            await self._close(loop)

    async def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closes the connections of the loop that this runs on."""
        if pools := self._pools.pop(loop, None):
            await pools.close()

    def sweep(self) -> None:
        """Drops the connections of loops that were closed."""
        for loop in [loop for loop in list(self._pools) if loop.is_closed()]:
            pools, _ = self._pools.pop(loop, None), self._guards.pop(loop, None)
            if pools:
                pools.drop()

    async def close(self) -> None:
        """Closes the connections of the running loop, and tells other loops to close theirs."""
        here = asyncio.get_running_loop()
        self._tell_others(here)
        await self._close(here)

    def let_go(self) -> None:
        """From any thread: every loop is told to close its connections."""
        self._tell_others(None)

    def _tell_others(self, here: asyncio.AbstractEventLoop | None) -> None:
        self.sweep()
        for loop in list(self._pools):
            if loop is not here:
                with suppress(RuntimeError):  # it was closed just now
                    loop.call_soon_threadsafe(self._end, loop)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        _ending.add(task := loop.create_task(self._close(loop)))
        task.add_done_callback(_ending.discard)

    def forget(self) -> None:
        """In a forked child: all connections belong to the parent."""
        forking.keep_for_ever(self._pools, self._guards)
        forking.close_copies(number for pools in self._pools.values() for number in pools.descriptors())
        self._pools, self._guards = {}, {}


_ending: set[asyncio.Task[None]] = set()  # a loop holds only weak references to tasks


def may_be_abandoned(task: asyncio.Task[None]) -> asyncio.Task[None]:
    """A loop that was closed by hand leaves its tasks pending, and asyncio complains of each. This is for tasks that
    need not end: a lost wake-up costs a second at most, and a lost session is replaced on the next loop."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio does for such tasks
    return task
