"""Jobs: lists, single jobs, and changes of one."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from rota.api.job_places import Number
from rota.api.pages import Cursor, Limit, Page, cursor_of, read_cursor
from rota.api.requests import Request
from rota.api.resources.searches import JobListQuery, JobSearch, JobsPage, filter_of, page_of
from rota.api.routes import Routes
from rota.clients.jobs import JobsClient
from rota.errors import IllegalEvent, NotFound
from rota.model.access import Permission
from rota.store.graph import WorkflowFilter
from rota.store.values import CUT, Cancelling, Facets, JobCount, Position
from rota.views.jobs import AttemptView, ChunkView, DoneView, Explanation, JobView, ParentView

ROUTES = Routes("jobs")
REASON = "cancelled by its user"
STREAMS = ("stdout", "stderr", "log")


@ROUTES.get("/api/v1/jobs", Permission.READ, "Jobs that fit, newest first unless `sort` says otherwise")
async def list_jobs(request: Request[None, JobListQuery]) -> JobsPage:
    return await page_of(request.query, request.jobs)


@ROUTES.get("/api/v1/jobs/count", Permission.READ, "How many jobs fit; an estimate if they are too many")
async def count_jobs(request: Request[None, JobSearch]) -> JobCount:
    return await request.jobs.counted(await filter_of(request.query, request.jobs))


@ROUTES.get("/api/v1/jobs/facets", Permission.READ, "The jobs that fit, counted by state, queue, task, user, group")
async def get_facets(request: Request[None, JobSearch]) -> Facets:
    return await request.jobs.facets(await filter_of(request.query, request.jobs))


class FreshQuery(msgspec.Struct, forbid_unknown_fields=True):
    """`fresh`: the store is asked. Without it, a hot tier may show a running job as it was up to 2 seconds ago."""

    fresh: bool = False


@ROUTES.get("/api/v1/jobs/{id}", Permission.READ, "A job with its attempts")
async def get_job(request: Request[None, FreshQuery]) -> JobView:
    read = request.jobs.get if request.query.fresh else request.jobs.glance
    return JobView.of(await read(request.path["id"]))


@ROUTES.get("/api/v1/jobs/{id}/attempts", Permission.READ, "The attempts of a job")
async def list_attempts(request: Request[None, None]) -> Page[AttemptView]:
    return Page([AttemptView.of(one) for one in (await request.jobs.get(request.path["id"])).attempts])


@ROUTES.get("/api/v1/jobs/{id}/explain", Permission.READ, "Why a job is in its state")
async def explain_job(request: Request[None, None]) -> Explanation:
    return await request.jobs.explain(request.path["id"])


class Relations(msgspec.Struct):
    """The workflow of a job, and the jobs that it was ordered after."""

    workflow: str | None
    workflow_name: str | None
    parents: list[ParentView]


@ROUTES.get("/api/v1/jobs/{id}/relations", Permission.READ, "The workflow and the parents of a job")
async def get_relations(request: Request[None, None]) -> Relations:
    client = request.jobs
    info = await client.get(request.path["id"])
    parents = await client.store.parents(client.who, info.id)
    name = None
    if info.workflow is not None:
        found = await client.store.workflows(client.who, WorkflowFilter(ids=(info.workflow,)))
        name = "".join(one.name for one in found) or None
    return Relations(info.workflow, name, [ParentView.of(parent) for parent in parents])


# -- output ----------------------------------------------------------------------------------------------------------
class OutputQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`attempt`: only of this attempt; `stream`: only of this stream."""

    attempt: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)] | None = None
    stream: Literal["stdout", "stderr", "log"] | None = None
    limit: Limit = 200
    cursor: Cursor | None = None


class OutputPage(msgspec.Struct):
    """`next` is always there, since a job that runs may write more. `complete`: there is no more to come."""

    items: list[ChunkView]
    next: str
    complete: bool


@ROUTES.get("/api/v1/jobs/{id}/output", Permission.OUTPUT, "What the attempts of a job wrote, in order")
async def get_output(request: Request[None, OutputQuery]) -> OutputPage:
    query, client = request.query, request.jobs
    info = await client.get(request.path["id"])
    conditions = {"job": info.id, "attempt": query.attempt, "stream": query.stream}
    after = Position()
    if query.cursor is not None:
        after = Position(*read_cursor(query.cursor, tuple[Number, Number], conditions))
    numbers = {attempt.fence: attempt.number for attempt in info.attempts}
    if query.attempt is not None and query.attempt not in numbers.values():
        raise NotFound(f"attempt {query.attempt} of job", info.id)
    chunks = await client.store.output(client.who, info.id, after, query.limit)
    views = [ChunkView.of(chunk, numbers.get(chunk.fence, 0)) for chunk in chunks]
    streams = (*STREAMS, CUT) if query.stream is None else (query.stream, CUT)
    wanted = [one for one in views if query.attempt in (None, one.attempt) and one.stream in streams]
    last = Position(chunks[-1].fence, chunks[-1].number) if chunks else after
    complete = info.ended and len(chunks) < query.limit
    return OutputPage(wanted, cursor_of([last.fence, last.number], conditions), complete)


# -- changes of one job ----------------------------------------------------------------------------------------------
class CancelBody(msgspec.Struct, forbid_unknown_fields=True):
    reason: str = REASON


class PriorityBody(msgspec.Struct, forbid_unknown_fields=True):
    priority: int


@ROUTES.post("/api/v1/jobs/{id}/cancel", Permission.ORDER, "Ends a waiting job, stops a running one", problems=(409,))
async def cancel_job(request: Request[CancelBody | None, None]) -> DoneView:
    reason = REASON if request.body is None else request.body.reason
    job = request.path["id"]
    (answer,) = await request.jobs.cancel([job], reason)
    return await done(request.jobs, job, answer in (Cancelling.CANCELLED, Cancelling.REQUESTED), "cancel", answer.value)


@ROUTES.post(
    "/api/v1/jobs/{id}/retry", Permission.ORDER, "Runs a failed or cancelled job again, or a waiting one at once",
    problems=(409,),
)  # fmt: skip
async def retry_job(request: Request[None, None]) -> DoneView:
    job = request.path["id"]
    (changed,) = await request.jobs.retry([job])
    return await done(request.jobs, job, changed, "retry", "retried")


@ROUTES.post("/api/v1/jobs/{id}/priority", Permission.ORDER, "Gives a waiting job another priority", problems=(409,))
async def set_priority(request: Request[PriorityBody, None]) -> DoneView:
    job = request.path["id"]
    (changed,) = await request.jobs.reprioritise([job], request.body.priority)
    return await done(request.jobs, job, changed, "get another priority", "changed")


async def done(client: JobsClient, job: str, changed: bool, deed: str, word: str) -> DoneView:
    """The answer to a change of one job. If nothing was changed, the job is not there, or not in a fitting state."""
    if changed:
        return DoneView(job, True, word)
    raise IllegalEvent((await client.get(job)).state, deed)
