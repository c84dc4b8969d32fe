"""Functions that nodes offer, and jobs that wait for functions that no node has ever offered."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.model.error_groups import group_of
from rota.model.error_groups import set_aside as set_aside_problem
from rota.model.task import TaskInfo
from rota.model.times import Duration
from rota.store.carriers.unit import Columns, Unit
from rota.store.offers import Unoffered, why_set_aside
from rota.store.values import Topic


async def make_known(unit: Unit, tasks: Sequence[TaskInfo]) -> None:
    columns: Columns = {
        "names": [task.name for task in tasks], "infos": [msgspec.json.encode(task).decode() for task in tasks],
    }  # fmt: skip
    await unit.run("make_known", columns, now=unit.now)


async def offering(unit: Unit) -> dict[str, list[str]]:
    nodes: dict[str, list[str]] = {}
    for task, node in await unit.rows("offering"):
        nodes.setdefault(task, []).append(node)
    return nodes


async def unoffered(unit: Unit) -> list[Unoffered]:
    return [Unoffered(*row) for row in await unit.rows("unoffered")]


async def set_aside(unit: Unit, one: Unoffered, grace: Duration, limit: int) -> int:
    await unit.begin()
    reason = why_set_aside(one.task, grace)
    gone = await unit.rows(
        "set_aside_unoffered", queue=one.queue, task=one.task, grace=grace, limit=limit, reason=reason,
        error_group=group_of(one.task, set_aside_problem(reason)), now=unit.now,
    )  # fmt: skip
    if gone:
        about = {"queue": one.queue, "task": one.task, "reason": reason}
        failed = [(job, owner, about | {"fence": fence}) for job, owner, fence, _ in gone]
        await unit.emit_for_jobs("job.failed", failed)
        unit.topics.add(Topic.NEWS)
    if tied := [job for job, _, _, ties in gone if ties]:  # other jobs may wait for it
        await unit.settle(tied)
    return len(gone)
