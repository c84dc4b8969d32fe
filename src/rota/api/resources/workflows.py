"""Workflows: jobs that are ordered together and wait for each other."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.api.answers import Answer
from rota.api.job_places import Id, Number
from rota.api.pages import Cursor, Limit, Page, cursor_of, read_cursor
from rota.api.requests import Request
from rota.api.resources.orders import CREATES, keyed, other_body
from rota.api.resources.searches import LONGEST
from rota.api.routes import Routes
from rota.clients import workflows
from rota.errors import KeyConflict
from rota.model.access import Permission
from rota.model.readers import printable
from rota.model.times import as_instant
from rota.store.graph import WorkflowFilter
from rota.views.workflows import OrderedWorkflowView, WorkflowChangeView, WorkflowDetailView, WorkflowView
from rota.wire_orders.entries import Description
from rota.wire_orders.workflows import read_graph, read_workflow

ROUTES = Routes("workflows")
SOURCE = "workflow"


class WorkflowQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: str | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class StartBody(msgspec.Struct, forbid_unknown_fields=True):
    """`start`: only this job and those below it, by its id."""

    start: Id | None = None


class CancelWorkflowBody(msgspec.Struct, forbid_unknown_fields=True):
    reason: str = workflows.CANCELLED


@ROUTES.post("/api/v1/workflows", Permission.ORDER, "Orders a workflow as a whole", **CREATES, problems=(409, 422))
async def submit_workflow(request: Request[Description, None]) -> Answer[OrderedWorkflowView]:
    found, client = request.body, request.jobs
    parents = read_graph(found, SOURCE)
    tasks = await request.desk.tasks.with_({job.task for job in found.all() if job.task is not None})
    whole = read_workflow(found, parents, SOURCE, request.desk.settings.max_args, tasks)
    member, jobs = whole.jobs(client.job_ids)
    orders = keyed(request, jobs)
    request.grant.check_orders(orders)
    try:
        workflow, ids = await workflows.submit(client, member, orders)
    except KeyConflict as conflict:
        raise other_body(request, conflict) from None
    view = OrderedWorkflowView(workflow, whole.name, dict(zip(whole.orders, ids, strict=True)))
    return Answer(view, 201 if workflow == member.id else 200)


@ROUTES.get("/api/v1/workflows", Permission.READ, "Workflows, newest first")
async def list_workflows(request: Request[None, WorkflowQuery]) -> Page[WorkflowView]:
    query, client = request.query, request.jobs
    name = query.name
    if name is not None:
        printable(name, "name", 1, LONGEST, "the name of a workflow")
    key = None if query.cursor is None else read_cursor(query.cursor, _Key, {"name": name})
    after = None if key is None else (key.created_at, key.id)
    found = await client.store.workflows(client.who, WorkflowFilter(name=name, limit=query.limit, after=after))
    full = len(found) == query.limit
    following = cursor_of([as_instant(found[-1].created_at), found[-1].id], {"name": name}) if full else None
    return Page([WorkflowView.of(info) for info in found], following)


class _Key(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    created_at: Number
    id: Id


@ROUTES.get("/api/v1/workflows/{id}", Permission.READ, "A workflow with its jobs")
async def get_workflow(request: Request[None, None]) -> WorkflowDetailView:
    info = await workflows.info(request.jobs, request.path["id"])
    return WorkflowDetailView.with_jobs(info, await workflows.jobs(request.jobs, info.id))


@ROUTES.post("/api/v1/workflows/{id}/cancel", Permission.ORDER, "Ends all jobs of a workflow that have not ended")
async def cancel_workflow(request: Request[CancelWorkflowBody | None, None]) -> WorkflowChangeView:
    reason = workflows.CANCELLED if request.body is None else request.body.reason
    return _changed(request, await workflows.cancel(request.jobs, request.path["id"], reason))


@ROUTES.post("/api/v1/workflows/{id}/retry", Permission.ORDER, "Runs again what failed or was cancelled")
async def retry_workflow(request: Request[StartBody | None, None]) -> WorkflowChangeView:
    return _changed(request, await workflows.retry(request.jobs, request.path["id"], _start(request)))


@ROUTES.post("/api/v1/workflows/{id}/replay", Permission.ORDER, "Runs a workflow that has ended again, all of it")
async def replay_workflow(request: Request[StartBody | None, None]) -> WorkflowChangeView:
    return _changed(request, await workflows.replay(request.jobs, request.path["id"], _start(request)))


def _start(request: Request[StartBody | None, None]) -> str | None:
    return None if request.body is None else request.body.start


def _changed(request: Request[Any, None], count: int) -> WorkflowChangeView:
    return WorkflowChangeView(request.path["id"], count > 0, count)
