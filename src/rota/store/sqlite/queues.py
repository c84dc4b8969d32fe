"""Queues with their counts, changes of priority, and why a job waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.model.feedback import Feedback
from rota.model.gates import Gate, fitting
from rota.model.lifecycle import INITIAL, State
from rota.model.principal import SYSTEM, Principal
from rota.model.requirements import subject
from rota.store.admission import LATELY, QueueInfo, Waiting
from rota.store.sqlite import gates, limits, offers
from rota.store.sqlite.database import Database, encode
from rota.store.values import Topic


def pause(db: Database, who: Principal, name: str, note: str) -> None:
    db.run("pause_queue", name=name, by=who.user, note=note, now=db.now())


def resume(db: Database, who: Principal, name: str) -> bool:
    if not db.run("resume_queue", name=name):
        return False
    db.topics.add(Topic.READY)
    return True


def queues(db: Database, who: Principal) -> list[QueueInfo]:
    found: dict[str, dict[str, Any]] = {}

    def of(name: str) -> dict[str, Any]:
        return found.setdefault(name, {"name": name})

    for name, paused_at, paused_by, note, step, feedback, *rule in db.rows("queue_rows"):
        of(name).update(paused_at=paused_at, paused_by=paused_by, note=note, step=step)
        of(name)["feedback"] = Feedback(*rule) if feedback else None
    for name, state, count, oldest in db.rows("queue_states", sees=who.sees):
        of(name)[state] = count
        if state == State.READY:
            of(name)["oldest"] = oldest
    for name, count in db.rows("queue_endings", sees=who.sees, since=db.now() - LATELY):
        of(name)["ended"] = count
    for name, nodes, slots in db.rows("queue_servers"):
        of(name).update(nodes=nodes, slots=slots)
    for one in offers.unoffered(db):
        if db.value("someone_waits", queue=one.queue, task=one.task, sees=who.sees):
            of(one.queue)["unoffered"] = (*of(one.queue).get("unoffered", ()), one.task)
    return [QueueInfo(**found[name]) for name in sorted(found)]


def reprioritise(db: Database, who: Principal, ids: Sequence[str], priority: int) -> list[bool]:
    rows = db.rows("states_of", ids=encode(ids).decode(), sees=who.sees)
    chosen = {job for job, state in rows if state in INITIAL}
    if chosen:
        db.run("reprioritise", ids=encode(list(chosen)).decode(), priority=priority, step=db.ageing_step)
        db.topics.add(Topic.READY)
    return [job in chosen for job in ids]


def waiting(db: Database, who: Principal, job_id: str) -> Waiting | None:
    rows = db.rows("waiting_row", id=job_id, sees=who.sees)
    if not rows:
        return None
    seq, owner, task, _, queue, state, rank, requirements, level, node, lease_until, offered, known = rows[0]
    return Waiting(
        gate=_gate(db, owner, task, queue, requirements, job_id), keys=limits.of_job(db, owner, requirements),
        queue=next((one for one in queues(db, SYSTEM) if one.name == queue), None),
        ahead=db.value("ahead_of", queue=queue, rank=rank, seq=seq) if state == State.READY else 0,
        rank=rank, level=level, node=node, lease_until=lease_until, offered=bool(offered),
        known=bool(known), now=db.now(),
    )  # fmt: skip


def _gate(db: Database, owner: str, task: str, queue: str, requirements: str | None, job: str) -> Gate | None:
    hit = fitting(gates.closed(db, db.now()), subject(owner, task, queue, requirements), job)
    return None if hit is None else next((one for one in gates.gates(db, SYSTEM) if one.id == hit.id), None)
