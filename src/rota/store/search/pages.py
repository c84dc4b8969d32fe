"""Pages, counts and facets of a search, the same for both stores.

No call examines more jobs than its budget allows. A page says how far it came, and the next one goes on from there. A
count that was cut short is an estimate: as many to a time as in the part that was examined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from rota.errors import InvalidInput
from rota.model.error_groups import title_of_example
from rota.model.job import JobInfo
from rota.model.lifecycle import LIVE
from rota.model.query import evaluate
from rota.model.query.check import check
from rota.model.query.fields import Sort, check_sort
from rota.model.times import Instant
from rota.store.search.plan import HIGHEST, LOWEST, Bounds, bounds, time_of
from rota.store.search.walk import FIRST, Budget, Place, Row, Source, Walk
from rota.store.values import Facet, Facets, JobCount, JobCursor, JobFilter, JobPage, SearchProgress

MOST_SORTED = 10_000  # jobs of a search in an order that no index has
ROWS_SORTED, SECONDS_SORTED = 200_000, 2.0
ROWS_COUNTED, SECONDS_COUNTED = 100_000, 0.3
FIRST_COUNTED = 2_000
# Rows of the first step of a list that ends at a time: those from before come first (plan.AHEAD), and don't fit.
FIRST_BEFORE = 1_500
FACETS = ("state", "queue", "task", "user", "group")
MOST_FACETS = 50  # values of a field
BY_PLACE = ("id", "finished")  # orders that sources have


class Phases(NamedTuple):
    sources: list[list[Source]]
    exact: bool  # the sources decide the whole query
    listed: bool = False  # all its jobs are in a small set


class Lookup(Protocol):
    """What a store finds for one principal."""

    @property
    def monotonic(self) -> Callable[[], float]: ...

    async def phases(self, query: JobFilter, bounds: Bounds, more: Sequence[str] = ()) -> Phases:
        """The sources of the query, in its order by id or by the end. `more`: fields of queries whose values come with
        each row."""

    async def oldest(self, query: JobFilter, bounds: Bounds) -> Instant | None:
        """About when the oldest job was ordered that may have to be examined."""

    async def infos(self, ids: Sequence[str]) -> Mapping[str, JobInfo]: ...

    async def workflow_names(self, ids: Sequence[str]) -> Mapping[str, str]:
        """By the ids of the workflows."""


async def page(lookup: Lookup, query: JobFilter) -> JobPage:
    query = checked(query)
    if query.limit < 1:
        return JobPage([], None)
    found = bounds(query)
    small = found.ids is not None or found.schedule is not None or found.workflow is not None
    by_end = query.order.field == "finished"
    if (by_end and small) or query.order.field not in BY_PLACE:
        if (page := await _sorted_page(lookup, query, found)) is not None:
            return page
        if not by_end:
            expected = f"an order by id or finished, or more conditions: others sort at most {MOST_SORTED:,} jobs"
            raise InvalidInput("sort", query.order.field, expected)
    return await _page(lookup, query, found)


def checked(query: JobFilter) -> JobFilter:
    """What came over the wire is not believed. Raises InvalidInput."""
    check_sort(query.order)
    return query if query.where is None else msgspec.structs.replace(query, where=check(query.where))


async def _page(lookup: Lookup, query: JobFilter, found: Bounds) -> JobPage:
    by_end = query.order.field == "finished"
    phases = await lookup.phases(query, found)
    sources, after = _behind(phases.sources, query, by_end)
    walk = _walk(lookup, query, phases, sources, Budget(lookup.monotonic), after)
    await walk.run(query.limit, _first_step(query, found, phases))
    infos = await lookup.infos([row.id for row in walk.found])
    jobs = [infos[row.id] for row in walk.found if row.id in infos]
    if walk.over:
        return JobPage(jobs, None, SearchProgress(walk.examined, walk.examined))
    ended = by_end and walk.phases_left == len(phases.sources)  # the living come last
    last = _cursor(walk.place, ended, query.order)
    back_to = None if walk.place is None else _time(walk.place, by_end)
    of = None
    if len(walk.found) < query.limit and not by_end:
        of = _whole(walk, walk.examined, await lookup.oldest(query, found))
    return JobPage(jobs, last, SearchProgress(walk.examined, of, back_to))


def _first_step(query: JobFilter, found: Bounds, phases: Phases) -> int:
    """As many rows as a page takes, if they all fit, as far as one can tell from here."""
    ends = found.created.high is not None or found.finished.high is not None
    if ends and query.after is None and not phases.listed:
        return FIRST_BEFORE
    return query.limit if query.where is None else max(FIRST, query.limit + 1)


def _behind(sources: list[list[Source]], query: JobFilter, by_end: bool) -> tuple[list[list[Source]], Place | None]:
    """The phases that are left behind a cursor, and the place in the first of them."""
    if query.after is None:
        return sources, None
    if not by_end:
        return sources, Place(0, query.after.id)
    if query.after.ended_at is not None:
        return sources, Place(query.after.ended_at, query.after.id)
    return sources[1:], Place(0, query.after.id)


def _cursor(place: Place | None, ended: bool, order: Sort) -> JobCursor:
    if place is None:  # a phase has just ended
        return JobCursor(HIGHEST if order.descending else LOWEST)
    return JobCursor(place.id, place.value if ended else None)


def _time(place: Place, by_end: bool) -> Instant:
    return place.value if by_end and place.value else time_of(place.id)


def _whole(walk: Walk, number: int, oldest: Instant | None) -> int | None:
    """How many there are in all, if there were so many up to here, and they are spread evenly over time."""
    if oldest is None or walk.newest is None or walk.place is None:
        return None
    begun, here = time_of(walk.newest.id), time_of(walk.place.id)
    return None if begun <= here else max(number, round(number * (begun - min(oldest, here)) / (begun - here)))


def _walk(
    lookup: Lookup,
    query: JobFilter,
    phases: Phases,
    sources: list[list[Source]],
    budget: Budget,
    after: Place | None = None,
) -> Walk:
    async def confirm(rows: Sequence[Row]) -> list[Row]:
        infos = await lookup.infos([row.id for row in rows])
        names = await lookup.workflow_names([job.workflow for job in infos.values() if job.workflow is not None])
        assert query.where is not None
        return [
            row for row in rows
            if (job := infos.get(row.id)) and evaluate.fits(query.where, job, names.get(job.workflow or ""))
        ]  # fmt: skip

    return Walk(sources, query.order.descending, budget, None if phases.exact else confirm, after)


# -- orders that no index has ----------------------------------------------------------------------------------------
async def _sorted_page(lookup: Lookup, query: JobFilter, found: Bounds) -> JobPage | None:
    """None: there are too many jobs."""
    order = query.order
    plain = msgspec.structs.replace(query, sort=Sort("id", descending=True))
    phases = await lookup.phases(plain, found, (order.field,))
    walk = _walk(lookup, plain, phases, phases.sources, Budget(lookup.monotonic, ROWS_SORTED, SECONDS_SORTED))
    await walk.run(MOST_SORTED + 1)
    if not walk.over:
        return None
    rows = _in_order([(row.more[0], row.id) for row in walk.found], order)
    if query.after is not None:
        rows = _rest(rows, query.after, order)
    part = rows[: query.limit]
    infos = await lookup.infos([job for _, job in part])
    last = _behind_row(part[-1], order) if len(rows) > len(part) else None
    return JobPage([infos[job] for _, job in part if job in infos], last, SearchProgress(walk.examined, walk.examined))


def _behind_row(row: tuple[Any, str], order: Sort) -> JobCursor:
    """A cursor by the end serves both ways of reading that order."""
    value, job = row
    return JobCursor(job, ended_at=value) if order.field == "finished" else JobCursor(job, value=value)


def _in_order(rows: list[tuple[Any, str]], order: Sort) -> list[tuple[Any, str]]:
    there = sorted((row for row in rows if row[0] is not None), reverse=order.descending)
    return there + sorted((row for row in rows if row[0] is None), key=lambda row: row[1], reverse=order.descending)


def _rest(rows: list[tuple[Any, str]], after: JobCursor, order: Sort) -> list[tuple[Any, str]]:
    """Those behind the cursor, whose job may have gone, or have another value now."""
    mark = (after.ended_at if order.field == "finished" else after.value, after.id)
    try:
        marked = _in_order([*rows, mark], order)
    except TypeError:
        raise InvalidInput("cursor", after.value, f"one of an order by {order.field}") from None
    return [row for row in marked[marked.index(mark) + 1 :] if row != mark]


# -- counts ----------------------------------------------------------------------------------------------------------
class Examined(NamedTuple):
    rows: list[Row]  # that fit, as far as the budget goes
    whole: int  # how many there are in all
    exact: bool


async def counted(lookup: Lookup, query: JobFilter) -> JobCount:
    found = await examined(lookup, query, ())
    return JobCount(found.whole, found.exact)


async def facets(lookup: Lookup, query: JobFilter) -> Facets:
    found = await examined(lookup, query, FACETS)
    scale = 1 if found.exact else found.whole / max(1, len(found.rows))
    titles = await _titles(lookup, found.rows)
    fields: dict[str, list[Facet]] = {}
    for place, name in enumerate(FACETS):
        fields[name] = [
            Facet(value, round(number * scale), found.exact, titles.get(value) if name == "group" else None)
            for value, number in _most_frequent(found.rows, place)
        ]
    complete = found.exact and all(len(values) < MOST_FACETS for values in fields.values())
    return Facets(JobCount(found.whole, found.exact), fields, complete)


def _most_frequent(rows: Sequence[Row], place: int) -> list[tuple[Any, int]]:
    counts = Counter(row.more[place] for row in rows if row.more[place] is not None)
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:MOST_FACETS]


async def _titles(lookup: Lookup, rows: Sequence[Row]) -> dict[str, str]:
    """Of the groups of errors that are shown, by the newest of the jobs that fit."""
    place = FACETS.index("group")
    shown = {group for group, _ in _most_frequent(rows, place)}
    examples = {row.more[place]: row.id for row in reversed(rows) if row.more[place] in shown}
    infos = await lookup.infos([*examples.values()])
    return {group: title_of_example(infos.get(job)) for group, job in examples.items()}


async def examined(lookup: Lookup, query: JobFilter, more: Sequence[str], living: bool = False) -> Examined:
    """`more`: fields whose values come with the rows. `living`: living jobs only."""
    query = msgspec.structs.replace(checked(query), sort=Sort("id", descending=True), after=None)
    if living:
        query = msgspec.structs.replace(query, states=tuple(LIVE))
    found = bounds(query)
    phases = await lookup.phases(query, found, more)
    budget = Budget(lookup.monotonic, ROWS_COUNTED, SECONDS_COUNTED)
    walk = _walk(lookup, query, phases, phases.sources, budget)
    await walk.run(first=FIRST_COUNTED)
    if walk.over:
        return Examined(walk.found, len(walk.found), True)
    whole = _whole(walk, len(walk.found), await lookup.oldest(query, found))
    return Examined(walk.found, whole or len(walk.found), False)
