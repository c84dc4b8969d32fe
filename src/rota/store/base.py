"""The contract of a store.

A store keeps every job durable and consistent, and judges due times and expiry by its own clock. What all verbs share:

- A verb is one transaction: it happens whole or not at all, and is durable when it returns.
- Its first argument is the *principal* on whose behalf it acts. It never shows or changes rows that the principal may
  not see. `@verb` declares who may call it: anyone, operators (verbs that concern everyone's jobs) or nodes.
- It takes and returns model values in batches; no connection, cursor or SQL shows through.
- A write by an attempt names (job, fence) and is answered `applied`, `already` (a repeat after a lost reply) or
  `stale`. One bad row of a batch is set aside; the batch goes on.
- A write whose principal names a `repeat` that was carried out before answers as it did then, and changes nothing.
- It may append events to the outbox, which is read in the order of commits.
- It raises only errors of `rota.errors`; after any error nothing of that call was written.

Verbs declared `stale_ok` tolerate an answer from a replica or cache that lags a little; callers must not decide
anything by them that the write verbs don't check again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cached_property
from operator import attrgetter

import msgspec

from rota.model.error_groups import ErrorGroup
from rota.model.job import Claimed, JobInfo, Kind, NewJob, Ref, Verdict
from rota.model.lifecycle import State
from rota.model.node import NewNode, News, NodeInfo
from rota.model.outcome import CrashRule, Settlement
from rota.model.principal import Principal
from rota.model.task import TaskInfo
from rota.model.times import Duration, Instant
from rota.store.admission import Admission
from rota.store.deeds import Deed, each
from rota.store.found_lines import LinePage, LineQuery
from rota.store.graph import Graph
from rota.store.hints import Hints
from rota.store.line_search import page as line_search
from rota.store.line_search.turns import Turns
from rota.store.locks import Locks
from rota.store.log_store import LogStore
from rota.store.offers import Offers
from rota.store.people import People
from rota.store.repeats import Repeated
from rota.store.statistics import Counted
from rota.store.timetable import Timetable
from rota.store.values import (
    OF_ORDERS,
    Answer,
    Cancelling,
    Chunk,
    Facets,
    Finding,
    JobCount,
    JobFilter,
    JobPage,
    Note,
    OutboxEvent,
    OutboxSpan,
    Position,
    Retention,
    Start,
    Topic,
    created,
)
from rota.store.verbs import NODE, READ, WRITE, verb


def tell_nobody(line: str) -> None:
    """The default for `tell`: lines are dropped."""


class Store(Timetable, Graph, Admission, Offers, People, Repeated, Counted, LogStore, Locks, Hints):
    # -- life of the store itself ------------------------------------------------------------------------------------
    @abstractmethod
    async def migrate(self, tell: Callable[[str], None] = tell_nobody) -> tuple[int, int]:
        """Brings the schema up to date under a lock; returns (version before, version after). Safe to call at any time
        from any number of processes, and keeps none of them from its work for longer than a moment. Raises SchemaTooNew
        and changes nothing if the store is ahead of this code. `tell` gets a line about each process it waits for."""

    @abstractmethod
    async def open(self) -> None:
        """Makes ready for use; raises SchemaMissing or SchemaTooNew unless the schema fits."""

    @abstractmethod
    async def close(self) -> None:
        """Ends listeners and connections; every later call raises StoreUnavailable."""

    @abstractmethod
    def let_go(self) -> None:
        """Closes an unused store without waiting, from any thread and without a loop."""

    # A store may be used by several event loops, at once and one after the other, and drops the connections of a loop
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
        that ends it. Wake-ups may be merged, come for nothing or get lost: correctness never depends on them."""

    @abstractmethod
    async def tell(self, topics: Set[Topic] = OF_ORDERS) -> None:
        """Wakes the listeners in all processes by the store itself, whoever else carries wake-ups: after an order that
        did not come through this store, which is for the nodes that look for work, or when a hot tier fails."""

    # -- orders ------------------------------------------------------------------------------------------------------
    @verb(WRITE, batch="orders", audit=Deed(created, by_key=True))
    @abstractmethod
    async def submit(self, who: Principal, /, orders: Sequence[Sequence[NewJob]]) -> list[Answer]:
        """Accepts orders. Each order (a list of jobs) is accepted whole or refused whole, on its own; all share one
        commit. A job whose key is known, with the same content, is answered with the job it made before
        (`created=False`); with other content its order is refused with the KeyConflict. An order that names a parent
        or a workflow that its owner does not have is refused with NotFound. A job with parents waits until they have
        ended as needed; parents that have ended count at once. A due time in the past means now."""

    @verb(WRITE, batch="ids", audit=each("ids", "reason", done=attrgetter("changes")))
    @abstractmethod
    async def cancel(self, who: Principal, /, ids: Sequence[str], reason: str) -> list[Cancelling]:
        """Ends waiting jobs and asks the nodes of running ones to stop them."""

    @verb(WRITE, batch="ids", audit=each("ids", "again"))
    @abstractmethod
    async def replay(self, who: Principal, /, ids: Sequence[str], again: bool = False) -> list[bool]:
        """Runs failed or cancelled jobs again under their old ids: the fence goes on rising, the budget of attempts
        starts again, the replay is recorded. A job with parents waits for them again (ended ones count at once), and
        children that were skipped because of it reopen. `again`: jobs that ended in any other way, too. False where a
        job is not in a state to be replayed."""

    @verb(WRITE, batch="ids", audit=each("ids"))
    @abstractmethod
    async def hurry(self, who: Principal, /, ids: Sequence[str]) -> list[bool]:
        """Makes scheduled jobs due now. False where a job is not scheduled."""

    @verb(WRITE, batch="ids", audit=each("ids"))
    @abstractmethod
    async def purge(self, who: Principal, /, ids: Sequence[str]) -> list[bool]:
        """Deletes ended jobs with all their history. Their idempotency keys live on until they expire."""

    # -- running -----------------------------------------------------------------------------------------------------
    @verb(WRITE, NODE)
    @abstractmethod
    async def claim(
        self,
        who: Principal,
        /,
        incarnation: str,
        wants: Mapping[str, int],
        kinds: Sequence[Kind],
        start: Mapping[str, int],
    ) -> list[Claimed]:
        """Takes up to `wants[queue]` ready jobs of the given kinds per queue, lowest rank first, and raises their
        fences. The first `start[queue]` of each queue are started at once (`started_at` is set), the rest are claimed
        ahead. An incarnation that is not live gets nothing."""

    @verb(WRITE, NODE, batch="refs")
    @abstractmethod
    async def start(self, who: Principal, /, refs: Sequence[Ref]) -> list[Start]:
        """Starts attempts that were claimed ahead, unless they were cancelled or taken away meanwhile."""

    @verb(WRITE, NODE, batch="refs")
    @abstractmethod
    async def hand_back(self, who: Principal, /, refs: Sequence[Ref]) -> list[Verdict]:
        """Returns attempts that were claimed ahead and not started: they keep their rank and leave no attempt
        behind."""

    @verb(WRITE, NODE, batch="settlements")
    @abstractmethod
    async def finish(self, who: Principal, /, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Ends attempts. A job that was asked to stop ends cancelled even if its attempt would have it tried again."""

    @verb(WRITE, NODE, batch="chunks")
    @abstractmethod
    async def append_output(self, who: Principal, /, chunks: Sequence[Chunk], late: bool = False) -> list[Verdict]:
        """Keeps output of running attempts, and deletes the chunks that a chunk with `since` replaces. `late`: of
        attempts that ended because their node was gone (crashed, interrupted, or cancelled then), and of no others. It
        stands in its place, however late it comes. An attempt that still runs is too early for it, for an append of its
        dead node may be on its way; after the end that is refused."""

    def proof(self, ref: Ref) -> str:
        """What must be shown to append output of this running attempt when its node is gone. The store itself asks for
        nothing; a server does."""
        return ""

    def vouch(self, ref: Ref, proof: str) -> None:
        """Shows the proof, for all later calls about this attempt."""

    @verb(WRITE, NODE, "take notes of", batch="notes")
    @abstractmethod
    async def note(self, who: Principal, /, notes: Sequence[Note]) -> list[Verdict]:
        """Keeps progress of running attempts, and state for the attempts after them, which get it with their claim.
        Both stay with the job, through retries, take-overs and replays, until it is deleted; the state ends with a
        success."""

    # -- nodes -------------------------------------------------------------------------------------------------------
    @verb(WRITE, NODE)
    @abstractmethod
    async def register(
        self, who: Principal, /, node: NewNode, tasks: Sequence[TaskInfo], replaces: Sequence[str] = ()
    ) -> None:
        """Adds an incarnation, and the tasks it offers. Refuses an id that a living node uses, unless that is one of
        the incarnations it `replaces`. Replaced incarnations are of the same process, have stopped all work, and leave
        by this call (they may have been unable to leave by themselves). A node with `access` gets no lock, and never
        takes the place of an incarnation that joined with another access key, or with none."""

    @verb(WRITE, NODE)
    @abstractmethod
    async def renew(self, who: Principal, /, incarnation: str, stopping: bool = False, line: str | None = None) -> News:
        """Proves that the node lives, and asks for news. Wakes local listeners if there is work or a due time. A node
        with the role `control` leads from its first renewal on that finds no live leader. `line`: the line that a
        far-away worker has open; None: none, so only its silence counts."""

    @verb(WRITE, NODE)
    @abstractmethod
    async def leave(self, who: Principal, /, incarnation: str) -> None:
        """Ends an incarnation; jobs that it still holds go back as interrupted."""

    @verb(WRITE, NODE)
    @abstractmethod
    async def take_over(
        self, who: Principal, /, incarnation: str, beats: int | None, rule: CrashRule
    ) -> list[str] | None:
        """Declares an incarnation dead and moves its jobs on, unless it has renewed since `beats` was seen (None: the
        process is known to be gone). Returns the ids of the moved jobs, or None if it was not taken over."""

    @verb(WRITE, NODE)
    @abstractmethod
    async def rescue(self, who: Principal, /, rule: CrashRule) -> list[str]:
        """Moves on running jobs that no living incarnation holds; there are none unless tables were edited by hand."""

    @verb(WRITE, NODE, "share secrets of")
    @abstractmethod
    async def secret(self, who: Principal, /, name: str) -> str:
        """A random text that all nodes of this store share; the first call makes it."""

    @abstractmethod
    def guards(self, incarnation: str) -> Sequence[int]:
        """Descriptors whose closing (by the last process that holds them) tells others that the node is gone. They may
        change with each call of `renew`."""

    def exposed(self, incarnation: str) -> Duration | None:
        """How long after its last renewal other nodes may take the node's work, if its lock is lost. None: the lock is
        held, and others wait for the whole lease."""
        return None

    # -- shelves -----------------------------------------------------------------------------------------------------
    @verb(WRITE, NODE)
    @abstractmethod
    async def promote(self, who: Principal, /, limit: int, late: Duration = 0) -> tuple[int, Instant | None]:
        """Moves due jobs to ready and ends expired ones, at most `limit` of each; returns how many it moved and the
        next instant at which there will be something to do. Leaves out jobs that became due less than `late` ago:
        another node is expected to move them first."""

    @verb(WRITE, NODE)
    @abstractmethod
    async def prune(self, who: Principal, /, retention: Retention, limit: int) -> int:
        """Deletes rows that are older than their retention, at most `limit` of a kind, in short writes; returns how
        many, or 1 if it only prepared a deletion. 0: there is nothing to do for now."""

    # -- reads -------------------------------------------------------------------------------------------------------
    @verb(READ, stale_ok=True, batch="ids")
    @abstractmethod
    async def get_many(self, who: Principal, /, ids: Sequence[str]) -> list[JobInfo | None]:
        """Jobs with their attempts, in the order of the ids; None for one that the principal may not see or that does
        not exist."""

    @verb(READ, stale_ok=True, batch="ids")
    async def glance(self, who: Principal, /, ids: Sequence[str]) -> list[JobInfo | None]:
        """As `get_many`, for people who look: what it shows of running jobs may be two seconds old. With a hot tier
        that answers for them, the store need not be asked."""
        return await self.get_many(who, ids)

    async def get(self, who: Principal, /, job_id: str) -> JobInfo | None:
        """One job, as `get_many` finds it."""
        (info,) = await self.get_many(who, [job_id])
        return info

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def page(self, who: Principal, /, query: JobFilter) -> JobPage:
        """The first jobs that fit, at most `query.limit`. A job may have changed since it was found. A walk over all
        pages finds each job once that fits from its beginning to its end, and no job twice. A page that no index helps
        to find examines a bounded number of jobs, so it may have fewer jobs than its limit, or none, and not be the
        last. InvalidInput for an order that is neither by id nor by end, if too many jobs would have to be sorted."""

    @verb(READ, stale_ok=True)
    async def find_lines(self, who: Principal, /, query: LineQuery) -> LinePage:
        """The newest lines of output that fit, at most `query.limit`, of every attempt whose job is still there. Each
        line is found once, by a walk over all pages; lines that are printed meanwhile may be missed. A page examines a
        bounded amount, so it may have fewer lines than its limit, or none, and not be the last. Few pages are made at a
        time in one process; others wait for their turns. Made of other verbs."""
        async with self._turns.take(who.user):
            return await line_search.page(self, who, query)

    @cached_property
    def _turns(self) -> Turns:
        return Turns()

    async def find(self, who: Principal, /, query: JobFilter) -> list[JobInfo]:
        """The first jobs that fit, as many as the limit, however many have to be examined."""
        found: list[JobInfo] = []
        while True:
            page = await self.page(who, query)
            found += page.jobs
            if page.last is None or len(found) >= query.limit:
                return found[: query.limit]
            query = msgspec.structs.replace(query, after=page.last)

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def count(self, who: Principal, /, query: JobFilter) -> int:
        """How many jobs fit, whatever the limit: all are looked at."""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def counted(self, who: Principal, /, query: JobFilter) -> JobCount:
        """How many jobs fit, whatever the limit: exact if they are few enough to be examined in a moment, else an
        estimate."""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def facets(self, who: Principal, /, query: JobFilter) -> Facets:
        """The jobs that fit, counted by state, queue, task, user and group of errors. Estimates if they are too many,
        as `counted`."""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def values(self, who: Principal, /, field: str, prefix: str, limit: int) -> list[str]:
        """Values of a field of queries that begin with a text, for completion, in order: those of jobs that the
        principal may see. Values of old jobs alone may be missing."""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def error_groups(self, who: Principal, /, query: JobFilter) -> list[ErrorGroup]:
        """The groups of errors of the dead letters that fit, last seen first, at most `query.limit`. `query.after` is
        the id of a group and when it was last seen: the page begins behind it. A group that fails again meanwhile moves
        to the front."""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def resolve(self, who: Principal, /, part: str) -> list[str]:
        """Ids that begin with this text or, if there are none, end with it; at most three: enough to tell one from
        several. (Ids begin with the time: those of one hour differ at their ends.)"""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def output(self, who: Principal, /, job_id: str, after: Position, limit: int) -> list[Chunk]:
        """Output of all attempts of a job after a position, in order."""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def tasks(self, who: Principal, /) -> list[TaskInfo]:
        """The tasks that nodes have offered, or that were made known, by name."""

    @verb(READ, stale_ok=True)
    @abstractmethod
    async def counts(self, who: Principal, /) -> dict[State, int]:
        """How many jobs are in each state."""

    @verb(READ)
    @abstractmethod
    async def nodes(self, who: Principal, /, past: bool = False) -> list[NodeInfo]:
        """The living nodes (with `past`, also those that left or died)."""

    @verb(READ)
    @abstractmethod
    async def events(self, who: Principal, /, after: int, limit: int) -> list[OutboxEvent]:
        """The outbox from a position on, in the order of commits. Operators see events that concern everyone, too."""

    @verb(WRITE, audit=None)
    @abstractmethod
    async def watch(self, who: Principal, /) -> None:
        """Orders and starts of the user's jobs are told for a minute from now; to be renewed. The event `watch.began`
        says since when they were not told. All that commits after this call has returned is told."""

    @verb(READ)
    @abstractmethod
    async def outbox_span(self, who: Principal, /) -> OutboxSpan:
        """The first position that is kept, and the last one: what comes later gets higher ones."""
