"""Jobs that run alone: each closes a gate for itself, waits until all running jobs that the gate fits have ended, and
runs."""

from __future__ import annotations

from rota.model.admission import LOOK_AGAIN, YIELDED, LoneStep, beside, is_alone, lone_step
from rota.model.gates import ClosedGate, Subject
from rota.model.requirements import read_requirements, subject
from rota.model.times import Instant
from rota.store.sqlite import gates
from rota.store.sqlite.database import Database
from rota.store.values import Topic


def close(db: Database, gate: ClosedGate, now: Instant) -> None:
    match = gate.match
    db.run(
        "insert_lone_gate", id=gate.id, owner=gate.owner, task=match.task, queue=match.queue, by_user=match.user,
        label=match.label, reason=gate.reason, job=gate.job, now=now,
    )  # fmt: skip
    db.topics.add(Topic.GATE)


def running(db: Database) -> list[tuple[str, Subject]]:
    return [(job, subject(*about)) for job, *about in db.rows("running_jobs")]


def sweep(db: Database) -> tuple[int, Instant | None]:
    """Releases jobs that are alone by now. At its deadline a job yields and tries again later, or has the others
    cancelled. Returns how many it moved, and when to look again."""
    now, moved = db.now(), 0
    waiting = db.rows("lone_jobs")
    closed = {gate.job: gate for gate in gates.closed(db, now) if gate.job is not None} if waiting else {}
    others = running(db) if waiting else []
    for job, requirements, since in waiting:
        alone, gate = read_requirements(requirements).alone, closed.get(job)
        free = gate is None or is_alone(gate, others)
        match lone_step(alone, since, free, now):
            case LoneStep.GO:
                moved += db.run("let_lone_go", id=job)
                db.topics.add(Topic.READY)
            case LoneStep.CANCEL if gate is not None:
                # Each is cancelled once: a wake-up for a job that is being cancelled would wake admission again.
                if sum(db.run("cancel_for", id=other, why=gate.reason) for other in beside(gate, others)):
                    db.topics.add(Topic.CANCEL)
            case LoneStep.YIELD if alone is not None:
                db.run("open_lone_gate", job=job, now=now)
                moved += db.run("yield_lone", id=job, at=now + alone.drain, reason=YIELDED)
                db.topics |= {Topic.DUE, Topic.GATE}
    return moved, now + LOOK_AGAIN if len(waiting) > moved else None
