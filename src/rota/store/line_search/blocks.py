"""Blocks: the lines of one segment, or of attempts that are not sealed, that may be wanted, in their order.

A block keeps the newest of its lines, as many as a page may want and as there is room for. Its *floor* says that it had
more: a page ends there, and the next one reads the block again.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rota.lines.matching import Lines, pieces
from rota.lines.segment import Contents
from rota.lines.sheet import Line, Sheet
from rota.model.query.tree import NOTHING, Condition
from rota.store.found_lines import LONGEST_LINE, ContextLine, LinePlace
from rota.store.line_search.plan import Plan, left_of
from rota.store.search.plan import Span

# Bytes of the lines that a block keeps; the newest may have more.
ROOM = 2 << 20


class Wanted(msgspec.Struct, frozen=True):
    plan: Plan
    count: int  # lines of a page
    before: int = 0  # lines of context
    after: int = 0
    jobs: frozenset[str] | None = None  # only lines of these


class Found(msgspec.Struct, frozen=True):
    """A line that may be wanted, with its context as far as the block has it. `line` has the whole body if its job
    decides over it."""

    place: LinePlace
    line: Line
    shown: ContextLine
    before: list[ContextLine]
    after: list[ContextLine]
    level: str | None

    @property
    def size(self) -> int:
        return len(self.line.body) + sum(len(one.body) for one in (self.shown, *self.before, *self.after))


class Block:
    def __init__(self, lines: list[Found], floor: LinePlace | None) -> None:
        self._lines, self.floor = lines, floor

    @property
    def newest(self) -> LinePlace | None:
        return self._lines[-1].place if self._lines else None

    def pop(self) -> Found:
        return self._lines.pop()

    def __lt__(self, other: Block) -> bool:
        """In a heap the block with the newest line comes first."""
        return self._lines[-1].place > other._lines[-1].place


def block_of(contents: Contents, owner: str | None, task: str, wanted: Wanted) -> Block:
    times = [at for track in contents.tracks for at in (min(track.times), max(track.times))]
    condition = left_of(wanted.plan.where, owner, task, Span(min(times), max(times))) if times else NOTHING
    if condition == NOTHING:
        return Block([], None)
    sheet = Sheet(contents)
    places = sorted(_places(sheet, condition, wanted))
    kept = _kept(sheet, places, wanted)
    return Block(kept[::-1], kept[-1].place if len(kept) < len(places) else None)


def _places(sheet: Sheet, condition: Condition, wanted: Wanted) -> Iterator[tuple[LinePlace, int]]:
    """The lines that fit, with the places where they are seen."""
    jobs = {track.job_id for track in sheet.tracks}
    left = dict.fromkeys(jobs if wanted.jobs is None else jobs & wanted.jobs, condition)
    below = wanted.plan.place
    for piece in pieces(sheet, left, {}):
        for start in Lines(sheet, piece).fitting(piece.condition):
            place = LinePlace(*sheet.order(start))
            if below is None or place < below:
                yield place, start


def _kept(sheet: Sheet, places: list[tuple[LinePlace, int]], wanted: Wanted) -> list[Found]:
    """Of the newest lines, the newest first."""
    kept: list[Found] = []
    room = ROOM
    for place, start in reversed(places[-wanted.count :]):
        line = sheet.line(start)
        before, after = around(sheet, line, wanted)
        whole = line if wanted.plan.asks_jobs else line._replace(body=b"")
        found = Found(place, whole, shown(line), before, after, line.level)
        room -= found.size
        if kept and room < 0:
            break
        kept.append(found)
    return kept


def around(sheet: Sheet, line: Line, wanted: Wanted) -> tuple[list[ContextLine], list[ContextLine]]:
    if not wanted.before and not wanted.after:
        return [], []
    before, after = sheet.around(line, wanted.before, wanted.after)
    return [*map(shown, before)], [*map(shown, after)]


def shown(line: Line) -> ContextLine:
    """The line as people get it: of a long one the beginning."""
    body = line.body[:LONGEST_LINE]
    return ContextLine(
        number=line.number, offset=line.offset, written_at=line.at, stream=line.stream, body=body,
        more=len(line.body) - len(body),
    )  # fmt: skip
