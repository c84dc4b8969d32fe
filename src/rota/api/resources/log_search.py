"""Searches of output: a page of the lines that fit, or all of them as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec

from rota.api.answers import Stream
from rota.api.event_feed import piece
from rota.api.line_places import LineCursor
from rota.api.pages import Cursor, Limit
from rota.api.requests import Request
from rota.api.routes import Routes
from rota.clients import line_searches
from rota.clients.jobs import JobsClient
from rota.model.access import Permission
from rota.model.query.check import LONGEST
from rota.model.query.fields import Searched
from rota.model.query.parse import parse
from rota.model.times import Instant
from rota.store.found_lines import LinePage, LineQuery
from rota.store.line_search.page import MOST_CONTEXT, MOST_LINES
from rota.views.found_lines import FoundLineView, LineProgressView

ROUTES = Routes("logs")
MOST_STREAMED = 100_000
Context = Annotated[int, msgspec.Meta(ge=0, le=MOST_CONTEXT)]


class LineSearch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`q`: a query for output; without it, all lines. `before` and `after`: lines of context."""

    q: Annotated[str, msgspec.Meta(max_length=LONGEST)] = ""
    before: Context = 0
    after: Context = 0


class LineSearchQuery(LineSearch, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 100
    cursor: Cursor | None = None


class LineStreamQuery(LineSearch, kw_only=True, forbid_unknown_fields=True):
    """The stream ends after `limit` lines."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_STREAMED)] = 1_000
    cursor: Cursor | None = None


class LineSearchPage(msgspec.Struct):
    """A page examines a bounded amount, so it may have fewer lines than its limit, or none, and a `next`."""

    items: list[FoundLineView]
    next: str | None
    progress: LineProgressView


@ROUTES.get("/api/v1/logs/search", Permission.OUTPUT, "Lines of output that fit, newest first")
async def search_output(request: Request[None, LineSearchQuery]) -> LineSearchPage:
    query, now = _read(request.query, request.jobs)
    page = await request.jobs.store.find_lines(request.jobs.who, query)
    items = [FoundLineView.of(line) for line in page.lines]
    return LineSearchPage(items, _next(page, request.query, now), LineProgressView.of_page(page.progress))


@ROUTES.get("/api/v1/logs/search/stream", Permission.OUTPUT, "Lines of output that fit, as they are found")
async def stream_search(request: Request[None, LineStreamQuery]) -> Stream:
    query, now = _read(request.query, request.jobs)
    return Stream(_found(request.jobs, query, request.query, now))


async def _found(client: JobsClient, query: LineQuery, given: LineStreamQuery, now: Instant) -> AsyncIterator[bytes]:
    """`line` for each line, `progress` after each step, and at last `end`, which says where a next search begins."""
    yield b"retry: 1000\n\n"
    step = msgspec.structs.replace(query, limit=line_searches.PAGE)
    async for page in line_searches.pages(client.store, client.who, step, most=given.limit):
        following = _next(page, given, now)
        lines = [piece("line", FoundLineView.of(line)) for line in page.lines]
        yield b"".join([*lines, piece("progress", LineProgressView.of_page(page.progress), following)])
    yield piece("end", {"next": following})


def _read(given: LineSearchQuery | LineStreamQuery, client: JobsClient) -> tuple[LineQuery, Instant]:
    """The query, and the instant that its relative times count from."""
    cursor = None if given.cursor is None else LineCursor.read(given.cursor, _conditions(given))
    now = client.store.now() if cursor is None else cursor.now
    query = LineQuery(
        where=parse(given.q, now, Searched.OUTPUT), before=given.before, after=given.after,
        place=None if cursor is None else cursor.place, limit=min(given.limit, MOST_LINES),
    )  # fmt: skip
    return query, now


def _next(page: LinePage, given: LineSearchQuery | LineStreamQuery, now: Instant) -> str | None:
    return None if page.last is None else LineCursor.before(page.last, now).text(_conditions(given))


def _conditions(given: LineSearch) -> dict[str, Any]:
    return {"q": given.q, "before": given.before, "after": given.after}
