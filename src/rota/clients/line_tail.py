"""Follows the output of all jobs that fit a query: whole lines, those of a stream in their order, each once.

Chunks become visible in another order than the one in which they were kept: a transaction that began earlier may commit
later. So each look begins some seconds before the last chunk that is known, and every few seconds further back. A look
reads places only. What is new behind the last known place is then read in one piece. What is new in front of it, or not
the next chunk of its attempt, is read from the output of its job by position, which is exact: one node writes an
attempt, in the order of its numbers, and `Store.output` finds sealed chunks too.

Chunks may be sealed before a look finds them, if the reader was slow or the store was away. A look that comes late goes
through the segments that were sealed since the one before.

A step reads a bounded amount and is only taken when its reader wants more. So a slow reader reads later, and nothing is
skipped; what it was too late for is a mark in the output itself (`max_output`).

Conditions on the job are decided when the tail meets the first output of an attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from itertools import groupby

from msgspec.structs import replace

from rota.clients import workflows
from rota.clients.jobs import LARGEST_GET, POLL, NewsListener
from rota.clients.tail_output import TailOutput
from rota.clients.tail_places import TailPlace
from rota.errors import StoreUnavailable
from rota.lines.segment import BadSegment, unpack
from rota.model.job import JobInfo, Ref
from rota.model.principal import Principal
from rota.model.query.evaluate import left_for_lines
from rota.model.query.normal import fields_in
from rota.model.query.tree import EVERYTHING, NOTHING, All, Condition, How, Term
from rota.model.times import MINUTE, SECOND, Instant
from rota.store.base import Store
from rota.store.found_lines import FoundLine
from rota.store.line_search.plan import tasks_in
from rota.store.log_store import MOST_JOBS, ChunkCursor, RawScan, SegmentScan
from rota.store.search.plan import LOWEST as NO_JOB
from rota.store.search.plan import id_at
from rota.store.values import Chunk, Position

# Commits that overtake each other are mostly milliseconds apart; the store lets no call take longer than DEEP.
LOOK_BACK, DEEP, DEEP_EVERY = 5 * SECOND, 35 * SECOND, 5 * SECOND
# A look this long after the one before may come after the sealer, which leaves chunks for 5 s.
LATE = 1_500_000
# How long before a chunk became visible a segment with it may have been sealed, or its last line written.
SEALED_BEFORE, WRITTEN_BEFORE = 30 * SECOND, 10 * MINUTE
SILENCE = 2.0  # seconds until a line is told that has not ended
ASK_AFTER = 0.3  # seconds until it is asked whether its attempt has ended
BREATH = 0.1  # seconds between two looks, at least
PLACES, AHEAD = 2_000, 500  # of a page, and of new ones until they are read
CHUNKS, ROOM = 200, 512 << 10  # of a step
SEEDS = 16  # chunks in which the beginning of a line is looked for that goes on in a new one
READ = 32  # chunks of one attempt that are read by position

Placed = list[tuple[FoundLine, str]]  # lines, each with the place behind it


class LineTail:
    """`after`: goes on behind a place. `places`: lines come with places. `gap`: what a reader has to be told before the
    first line. `begun`: whether all that is kept from now on will be told. `trouble`: why the store can't be read."""

    def __init__(
        self,
        store: Store,
        who: Principal,
        where: Condition = EVERYTHING,
        after: TailPlace | None = None,
        *,
        places: bool = False,
        silence: float = SILENCE,
    ) -> None:
        self._store, self._who, self._where, self._silence = store, who, where, silence
        self._scan = RawScan(tasks=tasks_in(where), jobs=jobs_in(where), marks=True)
        self._clock = asyncio.get_running_loop().time
        self.begun = False
        self.trouble: str | None = None
        now = store.now()
        self.gap = None if after is None else after.gap(now)
        resumes = after is not None and not after.too_old(now)
        place = TailPlace(now - LOOK_BACK, True, {})
        if after is not None and resumes:
            place = after._replace(kept_at=min(after.kept_at, now))
        self._told_until = place.kept_at if resumes else None
        self._output = TailOutput(place, places)
        self._high = ChunkCursor(place.kept_at, NO_JOB, 0, -1)
        self._complete_at = place.kept_at if resumes else now  # all that was visible then was told
        self._deep_at: Instant = 0
        self._behind: dict[Ref, None] = {}  # attempts that are read by position
        self._sealed: SegmentScan | None = None  # a way through segments that goes on
        self._sealed_until: Instant = 0

    async def placed(self) -> AsyncGenerator[Placed, None]:
        """Lines as they come, and an empty list after each look that found none."""
        news = NewsListener(self._store)
        try:
            while True:
                told, more = await self.look()
                if told or not more:
                    yield told
                if not more:
                    await asyncio.sleep(BREATH)
                    await news.wait(POLL)
        finally:
            news.close()

    async def look(self) -> tuple[Placed, bool]:
        """The lines that one step found, and whether there is more to read at once. While the store is away, the tail
        keeps its place."""
        try:
            if not self.begun:
                await self._begin()
            more = await self._step()
            self.trouble = None
        except StoreUnavailable as error:
            more, self.trouble = False, str(error)
        told, self._output.told = self._output.told, []
        return told, more

    async def _begin(self) -> None:
        """What is there by now, or was kept before the place, is known; of attempts that are running, what comes next
        is new."""
        async for places in self._places(self._high.kept_at - DEEP):
            for place in places:
                if self._told_until is None or place.kept_at <= self._told_until:
                    self._output.know(_ref(place), place.number)
                    self._high = max(self._high, place)
        if self._output.places is not None:
            self._output.places.settle(self._high.kept_at)
        self.begun = True

    async def _step(self) -> bool:
        if self._behind:
            await self._read_on(next(iter(self._behind)))
            return True
        if self._sealed is not None:
            await self._read_sealed(self._sealed)
            return True
        return await self._look()

    # -- chunks that are not sealed ----------------------------------------------------------------------------------
    async def _look(self) -> bool:
        now = self._store.now()
        over, gone = await self._ended()
        new, last = await self._new_places(now)
        await self._decide(new)
        wanted = [place for place in new if self._is_new(place)]
        self._behind |= {_ref(place): None for place in wanted if place <= self._high}
        whole = await self._read_ahead([place for place in wanted if place > self._high])
        if whole and last is not None:
            self._high = max(self._high, last)
        # The order of places here is not that of each store; what it had elsewhere is read by position.
        self._behind |= {_ref(place): None for place in wanted if place <= self._high and self._is_new(place)}
        whole &= len(new) < AHEAD
        if self._behind or not whole:
            return True
        if now - self._complete_at > LATE:
            since = self._complete_at
            self._sealed = SegmentScan(
                since=since - WRITTEN_BEFORE, made_since=id_at(since - SEALED_BEFORE), tasks=self._scan.tasks,
                jobs=self._scan.jobs, limit=1,
            )  # fmt: skip
            self._sealed_until = now
            return True
        self._complete(now)
        self._output.drop_lines(gone)
        self._output.end_lines([*over, *self._output.waiting(self._clock() - self._silence)], now)
        return False

    def _complete(self, now: Instant) -> None:
        self._complete_at = now
        if self._output.places is not None:
            self._output.places.settle(self._high.kept_at - LOOK_BACK)
        self._output.forget()

    async def _new_places(self, now: Instant) -> tuple[list[ChunkCursor], ChunkCursor | None]:
        """Places of chunks that were not read, in their order (if there are AHEAD, there may be more), and the last
        place that was looked at."""
        deep = now - self._deep_at >= DEEP_EVERY
        new: list[ChunkCursor] = []
        last: ChunkCursor | None = None
        async for places in self._places(self._high.kept_at - (DEEP if deep else LOOK_BACK)):
            new += filter(self._is_new, places)
            last = places[-1]
            if len(new) >= AHEAD:
                return new, last
        if deep:
            self._deep_at = now
        return new, last

    def _is_new(self, place: ChunkCursor) -> bool:
        known = self._output.get(_ref(place))
        return known is None or (place.number > known.position and not known.unwanted)

    async def _places(self, since: Instant) -> AsyncIterator[list[ChunkCursor]]:
        scan = replace(self._scan, after=ChunkCursor(since, NO_JOB, 0, -1), bodies=False, limit=PLACES)
        while chunks := (await self._store.unsealed(self._who, scan)).chunks:
            places = [ChunkCursor(one.written_at, one.job_id, one.fence, one.number) for one in chunks]
            yield places
            if len(places) < PLACES:
                return
            scan = replace(scan, after=places[-1])

    async def _read_ahead(self, places: Sequence[ChunkCursor]) -> bool:
        """Reads what was kept behind the last known place; returns whether these places were reached."""
        if not places:
            return True
        jobs = tuple({place.job_id for place in places})
        scan = replace(self._scan, after=self._high, limit=CHUNKS, room=ROOM)
        if len(jobs) <= MOST_JOBS:
            scan = replace(scan, jobs=jobs)
        page = await self._store.unsealed(self._who, scan)
        await self._decide(page.chunks)
        self._take(page.chunks)
        if page.last is not None:
            self._high = max(self._high, page.last)
        return page.last is None or self._high >= places[-1]

    def _take(self, chunks: Sequence[Chunk]) -> None:
        """Chunks of attempts that were decided on."""
        clock, now = self._clock(), self._store.now()
        for chunk in chunks:
            ref = _ref(chunk)
            attempt = self._output.meet(ref, chunk.number)
            if attempt.unwanted or chunk.number <= attempt.position or ref in self._behind:
                continue
            if attempt.joined and chunk.number == attempt.position + 1:
                self._output.add(ref, chunk, clock, now)
            else:
                self._behind[ref] = None

    # -- one attempt by position -------------------------------------------------------------------------------------
    async def _read_on(self, ref: Ref) -> None:
        attempt = self._output.meet(ref, 0)
        after = attempt.position if attempt.joined else max(attempt.position - SEEDS, -1)
        chunks = await self._store.output(self._who, ref.job_id, Position(ref.fence, after), READ)
        clock, now = self._clock(), self._store.now()
        known = attempt.position
        for chunk in chunks:
            if chunk.fence == ref.fence and chunk.number > known:
                self._output.add(ref, chunk, clock, now)
            elif chunk.fence == ref.fence:
                self._output.seed(ref, chunk)
        attempt.joined = True
        if attempt.position == known:
            del self._behind[ref]

    # -- chunks that were sealed meanwhile ---------------------------------------------------------------------------
    async def _read_sealed(self, scan: SegmentScan) -> None:
        page = await self._store.segments(self._who, scan)
        for segment in page.segments:
            try:
                chunks = unpack(segment.body)
            except BadSegment:  # its jobs have a mark in place of their output
                continue
            new: list[Chunk] = []
            for ref, some in groupby(chunks, _ref):
                of_attempt = list(some)
                if self._output.meet_sealed(ref, of_attempt):
                    new += of_attempt
            await self._decide(new)
            self._take(new)
        self._sealed = None if page.last is None else replace(scan, after=page.last)
        if self._sealed is None:
            self._complete_at = self._sealed_until

    # -- jobs --------------------------------------------------------------------------------------------------------
    async def _decide(self, of: Sequence[ChunkCursor | Chunk]) -> None:
        """Decides for attempts that are new whether, and for which lines, their output is wanted."""
        met = {_ref(one): self._output.meet(_ref(one), one.number) for one in of}
        new = [ref for ref, attempt in met.items() if attempt.left is None]
        jobs = await self._jobs(new)
        names = {}
        if "workflow" in fields_in(self._where):
            names = await workflows.names_of(self._store, self._who, jobs.values())
        for ref in new:
            job, attempt = jobs.get(ref.job_id), met[ref]
            if job is None:
                attempt.left = NOTHING
                continue
            attempt.left = left_for_lines(self._where, job, names.get(job.workflow or ""))
            attempt.task, attempt.owner = job.task, job.owner
            attempt.number = next((one.number for one in job.attempts if one.fence == ref.fence), 0)

    async def _jobs(self, refs: Iterable[Ref]) -> dict[str, JobInfo]:
        ids = list(dict.fromkeys(ref.job_id for ref in refs))
        parts = [ids[start : start + LARGEST_GET] for start in range(0, len(ids), LARGEST_GET)]
        found = [job for part in parts for job in await self._store.get_many(self._who, part)]
        return {job.id: job for job in found if job is not None}

    async def _ended(self) -> tuple[list[tuple[Ref, str]], list[tuple[Ref, str]]]:
        """Of the streams with a line that waits for its end: those whose attempts have ended, and those whose jobs are
        gone. (What an attempt said is in the store before its end.)"""
        waiting = self._output.waiting(self._clock() - ASK_AFTER)[:LARGEST_GET]
        jobs = await self._jobs(ref for ref, _ in waiting)
        ended = {Ref(job.id, one.fence) for job in jobs.values() for one in job.attempts if one.finished_at is not None}
        return [one for one in waiting if one[0] in ended], [one for one in waiting if one[0].job_id not in jobs]


def _ref(of: ChunkCursor | Chunk) -> Ref:
    return Ref(of.job_id, of.fence)


def jobs_in(condition: Condition) -> tuple[str, ...] | None:
    """Ids: each line that fits is of one of these jobs. None: nothing is said, or only a part of an id."""
    match condition:
        case Term("id", How.IS, str(value)) if len(value) == len(NO_JOB):
            return (value,)
        case All(of):
            return next((jobs for one in of if (jobs := jobs_in(one)) is not None), None)
        case _:
            return None
