"""Jobs that run alone: each closes a gate for itself, waits until what runs behind it has ended, and then runs."""

from __future__ import annotations

from rota.model.gates import Effect
from rota.model.requirements import Alone, read_requirements
from rota.model.times import Duration, Instant
from rota.store.base import Topic
from rota.store.sqlite import gates
from rota.store.sqlite.database import Database

# Between two looks at whether it is alone by now.
PAUSE: Duration = 250_000


def wants(requirements: str | None) -> Alone | None:
    return read_requirements(requirements).alone


def close(db: Database, job: str, owner: str, alone: Alone, now: Instant) -> gates.Closed:
    """The gate over all that it wants to be alone with."""
    match, reason = alone.match, f"job {job} is to run alone"
    db.run(
        "insert_lone_gate", id=f"alone-{job}-{now}", owner=owner, task=match.task, queue=match.queue,
        by_user=match.user, label=match.label, reason=reason, job=job, now=now,
    )  # fmt: skip
    db.topics.add(Topic.GATE)
    return gates.Closed(f"alone-{job}-{now}", owner, match, Effect.PAUSE, reason, 0, None, job)


def is_alone(db: Database, gate: gates.Closed) -> bool:
    """Nothing runs that its gate would hold."""
    return not _others(db, gate)


def _others(db: Database, gate: gates.Closed) -> list[str]:
    return [
        job for job, owner, task, queue, requirements in db.rows("running_jobs")
        if job != gate.job and gate.fits(owner, task, queue, requirements)
    ]  # fmt: skip


def sweep(db: Database) -> tuple[int, Instant | None]:
    """Lets jobs go on that are alone by now. At its deadline a job yields and tries again later, or has the others
    cancelled. Returns how many it moved, and when to look again."""
    now, moved = db.now(), 0
    waiting = db.rows("lone_jobs")
    closed = {gate.job: gate for gate in gates.closed(db, now) if gate.job is not None} if waiting else {}
    for job, requirements, since in waiting:
        alone, gate = wants(requirements), closed.get(job)
        if alone is None or gate is None or is_alone(db, gate):
            moved += db.run("let_lone_go", id=job)
            db.topics.add(Topic.READY)
        elif since is not None and since + alone.drain <= now:
            moved += _deadline(db, job, alone, gate, now)
    return moved, now + PAUSE if len(waiting) > moved else None


def _deadline(db: Database, job: str, alone: Alone, gate: gates.Closed, now: Instant) -> int:
    if alone.cancel:
        # Each is cancelled once: a wake-up for what is on its way already would wake admission, and so itself again.
        if sum(db.run("cancel_for", id=other, why=gate.reason) for other in _others(db, gate)):
            db.topics.add(Topic.CANCEL)
        return 0
    db.run("open_lone_gate", job=job, now=now)
    db.topics |= {Topic.DUE, Topic.GATE}
    return db.run("yield_lone", id=job, at=now + alone.drain)
