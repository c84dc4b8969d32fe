"""`JobQuery`: jobs by what is known of them, read in pages when it is used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from rota.clients import job_queries
from rota.clients.job_queries import Change, Changes
from rota.clients.jobs import JobsClient
from rota.clients.searching import where_of
from rota.errors import InvalidInput
from rota.handles.job import Job
from rota.handles.schedule import Schedule
from rota.handles.task import Task
from rota.handles.workflow import Workflow
from rota.model.error_groups import ErrorGroup, group_id
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.query.fields import sort as read_sort
from rota.model.times import instant
from rota.store.values import Facets, JobCount, JobFilter, JobPage

if TYPE_CHECKING:
    from rota.app_core import AppCore

Time = datetime | str
DEAD = JobFilter(states=(State.FAILED,))  # the dead letters
Infos = list[JobInfo]  # the name `list` is taken in JobQuery
Groups = list[ErrorGroup]


class DeadConditions(TypedDict, total=False):
    """The conditions of `app.dead(...)`; all that are given must hold, and None is not given."""

    ids: Iterable[str | Job[Any] | JobInfo] | None
    task: str | Task[..., Any] | None
    queue: str | None
    error: str | None
    group: str | None
    label: str | None
    workflow: str | Workflow | None
    schedule: str | Schedule | None
    created_after: Time | None
    created_before: Time | None
    ended_after: Time | None
    ended_before: Time | None


class JobConditions(DeadConditions, total=False):
    """The conditions of `app.jobs(...)`."""

    state: State | str | Iterable[State | str] | None


class JobQuery:
    """Jobs that fit some conditions. Nothing is read before it is iterated, counted or changed, and each use reads
    anew. Newest first, dead letters in the order of their ends, unless `sort` gives another order; it is the order of
    what is read, and counts, groups and changes don't depend on it."""

    def __init__(
        self, app: AppCore, query: JobFilter, text: str | None, sort: str | None, conditions: DeadConditions
    ) -> None:
        """`text`: a query. Its relative times count from each use; reading it here only refuses a wrong one."""
        where = None if text is None else where_of(text, app.clock.now())
        self._app, self._text, self._sort = app, None if where is None else text, sort
        self._filter = _sorted(_filter(query, conditions), sort)
        if where is not None and self._filter.where is not None:
            raise InvalidInput("query", text, "no second query")
        self._all_dead = query is DEAD and where is None and all(given is None for given in conditions.values())

    def __repr__(self) -> str:
        fields = {name: getattr(self._filter, name) for name in self._filter.__struct_fields__ if name != "limit"}
        fields["sort"] = self._sort or fields["sort"]
        text = [] if self._text is None else [repr(self._text)]
        given = [f"{name}={value!r}" for name, value in fields.items() if value is not None]
        return f"JobQuery({', '.join(text + given)})"

    async def __aiter__(self) -> AsyncIterator[JobInfo]:
        client, query = await self._ready()
        async for page in job_queries.pages(client, query):
            for info in page:
                yield info

    async def list(self, limit: int = 100) -> Infos:
        """The first jobs, at most `limit`."""
        most = _limit(limit)
        client, query = await self._ready()
        found: Infos = []
        async for page in job_queries.pages(client, query, most):
            found += page
            if len(found) >= most:
                break
        return found[:most]

    async def first(self) -> JobInfo | None:
        return next(iter(await self.list(1)), None)

    async def count(self) -> int:
        """Their number. All are looked at, so it may take long."""
        client, query = await self._ready()
        return await client.count(query)

    async def counted(self) -> JobCount:
        """Their number within a moment: an estimate, and marked so, if they are too many."""
        client, query = await self._ready()
        return await client.counted(query)

    async def facets(self) -> Facets:
        """Their numbers by state, queue, task and user; estimates, and marked so, if they are too many."""
        client, query = await self._ready()
        return await client.facets(query)

    async def groups(self, limit: int = 100) -> Groups:
        """The groups of errors of the dead letters among them, last seen first."""
        client, query = await self._ready()
        return await client.error_groups(msgspec.structs.replace(query, limit=_limit(limit)))

    async def cancel(self, reason: str = "cancelled by its user") -> Changes:
        """Ends those that wait, and asks the nodes of running ones to stop them."""
        return await self._change(lambda client: job_queries.cancelling(client, reason))

    async def retry(self) -> Changes:
        """Runs those again that failed or were cancelled, and at once those that wait for their time."""
        return await self._change(job_queries.retrying)

    async def replay(self) -> Changes:
        """Runs those again that failed or were cancelled."""
        return await self._change(job_queries.replaying)

    async def purge(self) -> Changes:
        """Deletes those that have ended, with their history."""
        return await self._change(job_queries.purging)

    async def reprioritise(self, priority: int) -> Changes:
        """Gives those that wait another priority."""
        return await self._change(lambda client: job_queries.reprioritising(client, priority))

    async def _change(self, make: Callable[[JobsClient], Change]) -> Changes:
        if self._all_dead:
            expected = "at least one condition; app.jobs(state='failed') has all dead letters"
            raise InvalidInput("change many jobs", "no condition", expected)
        client, query = await self._ready()
        steps = [Changes(), *[step async for step in job_queries.changes(client, query, make(client))]]
        return steps[-1]

    async def _ready(self) -> tuple[JobsClient, JobFilter]:
        """The filter with the condition of the text, whose relative times count from now, and with the id of a workflow
        that was named."""
        client, query = await self._app.client(), self._filter
        if self._text is not None:
            query = msgspec.structs.replace(query, where=where_of(self._text, client.store.now()))
        if query.workflow is not None:
            query = msgspec.structs.replace(query, workflow=await client.workflow(query.workflow))
        return client, query

    # The sync face: the same calls for code that has no event loop.

    def __iter__(self) -> Iterator[JobInfo]:
        query: JobFilter | None = None
        while query is None or query.after is not None:
            page, query = self._app.sync(self._page(query))
            yield from page.jobs

    async def _page(self, query: JobFilter | None) -> tuple[JobPage, JobFilter]:
        client = await self._app.client()
        if query is None:
            query = (await self._ready())[1]
            query = msgspec.structs.replace(query, limit=job_queries.page_size(query))
        page = await client.page(query)
        return page, msgspec.structs.replace(query, after=page.last)

    def list_sync(self, limit: int = 100) -> Infos:
        return self._app.sync(self.list(limit))

    def first_sync(self) -> JobInfo | None:
        return self._app.sync(self.first())

    def count_sync(self) -> int:
        return self._app.sync(self.count())

    def counted_sync(self) -> JobCount:
        return self._app.sync(self.counted())

    def facets_sync(self) -> Facets:
        return self._app.sync(self.facets())

    def groups_sync(self, limit: int = 100) -> Groups:
        return self._app.sync(self.groups(limit))

    def cancel_sync(self, reason: str = "cancelled by its user") -> Changes:
        return self._app.sync(self.cancel(reason))

    def retry_sync(self) -> Changes:
        return self._app.sync(self.retry())

    def replay_sync(self) -> Changes:
        return self._app.sync(self.replay())

    def purge_sync(self) -> Changes:
        return self._app.sync(self.purge())

    def reprioritise_sync(self, priority: int) -> Changes:
        return self._app.sync(self.reprioritise(priority))


