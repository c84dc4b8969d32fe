"""The contract of a store.

A store keeps every job durable and consistent, and judges due times and expiry by its own clock. What all verbs share:

- A verb is one transaction: it happens whole or not at all, and is durable when it returns.
- It takes the *principal* on whose behalf it acts and never shows or changes what that principal may not see; the
  verbs of nodes (running, nodes, shelves) are refused to people, those that concern everyone's jobs to all but
  operators.
- It takes and returns model values in batches; no connection, cursor or SQL shows through.
- A write by an attempt names (job, fence) and is answered `applied`, `already` (a repeat after a lost reply) or
  `stale`. One bad row of a batch is set aside; the batch goes on.
- It may append events to the outbox, which is read in the order of commits.
- It raises only errors of `rota.errors`; after any error nothing of that call was written.

Verbs marked `@stale_ok` tolerate an answer from a replica or cache that lags a little; callers must not decide
anything by them that the write verbs don't check again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from rota.errors import KeyConflict, NotAllowed, NotFound
from rota.model.job import Claimed, JobInfo, Kind, NewJob, Ref, Submitted, Verdict
from rota.model.lifecycle import TERMINAL, State
from rota.model.node import NewNode, News, NodeInfo
from rota.model.outcome import CrashRule, Settlement
from rota.model.principal import Principal
from rota.model.progress import Progress
from rota.model.task import TaskInfo
from rota.model.times import Duration, Instant
from rota.store.admission import Admission
from rota.store.graph import Graph
from rota.store.offers import Offers
from rota.store.timetable import Timetable

Verb = TypeVar("Verb", bound=Callable[..., Any])


def stale_ok(verb: Verb) -> Verb:
    """Marks a read that may be answered from a replica or a cache."""
    verb.stale_ok = True  # type: ignore[attr-defined]
    return verb


def require_system(who: Principal, verb: str) -> None:
    """Nodes do these things, people don't."""
    if not who.system:
        raise NotAllowed(who.user, f"{verb} jobs or nodes")


def require_operator(who: Principal, deed: str) -> None:
    """Raises NotAllowed unless the principal is an operator: the verb affects every user's jobs."""
    if not who.operates:
        raise NotAllowed(who.user, f"{deed}, which concerns everyone's jobs: it is for operators")


class Topic(StrEnum):
    """What a wake-up is about. A wake-up carries no data: whoever is woken looks at the store."""

    READY = "r"  # there is work to claim
    DUE = "d"  # a due time or expiry appeared that may be earlier than the known ones
    CANCEL = "c"  # a running attempt should stop
    NEWS = "n"  # something that people watch has changed: a job ended, output arrived
    SCHEDULE = "s"  # a schedule was changed, or is due; or a fire waits for those before it
    TIES = "t"  # a job waits for others, or one has ended that others wait for
    GATE = "g"  # a gate was closed or opened, a limit changed, a key became free


# What orders may be about.
OF_ORDERS = frozenset({Topic.READY, Topic.DUE, Topic.TIES, Topic.GATE})


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs; all given conditions must hold. Newest first."""

    ids: tuple[str, ...] | None = None
    states: tuple[State, ...] | None = None
    queue: str | None = None
    task: str | None = None  # a glob
    error: str | None = None  # a part of the message of the last error
    ended_before: Instant | None = None
    limit: int = 100


class Cancelling(StrEnum):
    CANCELLED = "cancelled"  # it was waiting; it is over
    REQUESTED = "requested"  # it runs; its node was told
    ENDED = "ended"  # it had ended before
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, state: State | None) -> Cancelling:
        """What becomes of a wish to cancel a job that stands there; None: there is none that the principal may see."""
        if state is None:
            return cls.UNKNOWN
        if state in TERMINAL:
            return cls.ENDED
        return cls.REQUESTED if state is State.RUNNING else cls.CANCELLED


# The stream of the marks that stand where output was left out.
CUT = "cut"


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A piece of an attempt's output. Numbers count up from 0 in each attempt; a repeat of a number changes nothing.

    One with `since` takes the place of all chunks of its attempt from that number up to its own."""

    job_id: str
    fence: int
    number: int
    at: Instant
    stream: str  # stdout, stderr, log or CUT
    body: bytes
    since: int | None = None


class Position(msgspec.Struct, frozen=True):
    """How far a reader of a job's output has come."""

    fence: int = 0
    number: int = -1


class Note(msgspec.Struct, frozen=True, gc=False):
    """Something an attempt tells of itself. Numbers rise in each attempt: what it told later stays, whatever arrives
    later."""

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
    seq: int
    at: Instant
    kind: str  # job.failed, job.replayed, node.died, ...
    owner: str
    subject: str
    data: dict[str, Any]


