"""Why a job is in its state: one sentence per reason, and the same as data. The most important reason comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from rota.config import Settings
from rota.model.graph import EdgeState, Need, ParentInfo
from rota.model.job import JobInfo, Kind
from rota.model.lifecycle import LIVE, State
from rota.model.limits import RUNNING_QUOTA, rate_text
from rota.model.requirements import Alone
from rota.model.times import Duration, Instant, as_instant, iso, short
from rota.store.admission import LimitInfo, Waiting
from rota.views.admission import LimitView
from rota.views.jobs import AloneView, Explanation, WaitReason

MOST_NAMED = 5
UNKNOWN_GRACE = Settings().unknown_grace  # the default: clients don't know the settings of control nodes
_WANTED = {
    Need.SUCCESS: "to succeed",
    Need.FINISH: "to end",
    Need.FAILURE: "to fail",
    Need.FINE: "to succeed or not to be needed",
    Need.TROUBLE: "to end, in case there is trouble",
}
_ENDED = {
    State.SUCCEEDED: "it succeeded",
    State.FAILED: "it failed for good",
    State.CANCELLED: "it was cancelled",
    State.SKIPPED: "it was skipped",
    State.DROPPED: "it was dropped by a gate",
}


def explain(
    info: JobInfo,
    parents: Sequence[ParentInfo],
    waiting: Waiting | None,
    now: Instant,
    beside: Sequence[JobInfo] = (),
) -> Explanation:
    """`waiting` is None for ended jobs. `beside` are the running jobs that a job which wants to run alone waits for."""
    reasons = list(_reasons(info, parents, now))
    if waiting is not None:
        reasons += _waiting(info, waiting, beside)
    return Explanation(info.id, info.state, reasons or [WaitReason("state", f"it is {info.state}")])


def _reasons(info: JobInfo, parents: Sequence[ParentInfo], now: Instant) -> Iterator[WaitReason]:
    if info.state not in LIVE:
        yield _ended(info)
    if info.state is State.BLOCKED:
        yield from _parents(parents)
        if info.schedule is not None and not parents:
            text = f"it waits for earlier fires of schedule {info.schedule!r} to end"
            yield WaitReason("schedule", text, {"schedule": info.schedule})
    if info.state is State.SCHEDULED:
        yield _time(info, now)


def _ended(info: JobInfo) -> WaitReason:
    why = info.reason or (info.error.message if info.error else None)
    tries = len(info.attempts)
    text = _ENDED[info.state] + (f": {why}" if why and info.state is not State.SUCCEEDED else "")
    if info.state is State.FAILED and tries:
        text += f" (after {tries} attempt{'s' if tries > 1 else ''}, {info.failures} failed, {info.crashes} crashed)"
    return WaitReason("ended", text, {"reason": why, "attempts": tries})


def _parents(parents: Sequence[ParentInfo]) -> Iterator[WaitReason]:
    pending = [one for one in parents if one.edge is EdgeState.OPEN]
    for one in pending[:MOST_NAMED]:
        state = one.state or "gone"
        text = f"it waits for its parent {one.id} ({one.name or one.task}) {_WANTED[one.need]}; that is {state}"
        yield WaitReason("parent", text, {"parent": one.id, "task": one.task, "need": one.need, "state": one.state})
    if len(pending) > MOST_NAMED:
        left = len(pending) - MOST_NAMED
        yield WaitReason("parent", f"and for {left} more of its {len(parents)} parents", {"more": left})


def _time(info: JobInfo, now: Instant) -> WaitReason:
    left = as_instant(info.run_at) - now
    after = f" after {info.failures} failed attempt{'s' if info.failures > 1 else ''}" if info.failures else ""
    when = f"in {_span(left)}" if left > 0 else "now: a control node has yet to see to it"
    why = f" ({info.reason})" if info.reason else ""
    return WaitReason("time", f"its time is {iso(info.run_at)}{after}, {when}{why}", {"run_at": iso(info.run_at)})


def _waiting(info: JobInfo, waiting: Waiting, beside: Sequence[JobInfo]) -> Iterator[WaitReason]:
    if info.state is State.RUNNING:
        lease = "" if waiting.lease_until is None else f"; its node is trusted until {iso(waiting.lease_until)}"
        since = "" if info.started_at is None else f" for {_span(waiting.now - as_instant(info.started_at))}"
        stop = ", and was asked to stop" if info.cancelling else ""
        text = f"it runs on node {waiting.node or info.node}{since}{stop}{lease}"
        yield WaitReason(
            "running", text, {"node": waiting.node, "fence": info.fence, "lease_until": _iso(waiting.lease_until)}
        )
        return
    if waiting.gate is not None:
        gate = waiting.gate
        until = "" if gate.until is None else f" until {iso(gate.until)}"
        verb = "holds" if gate.effect == "pause" else "drops"
        text = f"a gate of {gate.author} {verb} {gate.match.text()}{until}: {gate.reason} (gate {gate.id})"
        yield WaitReason(
            "gate", text, {"gate": gate.id, "effect": gate.effect, "reason": gate.reason, "until": _iso(gate.until)}
        )
    full = [reason for key in waiting.keys for reason in _key(key, waiting.now)]
    yield from full
    if info.alone is not None and beside:
        yield _alone(info.alone, beside)
    elif info.state is State.HELD and waiting.gate is None and not full:
        yield WaitReason("held", f"it is held: {info.reason or 'its turn has yet to come'}", {"reason": info.reason})
    if waiting.queue is not None and waiting.queue.paused_at is not None:
        note = f": {waiting.queue.note}" if waiting.queue.note else ""
        text = f"queue {info.queue!r} was paused by {waiting.queue.paused_by}{note}"
        yield WaitReason("queue", text, {"queue": info.queue, "note": waiting.queue.note})
    if not waiting.offered:
        yield _unserved(info, waiting)
    if info.state is State.READY and waiting.known:
        yield _rank(info, waiting)


def _unserved(info: JobInfo, waiting: Waiting) -> WaitReason:
    what = f" and knows task {info.task!r}" if info.kind is Kind.FUNCTION else ""
    text = f"no live node serves queue {info.queue!r}{what}"
    since = as_instant(info.run_at) if info.state is State.READY else None
    if since is not None:
        text += f"; it has been ready since {iso(since)}"
    if not waiting.known:
        when = "" if since is None else f": at {iso(since + UNKNOWN_GRACE)}"
        text += "; no node has ever offered that task, and unless one does it goes to the dead letters after "
        text += f"`unknown_grace` (a setting of control nodes; by default {short(UNKNOWN_GRACE)}{when})"
    data = {"queue": info.queue, "task": info.task, "since": _iso(since), "known": waiting.known}
    return WaitReason("worker", text, data)


def _alone(wish: Alone, beside: Sequence[JobInfo]) -> WaitReason:
    names = ", ".join(f"{one.id} ({one.task})" for one in beside[:MOST_NAMED])
    more = f" and {len(beside) - MOST_NAMED} more" if len(beside) > MOST_NAMED else ""
    text = f"it wants to run {wish.text()}; still running: {names}{more}"
    return WaitReason("alone", text, {**_data(AloneView.of(wish)), "running": [one.id for one in beside]})


def _key(key: LimitInfo, now: Instant) -> Iterator[WaitReason]:
    full = key.concurrency is not None and len(key.holders) >= key.concurrency
    if key.key == RUNNING_QUOTA:
        if full:
            yield _running_quota(key, now)
        return
    spent = key.next_start is not None
    data = {**_data(LimitView.of(key)), "full": full or spent}
    if full:
        text = f"key {key.key!r} allows {key.concurrency} at once and is held by {_holders(key, now)}"
        yield WaitReason("key", f"{text}; {key.waiting} wait in line", data)
    if spent and key.rate is not None and key.next_start is not None:
        text = f"key {key.key!r} allows {rate_text(key.rate)}, all used; the next start is in"
        yield WaitReason("key", f"{text} {_span(as_instant(key.next_start) - now)}; {key.waiting} wait in line", data)


def _holders(key: LimitInfo, now: Instant) -> str:
    names = ", ".join(
        f"{one.job} on {one.node} for {_span(now - as_instant(one.since))}" for one in key.holders[:MOST_NAMED]
    )
    return names + (f" and {len(key.holders) - MOST_NAMED} more" if len(key.holders) > MOST_NAMED else "")


def _running_quota(key: LimitInfo, now: Instant) -> WaitReason:
    used = f"running={key.concurrency}, {len(key.holders)} run"
    text = f"the quota of user {key.owner!r} for running jobs is used up: {used}"
    data = {
        "quota": "running", "user": key.owner, "used": len(key.holders), "allowed": key.concurrency,
        "running": [one.job for one in key.holders[:MOST_NAMED]], "waiting": key.waiting,
    }  # fmt: skip
    return WaitReason("quota", f"{text} ({_holders(key, now)}); {key.waiting} wait in line", data)


def _rank(info: JobInfo, waiting: Waiting) -> WaitReason:
    queue = waiting.queue
    slots = f"{_count(queue.slots, 'slot')} on {_count(queue.nodes, 'node')}" if queue else ""
    busy = f"; {queue.running} of yours run, {slots}" if queue else ""
    go = "goes" if waiting.ahead == 1 else "go"
    # Jobs of other users may go before it, too: how many is not told.
    place = f"{_count(waiting.ahead, 'ready job')} of yours {go} first" if waiting.ahead else "it is the next of yours"
    flow = info.requirements.flow or info.task
    level = f" and its flow {flow!r} at level {waiting.level}" if waiting.level else ""
    text = f"it is ready in queue {info.queue!r} with priority {info.priority}{level}: {place}{busy}"
    return WaitReason("rank", text, {"ahead": waiting.ahead, "rank": waiting.rank, "level": waiting.level})


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _span(span: Duration) -> str:
    return short(max(span, 0) // 1000 * 1000)


def _iso(moment: Instant | datetime | None) -> str | None:
    return None if moment is None else iso(moment)


def _data(view: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(view)
    return found
