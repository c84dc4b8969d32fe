"""The contract of a store, part admission: gates, limits, queues; see `store.base` for what all verbs share.

A job that may not run now is *held*, and so out of the way of claims; `held_by` names the gate or key that holds it. A
job becomes ready without a look at gates and keys. A claim looks at the best ready jobs, and moves jobs aside that a
gate or a full key stops. So a gate takes effect at once however many jobs it concerns, and a slot of a key can't be
taken twice. `admit` does the rest in pieces: it holds jobs that no claim has met yet, and releases jobs whose gate has
opened or whose key has room again.

- A job that needs keys holds a *slot* of each from its claim until its attempt ends in any way. Slots are numbered
  rows: two jobs can't have the same one. All keys of a job are taken together or none.
- A rate counts starts: each takes a token that comes back one window (and a little slack) later.
- Bounds that a person has set for a key win over the bounds that jobs bring along.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import NoneType

import msgspec

from rota.model.feedback import Feedback
from rota.model.gates import Effect, Gate, Match
from rota.model.limits import Limit, Rate
from rota.model.principal import Principal
from rota.model.times import Duration, Instant
from rota.store.deeds import about, always, each
from rota.store.verbs import NODE, OPERATOR, READ, WRITE, Verbs, verb


class NewGate(msgspec.Struct, frozen=True):
    id: str
    match: Match
    effect: Effect
    reason: str
    until: Instant | None = None


class Holder(msgspec.Struct, frozen=True):
    job: str
    fence: int
    since: datetime
    node: str | None = None


class LimitInfo(msgspec.Struct, frozen=True):
    """A key with its holders and waiters. Bounds are None where no person has set any; jobs bring their own."""

    owner: str
    key: str
    concurrency: int | None
    rate: Rate | None
    holders: tuple[Holder, ...] = ()
    waiting: int = 0
    next_start: datetime | None = None  # of a rate whose tokens are all used up


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    ready: int = 0
    held: int = 0
    scheduled: int = 0
    blocked: int = 0
    running: int = 0
    oldest: datetime | None = None  # the due time of the oldest ready job
    ended: int = 0  # jobs that ended within the last LATELY
    nodes: int = 0  # living nodes that serve it,
    slots: int = 0  # and their slots for it
    paused_at: datetime | None = None
    paused_by: str | None = None
    note: str = ""
    feedback: Feedback | None = None  # None: it is off
    step: timedelta | None = None  # of ageing; None: the global step
    unoffered: tuple[str, ...] = ()  # tasks that ready jobs wait for and no node has ever offered


class FlowInfo(msgspec.Struct, frozen=True):
    """A flow that has used slots since the last boost of its queue."""

    queue: str
    flow: str  # with its user: local/report
    level: int
    used: timedelta


Used = Mapping[tuple[str, str], Duration]  # (queue, flow): slot-time
LATELY: Duration = 10_000_000


class Admitted(msgspec.Struct, frozen=True):
    moved: int
    more: bool  # there is more to do at once
    next_at: Instant | None = None  # when there will be something to do: a gate opens by itself, a token comes back


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that explain why a job is where it is, for `clients.explain`; facts that don't concern it are empty."""

    gate: Gate | None = None  # the one that fits it
    keys: tuple[LimitInfo, ...] = ()  # with the bounds that count for this job, set or brought along
    queue: QueueInfo | None = None
    ahead: int = 0  # ready jobs of its owner and queue that rank before it
    rank: int = 0
    level: int = 0  # of its flow
    node: str | None = None  # that holds it,
    lease_until: Instant | None = None  # and until when it is trusted to live
    offered: bool = True  # some living node serves its queue and, for a function, knows its task
    known: bool = True  # some node has offered its task, now or before
    now: Instant = 0


