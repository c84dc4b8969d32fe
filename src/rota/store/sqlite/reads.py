"""Finding jobs on SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from rota.model.error_groups import ErrorGroup
from rota.model.job import JobInfo
from rota.model.lifecycle import TERMINAL, State
from rota.model.principal import Principal
from rota.model.query.fields import Sort
from rota.model.times import Instant
from rota.store.carriers import reads
from rota.store.carriers.error_groups import GroupRow, shown
from rota.store.rows import job_row
from rota.store.search import pages, prefixes
from rota.store.search import values as values_
from rota.store.search.groups import groups
from rota.store.search.pages import Phases
from rota.store.search.plain import conditions
from rota.store.search.plan import AHEAD, LATE, Bounds, time_of
from rota.store.search.statements import Statement
from rota.store.search.walk import Source
from rota.store.sqlite import job_sources as sources
from rota.store.sqlite.database import Database
from rota.store.sqlite.search_dialect import SQLITE
from rota.store.sqlite.unit import SqliteUnit
from rota.store.values import Facets, JobCount, JobFilter, JobPage

FEW = 5_000  # jobs that ended in a time are read by its index, and brought into order


class SqliteLookup:
    def __init__(self, unit: SqliteUnit, who: Principal) -> None:
        self._unit, self._db, self._who, self._sees = unit, unit.db, who, who.sees
        self._last_prefixes: tuple[Any, tuple[list[list[str]], bool]] | None = None

    @property
    def monotonic(self) -> Callable[[], float]:
        return self._db.clock.monotonic

    async def phases(self, query: JobFilter, bounds: Bounds, more: Sequence[str] = ()) -> Phases:
        shared = (self._db, query, self._owner(bounds), bounds, [SQLITE.fields[name] for name in more])
        exact = conditions(query, sources.PLAIN, SQLITE, Statement("?{}").mark).exact
        if query.order.field == "finished":
            return Phases(self._by_end(query, bounds, shared), exact)
        if self._sees is not None and not _may_own(query, self._sees):
            return Phases([[]], exact)
        if (ids := self._few(bounds)) is not None:
            return Phases([[sources.Listed(ids, *shared)]], exact, listed=True)
        return Phases([self._by_id(query, bounds, shared)], exact)

    def _owner(self, bounds: Bounds) -> str | None:
        """Whose jobs they all are, if it is known."""
        return bounds.owner if self._sees is None else self._sees

    def _by_end(self, query: JobFilter, bounds: Bounds, shared: tuple[Any, ...]) -> list[list[Source]]:
        if bounds.group is not None:
            return [[sources.ByEnd("jobs_error_group", "j.error_group IS NOT NULL", *shared)], []]
        ended: list[Source] = []
        if _may_be(query, State.FAILED):
            ended.append(sources.ByEnd("jobs_dead", "j.state = 'failed'", *shared))
        if any(_may_be(query, state) for state in TERMINAL - {State.FAILED}):
            ended.append(sources.ByEnd("jobs_ended", sources.ALL_ENDED, *shared))
        return [ended, self._living(query, bounds, shared)]

    def _by_id(self, query: JobFilter, bounds: Bounds, shared: tuple[Any, ...]) -> list[Source]:
        if bounds.running:
            return [sources.Selected(sources.RUNNING, *shared)]
        found = self._in_runs(query, bounds, shared)
        if (since := bounds.created.low) is None:
            return found
        made_up_for: Source = sources.Listed(lambda to: (
            "SELECT f.job_id AS id FROM fires f "
            f"WHERE f.at - f.fire > {LATE} AND f.at >= {to.mark(since - AHEAD)} AND f.job_id < {to.mark(bounds.lowest)}"
        ), *shared)  # fmt: skip
        return [*found, made_up_for]

    def _in_runs(self, query: JobFilter, bounds: Bounds, shared: tuple[Any, ...]) -> list[Source]:
        living = self._living(query, bounds, shared)
        if not prefixes.ended_fit(query):
            return living
        owner = self._owner(bounds)
        found, all_of = self._ended(query, owner, bounds.tasks)
        if len(found) > sources.MOST_RUNS or (owner is None and living and all_of):
            return [sources.Selected(sources.ALL, *shared)]
        return [*living, sources.Runs(sources.ENDED, found, *shared)] if found else living

    def _ended(
        self, query: JobFilter, owner: str | None, tasks: Sequence[str] | None = None
    ) -> tuple[list[list[str]], bool]:
        """The prefixes of ended jobs that may fit; and whether all may. Pages ask for them twice."""
        asked = msgspec.structs.replace(query, sort=None, after=None), owner, tasks
        if self._last_prefixes is None or self._last_prefixes[0] != asked:
            self._last_prefixes = asked, self._looked_up(query, owner, tasks)
        return self._last_prefixes[1]

    def _looked_up(
        self, query: JobFilter, owner: str | None, tasks: Sequence[str] | None
    ) -> tuple[list[list[str]], bool]:
        left_out = False

        def wanted(beginning: Sequence[str]) -> bool:
            nonlocal left_out
            may = prefixes.fits(query, prefixes.known(*map(sources.readable, beginning))) is not False
            left_out = left_out or not may
            return may

        found = list(islice(sources.runs(self._db, sources.ENDED, owner, wanted, tasks), sources.MOST_RUNS + 1))
        return found, not left_out and tasks is None

    async def prefixes_of(self, query: JobFilter) -> Iterable[Sequence[str]]:
        return [list(map(sources.readable, one)) for one in self._ended(query, self._sees)[0]]

    def _living(self, query: JobFilter, bounds: Bounds, shared: tuple[Any, ...]) -> list[Source]:
        if bounds.finished.given or not prefixes.living_fit(query):
            return []
        owners = sources.runs(
            self._db, sources.LIVING, self._owner(bounds), lambda run: _may_own(query, sources.readable(run[0]))
        )
        found = list(islice(owners, sources.MOST_RUNS + 1))
        if len(found) > sources.MOST_RUNS:
            return [sources.Selected("INDEXED BY jobs_living WHERE j.finished_at IS NULL", *shared)]
        return [sources.Runs(sources.LIVING, found, *shared)] if found else []

    def _few(self, bounds: Bounds) -> Callable[[Statement], str] | None:
        """The ids of a small set of jobs that all must be in."""
        if (ids := bounds.ids) is not None:
            return lambda to: f"SELECT value AS id FROM json_each({to.mark(sources.array(ids))})"
        if bounds.workflow is not None:
            return lambda to: (
                "SELECT m.job AS id FROM members m WHERE m.workflow IN (SELECT w.id FROM workflows w "
                f"WHERE {to.mark(bounds.workflow)} IN (w.id, w.name))"
            )
        if bounds.schedule is not None:
            return self._fires(bounds.schedule)
        if (group := bounds.group) is not None:
            return lambda to: f"SELECT g.id FROM jobs g WHERE g.error_group = {to.mark(group)}"
        if bounds.finished.low is not None and len(self._ended_in(bounds, "j.finished_at")) <= FEW:
            ended = self._ended_in(bounds, "j.id")
            return lambda to: f"SELECT value AS id FROM json_each({to.mark(sources.array(ended))})"
        return None

    def _fires(self, schedule: str) -> Callable[[Statement], str]:
        everyone = """WITH RECURSIVE o(owner) AS (
            SELECT min(owner) FROM fires
            UNION ALL SELECT (SELECT min(f.owner) FROM fires f WHERE f.owner > o.owner) FROM o WHERE o.owner IS NOT NULL
        ) SELECT owner FROM o"""
        return lambda to: (
            "SELECT f.job_id AS id FROM fires f WHERE f.owner IN "
            f"({everyone if self._sees is None else to.mark(self._sees)}) AND f.name = {to.mark(schedule)}"
        )

    def _ended_in(self, bounds: Bounds, column: str) -> list[Any]:
        """Of the jobs that ended in this time; FEW + 1, if there are more. The index alone has the ends."""
        low, high = bounds.finished
        found: list[Any] = []
        for index, rows in (("jobs_dead", "j.state = 'failed'"), ("jobs_ended", sources.ALL_ENDED)):
            text = (
                f"SELECT {column} FROM jobs j INDEXED BY {index} WHERE ({rows}) AND j.finished_at >= ?1 "
                "AND j.finished_at <= ?2 LIMIT ?3"
            )
            most = (1 << 63) - 1
            found += [
                value for (value,) in self._db.connection.execute(text, (low, most if high is None else high, FEW + 1))
            ]
        return found

    async def oldest(self, query: JobFilter, bounds: Bounds) -> Instant | None:
        (phase,) = (await self.phases(_oldest_first(query), bounds)).sources
        ids = [row.id for source in phase for row in (await source.read(None, 1)).rows]
        return time_of(min(ids)) if ids else None

    async def infos(self, ids: Sequence[str]) -> Mapping[str, JobInfo]:
        return await _infos(self._unit, self._who, ids) if ids else {}

    async def workflow_names(self, ids: Sequence[str]) -> Mapping[str, str]:
        return dict(await self._unit.rows("workflow_names", ids=ids)) if ids else {}


def _oldest_first(query: JobFilter) -> JobFilter:
    return msgspec.structs.replace(query, sort=Sort("id"), after=None)


def _may_be(query: JobFilter, state: State) -> bool:
    return prefixes.fits(query, {"state": state.value}) is not False


def _may_own(query: JobFilter, owner: str) -> bool:
    return prefixes.fits(query, prefixes.known(owner)) is not False


async def get_many(unit: SqliteUnit, who: Principal, ids: Sequence[str]) -> list[JobInfo | None]:
    return [*map((await _infos(unit, who, ids)).get, ids)]


async def page(unit: SqliteUnit, who: Principal, query: JobFilter) -> JobPage:
    return await pages.page(SqliteLookup(unit, who), query)


async def counted(unit: SqliteUnit, who: Principal, query: JobFilter) -> JobCount:
    return await pages.counted(SqliteLookup(unit, who), query)


async def facets(unit: SqliteUnit, who: Principal, query: JobFilter) -> Facets:
    return await pages.facets(SqliteLookup(unit, who), query)


async def values(unit: SqliteUnit, who: Principal, field: str, prefix: str, limit: int) -> list[str]:
    return await values_.values(unit, SqliteLookup(unit, who), who.sees, field, prefix, limit)


def count(db: Database, who: Principal, query: JobFilter) -> int:
    statement = Statement("?{}")
    fits = conditions(query, sources.PLAIN, SQLITE, statement.mark)
    own = "" if who.sees is None else f"j.owner = {statement.mark(who.sees)} AND "
    ((number,),) = db.connection.execute(f"SELECT count(*) FROM jobs j WHERE {own}{fits.text}", statement.values)
    return int(number)


async def error_groups(unit: SqliteUnit, who: Principal, query: JobFilter) -> list[ErrorGroup]:
    statement = Statement("?{}")
    text = groups(query, who.sees, sources.PLAIN, SQLITE, "jobs j WHERE j.state = 'failed'", statement)
    found = [GroupRow(*row) for row in unit.db.found(text, statement.values)]
    return shown(found, await _infos(unit, who, [row.example for row in found]))


def resolve(db: Database, who: Principal, part: str) -> list[str]:
    found = db.rows("ids_beginning", low=part, high=part + "\x7f", sees=who.sees)
    return [job for (job,) in found or db.rows("ids_ending", tail=part, sees=who.sees)]


async def _infos(unit: SqliteUnit, who: Principal, ids: Sequence[str]) -> dict[str, JobInfo]:
    rows = map(job_row, await unit.rows("job_rows", ids=ids, sees=who.sees))
    return await reads.infos(unit, {row["id"]: row for row in rows})
