"""Gates, limits and queues. Functions of the database decide on claims (`admit_claim`) and on lines (`hand_on`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rota.model.admission import LOOK_AGAIN, YIELDED, LoneStep, lone_step
from rota.model.feedback import Feedback, level
from rota.model.gates import Effect, Gate, Match
from rota.model.job import Kind
from rota.model.lifecycle import State
from rota.model.limits import Limit, Rate
from rota.model.principal import SYSTEM, Principal
from rota.model.requirements import read_requirements
from rota.model.times import Duration, Instant
from rota.store.admission import (
    LATELY,
    Admitted,
    FlowInfo,
    Holder,
    LimitInfo,
    NewGate,
    QueueInfo,
    Used,
    Waiting,
)
from rota.store.postgres import offers
from rota.store.postgres.database import Unit
from rota.store.postgres.encoding import clean, ids_only, is_id
from rota.store.values import Topic

# Waiters of one key that a write which frees it lets go itself.
AT_ONCE = 500
# Jobs at the front of a queue that are checked together when gates or full keys block it.
FRONT = 2_000
# Jobs that are ranked anew together.
PUT_RIGHT = 5_000
# Pause between two checks whether the claims that don't know of a gate have ended.
LOOK_AT_CLAIMS: Duration = 50_000
_WAITING = {State.BLOCKED, State.SCHEDULED, State.HELD, State.READY}


async def hand_on(unit: Unit) -> None:
    """Releases jobs that waited for freed keys."""
    row = await unit.row("hand_on", every=False, now=unit.now, most=AT_ONCE)
    assert row is not None
    moved, next_at, more = row
    if moved:
        unit.topics.add(Topic.READY)
    if more or next_at is not None:
        unit.topics.add(Topic.GATE)


async def put_right(unit: Unit, ids: Sequence[str]) -> None:
    """Corrects the ranks of jobs that a claim found at a wrong rank, and of similar jobs behind them."""
    step = unit.database.ageing_step
    names = [name for (name,) in await unit.rows("queues_of", ids=ids)]
    if names:
        await unit.run("rank_those", ids=ids, step=step)  # `rank_anew` may not reach that far
        await unit.value("rank_anew", names=names, step=step, most=PUT_RIGHT, reach=PUT_RIGHT)
    await unit.value("put_back", ids=ids, step=step, most=PUT_RIGHT)


async def clear_front(unit: Unit, incarnation: str, queues: Sequence[str], kinds: Sequence[Kind], keys: bool) -> None:
    """Moves jobs aside that closed gates fit at the front of these queues; with `keys` also jobs that need full
    keys."""
    names = {"queues": list(queues), "kinds": [kind.value for kind in kinds], "incarnation": incarnation}
    front = [job for (job,) in await unit.rows("gated_front", now=unit.now, most=FRONT, **names)]
    if front:
        await unit.rows("admit_claim", ids=front, incarnation=incarnation, now=unit.now, only_gates=True, step=0)
    if keys:
        await unit.run("hold_full_front", now=unit.now, most=FRONT, **names)


async def admit(unit: Unit, limit: int) -> Admitted:
    moved, more = 0, False
    instants: list[int] = []
    for name, values in (("sweep_gates", {}), ("hand_on", {"every": False}), ("hand_on", {"every": True})):
        row = await unit.row(name, now=unit.now, most=limit, **values)
        assert row is not None
        moved += row["moved"]
        more |= row["more"]
        instants += [] if row["next_at"] is None else [row["next_at"]]
    let_go, look_again = await sweep_alone(unit)
    moved += let_go
    instants += [] if look_again is None else [look_again]
    step = unit.database.ageing_step
    names = [name for (name,) in await unit.rows("stepped_queues", step=step, now=unit.now)]
    ranked = await unit.value("rank_anew", names=names, step=step, most=limit, reach=None) if names else 0
    await unit.run("boost", now=unit.now)
    ranked += await unit.run("rank_strays", step=step, most=limit)
    forward = ranked + await unit.run("put_forward", step=unit.database.ageing_step, most=limit)
    upcoming = await unit.value("next_boost")
    instants += [] if upcoming is None else [upcoming]
    if moved or forward:
        unit.topics |= {Topic.READY, Topic.DUE, Topic.NEWS}
    return Admitted(moved + forward, more or forward >= limit, min(instants, default=None))


async def sweep_alone(unit: Unit) -> tuple[int, Instant | None]:
    """Like `store.sqlite.alone.sweep`, but only after the claims that don't know of the gate have ended."""
    if not await unit.value("any_lone"):
        return 0, None
    await unit.begin()
    rows = await unit.rows("lone_jobs", now=unit.now)
    if not rows:  # other nodes have locked them
        return 0, None
    now: Instant = rows[0]["now"]
    unproved = [row["gate"] for row in rows if row["gate"] is not None and not row["proved"]]
    if unproved:
        await unit.run("note_claims", ids=unproved)
    alone = dict(await unit.rows("alone_of", ids=[row["id"] for row in rows]))
    going: list[str] = []
    yielded = 0
    for row in rows:
        wish = read_requirements(row["requirements"]).alone
        match lone_step(wish, row["since"], alone[row["id"]], now):
            case LoneStep.GO:
                going.append(row["id"])
            case LoneStep.CANCEL:
                if await unit.run("cancel_beside", gate=row["gate"]):
                    unit.topics.add(Topic.CANCEL)
            case LoneStep.YIELD if wish is not None:
                yielded += await unit.run("yield_lone", id=row["id"], at=now + wish.drain, now=now, reason=YIELDED)
    if going:
        await unit.run("let_lone_go", ids=going)
    return len(going) + yielded, now + (LOOK_AT_CLAIMS if unproved else LOOK_AGAIN)


