"""Dead letters: jobs that failed for good."""

from __future__ import annotations

import msgspec

from rota.api.pages import Page, cursor_of, read_cursor
from rota.api.requests import Request
from rota.api.resources.job_changes import DEAD, ChangedJobs, DeadChangeBody, change
from rota.api.resources.jobs import done
from rota.api.resources.searches import DeadListQuery, Number, conditions_of, filter_of, next_of, page_filter
from rota.api.routes import Routes
from rota.clients import job_queries
from rota.clients.jobs import JobsClient
from rota.errors import IllegalEvent, NotFound
from rota.model.access import Permission
from rota.model.times import as_instant
from rota.store.values import JobCursor
from rota.views.error_groups import ErrorGroupView
from rota.views.jobs import DoneView, JobView

ROUTES = Routes("dead letters")


@ROUTES.get("/api/v1/dead", Permission.READ, "Dead letters that fit, latest first")
async def list_dead(request: Request[None, DeadListQuery]) -> Page[JobView]:
    page = await request.jobs.page(await page_filter(request.query, request.jobs, states=DEAD))
    return Page([JobView.of(info) for info in page.jobs], next_of(page.last, request.query))


class ErrorGroupKey(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    id: str
    last_at: Number


@ROUTES.get("/api/v1/dead/groups", Permission.READ, "Groups of dead letters with the same error, last seen first")
async def list_error_groups(request: Request[None, DeadListQuery]) -> Page[ErrorGroupView]:
    found = await filter_of(request.query, request.jobs)
    after = None
    if request.query.cursor is not None:
        key = read_cursor(request.query.cursor, ErrorGroupKey, ["groups", conditions_of(request.query)])
        after = JobCursor(key.id, key.last_at)
    groups = await request.jobs.error_groups(msgspec.structs.replace(found, after=after, limit=request.query.limit))
    following = None
    if len(groups) == request.query.limit:
        last = [groups[-1].id, as_instant(groups[-1].last_at)]
        following = cursor_of(last, ["groups", conditions_of(request.query)])
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
