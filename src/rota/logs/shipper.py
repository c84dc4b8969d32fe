"""Carries the output of attempts into the store.

Executors write into a `Sink` from any thread; the shipper gathers for a moment and then appends what there is of all
attempts in one commit. Output is numbered where it is taken, so an append that is repeated after an error changes
nothing.

The beginnings of outputs go as fast as the store takes them. What comes after them is carried at a modest rate for all
attempts of the node together: a job that floods overwrites itself in memory, not in the store. When an attempt ends,
all that is left of its output goes at once, and its end waits for that.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import msgspec

from rota.errors import StoreError
from rota.logs.sink import LARGEST_CHUNK, LARGEST_PIECE, Sink
from rota.model.job import Ref
from rota.model.principal import SYSTEM
from rota.store.base import CUT, Chunk, Store

__all__ = ["LARGEST_BATCH", "LARGEST_CHUNK", "Shipper", "Sink"]

# Long enough to gather a burst of lines into one commit, short enough to look live.
GATHER = 0.05
PAUSE_AFTER_ERROR = 0.5
# Longer than any store takes that still answers; then it is asked again.
PATIENCE = 60.0
# What one append may carry, so that the write stays short.
LARGEST_BATCH = LARGEST_PIECE
# Bytes a second of output beyond the beginnings, while their attempts run.
TAIL_RATE = 2 << 20


class Shipper:
    def __init__(self, store: Store, limit: int) -> None:
        self._store, self._limit = store, limit
        self._loop = asyncio.get_running_loop()
        self._sinks: dict[Ref, Sink] = {}  # those with something to carry; who had a turn goes to the end
        self._ending: dict[Ref, asyncio.Future[None]] = {}  # those whose attempts wait for it
        self._lock = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._pump: asyncio.Task[None] | None = None
        self._tails_from = 0.0  # when tails may be carried again, by the loop's time
        self._awake = False  # the pump runs, or will soon: news need not wake it

    def open(self, ref: Ref) -> Sink:
        return Sink(ref, self._limit, self._store.now, self._dirty)

    async def close(self, sink: Sink) -> None:
        """The attempt is over. Returns when everything it wrote is in the store, or was refused by it."""
        sink.close()
        ended = self._loop.create_future()
        with self._lock:
            self._sinks[sink.ref], self._ending[sink.ref], self._awake = sink, ended, True
        self._start()
        await ended

    def _dirty(self, sink: Sink) -> None:
        with self._lock:
            self._sinks[sink.ref] = sink
            asleep, self._awake = not self._awake, True
        if asleep:
            with suppress(RuntimeError):  # the loop has closed: the node is gone, and its words with it
                self._loop.call_soon_threadsafe(self._arm, GATHER)

    def _arm(self, delay: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pump is None:
            self._pump = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while True:
                batch, ended = self._gather()
                if batch:
                    await self._append(batch)
                for future in ended:
                    if not future.done():
                        future.set_result(None)
                if not batch and not ended:
                    break
        finally:
            self._pump = None
            with self._lock:
                self._awake = False
                waiting = bool(self._sinks)
            if waiting:
                self._arm(max(self._tails_from - self._loop.time(), GATHER))

    def _gather(self) -> tuple[list[Chunk], list[asyncio.Future[None]]]:
        """The next batch, and whose last words are in it. Those whose attempts wait for it come first."""
        batch: list[Chunk] = []
        ended: list[asyncio.Future[None]] = []
        room = LARGEST_BATCH
        with self._lock:
            for ref in sorted(self._sinks, key=lambda ref: ref not in self._ending):
                sink = self._sinks[ref]
                chunks = sink.take_first(room)
                if ref in self._ending:
                    chunks += sink.take_last(room - _size(chunks))
                elif self._loop.time() >= self._tails_from and (last := sink.take_last(room - _size(chunks))):
                    self._tails_from = self._loop.time() + _size(last) / TAIL_RATE
                    chunks += last
                batch += chunks
                room -= _size(chunks)
                if sink.empty:
                    del self._sinks[ref]
                    if future := self._ending.pop(ref, None):
                        ended.append(future)
                elif chunks:
                    self._sinks[ref] = self._sinks.pop(ref)
                if room <= 0:
                    break
        return batch, ended

    async def _append(self, batch: list[Chunk]) -> None:
        while True:
            try:
                # What is answered "stale" is not kept; the finish of that attempt will be refused as well.
                async with asyncio.timeout(PATIENCE) as limit:
                    await self._store.append_output(SYSTEM, batch)
                return
            except Exception as error:
                if limit.expired():
                    continue
                if not (isinstance(error, StoreError) and error.passing):
                    await self._part(batch, error)
                    return
                await asyncio.sleep(PAUSE_AFTER_ERROR)

    async def _part(self, batch: list[Chunk], error: Exception) -> None:
        """The store will never take these as they are; jobs' ends must not wait for ever behind them. Those that are
        at fault are replaced by a word about it."""
        if len(batch) > 1:
            for chunk in batch:
                await self._append([chunk])
        elif batch[0].stream != CUT:
            said = f"\n[rota: {len(batch[0].body):,} bytes of output could not be kept: {type(error).__name__}]\n"
            await self._append([msgspec.structs.replace(batch[0], stream=CUT, body=said.encode())])


def _size(chunks: list[Chunk]) -> int:
    return sum(len(chunk.body) for chunk in chunks)