# -- gates ------------------------------------------------------------------------------------------------------------
async def close_gate(unit: Unit, who: Principal, new: NewGate) -> Gate:
    match = new.match
    created_at = await unit.value(
        "insert_gate", id=new.id, owner=who.sees, task=match.task, task_like=match.like, queue=match.queue,
        by_user=match.user, label=match.label, effect=new.effect.value, reason=new.reason, author=who.user,
        until=new.until, now=unit.now,
    )  # fmt: skip
    unit.topics.add(Topic.GATE)
    return Gate(
        id=new.id, match=match, effect=new.effect, reason=new.reason, author=who.user, created_at=created_at,
        until=new.until,
    )  # fmt: skip


async def open_gate(unit: Unit, who: Principal, gate_id: str) -> bool:
    opened = is_id(gate_id) and await unit.run("open_gate", id=gate_id, now=unit.now, sees=who.sees)
    if opened:
        unit.topics.add(Topic.GATE)
    return bool(opened)


async def gates(unit: Unit, who: Principal) -> list[Gate]:
    return [_gate(row) for row in await unit.rows("gate_rows", now=unit.now, sees=who.sees)]


def _gate(row: Sequence[Any]) -> Gate:
    gate_id, task, queue, user, label, effect, reason, author, created_at, until, held, dropped, job = row
    return Gate(
        id=gate_id, match=Match(task, queue, user, label), effect=Effect(effect), reason=reason, author=author,
        created_at=created_at, until=until, held=held, dropped=dropped, job=job,
    )  # fmt: skip


# -- limits -----------------------------------------------------------------------------------------------------------
async def set_limit(unit: Unit, who: Principal, limit: Limit) -> None:
    await unit.begin()
    starts, span = (None, None) if limit.rate is None else (limit.rate.count, limit.rate.window)
    await unit.run("put_limit", owner=who.user, key=limit.key, concurrency=limit.concurrency, starts=starts, span=span)
    if span is not None:
        await unit.run("stretch_tokens", owner=who.user, key=limit.key, span=span)
    await _look_at_key(unit, who, limit.key)


async def remove_limit(unit: Unit, who: Principal, key: str) -> bool:
    await unit.begin()
    removed = await unit.run("remove_limit", owner=who.user, key=key)
    if removed:
        await _look_at_key(unit, who, key)
    return bool(removed)


async def _look_at_key(unit: Unit, who: Principal, key: str) -> None:
    await unit.run("look_at_key", held_by=f"k:{who.user}:{key}")
    await hand_on(unit)
    unit.topics.add(Topic.GATE)


async def limits(unit: Unit, who: Principal, keys: Sequence[str] | None = None) -> list[LimitInfo]:
    wanted = None if keys is None else list(keys)
    rows = await unit.rows("limit_rows", now=unit.now, sees=who.sees, keys=wanted)
    found = await _infos(unit, [(*row[:3], *(row[3:5] if row[3] else _brought(*row))) for row in rows])
    # Show the bounds that were set; the next start follows from the effective bounds.
    return [one if row[3] else msgspec.structs.replace(one, rate=None) for one, row in zip(found, rows, strict=True)]


def _brought(owner: str, name: str, *rest: Any) -> tuple[int | None, int | None]:
    rates = [key.rate for key in read_requirements(rest[-1]).keys if key.name == name]
    return (rates[0].count, rates[0].window) if rates and rates[0] else (None, None)


async def _infos(unit: Unit, rows: Sequence[tuple[Any, ...]]) -> list[LimitInfo]:
    """Rows: owner, key, concurrency, starts, span."""
    owners, keys = [row[0] for row in rows], [row[1] for row in rows]
    holders: dict[tuple[str, str], list[Holder]] = {}
    for owner, key, *rest in await unit.rows("holder_rows", owners=owners, keys=keys):
        holders.setdefault((owner, key), []).append(Holder(*rest))
    starts, spans = [row[3] for row in rows], [row[4] for row in rows]
    found_lines = await unit.rows("line_rows", owners=owners, keys=keys, starts=starts, spans=spans, now=unit.now)
    lines = {(owner, key): rest for owner, key, *rest in found_lines}
    found: list[LimitInfo] = []
    for owner, key, concurrency, count, span in rows:
        waiting, next_start = lines[owner, key]
        rate = None if count is None else Rate(count, span)
        held = tuple(holders.get((owner, key), ()))
        found.append(LimitInfo(owner, key, concurrency, rate, held, waiting, next_start))
    return found


