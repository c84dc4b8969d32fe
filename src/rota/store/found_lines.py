"""Values of searches of output: which lines, and the lines that were found."""

from __future__ import annotations

from datetime import datetime

import msgspec

from rota.model.query.tree import EVERYTHING, Condition
from rota.model.times import Instant, aware


class LinePlace(msgspec.Struct, frozen=True, order=True):
    """A place in the order of lines, which is by time, and then by where they were written. No line need be there."""

    at: Instant
    job_id: str = ""
    fence: int = 0
    number: int = 0
    offset: int = 0


class LineQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines. Newest first."""

    where: Condition = EVERYTHING  # a parsed query for output
    before: int = 0  # lines of context before each line that was found,
    after: int = 0  # and behind it
    place: LinePlace | None = None  # only lines of before this place
    limit: int = 100


# Of a longer line its first bytes are given.
LONGEST_LINE = 32 << 10


class ContextLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line beside one that was found, of the same attempt and of any stream."""

    number: int
    offset: int
    written_at: Instant
    stream: str
    body: bytes
    more: int = 0  # bytes that the line has beyond `body`

    @property
    def at(self) -> datetime:
        return aware(self.written_at)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class FoundLine(ContextLine, frozen=True, kw_only=True):
    """A line of an attempt's output. `number` and `offset` say where its first byte is: the number of its chunk, and
    the place in it. `body` has no line end."""

    job_id: str
    fence: int
    attempt: int  # its number; 0: not known
    task: str
    owner: str
    level: str | None = None
    before: list[ContextLine] = []
    after: list[ContextLine] = []

    @property
    def place(self) -> LinePlace:
        return LinePlace(self.written_at, self.job_id, self.fence, self.number, self.offset)


class LineProgress(msgspec.Struct, frozen=True):
    """How far a search has come with all its pages so far, in bytes of sealed output. What a filter of words excluded
    counts too."""

    examined: int
    of: int
    back_to: Instant | None = None  # all lines of after that time were examined; None: all lines
    unreadable: int = 0  # damaged segments that this page has met


class LinePage(msgspec.Struct, frozen=True):
    """A page may have fewer lines than its limit, or none, and not be the last: a page examines a bounded amount."""

    lines: list[FoundLine]
    last: LinePlace | None  # where the next page begins; None: this is the last page
    progress: LineProgress