def _filter(query: object, conditions: Mapping[str, object]) -> JobFilter:
    """The query with more conditions. None of them may be in it already: which one counts would be a guess."""
    if not isinstance(query, JobFilter):
        raise InvalidInput("jobs", query, "a query, or conditions by name, as in app.jobs(state='failed')")
    fields: dict[str, Any] = {}
    for name, given in conditions.items():
        field = _field(name, given)
        if name not in _READERS:
            raise InvalidInput("condition", name, f"one of {', '.join(_READERS)}")
        if given is not None and getattr(query, field) is not None:
            had = getattr(query, field)
            shown = " or ".join(had) if isinstance(had, tuple) else had
            raise InvalidInput(name, given, f"no second condition on {name}: the query has {shown}")
        if given is not None:
            fields[field] = _READERS[name](given, name)
    return msgspec.structs.replace(query, **fields)


def _sorted(query: JobFilter, sort: str | None) -> JobFilter:
    if sort is None:
        return query
    if query.sort is not None:
        raise InvalidInput("sort", sort, f"no second order: the query has {query.sort.field}")
    return msgspec.structs.replace(query, sort=read_sort(sort))


def _field(condition: str, given: object) -> str:
    """The field of JobFilter. A task also has the jobs that wait under its former names."""
    if condition == "task" and isinstance(given, Task):
        return "tasks"
    return "states" if condition == "state" else condition


def _text(given: object, what: str) -> str:
    if isinstance(given, str) and given:
        try:
            given.encode()
            return given
        except UnicodeEncodeError:
            pass
    raise InvalidInput(what, given, "a text in UTF-8, not empty")


def _limit(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise InvalidInput("limit", given, "a whole number from 1")
    return given


def _states(given: object, what: str) -> tuple[State, ...]:
    many: list[Any] = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    try:
        return tuple(State(one) for one in many)
    except ValueError:
        raise InvalidInput(what, given, f"one or several of {', '.join(State)}") from None


def _ids(given: object, what: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInput(what, given, "a list of ids")
    return tuple(_text(one.id if isinstance(one, Job | JobInfo) else one, what) for one in given)


def _task(given: object, what: str) -> str | tuple[str, ...]:
    return (given.name, *given._definition.aliases) if isinstance(given, Task) else _text(given, what)


def _workflow(given: object, what: str) -> str:
    return given.id if isinstance(given, Workflow) else _text(given, what)


def _schedule(given: object, what: str) -> str:
    return given.name if isinstance(given, Schedule) else _text(given, what)


_READERS: dict[str, Callable[[object, str], object]] = {
    "ids": _ids, "state": _states, "task": _task, "queue": _text, "error": _text, "group": group_id, "label": _text,
    "workflow": _workflow, "schedule": _schedule, "created_after": instant, "created_before": instant,
    "ended_after": instant, "ended_before": instant,
}  # fmt: skip
