"""Closed gates: jobs that they stop, and the sweep that moves jobs aside which no claim has met yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rota.model.gates import ClosedGate, Effect
from rota.model.lifecycle import State
from rota.model.requirements import subject
from rota.model.times import Instant
from rota.store.carriers.gates import closed_gate
from rota.store.sqlite.database import Database, encode
from rota.store.values import Topic

# Rows that a sweep reads per job that it may move: the table also holds ended jobs.
SPAN = 20


def closed(db: Database, now: Instant) -> list[ClosedGate]:
    """Oldest first."""
    return [closed_gate(row) for row in db.rows("closed_gates", now=now)]


def bar(db: Database, hits: Sequence[tuple[int, ClosedGate]]) -> None:
    """Holds or drops jobs, each for the gate that fits it."""
    held = [(seq, f"g:{gate.id}", gate.reason) for seq, gate in hits if gate.effect is Effect.PAUSE]
    dropped = [(seq, State.DROPPED, gate.reason) for seq, gate in hits if gate.effect is Effect.DROP]
    if held:
        db.run("hold_jobs", rows=encode(held).decode())
    if dropped:
        db.run("put_away", rows=encode(dropped).decode(), now=db.now())
        counts = Counter(gate.id for _, gate in hits if gate.effect is Effect.DROP)
        db.run("count_dropped", rows=encode(list(counts.items())).decode())
        db.topics.add(Topic.NEWS)


def at_work(db: Database) -> bool:
    return bool(db.value("gates_at_work", now=db.now()))


def next_opening(db: Database) -> Instant | None:
    return min((gate.until for gate in closed(db, db.now()) if gate.until is not None), default=None)


def sweep(db: Database, most: int) -> tuple[int, bool]:
    """Releases jobs of opened gates, then holds or drops jobs that closed gates fit. Returns the number of moved jobs
    and whether more can be done at once. In this order, a released job that another gate fits is soon held again."""
    now, moved = db.now(), 0
    for (gate_id,) in db.rows("opened_gates", now=now):
        if moved >= most:
            return moved, True
        moved += db.run("release_held", id=gate_id, limit=most - moved)
        db.run("remove_gate", id=gate_id)
        db.topics.add(Topic.READY)
    for *row, swept in db.rows("closed_gates", now=now):
        if moved >= most:
            return moved, True
        count, through = _sweep(db, closed_gate(row), swept, most - moved)
        moved += count
        if not through:
            return moved, True
    return moved, bool(db.rows("opened_gates", now=now))


def _sweep(db: Database, gate: ClosedGate, swept: int, most: int) -> tuple[int, bool]:
    """Continues the sweep of one gate; returns the number of moved jobs and whether the sweep is at its end."""
    span = most * SPAN
    reach, count = db.rows("sweep_end", swept=swept, span=span)[0]
    if reach is None:
        return 0, True
    drops = gate.effect is Effect.DROP
    rows = db.rows("sweep", swept=swept, reach=reach, drop=drops, limit=most, but=gate.job)
    bar(db, hits := [(seq, gate) for seq, *about in rows if gate.fits(subject(*about))])
    cut = len(rows) == most
    db.run("move_sweep", id=gate.id, swept=rows[-1][0] if cut else reach)
    return len(hits), count < span and not cut
