"""Queues and flows: how jobs wait, and the settings that concern everyone's jobs."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from rota.api.answers import Answer
from rota.api.pages import Limit, Page
from rota.api.requests import Request
from rota.api.routes import Routes
from rota.api.versions import EDITS, READS, TELLS, check_match, tagged, unless_known
from rota.errors import InvalidInput
from rota.model.access import Permission
from rota.model.feedback import read_feedback
from rota.model.job import queue_name, shared
from rota.model.option_table import Span
from rota.model.rank import ageing_step
from rota.model.versions import QueueSettings, queue_version
from rota.store.admission import QueueInfo
from rota.views.admission import FlowView, QueueView

ROUTES = Routes("queues")


class PauseBody(msgspec.Struct, forbid_unknown_fields=True):
    note: str | None = None


class FeedbackBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    quantum: Span | None = None
    levels: int | None = None
    boost: Span | None = None


class QueueBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`step`: the ageing step, a duration, `strict` or `default`; `feedback`: its rule, or null to switch it off. What
    is not there stays as it is."""

    step: str | UnsetType = UNSET
    feedback: FeedbackBody | UnsetType | None = UNSET


class FlowsQuery(msgspec.Struct, forbid_unknown_fields=True):
    limit: Limit = 100


def version(info: QueueInfo) -> str:
    return queue_version(QueueSettings(**shared(info, QueueSettings)))


@ROUTES.get("/api/v1/queues", Permission.READ, "Queues that have jobs, are served, or were paused")
async def list_queues(request: Request[None, None]) -> Page[QueueView]:
    return Page([QueueView.of(info) for info in await request.limits.queues()])


@ROUTES.get("/api/v1/queues/{name}", Permission.READ, "A queue; any name is one", **READS)
async def get_queue(request: Request[None, None]) -> Answer[QueueView]:
    info = await _find(request)
    return unless_known(request, QueueView.of(info), version(info))


@ROUTES.post("/api/v1/queues/{name}/pause", Permission.OPERATE, "Stops claims of everyone's jobs in a queue", **TELLS)
async def pause_queue(request: Request[PauseBody | None, None]) -> Answer[QueueView]:
    before = await _find(request)
    note = None if request.body is None else request.body.note
    if note is None:  # the earlier note still holds
        note = before.note if before.paused_at is not None else ""
    await request.limits.pause_queue(before.name, note)
    return await _answer(request)


@ROUTES.post("/api/v1/queues/{name}/resume", Permission.OPERATE, "Ends the pause of a queue", **TELLS)
async def resume_queue(request: Request[None, None]) -> Answer[QueueView]:
    await request.limits.resume_queue(request.path["name"])
    return await _answer(request)


@ROUTES.patch("/api/v1/queues/{name}", Permission.OPERATE, "Sets the ageing step or the feedback", **EDITS)
async def set_queue(request: Request[QueueBody, None]) -> Answer[QueueView]:
    body, name = request.body, queue_name(request.path["name"])
    if body.step is UNSET and body.feedback is UNSET:
        raise InvalidInput("step and feedback", "none", "one of them, or both")
    if body.step is not UNSET:
        ageing_step(body.step)
    rule = {} if body.feedback in (UNSET, None) else _given(body.feedback)
    read_feedback(**rule)
    expected = check_match(request, version(await _find(request)))
    if body.step is not UNSET:
        await request.limits.set_step(name, body.step, expected)
        expected = None  # the first edit has the version; the second belongs to it
    if body.feedback is not UNSET:
        await request.limits.set_feedback(name, body.feedback is not None, **rule, version=expected)
    return await _answer(request)


def _given(feedback: Any) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(feedback).items() if value is not None}


async def _find(request: Request[Any, None]) -> QueueInfo:
    name = queue_name(request.path["name"])
    return next((info for info in await request.limits.queues() if info.name == name), QueueInfo(name=name))


async def _answer(request: Request[Any, None]) -> Answer[QueueView]:
    info = await _find(request)
    return tagged(QueueView.of(info), version(info))


@ROUTES.get("/api/v1/flows", Permission.READ, "Flows that have used slots of queues with feedback")
async def list_flows(request: Request[None, FlowsQuery]) -> Page[FlowView]:
    return Page([FlowView.of(info) for info in await request.limits.flows(request.query.limit)])
