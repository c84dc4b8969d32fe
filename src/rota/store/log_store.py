"""The contract of a store, part log store; see `store.base` for what all verbs share.

Output arrives as *chunks*, rows of one table. Once its attempt has ended it is *sealed*: the chunks of many attempts of
one task become a *segment*, a compressed row with a filter of the words in it, and the same write deletes the chunks.
So at each moment a chunk is in exactly one place, whoever seals and however often: a segment is written only if all
chunks that it replaces are there, unchanged. A segment that is rewritten (because a job in it was purged, or to join
small ones) replaces whole segments in the same way.

A reader of one job needs to know nothing of that: `Store.output` reads both. A search reads segments and unsealed
chunks by the verbs below. Jobs may be deleted before the output that a segment holds of them; so lines of a job that
`get_many` does not find must not be shown.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import msgspec

from rota.lines.words import Probe
from rota.model.principal import Principal
from rota.model.times import Duration, Instant
from rota.store.values import Chunk, Position
from rota.store.verbs import NODE, READ, WRITE, Verbs, verb


# -- chunks that are not sealed --------------------------------------------------------------------------------------
class ChunkCursor(msgspec.Struct, frozen=True, order=True):
    """The place of a chunk in the order in which chunks were kept."""

    kept_at: Instant
    job_id: str
    fence: int
    number: int


class Run(msgspec.Struct, frozen=True, gc=False):
    """Unsealed chunks of an attempt that has ended: those with numbers from `low` to `high`."""

    job_id: str
    fence: int
    low: int
    high: int
    count: int  # how many there are,
    size: int  # and their bytes
    kept_at: Instant  # the first of them
    owner: str
    task: str
    dead: bool  # the job is a dead letter


class RunPage(msgspec.Struct, frozen=True):
    runs: list[Run]
    last: ChunkCursor | None  # how far it came; None: to the end


class RunsRead(msgspec.Struct, frozen=True):
    runs: list[Run]  # what was read
    chunks: list[Chunk]
    rest: list[Run]  # there was no room for these


class RawScan(msgspec.Struct, frozen=True, kw_only=True):
    """Which unsealed chunks; all given conditions must hold."""

    since: Instant | None = None  # written then or later
    until: Instant | None = None  # written before
    tasks: tuple[str, ...] | None = None  # globs
    jobs: tuple[str, ...] | None = None  # ids
    after: ChunkCursor | None = None
    newest_first: bool = False
    marks: bool = False  # also marks of output that was cut
    bodies: bool = True  # False: the places alone, as empty chunks of the times at which they were kept
    limit: int = 200  # chunks
    room: int = 4 << 20  # bytes of the bodies; the first chunk may have more


class RawPage(msgspec.Struct, frozen=True):
    chunks: list[Chunk]
    tasks: list[str]  # of each chunk
    last: ChunkCursor | None  # how far it came; None: to the end, and there was nothing


# -- segments --------------------------------------------------------------------------------------------------------
class NewSegment(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    owner: str
    task: str
    lasting: bool  # some of its jobs were dead letters when it was sealed
    kept_at: Instant | None = None  # None: now
    first_at: Instant
    last_at: Instant  # its lines are from this time
    lines: int
    size: int  # bytes of output, without marks
    low: Position  # all its chunks are within
    high: Position
    jobs: bytes  # ids of 16 bytes, in their order
    words: bytes
    body: bytes


class Sealing(msgspec.Struct, frozen=True):
    """A segment to be written, in place of these chunks or segments."""

    segment: NewSegment | None  # None: nothing of it is left
    runs: Sequence[Run] = ()
    segments: Sequence[str] = ()


class Stored(msgspec.Struct, frozen=True):
    """A segment that is to be rewritten."""

    id: str
    owner: str
    task: str
    lasting: bool
    kept_at: Instant
    size: int
    body: bytes


class Purged(msgspec.Struct, frozen=True):
    """Jobs whose output has to leave the segments that hold it."""

    jobs: list[str]
    segments: list[Stored]


class SegmentCursor(msgspec.Struct, frozen=True):
    last_at: Instant
    id: str


class SegmentScan(msgspec.Struct, frozen=True, kw_only=True):
    """Which segments; all given conditions must hold. Newest first, by the time of their last line."""

    since: Instant | None = None  # they may hold lines of then or later
    until: Instant | None = None  # they may hold lines of before
    tasks: tuple[str, ...] | None = None  # globs
    jobs: tuple[str, ...] | None = None  # ids; at most MOST_JOBS
    words: tuple[tuple[Probe, ...], ...] = ()  # of each of these groups, one must be in the filter
    made_since: str | None = None  # with this id or a higher one: ids begin with the time at which they were made
    after: SegmentCursor | None = None
    limit: int = 16  # segments
    room: int = 4 << 20  # bytes of the bodies; the first segment may have more
    look: int = 1000  # segments that are looked at


class Segment(msgspec.Struct, frozen=True):
    id: str
    owner: str
    task: str
    first_at: Instant
    last_at: Instant
    lines: int
    size: int
    body: bytes


class SegmentPage(msgspec.Struct, frozen=True):
    segments: list[Segment]
    last: SegmentCursor | None  # how far it came; None: to the end
    looked: int  # segments that were looked at, for the progress of a search,
    size: int  # and the bytes of output in them


class Extent(msgspec.Struct, frozen=True):
    """How much there is to search."""

    segments: int
    size: int


class LogRetention(msgspec.Struct, frozen=True):
    ended: Duration  # how long jobs are kept,
    dead: Duration  # and dead letters
    age: Duration | None = None  # None: output is kept as long as its job
    space: int | None = None  # bytes of all segments; None: no bound


MOST_JOBS = 500


class LogStore(Verbs):
    @verb(READ, stale_ok=True)
    @abstractmethod
    async def segments(self, who: Principal, /, scan: SegmentScan) -> SegmentPage:
        """A page of the segments that may hold what a search wants. The filter of words may let a segment through that
        holds none of them."""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def segment_extent(self, who: Principal, /, scan: SegmentScan) -> Extent:
        """The segments of all pages of a scan, before any filter of words or jobs."""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def unsealed(self, who: Principal, /, scan: RawScan) -> RawPage:
        """A page of the chunks that are not sealed, in the order in which they were kept. Several writers commit in
        another order than they began, so a reader that follows must look some seconds back."""

    @verb(READ, NODE, "seal output of")
    @abstractmethod
    async def runs(self, who: Principal, /, after: ChunkCursor | None, age: Duration, limit: int) -> RunPage:
        """What there is to seal, by every user: chunks of this age of attempts that have ended. Looks at `limit` chunks
        in the order in which they were kept. An attempt may have other chunks between those of a run."""

    @verb(READ, NODE, "seal output of")
    @abstractmethod
    async def read_runs(self, who: Principal, /, runs: Sequence[Run], room: int) -> RunsRead:
        """The chunks of these runs that have room together, at least one, each once."""

    @verb(WRITE, NODE, "seal output of")
    @abstractmethod
    async def seal(self, who: Principal, /, sealings: Sequence[Sealing], purged: Sequence[str] = ()) -> list[bool]:
        """Writes segments in place of chunks or of other segments. False: some of these were gone or had changed, so
        that segment was not written. `purged`: jobs that no segment may hold any more; those that none holds are
        forgotten."""

    @verb(READ, NODE, "seal output of")
    @abstractmethod
    async def purged_output(self, who: Principal, /, limit: int) -> Purged:
        """Some purged jobs, and segments that hold output of them."""

    @verb(READ, NODE, "seal output of")
    @abstractmethod
    async def small_segments(self, who: Principal, /, limit: int) -> list[list[Stored]]:
        """Segments that are worth joining, at most `limit` groups: several of one task and day."""

    @verb(WRITE, NODE, "seal output of", batch="ids")
    @abstractmethod
    async def set_segments_aside(self, who: Principal, /, ids: Sequence[str]) -> int:
        """These can't be read. Readers are told so, and nothing is done with them until they are deleted."""

    @verb(WRITE, NODE, "delete output of")
    @abstractmethod
    async def prune_output(self, who: Principal, /, retention: LogRetention, limit: int) -> int:
        """Removes sealed output that is too old or too much, and segments whose jobs are gone; at most `limit`
        segments. 0: there is nothing to do for now. A job whose output was removed keeps a mark that says so."""
