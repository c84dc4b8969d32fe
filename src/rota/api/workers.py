"""Routes of far-away workers: the verbs of a node over HTTP, and its line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import NoneType
from typing import Any, NamedTuple

from rota.api.answers import Answer, Stream
from rota.api.calls import OWN, check_version, stamped
from rota.api.far_workers import FarWorkers
from rota.api.requests import Request
from rota.api.routes import Route, Routes
from rota.errors import NotFound
from rota.model.access import Permission
from rota.remote import work_calls as calls

LINES = "text/plain; charset=utf-8"
ROUTES = Routes("worker")


class WorkerVerb(NamedTuple):
    carry: Callable[..., Awaitable[Any]]
    body: type[calls.Message]
    answer: Any  # its type
    summary: str


VERBS = (
    WorkerVerb(FarWorkers.register, calls.RegisterCall, NoneType, "Joins as a worker, with the tasks that it offers"),
    WorkerVerb(FarWorkers.renew, calls.RenewCall, calls.Renewed, "Renews the lease of a worker; tells what it holds"),
    WorkerVerb(FarWorkers.leave, calls.Message, NoneType, "Ends a worker; jobs that it still holds go back"),
    WorkerVerb(FarWorkers.claim, calls.ClaimCall, calls.ClaimedJobs, "Takes ready jobs; a repeat gets the same jobs"),
    WorkerVerb(FarWorkers.start, calls.AttemptsCall, calls.Starts, "Starts attempts that were claimed ahead"),
    WorkerVerb(FarWorkers.hand_back, calls.AttemptsCall, calls.Verdicts, "Returns attempts that were not started"),
    WorkerVerb(FarWorkers.finish, calls.FinishCall, calls.Verdicts, "Ends attempts"),
    WorkerVerb(FarWorkers.append_output, calls.OutputCall, calls.Verdicts, "Keeps output of running attempts"),
    WorkerVerb(FarWorkers.note, calls.NoteCall, calls.Verdicts, "Keeps progress and states of running attempts"),
    WorkerVerb(FarWorkers.parents, calls.ParentsCall, calls.Parents, "Results of the jobs before a running attempt"),
    WorkerVerb(FarWorkers.charge, calls.ChargeCall, NoneType, "Counts slot-time that flows have used"),
)


def _route(verb: WorkerVerb) -> Route:
    silent = verb.answer is NoneType
    name = verb.carry.__name__

    async def handle(request: Request[Any, Any]) -> Answer[Any]:
        check_version(request)
        answer = await verb.carry(request.desk.workers, request.grant, request.body)
        return Answer(None if silent else answer, headers=stamped(request))

    handle.__name__ = f"worker_{name}"
    return Route(
        method="POST", path=f"{calls.PATH}/{name}", permission=Permission.WORK, handler=handle, summary=verb.summary,
        tag="worker", body=verb.body, answer=None if silent else verb.answer, status=204 if silent else 200,
        problems=(426,), **OWN,
    )  # fmt: skip


ROUTES.extend(map(_route, VERBS))


@ROUTES.get(
    f"{calls.PATH}/line",
    Permission.WORK,
    "The line of a worker: wake-ups, for as long as it lives",
    media=LINES,
    problems=(404, 426),
    **OWN,
)
async def open_line(request: Request[None, calls.LineQuery]) -> Stream:
    """Lines of text: `open` with the address of the server, then letters of topics or `.` for a sign of life, and `end`
    when the server stops."""
    check_version(request)
    workers, query = request.desk.workers, request.query
    if not await workers.may_open(request.grant, query.incarnation, query.line):
        raise NotFound("worker", query.incarnation)
    return Stream(
        workers.lines.pieces(query.incarnation, query.line, calls.address_text(request.server)), LINES, stamped(request)
    )
