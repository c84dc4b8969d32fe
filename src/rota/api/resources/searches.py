"""Conditions on jobs: the parameters of lists, and the bodies of changes of many jobs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from rota.api.job_places import JobPlace
from rota.api.pages import Cursor, Limit
from rota.clients.job_queries import BY_PLACE
from rota.clients.jobs import JobsClient
from rota.clients.searching import where_of
from rota.errors import InvalidInput, NotFound
from rota.model.error_groups import group_id
from rota.model.lifecycle import State
from rota.model.query.fields import sort
from rota.model.readers import printable
from rota.model.times import Instant, duration, instant
from rota.store.values import JobCursor, JobFilter
from rota.views.jobs import JobView
from rota.views.searches import SearchProgressView

LONGEST = 1_000
Time = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
Order = Annotated[str, msgspec.Meta(description="a field of jobs, with - for descending")]
_TEXTS = ("queue", "task", "error", "label", "schedule")
_TIMES = ("created_after", "created_before", "ended_after", "ended_before")


class DeadSearch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """All given conditions must hold. `q` is a query; `task` is a glob; `error` a part of the last error; `group` the
    id of a group of errors; `workflow` an id or a name; `older_than`: ended longer ago."""

    q: str | None = None
    queue: str | None = None
    task: str | None = None
    error: str | None = None
    group: str | None = None
    label: str | None = None
    workflow: str | None = None
    schedule: str | None = None
    older_than: str | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    ended_after: Time | None = None
    ended_before: Time | None = None


class JobSearch(DeadSearch, kw_only=True, forbid_unknown_fields=True):
    state: list[State] | None = None


class DeadGroupsQuery(DeadSearch, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 100
    cursor: Cursor | None = None


class DeadListQuery(DeadGroupsQuery, kw_only=True, forbid_unknown_fields=True):
    sort: Order | None = None


class JobListQuery(JobSearch, kw_only=True, forbid_unknown_fields=True):
    sort: Order | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class JobsPage(msgspec.Struct):
    """A search that no index helps examines a bounded number of jobs for each page, so a page may have fewer jobs than
    its limit, or none, and a `next`."""

    items: list[JobView]
    next: str | None
    progress: SearchProgressView | None


async def filter_of(search: DeadSearch, client: JobsClient, at: Instant | None = None) -> JobFilter:
    """`at`: the instant that relative times count from; None: now."""
    now = client.store.now() if at is None else at
    fields: dict[str, Any] = {}
    for name in _TEXTS:
        if (text := getattr(search, name)) is not None:
            fields[name] = printable(text, name, 1, LONGEST, f"a text of 1 to {LONGEST:,} printable characters")
    if search.group is not None:
        fields["group"] = group_id(search.group)
    for name in _TIMES:
        if (text := getattr(search, name)) is not None:
            fields[name] = instant(text, name)
    if search.older_than is not None:
        if "ended_before" in fields:
            raise InvalidInput("older_than", search.older_than, "it, or ended_before")
        fields["ended_before"] = now - duration(search.older_than, "older_than")
    if search.q is not None:
        fields["where"] = where_of(search.q, now)
    if search.workflow is not None:
        fields["workflow"] = await _workflow(search.workflow, client)
    if isinstance(search, JobSearch) and search.state is not None:
        fields["states"] = tuple(search.state)
    return JobFilter(**fields)


async def _workflow(given: str, client: JobsClient) -> str:
    part = printable(given, "workflow", 1, LONGEST, "the id or the name of a workflow")
    try:
        return await client.workflow(part)
    except NotFound:
        raise InvalidInput("workflow", part, "the id or the name of a workflow that is there") from None


def conditions_of(query: JobListQuery | DeadGroupsQuery) -> dict[str, Any]:
    """Those that a cursor is bound to."""
    given: dict[str, Any] = msgspec.to_builtins(query)
    return {name: value for name, value in given.items() if value is not None and name not in ("cursor", "limit")}


async def page_of(query: JobListQuery | DeadListQuery, client: JobsClient, **more: Any) -> JobsPage:
    """`more`: conditions of the route itself."""
    conditions = conditions_of(query)
    place = None if query.cursor is None else JobPlace.read(query.cursor, conditions)
    at = client.store.now() if place is None else place.at
    order = None if query.sort is None else sort(query.sort)
    found = msgspec.structs.replace(await filter_of(query, client, at), sort=order, limit=query.limit, **more)
    if place is not None:
        found = msgspec.structs.replace(found, after=_checked(place, found, query.cursor))
    page = await client.page(found)
    following = None if page.last is None else JobPlace.behind(page.last, at).text(conditions)
    return JobsPage(
        [JobView.of(info) for info in page.jobs],
        following,
        None if page.progress is None else SearchProgressView.of_page(page.progress),
    )


def _checked(place: JobPlace, query: JobFilter, given: object) -> JobCursor:
    """The place, if it can be one of this order."""
    cursor, field = place.cursor, query.order.field
    misplaced = cursor.ended_at is not None and field != "finished"
    if misplaced or (cursor.ended_at is None and query.by_end) or (cursor.value is not None and field in BY_PLACE):
        raise InvalidInput("cursor", given, "`next` of the page before")
    return cursor
