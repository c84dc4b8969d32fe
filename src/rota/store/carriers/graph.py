"""Jobs that wait for others, and workflows: reads."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.graph import Edge, ParentInfo
from rota.model.principal import Principal
from rota.store.carriers.unit import Unit
from rota.store.graph import WorkflowFilter, WorkflowInfo, WorkflowJob
from rota.store.rows import Member, edge, parent_info, workflow_infos, workflow_job


async def parents(unit: Unit, who: Principal, job_id: str) -> list[ParentInfo]:
    ids = unit.ids([job_id])
    if not ids or not await unit.value("owns_job", id=job_id, sees=who.sees):
        return []
    return [parent_info(row) for row in await unit.rows("parent_rows", id=job_id)]


async def workflows(unit: Unit, who: Principal, query: WorkflowFilter) -> list[WorkflowInfo]:
    wanted = None if query.ids is None else unit.ids(query.ids)
    at, after = query.after or (None, None)
    values = {"name": query.name, "after_at": at, "after_id": after, "limit": query.limit}
    rows = await unit.rows("workflow_rows", sees=who.sees, ids=wanted, **values)
    return workflow_infos(rows, await unit.rows("workflow_counts", ids=[row[0] for row in rows]))


async def workflow(unit: Unit, who: Principal, workflow_id: str) -> list[WorkflowJob]:
    if not await workflows(unit, who, WorkflowFilter(ids=(workflow_id,))):
        return []
    edges: dict[str, list[Edge]] = {}
    for child, *rest in await unit.rows("workflow_edges", id=workflow_id):
        edges.setdefault(child, []).append(edge(*rest))
    rows = await unit.rows("workflow_jobs", id=workflow_id)
    return [workflow_job(row, tuple(edges.get(row[0], ()))) for row in rows]


async def resolve_workflow(unit: Unit, who: Principal, part: str) -> list[str]:
    return [one for (one,) in await unit.rows("resolve_workflow", sees=who.sees, part=part)]


async def of_jobs(unit: Unit, ids: Sequence[str]) -> dict[str, Member]:
    """The workflows that these jobs belong to, and their names in them."""
    return {job: Member(*rest) for job, *rest in await unit.rows("workflows_of_jobs", ids=ids)}
