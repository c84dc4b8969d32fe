"""Lines of far-away workers: one long answer to each, which wakes it and shows that it lives.

The worker, its keeper and everything they started hold the socket of the line. The kernel closes it when the last of
them has ended, so a closed line mostly means that the worker is dead, and is noticed at once. But a line can also break
while its worker lives. So the rules are those of the lock of a node on PostgreSQL (`store/postgres/session.py`):

- Each renewal names the line that the worker has open, and the store keeps the name. A closed line counts only while
  the latest renewal has named it.
- The worker is taken over GRACE seconds after that, unless it has renewed meanwhile. A worker that has lost its line
  renews at once without one, which puts everyone back to waiting for its whole lease; if it can't renew, it stops its
  work before the grace is over.
- Behind a proxy or a translated address the end of a line may be the end of what is in between. The server says at
  which address it was called. A worker that has called another one never names such a line.
- A server that stops ends its lines with a last word and takes nobody over. One that dies can't. Then nobody watches,
  and only the lease counts, until the workers have opened other lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from rota.clock import Clock
from rota.errors import StoreError
from rota.model.node import NodeInfo
from rota.model.outcome import CrashRule
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from rota.remote.work_calls import ENDED, GRACE, OPENED, PULSE, QUIET
from rota.store.base import Store
from rota.store.values import Topic
from rota.telemetry.events import Bus, NodeDied, ServiceFailed

TOPICS = (Topic.READY, Topic.CANCEL)
# Seconds between two tries of a take-over that the store could not carry out, and how many there are. Then the reaper
# finds the node silent.
PAUSE, TRIES = 0.3, 10
LAST_WORDS = 0.5  # seconds for them, when the server stops


class Lines:
    def __init__(self, store: Store, clock: Clock, bus: Bus, rule: CrashRule) -> None:
        self._store, self._clock, self._bus, self._rule = store, clock, bus, rule
        self._stopping = asyncio.Event()
        self._open: set[asyncio.Future[None]] = set()  # done when the line is closed
        self._notices: dict[str, asyncio.Task[None]] = {}  # by incarnation

    async def pieces(self, incarnation: str, line: str, address: str) -> AsyncIterator[bytes]:
        """What is sent on a line while it is open. `address`: at which this server was called."""
        touched: set[Topic] = set()
        woken = asyncio.Event()

        def wake(topic: Topic) -> None:
            touched.add(topic)
            woken.set()

        unlisten = [self._store.listen(frozenset({topic}), partial(wake, topic)) for topic in TOPICS]
        over = asyncio.get_running_loop().create_future()
        self._open.add(over)
        try:
            yield OPENED + b" " + address.encode() + b"\n"
            while not self._stopping.is_set():
                await self._something(woken)
                woken.clear()
                said = "".join(sorted(touched)).encode() or QUIET
                touched.clear()
                yield said + b"\n"
            yield ENDED + b"\n"
        finally:
            for end in unlisten:
                end()
            self._open.discard(over)
            over.set_result(None)
            self._closed(incarnation, line)

    async def _something(self, woken: asyncio.Event) -> None:
        """Returns when there is something to say."""
        waits = [asyncio.ensure_future(woken.wait()), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(waits, timeout=PULSE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    # -- death -------------------------------------------------------------------------------------------------------
    def _closed(self, incarnation: str, line: str) -> None:
        if not self._stopping.is_set():
            task = asyncio.create_task(self._notice(incarnation, line))
            self._notices[incarnation] = task
            task.add_done_callback(lambda done: self._noticed(incarnation, done))

    def _noticed(self, incarnation: str, task: asyncio.Task[None]) -> None:
        if self._notices.get(incarnation) is task:
            del self._notices[incarnation]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._bus.emit(ServiceFailed("lines", f"{type(error).__name__}: {error}"))

    async def _notice(self, incarnation: str, line: str) -> None:
        """Takes the worker over, unless it renews with another line or without one."""
        for _ in range(TRIES):
            try:
                node = await self.named(incarnation, line)
                if node is None:
                    return
                # By this process's own clock: the store's may jump.
                await asyncio.sleep(GRACE / SECOND)
                moved = await self._store.take_over(SYSTEM, incarnation, node.beats, self._rule)
            except StoreError:
                await asyncio.sleep(PAUSE)
                continue
            if moved is not None:
                self._bus.emit(NodeDied(node.id, "its line was closed", len(moved)))
                return

    async def named(self, incarnation: str, line: str) -> NodeInfo | None:
        """The living node, if its latest renewal has named this line."""
        nodes = await self._store.nodes(SYSTEM)
        return next((one for one in nodes if (one.incarnation, one.line) == (incarnation, line)), None)

    async def settled(self, incarnation: str) -> bool:
        """Waits for the end of a notice that is under way; False: there is none."""
        task = self._notices.get(incarnation)
        if task is None:
            return False
        await asyncio.wait([task])
        return True

    async def close(self) -> None:
        """Ends all lines with a last word. Called while the server still answers: workers that are refused would take
        it for dead, and must not be taken over by it."""
        self._stopping.set()
        for task in self._notices.values():
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=LAST_WORDS)
