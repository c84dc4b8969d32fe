"""The open parts of an app in this process: the client with its store, and the bridge for sync calls.

A forked child has neither the threads nor the connections of its parent. There the bridge is dropped and made anew when
needed. The store handles its own connections, so existing clients go on working.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from rota import forking
from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput, StoreUnavailable
from rota.sync_bridge import SyncBridge

T = TypeVar("T")
# Seconds that closing may take when an app is garbage-collected or the process exits.
IN_PASSING = 1.0


class AppConnections:
    def __init__(self) -> None:
        self.client: JobsClient | None = None
        self._bridge: SyncBridge | None = None
        self.changing = threading.Lock()
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        forking.watch(self)
        _all.add(self)

    def _turn(self) -> asyncio.Lock:
        """A lock per loop, so that concurrent callers open one store."""
        return self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def open(self, make_client: Callable[[], Awaitable[JobsClient]]) -> JobsClient:
        """The client, created with an open store on first use."""
        if self.client is None:
            async with self._turn():
                if self.client is None:
                    await self._adopt(await make_client())
        if self.client is None:
            raise StoreUnavailable("the app was closed meanwhile")
        return self.client

    async def _adopt(self, client: JobsClient) -> None:
        with self.changing:
            if self.client is None:
                self.client = client
                return
        await client.store.close()  # another loop was quicker

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end on the bridge's loop."""
        refuse_in_loop(work)
        with self.changing:
            if self._bridge is None:
                self._bridge = SyncBridge()
            bridge = self._bridge
        return bridge.run(work)

    def close(self) -> None:
        """For sync code; returns when everything is closed."""
        if self.client is not None:
            self.run(self.close_client())
        if bridge := self.take_bridge():
            bridge.close()

    async def close_async(self) -> None:
        bridge = self.take_bridge()
        if bridge and not bridge.here:
            await asyncio.get_running_loop().run_in_executor(None, bridge.close)
        await self.close_client()
        if bridge and bridge.here:
            bridge.close()

    async def close_client(self) -> None:
        client, self.client = self.client, None
        if client:
            await client.store.close()

    def take_bridge(self) -> SyncBridge | None:
        with self.changing:
            bridge, self._bridge = self._bridge, None
        return bridge

    def let_go(self) -> None:
        """From any thread, without a loop. Waits for the bridge for a moment only."""
        client, self.client = self.client, None
        if bridge := self.take_bridge():
            bridge.close(IN_PASSING)
        if client:
            client.store.let_go()

    def when_unused(self, app: object) -> None:
        """Lets go when the app is garbage-collected. That may happen at any line of any thread, also while it holds a
        lock of `concurrent.futures` or `threading`. So the work runs in a thread of its own, whose start takes no
        lock."""
        weakref.finalize(app, _thread.start_new_thread, self.let_go, ()).atexit = False

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None:
        bridge, self._bridge = self._bridge, None
        forking.keep_for_ever(self._turns)
        self._turns = weakref.WeakKeyDictionary()
        self.changing = threading.Lock()
        if bridge:
            bridge.forget()


def in_loop() -> bool:
    """Whether an event loop runs on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_in_loop(work: Coroutine[Any, Any, Any]) -> None:
    if in_loop():
        work.close()
        raise InvalidInput("call", "a ..._sync method inside a running event loop", "the async method, with await")


_all: weakref.WeakSet[AppConnections] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    for opened in list(_all):
        opened.let_go()
