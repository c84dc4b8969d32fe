"""Context of a line beyond its block: an attempt with much output has several segments, and some of it may be
unsealed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.lines.segment import gather
from rota.lines.sheet import Sheet
from rota.model.principal import Principal
from rota.store.line_search.blocks import Found, Wanted, around
from rota.store.log_store import RawScan, SegmentScan
from rota.store.values import CUT, Position

if TYPE_CHECKING:
    from rota.store.base import Store

# Chunks on each side of a line that are read.
BESIDE = 30


class Contexts:
    def __init__(self, store: Store, who: Principal, wanted: Wanted) -> None:
        self._store, self._who, self._wanted = store, who, wanted
        self._scattered: dict[str, bool] = {}

    async def completed(self, found: Found) -> Found:
        line, wanted = found.line, self._wanted
        if len(found.before) >= wanted.before and len(found.after) >= wanted.after:
            return found
        if not await self._is_scattered(line.job_id):
            return found
        begin = Position(line.fence, max(line.number - BESIDE, 0) - 1)
        chunks = await self._store.output(self._who, line.job_id, begin, 2 * BESIDE)
        ours = [one for one in chunks if one.fence == line.fence and one.stream != CUT]
        if all(one.number != line.number for one in ours):  # it was removed meanwhile
            return found
        before, after = around(Sheet(gather(ours)), line, wanted)
        return msgspec.structs.replace(found, before=before, after=after)

    async def _is_scattered(self, job: str) -> bool:
        """Whether its output is in several places."""
        if job not in self._scattered:
            segments = (await self._store.segment_extent(self._who, SegmentScan(jobs=(job,)))).segments
            raw = await self._store.unsealed(self._who, RawScan(jobs=(job,), bodies=False, limit=1))
            self._scattered[job] = segments + len(raw.chunks) > 1
        return self._scattered[job]
