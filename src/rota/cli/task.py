"""`rota task ...`: the functions that nodes offer."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from rota.cli.session import existing
from rota.cli.show import Cell, document, facts, listing
from rota.errors import UnknownTask
from rota.model.lifecycle import LIVE, State
from rota.model.limits import key_text, rate_text
from rota.model.task import TaskInfo
from rota.model.times import short
from rota.store.values import JobFilter
from rota.views.nodes import TaskDetailView, TaskJobsView, TaskView, task_fields
from rota.wire_orders.offered import hint

LIVING, DEAD = tuple(LIVE), (State.FAILED,)


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        tasks = await client.store.tasks(client.who)
        nodes = await client.store.offering(client.who)
    headers = ("NAME", "QUEUE", "PRI", "RETRIES", "TIMEOUT", "NODES", "PARAMETERS")
    rows = (_row(task, nodes.get(task.name, [])) for task in tasks)
    return listing(args, (TaskView.of(task, nodes.get(task.name, [])) for task in tasks), headers, rows)


def _row(task: TaskInfo, nodes: list[str]) -> tuple[Cell, ...]:
    options = task.queue, str(task.priority), str(task.retry.retries), _timeout(task)
    return task.name, *options, str(len(nodes)), ", ".join(_parameters(task))


async def show_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        tasks = {task.name: task for task in await client.store.tasks(client.who)}
        if (task := tasks.get(args.name)) is None:
            raise UnknownTask(args.name, hint(args.name, tasks, "nodes have registered"))
        nodes = (await client.store.offering(client.who)).get(task.name, [])
        exactly = re.sub(r"([*?\[])", r"[\1]", task.name)  # the filter is a glob
        live, dead = [await client.count(JobFilter(task=exactly, states=states)) for states in (LIVING, DEAD)]
    if args.json:
        document(TaskDetailView(**task_fields(task, nodes), jobs=TaskJobsView(live, dead)))
    else:
        offered = ", ".join(nodes) or "none offers it now"
        facts([*_facts(task), ("nodes", offered), ("jobs", f"{live} live, {dead} dead")])
    return 0


def _facts(task: TaskInfo) -> Iterator[tuple[str, Cell]]:
    yield "name", task.name
    parameters = list(_parameters(task))
    yield "parameters", parameters[0] if parameters else "none"
    yield from (("", text) for text in parameters[1:])
    yield "queue", f"{task.queue}, priority {task.priority}"
    yield "retries", f"{task.retry.retries}, backoff {task.retry.backoff}" if task.retry.retries else "none"
    yield "timeout", _timeout(task)
    yield "secrets", ", ".join(task.secrets)
    yield "labels", ", ".join(task.labels)
    yield "limits", ", ".join(map(key_text, task.templates))
    yield "rate", "" if task.rate is None else rate_text(task.rate)
    yield "alone", "" if task.alone is None else f"in {task.alone}"
    yield "flow", task.flow or ""


def _parameters(task: TaskInfo) -> Iterator[str]:
    """`times: integer, optional`."""
    for name in task.parameters:
        types = " or ".join(task.types.get(name, ("any",)))
        yield f"{name}: {types}" if name in task.required else f"{name}: {types} (optional)"
    if task.open:
        yield "any others"


def _timeout(task: TaskInfo) -> str:
    return "" if task.timeout is None else short(task.timeout)
