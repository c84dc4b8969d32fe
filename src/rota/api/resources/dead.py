"""Dead letters: jobs that failed for good."""

from __future__ import annotations

from rota.api.pages import Page
from rota.api.requests import Request
from rota.api.resources.job_changes import DEAD, ChangedJobs, DeadChangeBody, change
from rota.api.resources.jobs import done
from rota.api.resources.searches import DeadListQuery, next_of, page_filter
from rota.api.routes import Routes
from rota.clients import job_queries
from rota.clients.jobs import JobsClient
from rota.errors import IllegalEvent, NotFound
from rota.model.access import Permission
from rota.views.jobs import DoneView, JobView

ROUTES = Routes("dead letters")


@ROUTES.get("/api/v1/dead", Permission.READ, "Dead letters that fit, latest first")
async def list_dead(request: Request[None, DeadListQuery]) -> Page[JobView]:
    page = await request.jobs.page(await page_filter(request.query, request.jobs, states=DEAD))
    return Page([JobView.of(info) for info in page.jobs], next_of(page.last, request.query))


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
