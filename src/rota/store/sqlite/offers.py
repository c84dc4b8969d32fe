"""Which functions nodes offer, and jobs that wait for those that none has ever offered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rota.model.lifecycle import State
from rota.model.task import TaskInfo
from rota.model.times import Duration
from rota.store.base import Topic
from rota.store.offers import Unoffered, why_set_aside
from rota.store.sqlite.database import Database, encode


def unknown(db: Database, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
    names = {name for (name,) in db.rows("unknown_tasks", names=encode([task.name for task in tasks]).decode())}
    return [task for task in tasks if task.name in names]


def make_known(db: Database, tasks: Sequence[TaskInfo]) -> None:
    for task in tasks:
        db.run("make_known", name=task.name, info=encode(task).decode(), now=db.now())


def unoffered(db: Database) -> list[Unoffered]:
    return [one for one in _waiting(db) if not db.value("ever_offered", task=one.task)]


def _waiting(db: Database) -> Iterator[Unoffered]:
    """From task to task through the index, however many jobs each has."""
    queue = task = ""
    while rows := db.rows("next_waiting_task", queue=queue, task=task):
        yield Unoffered(*rows[0])
        queue, task, _ = rows[0]


def set_aside(db: Database, one: Unoffered, grace: Duration, limit: int) -> int:
    if db.value("ever_offered", task=one.task):
        return 0  # a node has come to offer it meanwhile
    now, reason = db.now(), why_set_aside(one.task, grace)
    rows = db.rows("overdue_functions", queue=one.queue, task=one.task, limit=limit, before=now - grace)
    if rows:
        ended = [(seq, State.FAILED, reason) for seq, _, _ in rows]
        db.run("put_away", rows=encode(ended).decode(), now=now)
        db.emit_for_jobs("job.failed", [(job, {"reason": reason, "fence": fence}) for _, job, fence in rows])
        db.topics.add(Topic.NEWS)
    return len(rows)
