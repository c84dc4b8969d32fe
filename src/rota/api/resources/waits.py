"""Long polls for the ends of jobs and workflows, and output as a stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Annotated, Any

import msgspec

from rota.api.answers import Answer, Stream
from rota.api.event_feed import PING, PING_EVERY, piece
from rota.api.requests import Request
from rota.api.resources.events import LAST_EVENT_ID
from rota.api.routes import Routes
from rota.clients import workflows
from rota.clients.jobs import PAGE, POLL, JobsClient, NewsListener
from rota.errors import InvalidInput, WaitTimeout
from rota.model.access import Permission
from rota.model.job import JobInfo
from rota.model.lifecycle import LIVE
from rota.model.principal import SYSTEM
from rota.model.times import SECOND, duration_between
from rota.store.values import Position
from rota.views.jobs import ChunkView, JobView
from rota.views.workflows import WorkflowView

ROUTES = Routes("waits")
# Proxies close connections that are quiet for longer.
LONGEST_WAIT = 25 * SECOND
# Between two looks at a workflow, however many jobs end meanwhile.
PAUSE = 0.25
_POSITION = re.compile(r"(\d{1,18})\.(\d{1,18})", re.ASCII)


class WaitQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    timeout: Annotated[str, msgspec.Meta(max_length=50, description="how long to wait, at most 25s")] = "25s"

    @property
    def seconds(self) -> float:
        return duration_between(self.timeout, "timeout", 0, LONGEST_WAIT) / SECOND


@ROUTES.get("/api/v1/jobs/{id}/wait", Permission.READ, "A job once it has ended; 202 if that takes longer", also=(202,))
async def wait_for_job(request: Request[None, WaitQuery]) -> Answer[JobView]:
    seconds = request.query.seconds
    info = await request.jobs.get(request.path["id"])  # nobody waits for what they may not see
    if not info.ended and seconds:
        # One client for everybody: all waits of the process share a query.
        with suppress(WaitTimeout):
            await _unless_gone(request, request.desk.clients(SYSTEM).jobs.wait(info.id, seconds))
        info = await request.jobs.get(info.id)
    return Answer(JobView.of(info), 200 if info.ended else 202)


@ROUTES.get("/api/v1/workflows/{id}/wait", Permission.READ, "A workflow once all its jobs have ended", also=(202,))
async def wait_for_workflow(request: Request[None, WaitQuery]) -> Answer[WorkflowView]:
    seconds, client = request.query.seconds, request.jobs
    info = await workflows.info(client, request.path["id"])
    if LIVE & info.counts.keys() and seconds:
        with suppress(TimeoutError):
            await _unless_gone(request, asyncio.wait_for(_ended(client, info.id), seconds))
        info = await workflows.info(client, info.id)
    return Answer(WorkflowView.of(info), 202 if LIVE & info.counts.keys() else 200)


async def _ended(client: JobsClient, workflow: str) -> None:
    news = NewsListener(client.store)
    try:
        while LIVE & (await workflows.info(client, workflow)).counts.keys():
            await news.wait(POLL)
            await asyncio.sleep(PAUSE)
    finally:
        news.close()


async def _unless_gone(request: Request[Any, Any], wait: Coroutine[Any, Any, object]) -> None:
    """Waits; but no longer for a caller that has hung up."""
    waiting, gone = asyncio.create_task(wait), asyncio.create_task(request.gone())
    try:
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
    finally:
        for task in (waiting, gone):
            task.cancel()


# -- output ----------------------------------------------------------------------------------------------------------
class OutputStreamQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`after`: the id of the last piece that is known."""

    after: Annotated[str, msgspec.Meta(max_length=40)] | None = None


@ROUTES.get(
    "/api/v1/jobs/{id}/output/stream", Permission.OUTPUT, "The output of a job as it comes, until it has ended",
    takes=("Last-Event-ID",),
)  # fmt: skip
async def follow_output(request: Request[None, OutputStreamQuery]) -> Stream:
    given = request.query.after or request.header(LAST_EVENT_ID)
    info = await request.jobs.get(request.path["id"])
    return Stream(_output(request.jobs, info, Position() if given is None else _position(given)))


def _position(text: str) -> Position:
    found = _POSITION.fullmatch(text)
    if found is None:
        raise InvalidInput("after", text, "the id of a piece of output, such as 1.27")
    return Position(int(found[1]), int(found[2]))


async def _output(client: JobsClient, info: JobInfo, position: Position) -> AsyncIterator[bytes]:
    news = NewsListener(client.store)
    loop = asyncio.get_running_loop()
    quiet_since = loop.time()
    try:
        yield b"retry: 1000\n\n"
        while True:
            ended = info.ended
            numbers = {attempt.fence: attempt.number for attempt in info.attempts}
            while chunks := await client.store.output(client.who, info.id, position, PAGE):
                position = Position(chunks[-1].fence, chunks[-1].number)
                views = [(ChunkView.of(one, numbers.get(one.fence, 0)), one) for one in chunks]
                yield b"".join([piece("output", view, f"{one.fence}.{one.number}") for view, one in views])
                quiet_since = loop.time()
            if ended:
                yield piece("end", {"state": info.state.value})
                return
            if loop.time() >= quiet_since + PING_EVERY:
                quiet_since = loop.time()
                yield PING
            await news.wait(POLL)
            info = await client.get(info.id)
    finally:
        news.close()
