"""Finding jobs on PostgreSQL; events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rota.model.error_groups import ErrorGroup
from rota.model.job import JobInfo
from rota.model.lifecycle import TERMINAL, State
from rota.model.principal import Principal
from rota.model.times import DAY, SECOND, Instant
from rota.store.carriers import reads
from rota.store.carriers.error_groups import GroupRow, shown
from rota.store.columns import SHOWN
from rota.store.postgres import job_sources as sources
from rota.store.postgres.database import Unit
from rota.store.postgres.encoding import clean, id_range, ids_only
from rota.store.postgres.job_sources import Table
from rota.store.postgres.search_dialect import ENDED, LIVING
from rota.store.postgres.session import lock_number
from rota.store.rows import AttemptRow, JobRow, job_row
from rota.store.search import pages, prefixes
from rota.store.search import values as values_
from rota.store.search.groups import groups
from rota.store.search.pages import Phases
from rota.store.search.plain import conditions
from rota.store.search.plan import AHEAD, HIGHEST, LATE, Bounds, bounds, id_at, time_of
from rota.store.search.prefixes import Prefix
from rota.store.search.statements import Statement
from rota.store.search.walk import Part, Place, Source
from rota.store.values import Facets, JobCount, JobFilter, JobPage, OutboxEvent, OutboxSpan

FEW = 5_000  # jobs that ended in a time are read by its index, and brought into order
# Prefixes of a partition, and runs of it that are read. With more, all its jobs are examined.
MOST_PREFIXES, MOST_RUNS = 1_500, 500
BEFORE_TASK = Prefix._fields[:-1]
ALL_COLUMNS = Prefix._fields
# Steady plans, whatever the server believes of a table. One snapshot, and no partition is dropped meanwhile.
_SEARCHING = """SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; LOCK TABLE {schema}.history IN ACCESS SHARE MODE;
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off"""


class PostgresLookup:
    def __init__(self, unit: Unit, who: Principal) -> None:
        self._unit, self._who, self._sees = unit, who, who.sees
        self._history: list[Table] | None = None
        self._searchable: set[str] = set()
        self._lowest: dict[str, str] = {}

    @property
    def monotonic(self) -> Callable[[], float]:
        return self._unit.database.clock.monotonic

    async def phases(self, query: JobFilter, bounds: Bounds, more: Sequence[str] = ()) -> Phases:
        if self._history is None:
            await self._begin()
        shared = (self._unit, query, self._owner(bounds), bounds, more)
        exact = conditions(query, sources.PLAIN, LIVING, Statement("${}").mark).exact
        if query.order.field == "finished":
            return Phases([[*self._by_end(query, shared)], self._living(query, bounds, shared)], exact)
        if self._sees is not None and prefixes.fits(query, {"user": self._sees}) is False:
            return Phases([[]], exact)
        if (ids := await self._few(bounds)) is not None:
            return Phases([[sources.Listed(ids, *shared)]], exact, listed=True)
        return Phases([await self._by_id(query, bounds, shared)], exact)

    def _owner(self, bounds: Bounds) -> str | None:
        """Whose jobs they all are, if it is known."""
        return self._sees if self._sees is not None or not _stored(bounds.owner) else bounds.owner

    async def _begin(self) -> None:
        await self._unit.begin()
        await self._unit.connection.execute(_SEARCHING.format(schema=self._unit.database.schema))
        rows = await self._unit.rows("search_tables")
        tables = [_table(name, self._unit.database.now()) for name, _ in rows]
        self._searchable = {f"rota.{name}" for name, indexed in rows if indexed}
        self._lowest = await self._lowest_ids(tables)
        self._history = [one for one in tables if one.name in self._lowest]

    async def _lowest_ids(self, tables: Sequence[Table]) -> dict[str, str]:
        """By table, unless it is empty. Of a day that is over it never gets lower."""
        known = self._unit.database.lowest_ids
        if lacking := [one for one in tables if one.name not in known]:
            parts = (f"(SELECT {place}, id FROM {one.name} ORDER BY id LIMIT 1)" for place, one in enumerate(lacking))
            rows = await sources.fetched(self._unit, " UNION ALL ".join(parts), Statement("${}"))
            found = {lacking[place].name: str(lowest) for place, lowest in rows}
            known.update({one.name: found[one.name] for one in lacking if one.settled and one.name in found})
        else:
            found = {}
        return {one.name: lowest for one in tables if (lowest := known.get(one.name) or found.get(one.name))}

    def _by_end(self, query: JobFilter, shared: tuple[Any, ...]) -> Iterator[Source]:
        failed = prefixes.fits(query, {"state": State.FAILED.value}) is not False
        others = any(prefixes.fits(query, {"state": state.value}) is not False for state in TERMINAL - {State.FAILED})
        if failed or others:
            yield sources.ByEnd(None if failed and others else failed, *shared)

    async def _by_id(self, query: JobFilter, bounds: Bounds, shared: tuple[Any, ...]) -> list[Source]:
        if bounds.running:
            return [sources.Selected(sources.RUNNING, False, *shared)]
        found = self._living(query, bounds, shared)
        if prefixes.ended_fit(query):
            for table in self._history or ():
                if not _outside(table, bounds) and self._lowest[table.name] <= bounds.highest:
                    found.append(InPartition(self, table, self._lowest[table.name], shared))
        if (since := bounds.created.low) is not None:
            found.append(sources.Listed(lambda to: (
                "SELECT f.job_id AS id FROM rota.fires f "
                f"WHERE f.at - f.fire > {LATE} AND f.at >= {to.mark(since - AHEAD)} "
                f"AND f.job_id < {to.mark(bounds.lowest)}::uuid"
            ), *shared))  # fmt: skip
        return found

    def _living(self, query: JobFilter, bounds: Bounds, shared: tuple[Any, ...]) -> list[Source]:
        if bounds.finished.given or not prefixes.living_fit(query):
            return []
        return [sources.Selected(Table("rota.jobs"), False, *shared)]

    async def prefixes(self, table: Table, query: JobFilter, bounds: Bounds) -> list[tuple[str, ...]] | None:
        """Those of the partition that may fit; None: all rows of it are to be examined. Tasks that are given are not
        looked up; they may have no jobs."""
        if table.name not in self._searchable:
            return None
        owner, tasks = self._owner(bounds), bounds.tasks
        tasks = tasks if tasks is not None and all(map(_stored, tasks)) else None
        found = await self._all_prefixes(table, owner, ALL_COLUMNS if tasks is None else BEFORE_TASK)
        all_of = found if tasks is None else [(*one, task) for one in found for task in tasks]
        chosen = [one for one in all_of if prefixes.fits(query, prefixes.known(*one)) is not False]
        if len(all_of) > MOST_PREFIXES or len(chosen) > MOST_RUNS or (owner is None and len(chosen) == len(all_of)):
            return None
        return chosen

    async def _all_prefixes(self, table: Table, owner: str | None, columns: Sequence[str]) -> list[tuple[str, ...]]:
        known = self._unit.database.job_prefixes
        if (all_of := known.get((table.name, owner, len(columns)))) is None:
            all_of = await sources.prefixes(self._unit, table, owner, MOST_PREFIXES + 1, columns)
            if table.settled:
                known[table.name, owner, len(columns)] = all_of
        return all_of

    async def prefixes_of(self, query: JobFilter) -> Iterable[Sequence[str]]:
        if self._history is None:
            await self._begin()
        found: set[tuple[str, ...]] = set()
        for table in self._history or ():
            if table.name in self._searchable:
                found.update(await self._all_prefixes(table, self._sees, ALL_COLUMNS))
        return found

    async def _few(self, bounds: Bounds) -> Callable[[Statement], str] | None:
        """The ids of a small set of jobs that all must be in."""
        if bounds.ids is not None:
            ids = ids_only(bounds.ids)
            return lambda to: f"SELECT unnest({to.mark(ids)}::uuid[]) AS id"
        if (flow := bounds.workflow) is not None:
            return lambda to: (
                "SELECT m.job AS id FROM rota.members m WHERE m.workflow IN (SELECT w.id FROM rota.workflows w "
                f"WHERE w.name = {to.mark(flow)} OR w.id = ANY ({to.mark(ids_only([flow]))}::uuid[]))"
            )
        if bounds.schedule is not None:
            return self._fires(bounds.schedule)
        if (group := bounds.group) is not None:
            return lambda to: f"SELECT g.id FROM rota.history g WHERE g.lasting AND g.error_group = {to.mark(group)}"
        if bounds.finished.low is not None and len(await self._ended_in(bounds, "j.finished_at")) <= FEW:
            ended = await self._ended_in(bounds, "j.id")
            return lambda to: f"SELECT unnest({to.mark(ended)}::uuid[]) AS id"
        return None

    def _fires(self, schedule: str) -> Callable[[Statement], str]:
        everyone = """WITH RECURSIVE o(owner) AS (
            SELECT min(f.owner) FROM rota.fires f
            UNION ALL
            SELECT (SELECT min(f.owner) FROM rota.fires f WHERE f.owner > o.owner) FROM o WHERE o.owner IS NOT NULL
        ) SELECT owner FROM o"""
        return lambda to: (
            "SELECT f.job_id AS id FROM rota.fires f WHERE f.owner IN "
            f"({everyone if self._sees is None else to.mark(self._sees)}) AND f.name = {to.mark(schedule)}"
        )

    async def _ended_in(self, bounds: Bounds, column: str) -> list[Any]:
        """Of the jobs that ended in this time, whoever has them; FEW + 1, if there are more. The index alone has the
        ends."""
        statement = Statement("${}")
        low, high = bounds.finished
        text = f"SELECT {column} FROM rota.history j WHERE j.finished_at >= {statement.mark(low)}"
        text += "" if high is None else f" AND j.finished_at <= {statement.mark(high)}"
        rows = await sources.fetched(self._unit, f"{text} LIMIT {statement.mark(FEW + 1)}", statement)
        return [value for (value,) in rows]

    async def oldest(self, query: JobFilter, bounds: Bounds) -> Instant | None:
        """By the oldest day that is kept: jobs of a day were mostly ordered on it."""
        days = [time_of(one.top) - AHEAD - DAY for one in self._history or () if one.top < HIGHEST]
        return min(days, default=None)

    async def infos(self, ids: Sequence[str]) -> Mapping[str, JobInfo]:
        return await _infos(self._unit, self._who, ids)

    async def workflow_names(self, ids: Sequence[str]) -> Mapping[str, str]:
        return dict(await self._unit.rows("workflow_names", ids=ids)) if ids else {}


class InPartition:
    """The ended jobs of a partition; its prefixes are looked for when it is first read."""

    def __init__(self, lookup: PostgresLookup, table: Table, lowest: str, shared: tuple[Any, ...]) -> None:
        self._lookup, self._table, self._shared, self.top = lookup, table, shared, table.top
        self._lowest, self._descending = lowest, shared[1].order.descending
        self._source: Source | None = None
        self._empty = False

    async def read(self, after: Place | None, count: int) -> Part:
        if after is not None and self._descending and after.id <= self._lowest:
            return Part([], None)
        if self._source is None and not self._empty:
            chosen = await self._lookup.prefixes(self._table, self._shared[1], self._shared[3])
            if chosen is None:
                self._source = sources.Selected(self._table, True, *self._shared)
            elif chosen:
                self._source = sources.Runs(self._table, chosen, *self._shared)
            self._empty = self._source is None
        return Part([], None) if self._source is None else await self._source.read(after, count)


def _stored(text: str | None) -> bool:
    """Whether such a text may be in the database as it is."""
    return clean(text) == text


def _table(name: str, now: Instant) -> Table:
    day = name.removeprefix("history_")
    if not day.isdigit():
        return Table(f"rota.{name}")
    begun = round(datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC).timestamp() * SECOND)
    return Table(f"rota.{name}", id_at(begun + DAY + AHEAD), settled=begun + 2 * DAY < now)


def _outside(table: Table, bounds: Bounds) -> bool:
    """No job of the partition ended in the time that is wanted, or was ordered late enough."""
    if table.top == HIGHEST:
        return False
    end = time_of(table.top) - AHEAD
    low, high = bounds.finished
    return table.top <= bounds.lowest or (low is not None and end <= low) or (high is not None and end - DAY > high)


async def get_many(unit: Unit, who: Principal, ids: Sequence[str]) -> list[JobInfo | None]:
    return [*map((await _infos(unit, who, ids_only(ids))).get, ids)]


async def page(unit: Unit, who: Principal, query: JobFilter) -> JobPage:
    return await pages.page(PostgresLookup(unit, who), query)


async def counted(unit: Unit, who: Principal, query: JobFilter) -> JobCount:
    return await pages.counted(PostgresLookup(unit, who), query)


async def facets(unit: Unit, who: Principal, query: JobFilter) -> Facets:
    return await pages.facets(PostgresLookup(unit, who), query)


async def values(unit: Unit, who: Principal, field: str, prefix: str, limit: int) -> list[str]:
    return await values_.values(unit, PostgresLookup(unit, who), who.sees, field, prefix, limit)


async def count(unit: Unit, who: Principal, query: JobFilter) -> int:
    shared = (unit, query, who.sees, bounds(query), ())
    return sum([await sources.number(ended, *shared) for ended in _tables(query)])


def _tables(query: JobFilter) -> list[bool]:
    """Whether ended jobs, and living ones, may fit."""
    living = prefixes.living_fit(query) and not bounds(query).finished.given
    return [ended for ended, wanted in ((False, living), (True, prefixes.ended_fit(query))) if wanted]


async def error_groups(unit: Unit, who: Principal, query: JobFilter) -> list[ErrorGroup]:
    statement = Statement("${}")
    text = groups(query, who.sees, sources.OF_ENDED, ENDED, "rota.history j WHERE j.lasting", statement)
    found = [GroupRow(*row) for row in await sources.fetched(unit, text, statement)]
    return shown(found, await _infos(unit, who, [row.example for row in found]))


async def resolve(unit: Unit, who: Principal, part: str) -> list[str]:
    found: list[Any] = []
    if bounds := id_range(part):
        found = await unit.rows("ids_beginning", low=bounds[0], high=bounds[1], sees=who.sees)
    return [job for (job,) in found or await unit.rows("ids_ending", tail=part, sees=who.sees)]


async def _infos(unit: Unit, who: Principal, ids: Sequence[str]) -> dict[str, JobInfo]:
    """Reads live jobs, then ended ones: a job that ends in between is found by the second read. A job that is replayed
    in between is found by a third."""
    if not ids:
        return {}
    last: dict[str, AttemptRow] = {}
    rows = await _live(unit, who, ids)
    if len(rows) < len(ids):
        rows |= await _ended(unit, who, ids, last)
    if len(rows) < len(ids):
        rows |= await _live(unit, who, ids)
    return await reads.infos(unit, rows, last)


async def _live(unit: Unit, who: Principal, ids: Sequence[str]) -> dict[str, JobRow]:
    return {row["id"]: row for row in map(job_row, await unit.rows("job_rows", ids=ids, sees=who.sees))}


async def _ended(unit: Unit, who: Principal, ids: Sequence[str], last: dict[str, AttemptRow]) -> dict[str, JobRow]:
    rows: dict[str, JobRow] = {}
    for row in await unit.rows("history_rows", ids=ids, sees=who.sees):
        job = job_row(row[: len(SHOWN)])
        rows[job["id"]] = job
        if row["outcome"] is not None and job["started_at"] is not None:
            last[job["id"]] = AttemptRow(*row[len(SHOWN) :])
    return rows


async def events(unit: Unit, who: Principal, after: int, limit: int) -> list[OutboxEvent]:
    await number_events(unit)
    return await reads.events(unit, who, after, limit)


async def outbox_span(unit: Unit) -> OutboxSpan:
    await number_events(unit)
    return await reads.outbox_span(unit)


async def writers_of_jobs(unit: Unit) -> set[str]:
    """Open transactions that may have looked at the watches: they insert or start jobs."""
    return {name for (name,) in await unit.rows("writers_of_jobs")}


async def number_events(unit: Unit) -> None:
    """Gives positions to new events."""
    if await unit.value("any_unread"):
        await unit.begin()
        await unit.value("lock_number", number=lock_number(unit.database.schema, "outbox"))
        await unit.run("number_events")
