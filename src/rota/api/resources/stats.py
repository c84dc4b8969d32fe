"""Statistics: counts, rates and latencies of jobs, and their course."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rota.api.pages import Page
from rota.api.requests import Request
from rota.api.routes import Routes
from rota.model.access import Permission
from rota.model.statistics import History, QueueStatistics, Statistics, window

ROUTES = Routes("statistics")
Span = Annotated[str, msgspec.Meta(max_length=50, description="a duration such as 15m, 1h or 7d")]
Name = Annotated[str, msgspec.Meta(max_length=1_000)]


class WindowQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`since`: how far to look back; `mine`: only jobs of the caller, also for operators."""

    since: Span = "1h"
    queue: Name | None = None
    task: Name | None = None
    mine: bool = False


class HistoryQuery(WindowQuery, kw_only=True, forbid_unknown_fields=True):
    """`step`: the length of a bucket, in whole minutes; it fits the window by itself."""

    step: Span | None = None


async def _statistics(request: Request[None, WindowQuery]) -> Statistics:
    query = request.query
    asked = window(query.since, None, query.queue, query.task, query.mine)
    return await request.desk.store.statistics(request.principal, asked)


@ROUTES.get("/api/v1/stats", Permission.READ, "Counts, rates and latencies of jobs, in total and by queue")
async def get_statistics(request: Request[None, WindowQuery]) -> Statistics:
    return await _statistics(request)


@ROUTES.get("/api/v1/stats/queues", Permission.READ, "Counts, rates and latencies by queue")
async def list_queue_statistics(request: Request[None, WindowQuery]) -> Page[QueueStatistics]:
    return Page((await _statistics(request)).queues)


@ROUTES.get("/api/v1/stats/history", Permission.READ, "Jobs in buckets of time, oldest first")
async def get_history(request: Request[None, HistoryQuery]) -> History:
    query = request.query
    asked = window(query.since, query.step, query.queue, query.task, query.mine)
    return await request.desk.store.history(request.principal, asked)
