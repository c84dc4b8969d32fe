"""Gates, limits, queues and flows."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from rota.model.feedback import Feedback
from rota.model.gates import Effect, Gate, Match
from rota.model.limits import Limit, Rate, rate_text
from rota.model.rank import STRICT
from rota.model.times import SECOND, as_duration, iso, short
from rota.store.admission import LATELY, FlowInfo, Holder, LimitInfo, QueueInfo
from rota.views.moments import Moment, Period, moment


class MatchView(msgspec.Struct):
    """The conditions of a gate; None: any."""

    task: str | None
    queue: str | None
    user: str | None
    label: str | None

    @classmethod
    def of(cls, match: Match) -> MatchView:
        return cls(match.task, match.queue, match.user, match.label)


class GateView(msgspec.Struct):
    """A closed gate. `job`: the job that runs alone and closed it for itself."""

    id: str
    match: MatchView
    effect: Effect
    reason: str
    author: str
    created_at: Moment
    until: Moment | None
    job: str | None
    held: int
    dropped: int
    matches: str

    @classmethod
    def of(cls, gate: Gate) -> GateView:
        return cls(
            gate.id, MatchView.of(gate.match), gate.effect, gate.reason, gate.author, iso(gate.created_at),
            moment(gate.until), gate.job, gate.held, gate.dropped, gate.match.text(),
        )  # fmt: skip


class HolderView(msgspec.Struct):
    job: str
    fence: int
    since: Moment
    node: str | None

    @classmethod
    def of(cls, holder: Holder) -> HolderView:
        return cls(holder.job, holder.fence, iso(holder.since), holder.node)


def _rate(rate: Rate | None) -> str | None:
    return None if rate is None else rate_text(rate)


class LimitView(msgspec.Struct):
    """A key with its holders and waiters. Bounds are None where no person has set any."""

    owner: str
    key: str
    concurrency: int | None
    rate: str | None
    holders: list[HolderView]
    waiting: int
    next_start: Moment | None

    @classmethod
    def of(cls, info: LimitInfo) -> LimitView:
        holders = [HolderView.of(one) for one in info.holders]
        bounds = info.concurrency, _rate(info.rate)
        return cls(info.owner, info.key, *bounds, holders, info.waiting, moment(info.next_start))


class BoundsView(msgspec.Struct):
    """The bounds of a key that a person has set."""

    key: str
    concurrency: int | None
    rate: str | None

    @classmethod
    def of(cls, limit: Limit) -> BoundsView:
        return cls(limit.key, limit.concurrency, _rate(limit.rate))


class FeedbackView(msgspec.Struct):
    quantum: Period
    levels: int
    boost: Period

    @classmethod
    def of(cls, rule: Feedback | None) -> FeedbackView | None:
        return None if rule is None else cls(short(rule.quantum), rule.levels, short(rule.boost))


class QueueView(msgspec.Struct):
    """A queue with the numbers of its jobs. `step`: its own ageing step, or `strict`."""

    name: str
    ready: int
    held: int
    scheduled: int
    blocked: int
    running: int
    oldest: Moment | None
    ended: int
    nodes: int
    slots: int
    paused_at: Moment | None
    paused_by: str | None
    note: str
    feedback: FeedbackView | None
    step: Period | None
    unoffered: list[str]
    ended_per_second: float

    @classmethod
    def of(cls, info: QueueInfo) -> QueueView:
        return cls(
            info.name, info.ready, info.held, info.scheduled, info.blocked, info.running, moment(info.oldest),
            info.ended, info.nodes, info.slots, moment(info.paused_at), info.paused_by, info.note,
            FeedbackView.of(info.feedback), _step(info.step), list(info.unoffered), info.ended * SECOND / LATELY,
        )  # fmt: skip


def _step(step: timedelta | None) -> str | None:
    return None if step is None else "strict" if as_duration(step) == STRICT else short(step)


class FlowView(msgspec.Struct):
    queue: str
    flow: str
    level: int
    used: Period

    @classmethod
    def of(cls, info: FlowInfo) -> FlowView:
        return cls(info.queue, info.flow, info.level, short(info.used))
