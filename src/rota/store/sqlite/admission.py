"""Admission as one write: gates, keys, jobs that run alone, and feedback levels."""

from __future__ import annotations

from rota.model.times import Instant
from rota.store.admission import Admitted
from rota.store.sqlite import alone, gates, limits, ranking
from rota.store.sqlite.database import Database


def nothing_to_admit(db: Database, limit: int) -> Admitted | None:
    """The answer of `admit` if there is nothing to do now; it says when there will be."""
    planned = limits.plan(db, every=True, most=1)
    busy = (
        planned.goes or planned.more or planned.far or gates.at_work(db) or db.value("any_freed")
        or db.value("any_alone") or ranking.any_to_put_forward(db)
    )  # fmt: skip
    upcoming = _first(planned.next_at, gates.next_opening(db), ranking.next_boost(db))
    return None if busy else Admitted(0, False, upcoming)


def admit(db: Database, limit: int) -> Admitted:
    moved, more = gates.sweep(db, limit)
    lines = limits.hand_on(db, every=True, most=limit)
    db.run("all_lines_looked_at")
    let_go, look_again = alone.sweep(db)
    forward = ranking.sweep(db, limit)
    upcoming = _first(lines.next_at, gates.next_opening(db), ranking.next_boost(db), look_again)
    return Admitted(moved + lines.moved + let_go + forward, more or lines.more or forward >= limit, upcoming)


def _first(*instants: Instant | None) -> Instant | None:
    return min((at for at in instants if at is not None), default=None)
