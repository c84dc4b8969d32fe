"""Gates: closed, opened and listed by people."""

from __future__ import annotations

from rota.model.gates import ClosedGate, Effect, Gate, Match, fitting
from rota.model.principal import SYSTEM, Principal
from rota.model.requirements import subject
from rota.model.times import aware, aware_or_none
from rota.store.admission import NewGate
from rota.store.carriers.unit import Row, Unit
from rota.store.values import Topic


async def close(unit: Unit, who: Principal, new: NewGate) -> Gate:
    match = new.match
    await unit.begin()
    told = {"effect": new.effect.value, "reason": new.reason, "by": who.user}
    await unit.emit("gate.closed", who.sees or SYSTEM.user, new.id, told)
    created_at = await unit.value(
        "insert_gate", id=new.id, owner=who.sees, task=match.task, task_like=match.like, queue=match.queue,
        by_user=match.user, label=match.label, effect=new.effect.value, reason=new.reason, author=who.user,
        until=new.until, now=unit.now,
    )  # fmt: skip
    unit.topics.add(Topic.GATE)
    return Gate(
        id=new.id, match=match, effect=new.effect, reason=new.reason, author=who.user,
        created_at=aware(created_at), until=aware_or_none(new.until),
    )  # fmt: skip


async def open_(unit: Unit, who: Principal, gate_id: str) -> bool:
    await unit.begin()
    for one in unit.ids([gate_id]):
        if await unit.run("open_gate", id=one, now=unit.now, sees=who.sees):
            await unit.emit("gate.opened", who.sees or SYSTEM.user, one, {"by": who.user})
            unit.topics.add(Topic.GATE)
            return True
    return False


async def gates(unit: Unit, who: Principal) -> list[Gate]:
    rows = await unit.rows("gate_rows", now=unit.now, sees=who.sees)
    return [_gate(row, held) for *row, held in rows]


async def of_job(unit: Unit, owner: str, task: str, queue: str, requirements: str | None, job: str) -> Gate | None:
    """The gate that fits this job. How many jobs it holds is not counted."""
    rows = await unit.rows("closed_gates", now=unit.now)
    hit = fitting(map(closed_gate, rows), subject(owner, task, queue, requirements), job)
    return None if hit is None else next(_gate(row) for row in rows if row[0] == hit.id)


def closed_gate(row: Row) -> ClosedGate:
    gate_id, owner, task, queue, user, label, effect, reason, until, job, *_ = row
    return ClosedGate(gate_id, owner, Match(task, queue, user, label), Effect(effect), reason, until, job)


def _gate(row: Row, held: int = 0) -> Gate:
    closed = closed_gate(row)
    author, created_at, dropped, _ = row[10:]
    return Gate(
        id=closed.id, match=closed.match, effect=closed.effect, reason=closed.reason, author=author,
        created_at=aware(created_at), until=aware_or_none(closed.until), job=closed.job, held=held, dropped=dropped,
    )  # fmt: skip