class Retention(msgspec.Struct, frozen=True):
    ended: Duration
    dead: Duration
    events: Duration
    nodes: Duration


class Finding(msgspec.Struct, frozen=True):
    """One thing `rota doctor` looked at."""

    name: str
    ok: bool
    text: str


Answer = list[Submitted] | KeyConflict | NotFound


def tell_nobody(line: str) -> None:
    """The default for `tell`: lines are dropped."""


class Store(Timetable, Graph, Admission, Offers, ABC):
    # -- life of the store itself ------------------------------------------------------------------------------------
    @abstractmethod
    async def migrate(self, tell: Callable[[str], None] = tell_nobody) -> tuple[int, int]:
        """Brings the schema up to date under a lock; returns (version before, version after). Safe to call at any time
        from any number of processes, and keeps none of them from its work for longer than a moment. Raises SchemaTooNew
        and changes nothing if the store is ahead of this code. Whom it has to wait for is told, in words."""

    @abstractmethod
    async def open(self) -> None:
        """Makes ready for use; raises SchemaMissing or SchemaTooNew unless the schema fits."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def let_go(self) -> None:
        """Closes it without waiting, from any thread and without a loop: nobody uses it any more."""

    # A store may be used by several event loops, at once and one after the other, and lets go of what belongs to a loop
    # that was closed. In a forked child it opens connections of its own, and never touches those of its parent.

    @abstractmethod
    async def examine(self) -> list[Finding]:
        """Looks for trouble: integrity, schema, space, left-overs."""

    @abstractmethod
    def now(self) -> Instant:
        """The store's clock, as well as this process knows it."""

    def doubt(self) -> Duration:
        """How far `now` may be off."""
        return 0

    @abstractmethod
    def listen(self, topics: frozenset[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        """Calls `wake` on the running loop when a commit of any process touched one of the topics; returns the call
        that ends it. Wake-ups may be merged, come for nothing or get lost: they make things faster, never right."""

    @abstractmethod
    async def tell(self) -> None:
        """Wakes whoever looks for work, in all processes, as a commit of new orders does: someone else has made it."""

    # -- orders ------------------------------------------------------------------------------------------------------
    @abstractmethod
    async def submit(self, who: Principal, orders: Sequence[Sequence[NewJob]]) -> list[Answer]:
        """Accepts orders. Each order (a list of jobs) is accepted whole or refused whole, on its own; all share one
        commit. A job whose key is known, with the same content, is answered with the job it made before
        (`created=False`); with other content its order is refused with the KeyConflict. An order that names a parent
        or a workflow that its owner does not have is refused with NotFound. A job with parents waits until they have
        ended as needed; those that ended before count at once. A due time in the past means now."""

    @abstractmethod
    async def cancel(self, who: Principal, ids: Sequence[str], reason: str) -> list[Cancelling]:
        """Ends waiting jobs and asks the nodes of running ones to stop them."""

    @abstractmethod
    async def replay(self, who: Principal, ids: Sequence[str], again: bool = False) -> list[bool]:
        """Runs failed or cancelled jobs again under their old ids: the fence goes on rising, the budget of attempts
        starts again, the replay is recorded. Those that have parents wait for them again (ended ones count at once),
        and those that were skipped because of them reopen. `again`: jobs that ended in any other way, too. False where
        a job is not in a state to be replayed."""

    @abstractmethod
    async def hurry(self, who: Principal, ids: Sequence[str]) -> list[bool]:
        """Makes scheduled jobs due now. False where a job is not scheduled."""

    @abstractmethod
    async def purge(self, who: Principal, ids: Sequence[str]) -> list[bool]:
        """Deletes ended jobs with all their history. Their idempotency keys live on until they expire."""

    # -- running -----------------------------------------------------------------------------------------------------
    @abstractmethod
    async def claim(
        self,
        who: Principal,
        incarnation: str,
        wants: Mapping[str, int],
        kinds: Sequence[Kind],
        start: Mapping[str, int],
    ) -> list[Claimed]:
        """Takes up to `wants[queue]` ready jobs of the given kinds per queue, lowest rank first, and raises their
        fences. The first `start[queue]` of each queue are started at once (`started_at` is set), the rest is claimed
        ahead. An incarnation that is not live gets nothing."""

    @abstractmethod
    async def start(self, who: Principal, refs: Sequence[Ref]) -> list[Start]:
        """Starts attempts that were claimed ahead, unless they were cancelled or taken away meanwhile."""

    @abstractmethod
    async def hand_back(self, who: Principal, refs: Sequence[Ref]) -> list[Verdict]:
        """Returns attempts that were claimed ahead and not started: they keep their rank and leave no attempt
        behind."""

    @abstractmethod
    async def finish(self, who: Principal, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Ends attempts. A job that was asked to stop ends cancelled even if its attempt would have it tried again."""

    @abstractmethod
    async def append_output(self, who: Principal, chunks: Sequence[Chunk]) -> list[Verdict]:
        """Keeps output of running attempts, and lets go of what a chunk with `since` takes the place of."""

    @abstractmethod
    async def note(self, who: Principal, notes: Sequence[Note]) -> list[Verdict]:
        """Keeps what running attempts tell of themselves: progress, and state for the attempts after them, which get it
        with their claim. Both stay with the job, through retries, take-overs and replays, until it is deleted; but
        a success has no more use for a state."""

    # -- nodes -------------------------------------------------------------------------------------------------------
    @abstractmethod
    async def register(
        self, who: Principal, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str] = ()
    ) -> None:
        """Adds an incarnation, and the tasks it offers. Refuses an id that a living node uses, except by one of the
        incarnations that it `replaces`: those are of the same process, have stopped all work, and leave by this call
        (they may have been unable to leave by themselves)."""

    @abstractmethod
    async def renew(self, who: Principal, incarnation: str, stopping: bool = False) -> News:
        """Proves that the node lives, and asks for news. Wakes local listeners if there is work or a due time. A node
        with the role `control` leads from its first renewal on that finds no live leader."""

    @abstractmethod
    async def leave(self, who: Principal, incarnation: str) -> None:
        """Says good-bye; whatever the node still holds goes back as interrupted."""

    @abstractmethod
    async def take_over(self, who: Principal, incarnation: str, beats: int | None, rule: CrashRule) -> list[str] | None:
        """Declares an incarnation dead and moves its jobs on, unless it has renewed since `beats` was seen (None: the
        process is known to be gone). Returns the ids of the moved jobs, or None if it was not to be taken over."""

    @abstractmethod
    async def rescue(self, who: Principal, rule: CrashRule) -> list[str]:
        """Moves on running jobs that no living incarnation holds; there are none unless someone wrote into the
        tables."""

    @abstractmethod
    def guards(self, incarnation: str) -> Sequence[int]:
        """Descriptors whose closing (by the last process that holds them) tells others that the node is gone. They may
        be others after each call of `renew`."""

    def exposed(self, incarnation: str) -> Duration | None:
        """Not None: the node's sign of life is lost, and others may take its work when it has not renewed for this
        long. None: they wait for its whole lease."""
        return None

    # -- shelves -----------------------------------------------------------------------------------------------------
    @abstractmethod
    async def promote(self, who: Principal, limit: int, late: Duration = 0) -> tuple[int, Instant | None]:
        """Moves due jobs to ready and ends expired ones, at most `limit` of each; returns how many it moved and the
        next instant at which there will be something to do. Leaves alone what has not been due for `late`: someone
        else is expected to see to it first."""

    @abstractmethod
    async def prune(self, who: Principal, retention: Retention, limit: int) -> int:
        """Deletes what is older than its retention, at most `limit` rows of a kind, in short writes; returns how many,
        or 1 if it only got on with what has to be done before. 0: there is nothing to do for now."""

    # -- reads -------------------------------------------------------------------------------------------------------
    @stale_ok
    @abstractmethod
    async def get(self, who: Principal, job_id: str) -> JobInfo | None: ...

    @stale_ok
    @abstractmethod
    async def find(self, who: Principal, query: JobFilter) -> list[JobInfo]: ...

    @stale_ok
    @abstractmethod
    async def resolve(self, who: Principal, part: str) -> list[str]:
        """Ids that begin with this text or, if there are none, end with it; at most three: enough to tell one from
        several. (Ids begin with the time: those of one hour differ at their ends.)"""

    @stale_ok
    @abstractmethod
    async def output(self, who: Principal, job_id: str, after: Position, limit: int) -> list[Chunk]: ...

    @stale_ok
    @abstractmethod
    async def tasks(self, who: Principal) -> list[TaskInfo]: ...

    @stale_ok
    @abstractmethod
    async def counts(self, who: Principal) -> dict[State, int]: ...

    @abstractmethod
    async def nodes(self, who: Principal, past: bool = False) -> list[NodeInfo]:
        """The living nodes (with `past`, also those that left or died)."""

    @abstractmethod
    async def events(self, who: Principal, after: int, limit: int) -> list[OutboxEvent]:
        """The outbox from a position on, in the order of commits."""
