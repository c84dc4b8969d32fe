"""Functions that nodes offer: for the carriers that read SQLite directly."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.task import TaskInfo
from rota.store.carriers import offers
from rota.store.sqlite.database import Database, encode
from rota.store.sqlite.unit import at_once

make_known, unoffered = at_once(offers.make_known), at_once(offers.unoffered)


def unknown(db: Database, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
    names = {name for (name,) in db.rows("unknown_tasks", names=encode([task.name for task in tasks]).decode())}
    return [task for task in tasks if task.name in names]
