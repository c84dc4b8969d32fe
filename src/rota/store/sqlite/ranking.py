"""Ranks of ready jobs in queues with their own ageing step or with feedback levels.

Jobs are inserted with the global ageing step and feedback level 0. A claim that finds wrong ranks corrects them first,
together with similar jobs behind them; a boost returns flows to level 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rota.model.job import Kind
from rota.model.times import SECOND, Duration, Instant
from rota.store.sqlite.database import Database, encode
from rota.store.values import Topic

# Jobs at the front that are checked, and jobs that are corrected together.
FRONT, PUT_RIGHT = 200, 5_000
MOST_LOOKS = 20
# For this long after a change of the step, jobs may arrive with the old one.
CHANGING: Duration = 10 * SECOND


class RankingRule(NamedTuple):
    """The ageing step and feedback of a queue."""

    name: str
    step: Duration | None
    stepped_at: Instant
    feedback: bool


def rules(db: Database) -> dict[str, RankingRule]:
    return {row[0]: RankingRule(*row) for row in db.rows("queue_rules")}


def put_right(db: Database, rule: RankingRule, front: Callable[[int], list[int]]) -> None:
    """Corrects ranks until none is wrong among the first jobs of a queue that the node may run (`front`)."""
    for _ in range(MOST_LOOKS):
        wrong = db.rows("misplaced", seqs=_text(front(FRONT)), step=rule.step)
        if not wrong:
            return
        if stepped := [seq for seq, _, _, _, _, by_step, _, _ in wrong if by_step]:
            db.run("rank_those", seqs=_text(stepped), step=rule.step, usual=db.ageing_step)
            rank_anew(db, rule, PUT_RIGHT, PUT_RIGHT)
        fallen = {(*same, behind) for _, *same, _, here, behind in wrong if behind > here}
        for kind, owner, task, flow, behind in sorted(fallen):
            about = {"queue": rule.name, "owner": owner, "task": task, "flow": flow, "level": behind}
            about |= {"kind": kind} if kind != Kind.FUNCTION else {}
            query = "put_back_functions" if kind == Kind.FUNCTION else "put_back"
            db.run(query, **about, step=db.ageing_step, limit=PUT_RIGHT)


def rank_anew(db: Database, rule: RankingRule, limit: int, reach: int) -> int:
    return db.run("rank_anew", queue=rule.name, step=rule.step, usual=db.ageing_step, limit=limit, reach=reach)


def any_to_put_forward(db: Database) -> bool:
    return bool(
        db.value("any_to_put_forward", now=db.now(), usual=db.ageing_step, changing=CHANGING) or db.value("any_strays")
    )


def sweep(db: Database, limit: int) -> int:
    """Boosts flows that are due, and moves jobs forward that rank too far back."""
    now = db.now()
    for (name,) in db.rows("queues_to_boost", now=now):
        db.run("forget_flows", name=name)
        db.run("boosted", name=name, now=now)
    moved = db.run("put_forward", step=db.ageing_step, limit=limit)
    moved += db.run("rank_strays", usual=db.ageing_step, limit=limit)
    for rule in rules(db).values():
        lower = rule.step is not None and rule.step < db.ageing_step
        if lower or rule.stepped_at > now - CHANGING:
            moved += rank_anew(db, rule, limit, -1)
    if moved:
        db.topics.add(Topic.READY)
    return moved


def next_boost(db: Database) -> Instant | None:
    found: Instant | None = db.value("next_boost")
    return found


def _text(value: object) -> str:
    return encode(value).decode()
