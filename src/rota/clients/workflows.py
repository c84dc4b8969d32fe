"""Workflows of one user: their orders, states and changes. Handles, the command line and the HTTP API use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput, NotFound
from rota.model.graph import Need, below
from rota.model.job import JobInfo, Membership, NewJob
from rota.model.lifecycle import LIVE, TERMINAL, State
from rota.model.options import check_reason
from rota.model.principal import Principal
from rota.store.base import Store
from rota.store.graph import WorkflowFilter, WorkflowInfo, WorkflowJob
from rota.store.values import Cancelling

CANCELLED = "its workflow was cancelled"
# The states that a retry runs again; jobs that were skipped because of these reopen by themselves.
_FAILED = (State.FAILED, State.CANCELLED)


async def submit(
    client: JobsClient, member: Membership, orders: Sequence[NewJob], meta: str | None = None
) -> tuple[str, list[str]]:
    """Orders the jobs of a workflow, all or none. Returns the ids of the workflow and of the jobs: those of an earlier
    order, if the keys were known. `meta`: JSON of hooks, kept with the jobs."""
    jobs = [msgspec.structs.replace(order, workflow=member, meta=meta) for order in orders]
    answers = await client.submit_whole(jobs)
    found = member.id
    if member.new and not any(answer.created for answer in answers):
        found = (await client.get(answers[0].id)).workflow or found
    return found, [answer.id for answer in answers]


async def names_of(store: Store, who: Principal, jobs: Iterable[JobInfo]) -> dict[str, str]:
    """The names of the workflows of these jobs, by the ids of the workflows."""
    ids = {job.workflow for job in jobs if job.workflow is not None}
    found = await store.workflows(who, WorkflowFilter(ids=tuple(ids), limit=len(ids))) if ids else []
    return {info.id: info.name for info in found if info.name}


async def info(client: JobsClient, workflow_id: str) -> WorkflowInfo:
    """Its name, and how many of its jobs are in which state."""
    for found in await client.store.workflows(client.who, WorkflowFilter(ids=(workflow_id,))):
        return found
    raise NotFound("workflow", workflow_id)


async def jobs(client: JobsClient, workflow_id: str) -> list[WorkflowJob]:
    """Its jobs with their parents, in the order in which they were ordered."""
    found = await client.store.workflow(client.who, workflow_id)
    if not found:
        await info(client, workflow_id)
    return list(found)


async def cancel(client: JobsClient, workflow_id: str, reason: str = CANCELLED) -> int:
    """Ends all of its jobs that have not ended; returns how many there were."""
    check_reason(reason)
    ids = [job.id for job in await jobs(client, workflow_id) if job.state in LIVE]
    # In one call: between two calls, children of the first jobs would be skipped or start.
    answers = await client.store.cancel(client.who, ids, reason)
    return sum(answer in (Cancelling.CANCELLED, Cancelling.REQUESTED) for answer in answers)


async def retry(client: JobsClient, workflow_id: str, start: str | None = None) -> int:
    """Runs failed and cancelled jobs again, and jobs that were skipped because of them; with `start`, only that job and
    those below it. Jobs that had run because of the failures wait again, too. Returns how many failed or cancelled ones
    there were."""
    chosen = await _from(client, workflow_id, start)
    ids = [job.id for job in chosen if job.state in _FAILED]
    if not ids:
        return 0
    count = sum(await client.replay(ids))
    if alarms := _alarms(chosen):
        await client.rerun(alarms)
    return count


async def replay(client: JobsClient, workflow_id: str, start: str | None = None) -> int:
    """Runs all jobs again, or those from `start` on, however they ended. All of these must have ended."""
    chosen = await _from(client, workflow_id, start)
    living = [job for job in chosen if job.state not in TERMINAL]
    if living:
        expected = f"a workflow whose jobs have ended; {living[0].id} ({living[0].task}) is {living[0].state}"
        raise InvalidInput("replay", workflow_id, expected)
    return sum(await client.rerun([job.id for job in chosen]))


async def _from(client: JobsClient, workflow_id: str, start: str | None) -> list[WorkflowJob]:
    found = await jobs(client, workflow_id)
    if start is None:
        return found
    if start not in {job.id for job in found}:
        raise InvalidInput("job", start, f"a job of workflow {workflow_id}")
    chosen = set(below(_children(found), [start]))
    return [job for job in found if job.id in chosen]


def _children(found: Sequence[WorkflowJob]) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for job in found:
        for edge in job.parents:
            children.setdefault(edge.parent, []).append(job.id)
    return children


def _alarms(found: Sequence[WorkflowJob]) -> list[str]:
    """The jobs that have succeeded and ran because others failed, and those below them."""
    again = {job.id for job in found if job.state in (*_FAILED, State.SKIPPED)}
    alarms = [
        job.id
        for job in found
        if any(edge.need in (Need.FAILURE, Need.TROUBLE) and edge.parent in again for edge in job.parents)
    ]
    states = {job.id: job.state for job in found}
    return [one for one in below(_children(found), alarms) if states.get(one) is State.SUCCEEDED]
