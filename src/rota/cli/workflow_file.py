"""`rota workflow submit`: jobs that wait for each other, described as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import msgspec

from rota.app_core import AppCore
from rota.cli.session import make_app, read_input
from rota.cli.show import answer
from rota.cli.submit import folder, known_tasks
from rota.handles.job import Job
from rota.handles.workflow import Workflow
from rota.handles.workflow_builder import place_workflow
from rota.tasks.checks import malformed, misfit
from rota.views.workflows import OrderedWorkflowView
from rota.wire_orders.entries import Description, JobEntry
from rota.wire_orders.offered import OfferedTasks
from rota.wire_orders.workflows import WrongWorkflow, read_graph, read_workflow, told

LARGEST_FILE = 256 << 20  # bytes
_EXPECTED = (
    """{"name": "...", "jobs": [{"name": "a", "task": "extract"}, {"name": "b", "command": ["ls"], "after": ["a"]}]}"""
)


async def submit_(args: argparse.Namespace) -> int:
    source = "standard input" if args.file == "-" else args.file
    found = _read(args.file, source)
    parents = read_graph(found, source)
    async with make_app(args) as app:
        _fill_folders(found.all(), source)
        tasks = await _tasks(app, args, found.all())
        whole = read_workflow(found, parents, source, app.settings.max_args, tasks)
        if args.app:
            _check_types(app, found.all(), source)
        client = await app.client()
        member, orders = whole.jobs(client.job_ids)
        workflow = Workflow(app, member.id)

        async def ordered(meta: str | None) -> list[Job[Any]]:
            workflow.id, made = await place_workflow(app, client, member, orders, meta)
            return [Job(app, job_id) for job_id in made]

        jobs = await app.catalogue.hooks.submit_async(whole.tasks, ordered)
    names = {name: job.id for name, job in zip(whole.orders, jobs, strict=True)}
    return answer(args, OrderedWorkflowView(workflow.id, found.name, names), workflow.id)


def _read(path: str, source: str) -> Description:
    text = read_input(path, "FILE", "a workflow that can be read", LARGEST_FILE + 1)
    if len(text) > LARGEST_FILE:
        raise WrongWorkflow(source, f"has more than {LARGEST_FILE:,} bytes")
    try:
        return msgspec.json.decode(text, type=Description)
    except msgspec.ValidationError as error:
        raise WrongWorkflow(source, f"{misfit(str(error))}; expected a workflow such as {_EXPECTED}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WrongWorkflow(source, f"is not JSON ({malformed(error)})") from None


def _fill_folders(jobs: Sequence[JobEntry], source: str) -> None:
    """A relative folder, and the default one, are relative to this process, not to the node."""
    for job in jobs:
        if job.command is not None:
            with told(source, job.name):
                job.cwd = folder(job.cwd, "cwd")


async def _tasks(app: AppCore, args: argparse.Namespace, jobs: Sequence[JobEntry]) -> OfferedTasks:
    """The tasks that can be ordered; none are looked for if none is wanted."""
    wanted = any(job.task is not None for job in jobs)
    return await known_tasks(app, args) if wanted else OfferedTasks({})


def _check_types(app: AppCore, jobs: Sequence[JobEntry], source: str) -> None:
    """The app's code is here: check the types of arguments too."""
    for job in jobs:
        if job.task is not None:
            with told(source, job.name):
                app.catalogue.get(job.task).encode_order((), job.whole(), app.settings.max_args)
