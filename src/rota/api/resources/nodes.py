"""Nodes, and the tasks that they offer."""

from __future__ import annotations

import re

import msgspec

from rota.api.pages import Page
from rota.api.requests import Request
from rota.api.routes import Routes
from rota.errors import NotFound
from rota.model.access import Permission
from rota.model.lifecycle import LIVE, State
from rota.store.values import JobFilter
from rota.views.nodes import NodeView, TaskDetailView, TaskJobsView, TaskView, task_fields

ROUTES = Routes("nodes")
TASKS = Routes("tasks")
LIVING, DEAD = tuple(LIVE), (State.FAILED,)


class NodesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """`past`: also those that left or died."""

    past: bool = False


@ROUTES.get("/api/v1/nodes", Permission.READ, "Nodes of the cluster")
async def list_nodes(request: Request[None, NodesQuery]) -> Page[NodeView]:
    store = request.desk.store
    found = await store.nodes(request.principal, request.query.past)
    return Page([NodeView.of(node, store.now()) for node in found])


@TASKS.get("/api/v1/tasks", Permission.READ, "Tasks with the types of their parameters")
async def list_tasks(request: Request[None, None]) -> Page[TaskView]:
    store = request.desk.store
    nodes = await store.offering(request.principal)
    return Page([TaskView.of(task, nodes.get(task.name, [])) for task in await store.tasks(request.principal)])


@TASKS.get("/api/v1/tasks/{name}", Permission.READ, "A task, its nodes, and how many jobs it has")
async def get_task(request: Request[None, None]) -> TaskDetailView:
    store, name = request.desk.store, request.path["name"]
    task = next((one for one in await store.tasks(request.principal) if one.name == name), None)
    if task is None:
        raise NotFound("task", name)
    nodes = (await store.offering(request.principal)).get(name, [])
    exactly = re.sub(r"([*?\[])", r"[\1]", name)  # the filter is a glob
    live, dead = [await request.jobs.count(JobFilter(task=exactly, states=states)) for states in (LIVING, DEAD)]
    return TaskDetailView(**task_fields(task, nodes), jobs=TaskJobsView(live, dead))
