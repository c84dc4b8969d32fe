"""Conditions on jobs: the parameters of lists, and the bodies of changes of many jobs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from rota.api.pages import Cursor, Limit, cursor_of, read_cursor
from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput, NotFound
from rota.model.lifecycle import State
from rota.model.readers import printable
from rota.model.times import duration, instant
from rota.store.values import JobCursor, JobFilter

LONGEST = 1_000
Id = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Number = Annotated[int, msgspec.Meta(ge=-1, lt=1 << 62)]
Time = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
_TEXTS = ("queue", "task", "error", "group", "label", "schedule")
_TIMES = ("created_after", "created_before", "ended_after", "ended_before")


class DeadSearch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """All given conditions must hold. `task` is a glob; `error` a part of the last error; `group` the id of a group
    of errors; `workflow` an id or a name;
    `older_than`: ended longer ago."""

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


class DeadListQuery(DeadSearch, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 100
    cursor: Cursor | None = None


class JobListQuery(JobSearch, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 100
    cursor: Cursor | None = None


async def filter_of(search: DeadSearch, client: JobsClient) -> JobFilter:
    fields: dict[str, Any] = {}
    for name in _TEXTS:
        if (text := getattr(search, name)) is not None:
            fields[name] = printable(text, name, 1, LONGEST, f"a text of 1 to {LONGEST:,} printable characters")
    for name in _TIMES:
        if (text := getattr(search, name)) is not None:
            fields[name] = instant(text, name)
    if search.older_than is not None:
        if "ended_before" in fields:
            raise InvalidInput("older_than", search.older_than, "it, or ended_before")
        fields["ended_before"] = client.store.now() - duration(search.older_than, "older_than")
    if search.workflow is not None:
        part = printable(search.workflow, "workflow", 1, LONGEST, "the id or the name of a workflow")
        try:
            fields["workflow"] = await client.workflow(part)
        except NotFound:
            raise InvalidInput("workflow", part, "the id or the name of a workflow that is there") from None
    if isinstance(search, JobSearch) and search.state is not None:
        fields["states"] = tuple(search.state)
    return JobFilter(**fields)


class _Key(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    id: Id
    ended_at: Number | None


def conditions_of(query: JobListQuery | DeadListQuery) -> dict[str, Any]:
    """Those that a cursor is bound to."""
    given: dict[str, Any] = msgspec.to_builtins(query)
    return {name: value for name, value in given.items() if value is not None and name not in ("cursor", "limit")}


async def page_filter(query: JobListQuery | DeadListQuery, client: JobsClient, **more: Any) -> JobFilter:
    found = await filter_of(query, client)
    after = None
    if query.cursor is not None:
        key = read_cursor(query.cursor, _Key, conditions_of(query))
        after = JobCursor(key.id, key.ended_at)
        if (key.ended_at is None) == msgspec.structs.replace(found, **more).by_end:
            raise InvalidInput("cursor", query.cursor, "`next` of the page before")
    return msgspec.structs.replace(found, after=after, limit=query.limit, **more)


def next_of(last: JobCursor | None, query: JobListQuery | DeadListQuery) -> str | None:
    return None if last is None else cursor_of([last.id, last.ended_at], conditions_of(query))
