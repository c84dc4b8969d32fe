"""Takes a corpus into a store of rota as a node does: jobs, appends of output, ends of attempts, and the sealer.

    store = ...  # migrated and opened
    taken = await ingest(store, attempts(1_000_000))

Chunks are as a node makes them when jobs print as fast as they can: 64 KiB, and a new one when the stream changes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from bench import processes
from bench.search.corpus import Attempt, Piece
from rota.clock import Chance
from rota.control.sealer import BREATH, REST, RULES, Rules, Sealer
from rota.lines.packer import Packer
from rota.logs.sink import LARGEST_CHUNK
from rota.model.job import Claimed, Kind, NewJob, Spec
from rota.model.lifecycle import JobEvent
from rota.model.node import NewNode
from rota.model.outcome import Ending, Settlement
from rota.model.principal import SYSTEM, Principal
from rota.model.times import DAY, Instant
from rota.store.base import Store
from rota.store.log_store import LogRetention
from rota.store.values import Chunk

NODE = "bench"
AT_ONCE = 100  # jobs that run at the same time
LARGEST_APPEND = 1 << 20
# Jobs have ended when their output is looked at, so there is nothing to wait for.
WHILE_APPENDING, AT_LAST = Rules(settled=0, wait=RULES.wait), Rules(settled=0, wait=0)


class Body(NamedTuple):
    stream: str
    at: Instant
    body: bytes


class Printed(NamedTuple):
    """What an attempt has printed, in the chunks of a node."""

    owner: str
    task: str
    bodies: list[Body]


class Ingested(NamedTuple):
    size: int  # bytes
    appending: float  # seconds,
    sealing: float  # and those until the last output was sealed
    packing: float  # seconds of CPU of the process that packs


def printed(attempts: Iterable[Attempt]) -> Iterator[Printed]:
    return (Printed(one.owner, one.task, list(_bodies(one.pieces))) for one in attempts)


async def ingest(store: Store, attempts: Iterable[Attempt]) -> Ingested:
    """Appends are timed, and sealing after them; what makes the corpus, orders and ends is not."""
    async with Intake(store) as intake:
        rest = printed(attempts)
        while some := list(islice(rest, AT_ONCE)):
            await intake.take(some)
        began = time.perf_counter()
        await intake.seal()
        return intake.done(time.perf_counter() - began)


async def ingest_and_seal(store: Store, given: Sequence[Printed]) -> Ingested:
    """Sealing goes on beside the appends, as in a node. `sealing` is the time for all of it, with orders and ends."""
    async with Intake(store) as intake:
        began = time.perf_counter()
        appended = asyncio.Event()
        sealing = asyncio.create_task(intake.seal_until(appended))
        try:
            for first in range(0, len(given), AT_ONCE):
                await intake.take(given[first : first + AT_ONCE])
        finally:
            appended.set()
            await sealing
        await intake.seal()
        return intake.done(time.perf_counter() - began)


class Intake:
    """A node, as far as output is concerned."""

    def __init__(self, store: Store) -> None:
        self._store, self._chance, self._packer = store, Chance(), Packer(os.environ)
        self._before = frozenset(processes.family(os.getpid()))
        self._size, self._appending = 0, 0.0

    async def __aenter__(self) -> Intake:
        node = NewNode(NODE, NODE, ("control", "worker"), {"default": AT_ONCE}, "1", DAY)
        await self._store.register(SYSTEM, node, [])
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._packer.close()

    def done(self, sealing: float) -> Ingested:
        packing = processes.cpu_seconds([pid for pid in processes.family(os.getpid()) if pid not in self._before])
        return Ingested(self._size, self._appending, sealing, packing)

    async def take(self, some: Sequence[Printed]) -> None:
        """Runs a job for each of them, all at the same time."""
        said = dict(zip(self._chance.job_ids(self._store.now(), len(some)), some, strict=True))
        claimed = await self._started(said)
        chunks = [chunk for one in claimed for chunk in _chunks(one, said[one.job_id].bodies)]
        began = time.perf_counter()
        for batch in _batches(chunks):
            await self._store.append_output(SYSTEM, batch)
        self._appending += time.perf_counter() - began
        self._size += sum(len(chunk.body) for chunk in chunks)
        ends = [Settlement(one.job_id, one.fence, JobEvent.SUCCEED, Ending.SUCCEEDED) for one in claimed]
        await self._store.finish(SYSTEM, ends)

    async def _started(self, said: Mapping[str, Printed]) -> list[Claimed]:
        for owner in sorted({one.owner for one in said.values()}):
            jobs = [NewJob(id, one.task, Spec.command(["true"])) for id, one in said.items() if one.owner == owner]
            await self._store.submit(Principal(owner), [[job] for job in jobs])
        claimed: list[Claimed] = []
        while found := await self._store.claim(SYSTEM, NODE, {"default": AT_ONCE}, list(Kind), {"default": AT_ONCE}):
            claimed += found
        return claimed

    async def seal_until(self, appended: asyncio.Event) -> None:
        """What makes whole segments."""
        sealer = self._sealer(WHILE_APPENDING)
        while not appended.is_set():
            pause = await sealer.tick()
            with suppress(TimeoutError):  # a long rest is for a node with nothing to do; here more comes all the time
                await asyncio.wait_for(appended.wait(), min(pause, BREATH))

    async def seal(self) -> None:
        """All that there is."""
        sealer = self._sealer(AT_LAST)
        while await sealer.tick() != REST:
            pass

    def _sealer(self, rules: Rules) -> Sealer:
        kept = LogRetention(7 * DAY, 90 * DAY)
        return Sealer(self._store, self._chance, kept, lambda: True, self._packer.pack, rules)


def _bodies(pieces: Sequence[Piece]) -> Iterator[Body]:
    gathered: list[Piece] = []
    size = 0
    for piece in pieces:
        size += len(piece.body)
        if gathered and (piece.stream != gathered[0].stream or size > LARGEST_CHUNK):
            yield _body(gathered)
            gathered, size = [], len(piece.body)
        gathered.append(piece)
    if gathered:
        yield _body(gathered)


def _body(pieces: Sequence[Piece]) -> Body:
    return Body(pieces[0].stream, pieces[0].at, b"".join(one.body for one in pieces))


def _chunks(claimed: Claimed, bodies: Sequence[Body]) -> Iterator[Chunk]:
    for number, (stream, at, body) in enumerate(bodies):
        yield Chunk(claimed.job_id, claimed.fence, number, at, stream, body)


def _batches(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    batch: list[Chunk] = []
    size = 0
    for chunk in chunks:
        if batch and size + len(chunk.body) > LARGEST_APPEND:
            yield batch
            batch, size = [], 0
        batch.append(chunk)
        size += len(chunk.body)
    if batch:
        yield batch
