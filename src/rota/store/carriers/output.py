"""Reads the output of a job: chunks and segments, in one order, each chunk once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from rota.lines.segment import BadSegment, unpack
from rota.model.job import Ref, Verdict
from rota.model.output_marks import left_out, read_limit
from rota.model.principal import SYSTEM, Principal
from rota.store.carriers.edits import begin_edit
from rota.store.carriers.unit import Unit
from rota.store.cells import cells_of
from rota.store.values import CUT, Chunk, Position

# Segments that are read at first; a job with more output has them to itself, so a page needs few.
FEW = 4
# More than one job can have.
MANY = 10_000
# Marks come before all output of a job: no attempt has the fence 0.
_REMOVED, _DAMAGED = Position(0, 0), Position(0, 1)
_MARKS = {
    "age": (_REMOVED, b"[rota: earlier output was removed: it was older than log_retention]\n"),
    "space": (_REMOVED, b"[rota: earlier output was removed: the store keeps no more than log_space]\n"),
    "damaged": (_DAMAGED, b"[rota: some of the output is damaged and can't be read]\n"),
}


async def output(unit: Unit, who: Principal, job_id: str, after: Position, limit: int) -> list[Chunk]:
    if not unit.ids([job_id]) or (owner := await unit.value("owner_of_job", id=job_id, sees=who.sees)) is None:
        return []
    # Chunks first: what is sealed in between is found by the second read.
    rows = await unit.rows("output_rows", id=job_id, fence=after.fence, number=after.number, limit=limit)
    raw = [Chunk(job_id, *row) for row in rows]
    place = {"owner": owner, "job": job_id, "cells": cells_of(job_id), "fence": after.fence, "number": after.number}
    most = FEW
    while True:
        found = [_Sealed(*row) for row in await unit.rows("segments_of_job", most=most + 1, **place)]
        chunks = _merged(raw, found[:most], job_id, after)
        if len(raw) == limit:  # what comes behind it is for the next page
            chunks = [one for one in chunks if _place(one) <= _place(raw[-1])]
        if len(found) <= most:
            return chunks[:limit]
        # Segments that were not read may hold anything from here on.
        bound = found[most].low_fence, found[most].low_number
        if len(chunks) >= limit and _place(chunks[limit - 1]) < bound:
            return chunks[:limit]
        most *= 4


class _Sealed(NamedTuple):
    id: str
    low_fence: int
    low_number: int
    last_at: int
    gone: str | None
    body: bytes


def _merged(raw: list[Chunk], segments: list[_Sealed], job_id: str, after: Position) -> list[Chunk]:
    """A chunk may be in both: a repeat that crossed the first on its way was kept after that had been sealed."""
    found = {_place(one): one for one in raw}
    for segment in segments:
        found |= {_place(one): one for one in _read(segment, job_id)}
    behind = after.fence, after.number
    return [one for place, one in sorted(found.items(), key=_first) if place > behind]


def _read(segment: _Sealed, job_id: str) -> list[Chunk]:
    gone = segment.gone
    if gone is None:
        try:
            return [one for one in unpack(segment.body) if one.job_id == job_id]
        except BadSegment:
            gone = "damaged"
    position, text = _MARKS[gone]
    return [Chunk(job_id, position.fence, position.number, segment.last_at, CUT, text)]


# -- late output -----------------------------------------------------------------------------------------------------
async def hold(unit: Unit) -> None:
    """Late output and sealing wait for each other: what the one looks at, the other does not change meanwhile."""
    await begin_edit(unit, "late output", "", "")


class Late(NamedTuple):
    """What is to be appended of late chunks. The others (by their places) are in segments."""

    chunks: list[Chunk]
    sealed: set[int]

    def verdicts(self, others: Iterable[Verdict]) -> list[Verdict]:
        """The answers for all chunks, from those for the chunks that were appended."""
        rest, count = iter(others), len(self.chunks) + len(self.sealed)
        return [Verdict.ALREADY if place in self.sealed else next(rest) for place in range(count)]


async def late(unit: Unit, chunks: Sequence[Chunk]) -> Late:
    """Late output is rare: segments are opened. A mark would replace chunks, but what is sealed stays: so the mark
    counts only what is not there."""
    await hold(unit)
    held = await _sealed_with(unit, chunks)
    sealed: set[int] = set()
    rest: list[Chunk] = []
    for place, chunk in enumerate(chunks):
        own = held.get(Ref(chunk.job_id, chunk.fence), {})
        less = None if chunk.number in own else _beside(chunk, own)
        if less is None:
            sealed.add(place)
        else:
            rest.append(less)
    return Late(rest, sealed)


def _beside(chunk: Chunk, own: Mapping[int, Chunk]) -> Chunk | None:
    """None: it is a mark, and all that it stands for is there."""
    since, mark = chunk.since, read_limit(chunk.body) if chunk.stream == CUT else None
    if since is None or mark is None:
        return chunk
    shown = [one for number, one in own.items() if since <= number <= chunk.number]
    if not shown:
        return chunk
    sizes = [left_out(one.body) if one.stream == CUT else (len(one.body), one.body.count(b"\n")) for one in shown]
    mark = mark.less(sum(size for size, _ in sizes), sum(lines for _, lines in sizes))
    return replace(chunk, body=mark.text().encode()) if mark.size else None


async def _sealed_with(unit: Unit, chunks: Sequence[Chunk]) -> dict[Ref, dict[int, Chunk]]:
    """What segments hold of these attempts, from the first of the chunks on."""
    held: defaultdict[Ref, dict[int, Chunk]] = defaultdict(dict)
    for job in sorted({chunk.job_id for chunk in chunks}):
        if not unit.ids([job]) or (owner := await unit.value("owner_of_job", id=job, sees=SYSTEM.sees)) is None:
            continue
        fence, number = min((one.fence, _first_number(one)) for one in chunks if one.job_id == job)
        place = {"owner": owner, "job": job, "cells": cells_of(job), "fence": fence, "number": number - 1}
        for row in await unit.rows("segments_of_job", most=MANY, **place):
            for one in _read(_Sealed(*row), job):
                held[Ref(job, one.fence)][one.number] = one
    return held


def _first_number(chunk: Chunk) -> int:
    return chunk.number if chunk.since is None else min(chunk.since, chunk.number)


def _place(chunk: Chunk) -> tuple[int, int]:
    return chunk.fence, chunk.number


def _first(item: tuple[tuple[int, int], Any]) -> tuple[int, int]:
    return item[0]
