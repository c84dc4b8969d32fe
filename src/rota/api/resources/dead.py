"""Dead letters: jobs that failed for good."""

from __future__ import annotations

import msgspec

from rota.api.job_places import Moment, Number
from rota.api.pages import Page, cursor_of, read_cursor
from rota.api.requests import Request
from rota.api.resources.job_changes import DEAD, ChangedJobs, DeadChangeBody, change
from rota.api.resources.jobs import done
from rota.api.resources.searches import (
    DeadGroupsQuery,
    DeadListQuery,
    DeadSearch,
    JobsPage,
    conditions_of,
    filter_of,
    page_of,
)
from rota.api.routes import Routes
from rota.clients import job_queries
from rota.clients.jobs import JobsClient
from rota.errors import IllegalEvent, NotFound
from rota.model.access import Permission
from rota.model.times import as_instant
from rota.store.values import JobCount, JobCursor
from rota.views.error_groups import ErrorGroupView
from rota.views.jobs import DoneView, JobView

ROUTES = Routes("dead letters")


@ROUTES.get("/api/v1/dead", Permission.READ, "Dead letters that fit, latest first unless `sort` says otherwise")
async def list_dead(request: Request[None, DeadListQuery]) -> JobsPage:
    return await page_of(request.query, request.jobs, states=DEAD)


@ROUTES.get("/api/v1/dead/count", Permission.READ, "How many dead letters fit; an estimate if they are too many")
async def count_dead(request: Request[None, DeadSearch]) -> JobCount:
    found = await filter_of(request.query, request.jobs)
    return await request.jobs.counted(msgspec.structs.replace(found, states=DEAD))


class ErrorGroupKey(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    id: str
    last_at: Number
    at: Moment  # the instant that relative times count from


@ROUTES.get("/api/v1/dead/groups", Permission.READ, "Groups of dead letters with the same error, last seen first")
async def list_error_groups(request: Request[None, DeadGroupsQuery]) -> Page[ErrorGroupView]:
    query, conditions = request.query, ["groups", conditions_of(request.query)]
    key = None if query.cursor is None else read_cursor(query.cursor, ErrorGroupKey, conditions)
    at = request.store.now() if key is None else key.at
    after = None if key is None else JobCursor(key.id, key.last_at)
    found = await filter_of(query, request.jobs, at)
    groups = await request.jobs.error_groups(msgspec.structs.replace(found, after=after, limit=query.limit))
    following = None
    if len(groups) == query.limit:
        following = cursor_of([groups[-1].id, as_instant(groups[-1].last_at), at], conditions)
    return Page([ErrorGroupView.of(group) for group in groups], following)


@ROUTES.get("/api/v1/dead/{id}", Permission.READ, "A dead letter")
async def get_dead(request: Request[None, None]) -> JobView:
    info = await request.jobs.get(request.path["id"])
    if info.state not in DEAD:
        raise NotFound("dead letter", info.id)
    return JobView.of(info)


@ROUTES.post("/api/v1/dead/{id}/replay", Permission.ORDER, "Runs a dead letter again", problems=(409,))
async def replay_dead(request: Request[None, None]) -> DoneView:
    job = request.path["id"]
    await _check_dead(request.jobs, job, "be replayed as a dead letter")
    (changed,) = await request.jobs.replay([job])
    return await done(request.jobs, job, changed, "replay", "replayed")


@ROUTES.post("/api/v1/dead/{id}/purge", Permission.ORDER, "Deletes a dead letter with its history", problems=(409,))
async def purge_dead(request: Request[None, None]) -> DoneView:
    job = request.path["id"]
    await _check_dead(request.jobs, job, "be purged as a dead letter")
    (changed,) = await request.jobs.purge([job])
    return await done(request.jobs, job, changed, "be purged", "purged")


async def _check_dead(client: JobsClient, job: str, deed: str) -> None:
    info = await client.get(job)
    if info.state not in DEAD:
        raise IllegalEvent(info.state, deed)


@ROUTES.post("/api/v1/dead/replay", Permission.ORDER, "Runs many dead letters again")
async def replay_all_dead(request: Request[DeadChangeBody, None]) -> ChangedJobs:
    return await change(request.jobs, request.body, job_queries.replaying(request.jobs))


@ROUTES.post("/api/v1/dead/purge", Permission.ORDER, "Deletes many dead letters with their history")
async def purge_all_dead(request: Request[DeadChangeBody, None]) -> ChangedJobs:
    return await change(request.jobs, request.body, job_queries.purging(request.jobs))
