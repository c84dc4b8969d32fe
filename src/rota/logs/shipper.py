"""Carries the output of attempts into the store.

Executors write into a `Sink` from any thread. The shipper gathers for a moment and then appends the output of all
attempts in one commit. Chunks are numbered when they are taken, so a repeated append changes nothing.

The beginning of an output goes as fast as the store takes it. The tail is carried at a modest rate for all attempts of
the node together: a flood overwrites itself in memory, not in the store. When an attempt ends, the rest of its output
goes at once, and its end waits for that.

While the store has a problem all output waits. If one output may be the cause, each attempt's output is tried apart, so
that none waits for another. A piece is replaced by a note only if the store can't hold its bytes.

Output of an attempt that another node has taken over meanwhile is refused. Its journal is left in the spool then, and a
replay brings it to the store (`replay`).
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import msgspec

from rota.errors import StoreUnavailable
from rota.logs.journal import Title
from rota.logs.sink import LARGEST_CHUNK, LARGEST_PIECE, Sink
from rota.logs.spool import Spool
from rota.model.job import Ref, Verdict
from rota.model.principal import SYSTEM
from rota.refusals import Refusals, anyones
from rota.store.base import Store
from rota.store.values import CUT, Chunk
from rota.telemetry.complaints import Complaints
from rota.telemetry.events import Bus, OutputEcho

__all__ = ["LARGEST_BATCH", "LARGEST_CHUNK", "Shipper", "Sink"]

# Long enough to gather a burst of lines into one commit, short enough to look live.
GATHER = 0.05
# Longer than any store takes that still answers; then the append is repeated.
PATIENCE = 60.0
# The largest append, so that the write stays short.
LARGEST_BATCH = LARGEST_PIECE
# Bytes a second of tails, while their attempts run.
TAIL_RATE = 2 << 20


class Shipper:
    def __init__(self, store: Store, limit: int, bus: Bus, spool: Spool | None = None) -> None:
        self._store, self._limit, self._spool = store, limit, spool
        self._complaints = Complaints(bus, "writing of output")
        self._loop = asyncio.get_running_loop()
        self._sinks: dict[Ref, Sink] = {}  # sinks with output to carry; after its turn a sink goes to the end
        self._ending: dict[Ref, asyncio.Future[None]] = {}  # sinks whose attempts have ended and wait
        self._apart: dict[Ref, asyncio.Task[None]] = {}  # sinks whose output is tried apart
        self._sent: dict[Ref, Sink] = {}  # sinks with chunks on their way
        self._stale: set[Ref] = set()  # attempts that are not ours any more
        self._lock = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._pump: asyncio.Task[None] | None = None
        self._tails_from = 0.0  # when tails may be carried again, by the loop's time
        self._awake = False  # the pump runs, or will soon
        self._stopped = False

    def open(self, ref: Ref, echo: OutputEcho | None = None) -> Sink:
        spool = self._spool.of(lambda: self._title(ref)) if self._spool is not None else None
        return Sink(ref, self._limit, self._store.now, self._dirty, echo, spool)

    def _title(self, ref: Ref) -> Title:
        return Title(ref.job_id, ref.fence, self._limit, self._store.proof(ref))

    async def close(self, sink: Sink) -> None:
        """The attempt is over. Returns when everything it wrote is in the store, or was refused by it."""
        sink.close()
        ended = self._loop.create_future()
        with self._lock:
            self._sinks[sink.ref], self._ending[sink.ref], self._awake = sink, ended, True
        self._start()
        await ended
        if sink.ref in self._stale:
            self._stale.discard(sink.ref)
        else:
            sink.done()

    def stop(self) -> None:
        """Nothing is carried any more. What waits stays in the spool, for a replay."""
        self._stopped = True
        for task in (self._pump, *self._apart.values()):
            if task is not None:
                task.cancel()

    def _dirty(self, sink: Sink) -> None:
        with self._lock:
            self._sinks[sink.ref] = sink
            asleep, self._awake = not self._awake, True
        if asleep:
            with suppress(RuntimeError):  # the loop has closed, and the node is gone
                self._loop.call_soon_threadsafe(self._arm, GATHER)

    def _arm(self, delay: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pump is None and not self._stopped:
            self._pump = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while True:
                batch, ended = self._gather()
                if batch:
                    await self._append(batch)
                for ref in ended:
                    if ref not in self._apart:
                        self._end(ref)
                if not batch and not ended:
                    break
        finally:
            self._pump = None
            with self._lock:
                self._awake = False
                waiting = bool(self._sinks.keys() - self._apart.keys())
            if waiting:
                self._arm(max(self._tails_from - self._loop.time(), GATHER))

    def _end(self, ref: Ref) -> None:
        future = self._ending.pop(ref, None)
        if future is not None and not future.done():
            future.set_result(None)

    def _gather(self) -> tuple[list[Chunk], list[Ref]]:
        """The next batch, and the attempts whose output it completes. Ended attempts come first."""
        batch: list[Chunk] = []
        ended: list[Ref] = []
        room = LARGEST_BATCH
        with self._lock:
            free = [ref for ref in self._sinks if ref not in self._apart]
            for ref in sorted(free, key=lambda ref: ref not in self._ending):
                sink = self._sinks[ref]
                chunks = sink.take_first(room)
                if ref in self._ending:
                    chunks += sink.take_last(room - _size(chunks))
                elif self._loop.time() >= self._tails_from and (last := sink.take_last(room - _size(chunks))):
                    self._tails_from = self._loop.time() + _size(last) / TAIL_RATE
                    chunks += last
                batch += chunks
                room -= _size(chunks)
                if chunks:
                    self._sent[ref] = sink
                if sink.empty:
                    del self._sinks[ref]
                    if ref in self._ending:
                        ended.append(ref)
                elif chunks:
                    self._sinks[ref] = self._sinks.pop(ref)
                if room <= 0:
                    break
        return batch, ended

    async def _append(self, batch: list[Chunk]) -> None:
        refusals = Refusals()
        while (error := await self._try(batch)) is not None:
            if not anyones(error):
                alone = error if len(batch) == 1 else None
                for ref, chunks in _by_attempt(batch).items():
                    self._apart[ref] = self._loop.create_task(self._append_apart(ref, chunks, alone))
                return
            refusals.hopeless(error)
            await asyncio.sleep(refusals.pause)
        for ref in _by_attempt(batch):
            self._stored(ref)

    def _stored(self, ref: Ref) -> None:
        """Its chunks are in the store, or will never be."""
        sink = self._sent.pop(ref)
        if ref not in self._stale:
            sink.stored()

    async def _append_apart(self, ref: Ref, chunks: list[Chunk], error: Exception | None) -> None:
        """Appends the output of one attempt piece by piece; later output waits. `error`: the answer to the first
        piece."""
        for chunk in chunks:
            refusals = Refusals()
            error = error or await self._try([chunk])
            while error is not None:
                # If the store refuses the replacement too, the bytes are not the cause: go on with the original.
                if refusals.hopeless(error) and chunk.stream != CUT and not await self._try([_lost(chunk, error)]):
                    break
                await asyncio.sleep(refusals.pause)
                error = await self._try([chunk])
            error = None
        del self._apart[ref]
        self._stored(ref)
        if ref in self._sinks:
            self._start()
        else:
            self._end(ref)

    async def _try(self, batch: list[Chunk]) -> Exception | None:
        """A stale chunk is dropped; the finish of its attempt will be refused too."""
        try:
            async with asyncio.timeout(PATIENCE) as limit:
                verdicts = await self._store.append_output(SYSTEM, batch)
        except Exception as error:
            refusal = StoreUnavailable("the store does not answer") if limit.expired() else error
            self._complaints.tell(refusal)
            return refusal
        if self._spool is not None and Verdict.STALE in verdicts:
            stale = [one for one, verdict in zip(batch, verdicts, strict=True) if verdict is Verdict.STALE]
            self._stale.update(_by_attempt(stale))
        return None


def _by_attempt(batch: list[Chunk]) -> dict[Ref, list[Chunk]]:
    parts: dict[Ref, list[Chunk]] = {}
    for chunk in batch:
        parts.setdefault(Ref(chunk.job_id, chunk.fence), []).append(chunk)
    return parts


def _lost(chunk: Chunk, error: Exception) -> Chunk:
    said = f"\n[rota: {len(chunk.body):,} bytes of output could not be kept: {type(error).__name__}]\n"
    return msgspec.structs.replace(chunk, stream=CUT, body=said.encode())


def _size(chunks: list[Chunk]) -> int:
    return sum(len(chunk.body) for chunk in chunks)
