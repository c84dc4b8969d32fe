"""Where a search of output finds blocks: segments, and output that is not sealed yet.

A source has a `border`: all lines of after that time were read. None: all were.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from rota.lines.segment import BadSegment, Contents, gather, read
from rota.model.principal import Principal
from rota.model.times import LATEST, SECOND, Instant
from rota.store.line_search.blocks import Block, Wanted, block_of
from rota.store.log_store import LogStore, RawScan, Segment, SegmentPage, SegmentScan
from rota.store.search.plan import id_at
from rota.store.values import Chunk

T = TypeVar("T")
# Segments of the first read and of later ones: a page of frequent lines needs few.
FEW, MANY = 4, 24
# Jobs whose unsealed output is read at a time: each may have as much as `max_output`.
TOGETHER = 8
CHUNKS = 1_000
# Bytes of them that are looked through at once.
WINDOW = 32 << 20
# How far the clocks of those who seal may be apart.
APART = 2 * SECOND
# Threads that look through output for one page.
THREADS = 2


class Reader:
    """What the sources of a page share. It looks through output beside the loop."""

    def __init__(self, store: LogStore, who: Principal, wanted: Wanted) -> None:
        self.store, self.who, self.wanted = store, who, wanted
        self.unreadable = 0
        self._free = asyncio.Semaphore(THREADS)

    async def blocks(self, segments: Iterable[Segment]) -> list[Block]:
        opened = await asyncio.gather(*[self.beside(partial(self._opened, one)) for one in segments])
        self.unreadable += sum(one is None for one in opened)
        return [one for one in opened if one is not None]

    def _opened(self, segment: Segment) -> Block | None:
        try:
            contents = read(segment.body)
        except BadSegment:
            return None
        return block_of(contents, segment.owner, segment.task, self.wanted)

    async def block(self, contents: Contents, task: str) -> Block:
        return await self.beside(lambda: block_of(contents, None, task, self.wanted))

    async def beside(self, work: Callable[[], T]) -> T:
        async with self._free:
            working = asyncio.ensure_future(asyncio.to_thread(work))
            try:
                return await asyncio.shield(working)
            finally:  # a thread can't be stopped: the turn of a caller who has gone ends with it
                await asyncio.wait([working])


class Source(Protocol):
    border: Instant | None

    async def read(self) -> list[Block]: ...


class Sealed:
    """Segments, by the times of their last lines."""

    def __init__(self, reader: Reader, now: Instant) -> None:
        self._reader = reader
        plan, jobs = reader.wanted.plan, reader.wanted.jobs
        self.scan = SegmentScan(
            since=plan.since, until=plan.until, tasks=plan.tasks, words=plan.words,
            jobs=None if jobs is None else tuple(sorted(jobs)),
        )  # fmt: skip
        self._opened: set[str] = set()
        self._made_since = now - APART
        self.border: Instant | None = LATEST
        self.again = self.first = 0  # segments that pages before have read too, and others

    async def read(self) -> list[Block]:
        found, page = await self._read(msgspec.structs.replace(self.scan, limit=MANY if self.scan.after else FEW))
        self.scan = msgspec.structs.replace(self.scan, after=page.last)
        self.border = None if page.last is None else page.last.last_at
        return found

    async def read_new(self, now: Instant) -> list[Block]:
        """Segments that were made while the search runs: they may hold what it would have read elsewhere."""
        made_since, self._made_since = self._made_since, now - APART
        scan = msgspec.structs.replace(self.scan, after=None, limit=MANY, made_since=id_at(made_since))
        found: list[Block] = []
        while True:
            blocks, page = await self._read(scan)
            found += blocks
            if page.last is None:
                return found
            scan = msgspec.structs.replace(scan, after=page.last)

    async def _read(self, scan: SegmentScan) -> tuple[list[Block], SegmentPage]:
        page = await self._reader.store.segments(self._reader.who, scan)
        fresh = [one for one in page.segments if one.id not in self._opened]
        self._opened |= {one.id for one in fresh}
        place = self._reader.wanted.plan.place
        again = sum(place is not None and one.last_at >= place.at for one in fresh)
        self.again, self.first = self.again + again, self.first + len(fresh) - again
        return await self._reader.blocks(fresh), page


class Unsealed:
    """Chunks, by the times at which they were kept. What an attempt has unsealed is read together, since its lines go
    on from chunk to chunk."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        plan, jobs = reader.wanted.plan, reader.wanted.jobs
        self._of_jobs = RawScan(tasks=plan.tasks, jobs=None if jobs is None else tuple(sorted(jobs)))
        self._scan = msgspec.structs.replace(
            self._of_jobs, since=plan.since, until=plan.until, newest_first=True, bodies=False
        )
        self._done: set[tuple[str, int]] = set()
        self.border: Instant | None = LATEST

    async def read(self) -> list[Block]:
        page = await self._reader.store.unsealed(self._reader.who, self._scan)
        self._scan = msgspec.structs.replace(self._scan, after=page.last)
        self.border = None if page.last is None else page.last.kept_at
        fresh = {_attempt(one): task for one, task in zip(page.chunks, page.tasks, strict=True)}
        fresh = {attempt: task for attempt, task in fresh.items() if attempt not in self._done}
        self._done |= fresh.keys()
        found: list[Block] = []
        for some in _in_parts(sorted(fresh), TOGETHER):
            async for chunks in self._windows(some):
                for task in sorted({fresh[_attempt(one)] for one in chunks}):
                    contents = gather([one for one in chunks if fresh[_attempt(one)] == task])
                    found.append(await self._reader.block(contents, task))
        return found

    async def _windows(self, attempts: Sequence[tuple[str, int]]) -> AsyncIterator[list[Chunk]]:
        """All chunks of these attempts, mostly at once. A line is two where output is divided, as between segments."""
        jobs = tuple(sorted({job for job, _ in attempts}))
        scan = msgspec.structs.replace(self._of_jobs, jobs=jobs, limit=CHUNKS)
        found: dict[tuple[str, int, int], Chunk] = {}
        size = 0
        while True:
            page = await self._reader.store.unsealed(self._reader.who, scan)
            found |= {(*_attempt(one), one.number): one for one in page.chunks if _attempt(one) in attempts}
            size += sum(len(one.body) for one in page.chunks)
            if page.last is None or size >= WINDOW:
                yield list(found.values())
                found, size = {}, 0
            if page.last is None:
                return
            scan = msgspec.structs.replace(scan, after=page.last)


def _attempt(chunk: Chunk) -> tuple[str, int]:
    return chunk.job_id, chunk.fence


def _in_parts(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
