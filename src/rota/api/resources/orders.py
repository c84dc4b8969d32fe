"""Orders: from the body of a request to jobs that are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from rota.api.answers import Answer
from rota.api.repeats import checked_key
from rota.api.requests import Request
from rota.api.routes import Routes
from rota.clients.jobs import JobsClient
from rota.errors import IdempotencyKeyReused, InvalidInput, KeyConflict, RotaError
from rota.model.access import Permission
from rota.model.job import NewJob
from rota.model.repeats import key_name
from rota.remote.hello import IDEMPOTENCY_KEY
from rota.wire_orders.entries import OrderEntry
from rota.wire_orders.jobs import read_order, read_orders

ROUTES = Routes("jobs")
MOST_JOBS = 20_000
CREATES: dict[str, Any] = {"status": 201, "also": (200,), "takes": (IDEMPOTENCY_KEY,)}
_OF_REQUEST = "request:"  # how keys of jobs begin that come from such a header


class OrderBody(OrderEntry, kw_only=True, forbid_unknown_fields=True):
    """One order, or a list of them under `jobs`: all are accepted, or none."""

    jobs: list[OrderEntry] | None = None


class SubmittedJob(msgspec.Struct):
    """`created`: False if the key was known, and this is the job that it made before."""

    id: str
    created: bool


class SubmittedJobs(msgspec.Struct):
    """The job of one order, or `jobs` for a list."""

    id: str | UnsetType = UNSET
    created: bool | UnsetType = UNSET
    jobs: list[SubmittedJob] | UnsetType = UNSET


@ROUTES.post("/api/v1/jobs", Permission.ORDER, "Orders a job, or a list of jobs", **CREATES, problems=(404, 409, 422))
async def submit_jobs(request: Request[OrderBody, None]) -> Answer[SubmittedJobs]:
    many, client = request.body.jobs is not None, request.jobs
    jobs = keyed(request, await _read(request, client))
    # A large list mostly orders the same work many times.
    different = {(job.spec.digest, job.task, job.queue): job for job in jobs}.values() if many else jobs
    request.grant.check_orders(list(different))
    try:
        answers = await (client.submit_whole(jobs) if many else client.submit(jobs))
    except KeyConflict as conflict:
        raise other_body(request, conflict) from None
    found = [SubmittedJob(answer.id, answer.created) for answer in answers]
    status = 201 if any(one.created for one in found) else 200
    return Answer(SubmittedJobs(jobs=found) if many else SubmittedJobs(found[0].id, found[0].created), status)


async def _read(request: Request[OrderBody, None], client: JobsClient) -> list[NewJob]:
    body, limit = request.body, request.desk.settings.max_args
    if body.jobs is None:
        tasks = await request.desk.tasks.with_([body.task] if body.task is not None else ())
        return [read_order(body, limit, tasks).job(client.job_ids(1)[0])]
    for name, value in msgspec.structs.asdict(body).items():
        if name != "jobs" and value is not None:
            raise InvalidInput(name, value, "nothing beside `jobs`: each order of the list has its own fields")
    if not 1 <= len(body.jobs) <= MOST_JOBS:
        raise InvalidInput("jobs", f"{len(body.jobs):,} orders", f"1 to {MOST_JOBS:,} orders")
    tasks = await request.desk.tasks.with_({one.task for one in body.jobs if one.task is not None})
    orders = read_orders(body.jobs, limit, tasks)
    ids = client.job_ids(len(orders))
    return [order.job(job_id) for order, job_id in zip(orders, ids, strict=True)]


def keyed(request: Request[Any, Any], jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs with keys made of the `Idempotency-Key` of the request. The key of a job is written in the transaction
    of the order, so a repeat finds it whichever node it reaches and whenever the first one died. Jobs that have a key
    of their own keep it."""
    given = checked_key(request)
    if given is None:
        return list(jobs)
    name = key_name(given)
    return [
        job if job.key is not None else msgspec.structs.replace(job, key=f"{_OF_REQUEST}{name}:{place}")
        for place, job in enumerate(jobs)
    ]


def other_body(request: Request[Any, Any], conflict: KeyConflict) -> RotaError:
    """The answer to a repeat with another body."""
    if checked_key(request) is None or not conflict.key.startswith(_OF_REQUEST):
        return conflict
    return IdempotencyKeyReused(conflict.job_id)
