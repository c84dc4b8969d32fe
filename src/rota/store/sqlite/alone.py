"""Jobs that run alone: each closes a gate for itself, waits until all that runs behind it has ended, and then runs."""

from __future__ import annotations

from rota.model.admission import beside, is_alone
from rota.model.gates import ClosedGate, Subject
from rota.model.requirements import Alone, read_requirements, subject
from rota.model.times import Duration, Instant
from rota.store.base import Topic
from rota.store.sqlite import gates
from rota.store.sqlite.database import Database

# Between two looks at whether it is alone by now.
PAUSE: Duration = 250_000


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
    """Lets jobs go on that are alone by now. At its deadline a job yields and tries again later, or has the others
    cancelled. Returns how many it moved, and when to look again."""
    now, moved = db.now(), 0
    waiting = db.rows("lone_jobs")
    closed = {gate.job: gate for gate in gates.closed(db, now) if gate.job is not None} if waiting else {}
    others = running(db) if waiting else []
    for job, requirements, since in waiting:
        alone, gate = read_requirements(requirements).alone, closed.get(job)
        if alone is None or gate is None or is_alone(gate, others):
            moved += db.run("let_lone_go", id=job)
            db.topics.add(Topic.READY)
        elif since is not None and since + alone.drain <= now:
            moved += _deadline(db, job, alone, gate, beside(gate, others), now)
    return moved, now + PAUSE if len(waiting) > moved else None


def _deadline(db: Database, job: str, alone: Alone, gate: ClosedGate, others: list[str], now: Instant) -> int:
    if alone.cancel:
        # Each is cancelled once: a wake-up for a job that is being cancelled already would wake admission again.
        if sum(db.run("cancel_for", id=other, why=gate.reason) for other in others):
            db.topics.add(Topic.CANCEL)
        return 0
    db.run("open_lone_gate", job=job, now=now)
    db.topics |= {Topic.DUE, Topic.GATE}
    return db.run("yield_lone", id=job, at=now + alone.drain)