class Admission(Verbs):
    # -- what people do ----------------------------------------------------------------------------------------------
    @verb(WRITE, audit=about("new.id", "new.effect", "new.match", "new.reason", "new.until"))
    @abstractmethod
    async def close_gate(self, who: Principal, /, new: NewGate) -> Gate:
        """Holds or drops jobs that fit, from now on. Only the principal's own jobs, unless it sees everyone's."""

    @verb(WRITE, audit=about("gate_id"))
    @abstractmethod
    async def open_gate(self, who: Principal, /, gate_id: str) -> bool:
        """Releases the jobs that the gate held, lowest rank first. False if there is no such gate."""

    @verb(READ)
    @abstractmethod
    async def gates(self, who: Principal, /) -> list[Gate]:
        """The closed gates, oldest first, with how many jobs they hold and have dropped."""

    @verb(WRITE, audit=about("limit.key", "limit.concurrency", "limit.rate", done=always))
    @abstractmethod
    async def set_limit(self, who: Principal, /, limit: Limit, version: str | None = None) -> None:
        """Sets the bounds of a key, also while it is held. Lower ones are reached as attempts end; with higher ones
        more jobs are let in at once. `version`: of what it may replace (`model.versions`); if another is there, raises
        ChangedMeanwhile."""

    @verb(WRITE, audit=about("key"))
    @abstractmethod
    async def remove_limit(self, who: Principal, /, key: str, version: str | None = None) -> bool:
        """Removes the bounds that a person has set: the bounds that jobs bring along count again. `version` as for
        `set_limit`."""

    @verb(READ)
    @abstractmethod
    async def limits(self, who: Principal, /, keys: Sequence[str] | None = None) -> list[LimitInfo]:
        """Keys that have bounds set, are held or are waited for; with their holders."""

    @verb(WRITE, OPERATOR, "pause a queue", audit=about("name", "note", done=always))
    @abstractmethod
    async def pause_queue(self, who: Principal, /, name: str, note: str) -> None:
        """Stops claims of all users' jobs in the queue until it is resumed."""

    @verb(WRITE, OPERATOR, "resume a queue", audit=about("name"))
    @abstractmethod
    async def resume_queue(self, who: Principal, /, name: str) -> bool:
        """Ends the pause. False if the queue was not paused."""

    @verb(WRITE, OPERATOR, "change the ageing of a queue", audit=about("name", "step", done=always))
    @abstractmethod
    async def set_step(self, who: Principal, /, name: str, step: Duration | None, version: str | None = None) -> None:
        """Gives a queue an ageing step of its own; jobs that wait are ranked anew. `version` as for `set_limit`."""

    @verb(WRITE, OPERATOR, "change the feedback of a queue", audit=about("name", "rule", done=always))
    @abstractmethod
    async def set_feedback(
        self, who: Principal, /, name: str, rule: Feedback | None, version: str | None = None
    ) -> None:
        """Switches the feedback levels of a queue on or off. `version` as for `set_limit`."""

    @verb(READ)
    @abstractmethod
    async def flows(self, who: Principal, /, limit: int) -> list[FlowInfo]:
        """The flows that have used slots of queues with feedback, by queue; the most demoted first."""

    @verb(READ)
    @abstractmethod
    async def queues(self, who: Principal, /) -> list[QueueInfo]:
        """The queues that have live jobs, are served, or were paused."""

    @verb(WRITE, batch="ids", audit=each("ids", "priority"))
    @abstractmethod
    async def reprioritise(self, who: Principal, /, ids: Sequence[str], priority: int) -> list[bool]:
        """Gives waiting jobs another priority, and the rank that goes with it. False where a job is not waiting."""

    @verb(READ)
    @abstractmethod
    async def waiting(self, who: Principal, /, job_id: str) -> Waiting | None:
        """Why the job is where it is."""

    # -- what nodes do -----------------------------------------------------------------------------------------------
    @verb(WRITE, NODE, batch="used", nothing=NoneType)
    @abstractmethod
    async def charge(self, who: Principal, /, used: Used) -> None:
        """Counts slot-time that flows have used, for queues with feedback."""

    @verb(WRITE, NODE)
    @abstractmethod
    async def admit(self, who: Principal, /, limit: int) -> Admitted:
        """Holds, drops and releases jobs that gates and keys concern, at most about `limit` of them; lifts flows when
        it is time."""
