"""Wake-ups from a server: one stream per event loop, for as long as somebody listens there.

A line of the stream names topics; an empty line is a sign of life. The stream is an accelerator: whoever listens also
polls, so a stream that is cut or refused costs time and nothing else. After it comes back all listeners are woken, for
they may have missed something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from rota.dialing import Unreachable
from rota.remote.connection import Lost, Reply
from rota.remote.hello import PING
from rota.store.listeners import Listeners
from rota.store.loops import may_be_abandoned
from rota.store.values import Topic

SILENCE = 2.5 * PING  # seconds: the link is dead, or a proxy holds the stream back
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
Open = Callable[[frozenset[Topic], Callable[[bytes], None]], Awaitable[Reply]]


class Wakes:
    """The stream of one loop."""

    def __init__(self, open_stream: Open) -> None:
        self._open = open_stream
        self._listeners = Listeners()
        self._wanted: list[list[frozenset[Topic]]] = []
        self._asked: frozenset[Topic] = frozenset()  # topics of the open stream
        self._task: asyncio.Task[None] | None = None
        self._heard_at = 0.0
        self._rest = b""

    def add(self, topics: frozenset[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        remove = self._listeners.add(topics, wake)
        entry = [topics]  # by its identity: others may want the same
        self._wanted.append(entry)
        if self._task is None or not topics <= self._asked:
            self.close()
            self._asked = frozenset(topic for one in self._wanted for wanted in one for topic in wanted)
            self._task = may_be_abandoned(asyncio.get_running_loop().create_task(self._run(self._asked)))

        def stop() -> None:
            remove()
            self._wanted = [one for one in self._wanted if one is not entry]
            if not self._wanted:
                self.close()

        return stop

    def close(self) -> None:
        task, self._task = self._task, None
        if task is not None and not task.get_loop().is_closed():
            task.cancel()

    async def _run(self, topics: frozenset[Topic]) -> None:
        pause = FIRST_PAUSE
        while True:
            self._rest, began = b"", asyncio.get_running_loop().time()
            with suppress(Unreachable, Lost, TimeoutError):
                await self._listen(topics)
            if asyncio.get_running_loop().time() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            self._listeners.wake(topics)

    async def _listen(self, topics: frozenset[Topic]) -> None:
        """Returns or raises when the stream has ended, or was silent for too long."""
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        async with asyncio.timeout(SILENCE) as limit:

            def piece(data: bytes) -> None:
                limit.reschedule(loop.time() + SILENCE)
                self._take(data)

            await self._open(topics, piece)

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        known = {topic.value: topic for topic in Topic}
        if found := {known[letter] for line in lines for letter in line.decode("latin-1") if letter in known}:
            self._listeners.wake(found)