# -- queues -----------------------------------------------------------------------------------------------------------
async def pause_queue(unit: Unit, who: Principal, name: str, note: str) -> None:
    await unit.run("pause_queue", name=name, by=who.user, note=note, now=unit.now)


async def resume_queue(unit: Unit, who: Principal, name: str) -> bool:
    resumed = await unit.run("resume_queue", name=name)
    unit.topics.add(Topic.READY)
    return bool(resumed)


async def set_step(unit: Unit, who: Principal, name: str, step: Duration | None) -> None:
    await unit.run("set_step", name=name, step=step, now=unit.now)
    unit.topics.add(Topic.GATE)


async def set_feedback(unit: Unit, who: Principal, name: str, rule: Feedback | None) -> None:
    await unit.begin()
    chosen = rule or Feedback()
    await unit.run(
        "set_feedback", name=name, feedback=rule is not None, quantum=chosen.quantum, levels=chosen.levels,
        boost=chosen.boost, now=unit.now,
    )  # fmt: skip
    if rule is None:
        await unit.run("forget_flows", name=name)
    unit.topics.add(Topic.GATE)


async def flows(unit: Unit, who: Principal, limit: int) -> list[FlowInfo]:
    return [FlowInfo(*row) for row in await unit.rows("flow_rows", sees=who.sees, limit=limit)]


async def charge(unit: Unit, used: Used) -> None:
    rules = {name: Feedback(*rule) for name, *rule in await unit.rows("feedback_rules")}
    charged = [(queue, clean(flow), span) for (queue, flow), span in used.items() if queue in rules]
    if not charged:
        return
    await unit.begin()
    queues, flows, spans = map(list, zip(*charged, strict=True))
    totals = await unit.rows("charge", queues=queues, flows=flows, used=spans)
    levels = [level(total, rules[queue]) for queue, _, total in totals]
    await unit.run("set_levels", queues=[row[0] for row in totals], flows=[row[1] for row in totals], levels=levels)


async def queues(unit: Unit, who: Principal) -> list[QueueInfo]:
    found: dict[str, dict[str, Any]] = {}

    def of(name: str) -> dict[str, Any]:
        return found.setdefault(name, {"name": name})

    for name, paused_at, paused_by, note, step, feedback, *rule in await unit.rows("queue_rows"):
        of(name).update(paused_at=paused_at, paused_by=paused_by, note=note, step=step)
        of(name)["feedback"] = Feedback(*rule) if feedback else None
    for name, state, count, oldest in await unit.rows("queue_states", sees=who.sees):
        of(name)[state] = count
        if state == State.READY:
            of(name)["oldest"] = oldest
    for name, count in await unit.rows("queue_endings", sees=who.sees, lately=LATELY, now=unit.now):
        of(name)["ended"] = count
    for name, nodes, slots in await unit.rows("queue_servers"):
        of(name).update(nodes=nodes, slots=slots)
    for one in await offers.unoffered(unit):
        if await unit.value("someone_waits", queue=one.queue, task=one.task, sees=who.sees):
            of(one.queue)["unoffered"] = (*of(one.queue).get("unoffered", ()), one.task)
    return [QueueInfo(**found[name]) for name in sorted(found)]


async def reprioritise(unit: Unit, who: Principal, ids: Sequence[str], priority: int) -> list[bool]:
    await unit.begin()
    rows = await unit.rows("lock_jobs", ids=ids_only(ids), sees=who.sees)
    chosen = {job for job, state, _ in rows if State(state) in _WAITING}
    if chosen:
        await unit.run("reprioritise", ids=sorted(chosen), priority=priority, step=unit.database.ageing_step)
        unit.topics.add(Topic.READY)
    return [job in chosen for job in ids]


# -- why --------------------------------------------------------------------------------------------------------------
async def waiting(unit: Unit, who: Principal, job_id: str) -> Waiting | None:
    row = await unit.row("waiting_row", id=job_id, sees=who.sees, now=unit.now) if is_id(job_id) else None
    if row is None:
        return None
    about = {name: row[name] for name in ("owner", "task", "queue", "requirements")}
    gate = await unit.row("gate_of", now=unit.now, id=job_id, **about)
    bounds = await unit.rows("key_bounds", owner=row["owner"], requirements=row["requirements"])
    keys = await _infos(unit, [(row["owner"], *one) for one in bounds])
    queue = next((one for one in await queues(unit, SYSTEM) if one.name == row["queue"]), None)
    return Waiting(
        gate=None if gate is None else _gate(gate), keys=tuple(keys), queue=queue, ahead=row["ahead"],
        rank=row["rank"], level=row["flow_level"] or 0, node=row["node"], lease_until=row["lease_until"],
        offered=row["offered"], known=row["known"], now=row["now"],
    )  # fmt: skip
