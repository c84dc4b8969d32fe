"""Changes of many jobs: by conditions, or by a list of ids. A change goes page by page, and no further than `limit`;
`more` says that jobs may be left. With `dry_run` it only tells which jobs it would change."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

import msgspec

from rota.api.job_places import Id
from rota.api.requests import Request
from rota.api.resources.jobs import REASON
from rota.api.resources.searches import DeadSearch, JobSearch, filter_of
from rota.api.routes import Routes
from rota.clients import job_queries
from rota.clients.job_queries import Change, Changes
from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput
from rota.model.access import Permission
from rota.model.lifecycle import State
from rota.store.values import JobFilter

ROUTES = Routes("jobs")
MOST_IDS = 1_000
MOST_CHANGED = 100_000
PREVIEW = 20
DEAD = (State.FAILED,)
Many = Annotated[int, msgspec.Meta(ge=1, le=MOST_CHANGED)]


class ChangeBody(JobSearch, kw_only=True, forbid_unknown_fields=True):
    ids: list[Id] | None = None
    limit: Many = 10_000
    dry_run: bool = False


class CancelManyBody(ChangeBody, kw_only=True, forbid_unknown_fields=True):
    reason: str = REASON


class PriorityManyBody(ChangeBody, kw_only=True, forbid_unknown_fields=True):
    priority: int


class DeadChangeBody(DeadSearch, kw_only=True, forbid_unknown_fields=True):
    ids: list[Id] | None = None
    limit: Many = 10_000
    dry_run: bool = False


class JobLine(msgspec.Struct):
    id: str
    task: str
    state: State


class ChangedJobs(msgspec.Struct):
    """`matched`: jobs that fit and can be changed; `changed`: those that were; `jobs`: with `dry_run`, the first."""

    matched: int
    changed: int
    more: bool
    dry_run: bool
    jobs: list[JobLine] = []


@ROUTES.post("/api/v1/jobs/cancel", Permission.ORDER, "Ends many jobs")
async def cancel_jobs(request: Request[CancelManyBody, None]) -> ChangedJobs:
    return await change(request.jobs, request.body, job_queries.cancelling(request.jobs, request.body.reason))


@ROUTES.post("/api/v1/jobs/retry", Permission.ORDER, "Runs many jobs again")
async def retry_jobs(request: Request[ChangeBody, None]) -> ChangedJobs:
    return await change(request.jobs, request.body, job_queries.retrying(request.jobs))


@ROUTES.post("/api/v1/jobs/priority", Permission.ORDER, "Gives many waiting jobs another priority")
async def set_priorities(request: Request[PriorityManyBody, None]) -> ChangedJobs:
    return await change(request.jobs, request.body, job_queries.reprioritising(request.jobs, request.body.priority))


async def change(client: JobsClient, body: ChangeBody | DeadChangeBody, chosen: Change) -> ChangedJobs:
    query = await filter_of(body, client)
    if isinstance(body, DeadChangeBody):
        if query == JobFilter() and body.ids is None:  # `states` would look like a condition
            raise InvalidInput("body", "no condition", "at least one condition; `q` may be state:failed")
        query = msgspec.structs.replace(query, states=DEAD)
    if body.ids is not None:
        if len(body.ids) > MOST_IDS:
            raise InvalidInput("ids", f"{len(body.ids):,} ids", f"at most {MOST_IDS:,}")
        query = msgspec.structs.replace(query, ids=tuple(dict.fromkeys(body.ids)))
    if body.dry_run:
        return await _preview(client, chosen.filter(query))
    so_far, more = Changes(), False
    async with aclosing(job_queries.changes(client, query, chosen)) as steps:
        async for so_far in steps:
            if more := so_far.matched >= body.limit:
                break
    return ChangedJobs(so_far.matched, so_far.changed, more, False)


async def _preview(client: JobsClient, query: JobFilter) -> ChangedJobs:
    matched = await client.count(query)
    first = await client.find(msgspec.structs.replace(query, limit=PREVIEW))
    return ChangedJobs(matched, 0, False, True, [JobLine(job.id, job.task, job.state) for job in first])
