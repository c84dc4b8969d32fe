"""Values that store verbs take and return; `store.base` is the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from rota.errors import KeyConflict, NotFound, QuotaExceeded
from rota.model.job import JobInfo, Submitted, Verdict
from rota.model.lifecycle import TERMINAL, State
from rota.model.progress import Progress
from rota.model.query.fields import Sort
from rota.model.query.tree import Condition
from rota.model.times import DAY, Duration, Instant, aware


class Topic(StrEnum):
    """The subject of a wake-up. A wake-up carries no data: the listener looks at the store."""

    READY = "r"  # there is work to claim
    DUE = "d"  # a due time or expiry appeared that may be earlier than the known ones
    CANCEL = "c"  # a running attempt should stop
    NEWS = "n"  # a job ended, or output arrived: people may be watching
    SCHEDULE = "s"  # a schedule was changed, or is due; or a fire waits for earlier fires
    TIES = "t"  # a job waits for others, or one has ended that others wait for
    GATE = "g"  # a gate was closed or opened, a limit changed, a key became free
    LOCK = "l"  # a lock was released
    DEAF = "h"  # a process does not hear the hot tier's wake-ups: tell it by the store's own


# The topics that new orders and schedules may touch.
OF_ORDERS = frozenset({Topic.READY, Topic.DUE, Topic.TIES, Topic.GATE, Topic.SCHEDULE})


class JobCursor(msgspec.Struct, frozen=True):
    """A place in the order of a search; the next page begins behind it. The job of this id need not fit, or exist."""

    id: str
    ended_at: Instant | None = None  # in the order of the ends; None: behind all that have ended
    value: str | int | float | None = None  # in other orders; None: behind all that have a value


NEWEST = Sort("id", descending=True)


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs; all given conditions must hold. Newest first; dead letters alone come in the order of their ends."""

    ids: tuple[str, ...] | None = None
    states: tuple[State, ...] | None = None
    queue: str | None = None
    task: str | None = None  # a glob
    tasks: tuple[str, ...] | None = None  # names
    error: str | None = None  # a part of the message of the last error
    group: str | None = None  # the id of a group of errors; only failed jobs have one
    label: str | None = None
    workflow: str | None = None  # its id
    schedule: str | None = None  # its name
    created_after: Instant | None = None  # or then
    created_before: Instant | None = None
    ended_after: Instant | None = None  # or then
    ended_before: Instant | None = None
    where: Condition | None = None  # a parsed query
    sort: Sort | None = None  # None: as above
    after: JobCursor | None = None
    limit: int = 100

    @property
    def by_end(self) -> bool:
        return self.states == (State.FAILED,) and self.sort is None

    @property
    def order(self) -> Sort:
        return self.sort or (Sort("finished", descending=True) if self.by_end else NEWEST)


class SearchProgress(msgspec.Struct, frozen=True):
    """How far a search has come with this page. Only jobs that the principal may see are counted."""

    examined: int  # jobs, for this page
    of: int | None = None  # jobs that there were to examine for this page and all behind it, about; None: not known
    back_to: Instant | None = None  # the time of the order (or of the end) of the last job examined


class JobPage(msgspec.Struct, frozen=True):
    """A page may have fewer jobs than its limit, or none, and not be the last: a search that no index helps examines a
    bounded number of jobs for each page."""

    jobs: list[JobInfo]
    last: JobCursor | None  # where the next page begins; None: this is the last page
    progress: SearchProgress | None = None


class JobCount(msgspec.Struct, frozen=True):
    number: int
    exact: bool = True  # False: an estimate


class Facet(msgspec.Struct, frozen=True):
    """The jobs of a search with this value of a field. `title`: of a group of errors."""

    value: str
    number: int
    exact: bool = True
    title: str | None = None


class Facets(msgspec.Struct, frozen=True):
    """The jobs of a search, counted by some fields; the most frequent values first. `complete`: there are no others."""

    total: JobCount
    fields: dict[str, list[Facet]]
    complete: bool = True


class Cancelling(StrEnum):
    CANCELLED = "cancelled"  # it was waiting; it is over
    REQUESTED = "requested"  # it runs; its node was told
    ENDED = "ended"  # it had ended before
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, state: State | None) -> Cancelling:
        """The answer for a job in this state; None: there is no such job that the principal may see."""
        if state is None:
            return cls.UNKNOWN
        if state in TERMINAL:
            return cls.ENDED
        return cls.REQUESTED if state is State.RUNNING else cls.CANCELLED

    @property
    def changes(self) -> bool:
        """The call did something about this job."""
        return self in (Cancelling.CANCELLED, Cancelling.REQUESTED)


# The stream of marks that stand for deleted output.
CUT = "cut"


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A piece of an attempt's output. Numbers count up from 0 in each attempt; a repeat of a number changes nothing.

    A chunk with `since` replaces all chunks of its attempt from that number up to its own."""

    job_id: str
    fence: int
    number: int
    written_at: Instant
    stream: str  # stdout, stderr, log or CUT
    body: bytes
    since: int | None = None

    @property
    def at(self) -> datetime:
        """When it was written."""
        return aware(self.written_at)


class Position(msgspec.Struct, frozen=True):
    """How far a reader of a job's output has come."""

    fence: int = 0
    number: int = -1


class Note(msgspec.Struct, frozen=True, gc=False):
    """Progress or state that an attempt reports. Numbers rise in each attempt: the highest number wins, in any order of
    arrival."""

    job_id: str
    fence: int
    number: int
    progress: Progress | None = None  # None: as before
    state: str | None = None  # to be kept for the next attempt, as JSON; None: as before


class Start(msgspec.Struct, frozen=True, gc=False):
    verdict: Verdict
    started_at: Instant | None = None
    cancel: str | None = None  # don't start it: it was cancelled meanwhile, for this reason


class OutboxEvent(msgspec.Struct, frozen=True):
    """An entry of the outbox; `model.events` makes of it the events that people see."""

    seq: int
    at: Instant
    kind: str  # job.failed, job.replayed, node.died, ...
    owner: str
    subject: str
    data: dict[str, Any]


class OutboxSpan(msgspec.Struct, frozen=True):
    """The positions of the outbox: the first that is kept, and the last that was given. Nothing is kept if `first` is
    behind `last`."""

    first: int
    last: int


class Retention(msgspec.Struct, frozen=True):
    ended: Duration
    dead: Duration
    events: Duration
    nodes: Duration
    audit: Duration = 400 * DAY


class Finding(msgspec.Struct, frozen=True):
    """The result of one check of `rota doctor`."""

    name: str
    ok: bool
    text: str


Answer = list[Submitted] | KeyConflict | NotFound | QuotaExceeded


def created(_: Mapping[str, Any], answers: Sequence[Answer]) -> list[str]:
    """The ids of the jobs that orders made."""
    return [one.id for answer in answers if isinstance(answer, list) for one in answer if one.created]
