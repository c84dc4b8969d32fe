"""Takes a corpus into a store of rota as a node does: jobs, appends of output, ends of attempts, and the sealer.

    store = ...  # migrated and opened
    taken = await ingest(store, lines=1_000_000)

Chunks are as a node makes them when jobs print as fast as they can: 64 KiB, and a new one when the stream changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.search.corpus import Attempt, Piece, attempts
from rota.clock import Chance
from rota.control.sealer import REST, Rules, Sealer
from rota.lines.packer import Packer
from rota.logs.sink import LARGEST_CHUNK
from rota.model.job import Claimed, Kind, NewJob, Spec
from rota.model.lifecycle import JobEvent
from rota.model.node import NewNode
from rota.model.outcome import Ending, Settlement
from rota.model.principal import SYSTEM, Principal
from rota.model.times import DAY
from rota.store.base import Store
from rota.store.log_store import LogRetention
from rota.store.values import Chunk

NODE = "bench"
AT_ONCE = 500  # jobs that run at the same time
LARGEST_APPEND = 1 << 20


class Ingested(NamedTuple):
    lines: int
    size: int  # bytes
    appending: float  # seconds
    sealing: float


async def ingest(store: Store, lines: int, seed: int = 1) -> Ingested:
    """Appends are timed, and sealing after them; what makes the corpus, orders and ends is not."""
    chance = Chance(seed)
    await store.register(SYSTEM, NewNode(NODE, NODE, ("control", "worker"), {"default": AT_ONCE}, "1", DAY), [])
    size, appending = 0, 0.0
    some: list[Attempt] = []
    for attempt in attempts(lines, seed):
        some.append(attempt)
        if len(some) == AT_ONCE:
            done = await _run(store, chance, some)
            size, appending, some = size + done[0], appending + done[1], []
    done = await _run(store, chance, some)
    packer = Packer(os.environ)
    kept = LogRetention(7 * DAY, 90 * DAY)
    sealer = Sealer(store, chance, kept, lambda: True, packer.pack, Rules(settled=0, wait=0))
    began = time.perf_counter()
    while await sealer.tick() != REST:
        pass
    packer.close()
    return Ingested(lines, size + done[0], appending + done[1], time.perf_counter() - began)


async def _run(store: Store, chance: Chance, some: Sequence[Attempt]) -> tuple[int, float]:
    """Returns the bytes, and the seconds of their appends."""
    ids = chance.job_ids(store.now(), len(some))
    said = dict(zip(ids, some, strict=True))
    for job, attempt in said.items():
        await store.submit(Principal(attempt.owner), [[NewJob(job, attempt.task, Spec.command(["true"]))]])
    claimed: list[Claimed] = []
    while found := await store.claim(SYSTEM, NODE, {"default": AT_ONCE}, list(Kind), {"default": AT_ONCE}):
        claimed += found
    batches = list(_batches([chunk for one in claimed for chunk in _chunks(one, said[one.job_id].pieces)]))
    began = time.perf_counter()
    for batch in batches:
        await store.append_output(SYSTEM, batch)
    took = time.perf_counter() - began
    ends = [Settlement(one.job_id, one.fence, JobEvent.SUCCEED, Ending.SUCCEEDED) for one in claimed]
    await store.finish(SYSTEM, ends)
    return sum(len(chunk.body) for batch in batches for chunk in batch), took


def _chunks(claimed: Claimed, pieces: Sequence[Piece]) -> Iterator[Chunk]:
    gathered: list[Piece] = []
    number = 0
    for piece in pieces:
        size = sum(len(one.body) for one in gathered) + len(piece.body)
        if gathered and (piece.stream != gathered[0].stream or size > LARGEST_CHUNK):
            yield _chunk(claimed, number, gathered)
            gathered, number = [], number + 1
        gathered.append(piece)
    if gathered:
        yield _chunk(claimed, number, gathered)


def _chunk(claimed: Claimed, number: int, pieces: Sequence[Piece]) -> Chunk:
    body = b"".join(one.body for one in pieces)
    return Chunk(claimed.job_id, claimed.fence, number, pieces[0].at, pieces[0].stream, body)


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
