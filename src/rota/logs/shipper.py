"""Carries the output of attempts into the store.

Executors write into a `Sink` from any thread; the shipper gathers for a moment and then appends everything of all
attempts in one commit. Output is numbered where it is written, so an append that is repeated after an error changes
nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from rota.errors import StoreError
from rota.model.job import Ref
from rota.model.principal import SYSTEM
from rota.model.times import Instant
from rota.store.base import Chunk, Store

# Long enough to gather a burst of lines into one commit, short enough to look live.
GATHER = 0.05
LARGEST_CHUNK = 64 << 10
PAUSE_AFTER_ERROR = 0.5
# What one append may carry, so that the write stays short.
LARGEST_BATCH = 1 << 20


class Sink:
    """Where one attempt's output goes. `write` may be called from any thread and never waits."""

    def __init__(self, ref: Ref, limit: int, now: Callable[[], Instant], dirty: Callable[[Sink], None]) -> None:
        self.ref = ref
        self._limit, self._now, self._dirty = limit, now, dirty
        self._lock = threading.Lock()
        self._pending: list[Chunk] = []
        self._number = 0
        self._size = 0
        self._full = False

    def write(self, stream: str, body: bytes) -> None:
        if not body:
            return
        with self._lock:
            if self._full:
                return
            room = self._limit - self._size
            self._add(stream, body[:room])
            self._size += len(body)
            if len(body) > room:
                self._full = True
                self._add("log", f"\n[output cut here: the limit of {self._limit} bytes is reached]\n".encode())
        self._dirty(self)

    def _add(self, stream: str, body: bytes) -> None:
        last = self._pending[-1] if self._pending else None
        if last is not None and last.stream == stream and len(last.body) + len(body) <= LARGEST_CHUNK:
            self._pending[-1] = Chunk(last.job_id, last.fence, last.number, last.at, stream, last.body + body)
            return
        now = self._now()
        for start in range(0, len(body), LARGEST_CHUNK):
            piece = body[start : start + LARGEST_CHUNK]
            self._pending.append(Chunk(self.ref.job_id, self.ref.fence, self._number, now, stream, piece))
            self._number += 1

    def take(self) -> list[Chunk]:
        with self._lock:
            pending, self._pending = self._pending, []
            return pending

    @property
    def written(self) -> bool:
        return self._size > 0

    @property
    def backlog(self) -> int:
        """Bytes not yet on their way to the store."""
        with self._lock:
            return sum(len(chunk.body) for chunk in self._pending)


class Shipper:
    def __init__(self, store: Store, limit: int) -> None:
        self._store, self._limit = store, limit
        self._loop = asyncio.get_running_loop()
        self._sinks: dict[Ref, Sink] = {}  # those with something to carry, oldest first
        self._lock = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._flushing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, ref: Ref) -> Sink:
        return Sink(ref, self._limit, self._store.now, self._dirty)

    def _dirty(self, sink: Sink) -> None:
        with self._lock:
            first = not self._sinks
            self._sinks[sink.ref] = sink
        if first:
            with suppress(RuntimeError):  # the loop has closed: the node is gone, and its words with it
                self._loop.call_soon_threadsafe(self._arm)

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(GATHER, self._fire)

    def _fire(self) -> None:
        self._timer = None
        task = asyncio.create_task(self.flush())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def flush(self) -> None:
        """Returns when everything that was written before the call is in the store, or was refused by it."""
        async with self._flushing:
            with self._lock:
                sinks, self._sinks = list(self._sinks.values()), {}
            chunks = [chunk for sink in sinks for chunk in sink.take()]
            while chunks:
                batch = _portion(chunks)
                await self._append(batch)
                chunks = chunks[len(batch) :]

    async def _append(self, batch: list[Chunk]) -> None:
        while True:
            try:
                # What is answered "stale" is not kept; the finish of that attempt will be refused as well.
                await self._store.append_output(SYSTEM, batch)
                return
            except StoreError as error:
                if not error.passing:
                    return  # the store will never take these; the job's end must not wait for ever behind them
                await asyncio.sleep(PAUSE_AFTER_ERROR)


def _portion(chunks: list[Chunk]) -> list[Chunk]:
    size = 0
    for count, chunk in enumerate(chunks):
        size += len(chunk.body)
        if count and size > LARGEST_BATCH:
            return chunks[:count]
    return chunks
