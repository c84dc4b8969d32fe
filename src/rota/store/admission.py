"""The part of the contract of a store that is about who may run: gates, limits, queues; see `store.base` for what verbs
share.

A job that may not run now is *held*, and so out of the way of claims; `held_by` names what holds it. Jobs become ready
as ever; a claim looks at the best of them, and those that a gate or a full key stands in the way of are moved aside
instead of started. So a gate bites at once however many jobs it concerns, and a key can't be taken twice. `admit` does
the rest in pieces: it moves aside what no claim has met yet, and lets go what was held by a gate that has opened, or by
a key that has room again.

- A job that needs keys holds a *slot* of each from its claim until its attempt ends, whatever ends it. Slots are
  numbered rows: two jobs can't have the same one. All keys of a job are taken together or none.
- A rate counts starts: each takes a token that comes back one window (and a little slack) later.
- What a person has set for a key wins over what jobs bring along.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rota.model.feedback import Feedback
from rota.model.gates import Effect, Gate, Match
from rota.model.limits import Limit, Rate, rate_text
from rota.model.principal import Principal
from rota.model.times import Duration, Instant, iso


class NewGate(msgspec.Struct, frozen=True):
    id: str
    match: Match
    effect: Effect
    reason: str
    until: Instant | None = None


class Holder(msgspec.Struct, frozen=True):
    job: str
    fence: int
    since: Instant
    node: str | None = None


class LimitInfo(msgspec.Struct, frozen=True):
    """A key as it stands. Bounds are None where no person has set any; jobs bring their own."""

    owner: str
    key: str
    concurrency: int | None
    rate: Rate | None
    holders: tuple[Holder, ...] = ()
    waiting: int = 0
    next_start: Instant | None = None  # of a rate whose tokens are all used up

    def as_json(self) -> dict[str, Any]:
        return {
            **msgspec.to_builtins(self),
            "rate": None if self.rate is None else rate_text(self.rate),
            "holders": [{**msgspec.to_builtins(one), "since": iso(one.since)} for one in self.holders],
            "next_start": None if self.next_start is None else iso(self.next_start),
        }


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    ready: int = 0
    held: int = 0
    scheduled: int = 0
    blocked: int = 0
    running: int = 0
    oldest: Instant | None = None  # since when the oldest ready job could have run
    ended: int = 0  # jobs that ended within the last LATELY
    nodes: int = 0  # living nodes that serve it,
    slots: int = 0  # and their slots for it
    paused_at: Instant | None = None
    paused_by: str | None = None
    note: str = ""
    feedback: Feedback | None = None  # None: it is off
    step: Duration | None = None  # of ageing; None: as everywhere
    unoffered: tuple[str, ...] = ()  # tasks that ready jobs wait for and no node has ever offered


class FlowInfo(msgspec.Struct, frozen=True):
    """A flow that has used slots since the last boost of its queue."""

    queue: str
    flow: str  # with its user: local/report
    level: int
    used: Duration


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
    ahead: int = 0  # ready jobs of its queue that rank before it
    rank: int = 0
    level: int = 0  # of its flow
    node: str | None = None  # that holds it,
    lease_until: Instant | None = None  # and until when it is trusted to live
    offered: bool = True  # some living node serves its queue and, for a function, knows its task
    known: bool = True  # some node has offered its task, now or before
    now: Instant = 0


class Admission(ABC):
    # -- what people do ----------------------------------------------------------------------------------------------
    @abstractmethod
    async def close_gate(self, who: Principal, gate: NewGate) -> Gate:
        """From now on jobs that fit are not started: they are held, or dropped. Those of the principal only, unless it
        sees everyone's."""

    @abstractmethod
    async def open_gate(self, who: Principal, gate_id: str) -> bool:
        """What it held goes on, lowest rank first. False if there is no such gate."""

    @abstractmethod
    async def gates(self, who: Principal) -> list[Gate]:
        """Those that are closed, oldest first, with what they hold and have dropped."""

    @abstractmethod
    async def set_limit(self, who: Principal, limit: Limit) -> None:
        """Also while it is held: fewer holders come about as attempts end; more are let in at once."""

    @abstractmethod
    async def remove_limit(self, who: Principal, key: str) -> bool:
        """Jobs have the bounds again that they bring along."""

    @abstractmethod
    async def limits(self, who: Principal, keys: Sequence[str] | None = None) -> list[LimitInfo]:
        """Keys that were set, or are held, or waited for; with their holders."""

    @abstractmethod
    async def pause_queue(self, who: Principal, name: str, note: str) -> None:
        """Nothing of it is claimed until it is resumed, whoever ordered it. This and the next three are for
        operators."""

    @abstractmethod
    async def resume_queue(self, who: Principal, name: str) -> bool: ...

    @abstractmethod
    async def set_step(self, who: Principal, name: str, step: Duration | None) -> None:
        """Gives a queue an ageing step of its own; jobs that wait are ranked anew."""

    @abstractmethod
    async def set_feedback(self, who: Principal, name: str, rule: Feedback | None) -> None:
        """Switches the feedback levels of a queue on or off."""

    @abstractmethod
    async def flows(self, who: Principal, limit: int) -> list[FlowInfo]:
        """Those that have used slots of queues with feedback, the lowest ones first."""

    @abstractmethod
    async def queues(self, who: Principal) -> list[QueueInfo]:
        """All that have live jobs, are served, or were paused."""

    @abstractmethod
    async def reprioritise(self, who: Principal, ids: Sequence[str], priority: int) -> list[bool]:
        """Gives waiting jobs another priority, and the rank that goes with it. False where a job is not waiting."""

    @abstractmethod
    async def waiting(self, who: Principal, job_id: str) -> Waiting | None:
        """Why the job is where it is."""

    # -- what nodes do -----------------------------------------------------------------------------------------------
    @abstractmethod
    async def charge(self, who: Principal, used: Used) -> None:
        """Counts slot-time that flows have used, for queues with feedback."""

    @abstractmethod
    async def admit(self, who: Principal, limit: int) -> Admitted:
        """Holds, drops and lets go what gates and keys concern, at most about `limit` jobs; lifts flows when it is
        time."""
