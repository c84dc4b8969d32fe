"""Jobs that run alone: each closes a gate for itself, waits until all running jobs that the gate fits have ended, and
runs."""

from __future__ import annotations

from rota.model.admission import LOOK_AGAIN, YIELDED, AloneStep, alone_step, beside, is_alone
from rota.model.gates import ClosedGate, Subject
from rota.model.requirements import read_requirements, subject
from rota.model.times import Instant
from rota.store.sqlite import gates
from rota.store.sqlite.database import Database
from rota.store.values import Topic


def close(db: Database, gate: ClosedGate, now: Instant) -> None:
    match = gate.match
    db.run(
        "insert_alone_gate", id=gate.id, owner=gate.owner, task=match.task, queue=match.queue, by_user=match.user,
        label=match.label, reason=gate.reason, job=gate.job, now=now,
    )  # fmt: skip
    db.topics.add(Topic.GATE)


def running(db: Database) -> list[tuple[str, Subject]]:
    return [(job, subject(*about)) for job, *about in db.rows("running_jobs")]


def sweep(db: Database) -> tuple[int, Instant | None]:
    """Releases jobs that are alone by now. At its deadline a job yields and tries again later, or has the others
    cancelled. Returns how many it moved, and when to look again."""
    now, moved = db.now(), 0
    waiting = db.rows("alone_jobs")
    closed = {gate.job: gate for gate in gates.closed(db, now) if gate.job is not None} if waiting else {}
    others = running(db) if waiting else []
    for job, requirements, since in waiting:
        alone, gate = read_requirements(requirements).alone, closed.get(job)
        free = gate is None or is_alone(gate, others)
        match alone_step(alone, since, free, now):
            case AloneStep.GO:
                moved += db.run("let_alone_go", id=job)
                db.topics.add(Topic.READY)
            case AloneStep.CANCEL if gate is not None:
                # Each is cancelled once: a wake-up for a job that is being cancelled would wake admission again.
                if sum(db.run("cancel_for", id=other, why=gate.reason) for other in beside(gate, others)):
                    db.topics.add(Topic.CANCEL)
            case AloneStep.YIELD if alone is not None:
                db.run("open_alone_gate", job=job, now=now)
                moved += db.run("yield_alone", id=job, at=now + alone.drain, reason=YIELDED)
                db.topics |= {Topic.DUE, Topic.GATE}
    return moved, now + LOOK_AGAIN if len(waiting) > moved else None
