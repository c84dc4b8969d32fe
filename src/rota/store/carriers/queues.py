"""Queues: their settings, counts and flows, and why a job waits."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.model.feedback import Feedback, level
from rota.model.lifecycle import State
from rota.model.principal import SYSTEM, Principal
from rota.model.times import Duration, as_timedelta, aware_or_none, timedelta_or_none
from rota.model.versions import QueueSettings, queue_version
from rota.store.admission import LATELY, FlowInfo, QueueInfo, Used, Waiting
from rota.store.carriers import gates, limits, offers
from rota.store.carriers.edits import begin_edit, check_version
from rota.store.carriers.unit import Columns, Unit
from rota.store.values import Topic


# -- settings --------------------------------------------------------------------------------------------------------
async def _begin(unit: Unit, name: str, version: str | None) -> None:
    await begin_edit(unit, "queue", "", name)
    if version is not None:
        check_version("queue", name, version, queue_version((await _settings(unit)).get(name, QueueSettings())))


async def _settings(unit: Unit) -> dict[str, QueueSettings]:
    found: dict[str, QueueSettings] = {}
    for name, paused_at, paused_by, note, step, feedback, *rule in await unit.rows("queue_rows"):
        times = aware_or_none(paused_at), timedelta_or_none(step)
        found[name] = QueueSettings(times[0], paused_by, note, times[1], Feedback(*rule) if feedback else None)
    return found


async def pause(unit: Unit, who: Principal, name: str, note: str) -> None:
    await begin_edit(unit, "queue", "", name)
    await unit.emit("queue.paused", SYSTEM.user, name, {"by": who.user, "note": note})
    await unit.run("pause_queue", name=name, by=who.user, note=note, now=unit.now)


async def resume(unit: Unit, who: Principal, name: str) -> bool:
    await begin_edit(unit, "queue", "", name)
    if not await unit.run("resume_queue", name=name):
        return False
    await unit.emit("queue.resumed", SYSTEM.user, name, {"by": who.user})
    unit.topics.add(Topic.READY)
    return True


async def set_step(unit: Unit, who: Principal, name: str, step: Duration | None, version: str | None = None) -> None:
    await _begin(unit, name, version)
    await unit.run("set_step", name=name, step=step, now=unit.now)
    unit.topics.add(Topic.GATE)


async def set_feedback(
    unit: Unit, who: Principal, name: str, rule: Feedback | None, version: str | None = None
) -> None:
    await _begin(unit, name, version)
    chosen = rule or Feedback()
    await unit.run(
        "set_feedback", name=name, feedback=rule is not None, quantum=chosen.quantum, levels=chosen.levels,
        boost=chosen.boost, now=unit.now,
    )  # fmt: skip
    if rule is None:
        await unit.run("forget_flows", name=name)
    unit.topics.add(Topic.GATE)


# -- flows -----------------------------------------------------------------------------------------------------------
async def flows(unit: Unit, who: Principal, limit: int) -> list[FlowInfo]:
    rows = await unit.rows("flow_rows", sees=who.sees, limit=limit)
    return [FlowInfo(queue, flow, level, as_timedelta(used)) for queue, flow, level, used in rows]


async def charge(unit: Unit, used: Used) -> None:
    rules = {name: Feedback(*rule) for name, *rule in await unit.rows("feedback_rules")}
    charged = [(queue, unit.text(flow), span) for (queue, flow), span in used.items() if queue in rules]
    if not charged:
        return
    await unit.begin()
    spent: Columns = dict(zip(("queues", "flows", "used"), zip(*charged, strict=True), strict=True))
    totals = await unit.rows("charge", spent)
    levels: Columns = {
        "queues": [queue for queue, _, _ in totals], "flows": [flow for _, flow, _ in totals],
        "levels": [level(total, rules[queue]) for queue, _, total in totals],
    }  # fmt: skip
    await unit.run("set_levels", levels)


# -- reads -----------------------------------------------------------------------------------------------------------
async def queues(unit: Unit, who: Principal) -> list[QueueInfo]:
    found: dict[str, dict[str, Any]] = {}

    def of(name: str) -> dict[str, Any]:
        return found.setdefault(name, {"name": name})

    for name, settings in (await _settings(unit)).items():
        of(name).update(msgspec.structs.asdict(settings))
    for name, state, count, oldest in await unit.rows("queue_states", sees=who.sees):
        of(name)[state] = count
        if state == State.READY:
            of(name)["oldest"] = aware_or_none(oldest)
    for name, count in await unit.rows("queue_endings", sees=who.sees, lately=LATELY, now=unit.now):
        of(name)["ended"] = count
    for name, nodes, slots in await unit.rows("queue_servers"):
        of(name).update(nodes=nodes, slots=slots)
    for one in await offers.unoffered(unit):
        if await unit.value("someone_waits", queue=one.queue, task=one.task, sees=who.sees):
            of(one.queue)["unoffered"] = (*of(one.queue).get("unoffered", ()), one.task)
    return [QueueInfo(**found[name]) for name in sorted(found)]


async def waiting(unit: Unit, who: Principal, job_id: str) -> Waiting | None:
    rows = await unit.rows("waiting_row", id=job_id, sees=who.sees, now=unit.now) if unit.ids([job_id]) else []
    if not rows:
        return None
    owner, task, queue, requirements, rank, level, node, lease_until, ahead, offered, known, now = rows[0]
    return Waiting(
        gate=await gates.of_job(unit, owner, task, queue, requirements, job_id),
        keys=await limits.of_job(unit, owner, requirements),
        queue=next((one for one in await queues(unit, who) if one.name == queue), None),
        ahead=ahead, rank=rank, level=level, node=node, lease_until=lease_until, offered=bool(offered),
        known=bool(known), now=now,
    )  # fmt: skip
