"""One page of a search of output."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from rota.model.principal import Principal
from rota.model.query.check import check
from rota.model.query.fields import Searched
from rota.model.readers import whole
from rota.store.found_lines import FoundLine, LinePage, LinePlace, LineProgress, LineQuery
from rota.store.line_search.blocks import Block, Found, Wanted
from rota.store.line_search.context import Contexts
from rota.store.line_search.jobs import Jobs
from rota.store.line_search.plan import planned
from rota.store.line_search.sources import Reader, Sealed, Source, Unsealed
from rota.store.log_store import SegmentCursor, SegmentScan
from rota.store.search.plan import LOWEST

if TYPE_CHECKING:
    from rota.store.base import Store

MOST_LINES, MOST_CONTEXT = 1_000, 50
# Bytes of the lines of a page; its last line may exceed them.
ROOM = 4 << 20
# A page that finds little ends after this time. It takes longer where pages before have read much of the same.
SECONDS = 0.3


async def page(store: Store, who: Principal, query: LineQuery) -> LinePage:
    query = checked(query)
    plan = planned(query.where, query.place)
    jobs = Jobs(store, who, plan)
    wanted = Wanted(plan, query.limit, query.before, query.after, await jobs.few())
    return await _Search(store, who, wanted, jobs).page()


def checked(query: LineQuery) -> LineQuery:
    """What came over the wire is not believed. Raises InvalidInput."""
    whole(query.limit, "limit", 1, MOST_LINES)
    whole(query.before, "before", 0, MOST_CONTEXT)
    whole(query.after, "after", 0, MOST_CONTEXT)
    return msgspec.structs.replace(query, where=check(query.where, Searched.OUTPUT))


class _Search:
    def __init__(self, store: Store, who: Principal, wanted: Wanted, jobs: Jobs) -> None:
        self._store, self._who, self._wanted, self._jobs = store, who, wanted, jobs
        self._contexts = Contexts(store, who, wanted)
        self._reader = Reader(store, who, wanted)
        self._sealed, self._unsealed = Sealed(self._reader, store.now()), Unsealed(self._reader)
        self._blocks: list[Block] = []  # a heap: the one with the newest line first
        self._floor: LinePlace | None = None  # blocks had more lines below
        self._found: list[FoundLine] = []
        self._room = ROOM
        self._last: LinePlace | None = None  # the last line that was looked at

    async def page(self) -> LinePage:
        clock = asyncio.get_running_loop().time
        end = clock() + SECONDS
        while True:
            await self._read()
            border = self._border()
            await self._take(border)
            if self._full:
                return await self._page(self._found[-1].place)
            if border is None:
                return await self._page(None)
            if border == self._floor or (clock() > end and self._came_on(border)):
                return await self._page(border)

    async def _read(self) -> None:
        """A step of the source that has come back least far. Then what was sealed meanwhile: only what was read before
        that look is known to be all there is."""
        sources: list[Source] = [self._unsealed, self._sealed]
        behind = max((one for one in sources if one.border is not None), key=lambda one: one.border or 0, default=None)
        if behind is not None:
            self._add(await behind.read())
        self._add(await self._sealed.read_new(self._store.now()))

    def _add(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block.newest is not None:
                heappush(self._blocks, block)
            if block.floor is not None:
                self._floor = block.floor if self._floor is None else max(self._floor, block.floor)

    def _border(self) -> LinePlace | None:
        """All lines from this place on were read; None: all there are."""
        times = [one.border for one in (self._unsealed, self._sealed) if one.border is not None]
        places = [LinePlace(time + 1) for time in times] + ([] if self._floor is None else [self._floor])
        return max(places, default=None)

    def _came_on(self, border: LinePlace) -> bool:
        """Enough for a page: each is to read more for the first time than once more."""
        place = self._wanted.plan.place
        return (place is None or border < place) and self._sealed.first >= self._sealed.again

    async def _take(self, border: LinePlace | None) -> None:
        while not self._full:
            some = self._newest(self._wanted.count - len(self._found), border)
            if not some:
                return
            await self._jobs.know(one.place.job_id for one in some)
            for one in filter(self._jobs.fits, some):
                found = await self._contexts.completed(one)
                self._found.append(self._jobs.shown(found))
                self._room -= found.size
                if self._full:
                    return

    @property
    def _full(self) -> bool:
        return len(self._found) == self._wanted.count or self._room <= 0

    def _newest(self, count: int, border: LinePlace | None) -> list[Found]:
        """The next lines, each once: a segment may hold what was read unsealed."""
        some: list[Found] = []
        while len(some) < count and self._blocks and (newest := self._blocks[0].newest) is not None:
            if border is not None and newest < border:
                break
            block = heappop(self._blocks)
            found = block.pop()
            if found.place != self._last:
                some.append(found)
            self._last = found.place
            if block.newest is not None:
                heappush(self._blocks, block)
        return some

    async def _page(self, last: LinePlace | None) -> LinePage:
        whole_of_it = (await self._store.segment_extent(self._who, self._scan(None))).size
        rest = 0
        if last is not None:
            rest = (await self._store.segment_extent(self._who, self._scan(SegmentCursor(last.at, LOWEST)))).size
        back_to = None if last is None else last.at
        progress = LineProgress(whole_of_it - rest, whole_of_it, back_to, self._reader.unreadable)
        return LinePage(self._found, last, progress)

    def _scan(self, after: SegmentCursor | None) -> SegmentScan:
        return msgspec.structs.replace(self._sealed.scan, after=after)
