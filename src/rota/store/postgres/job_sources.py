"""The sources of a search for jobs on PostgreSQL.

Ended jobs lie in a partition per day, each with its own part of the index. A job was ordered before it ended, so no id
in a partition is much younger than its day, and a search for the newest reads the partitions of the last days only. In
a partition the entries of the index with the same first columns are a *run*, in the order of the ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from rota.store.postgres.database import Unit
from rota.store.postgres.encoding import glob, ids_only
from rota.store.postgres.search_dialect import ENDED, LIVING
from rota.store.search.plain import Plain, conditions
from rota.store.search.plan import HIGHEST, LOWEST, Bounds
from rota.store.search.statements import Statement
from rota.store.search.walk import Part, Place, Row, share
from rota.store.values import JobFilter

_IN_SCHEMA = re.compile(r"\brota\.(?=[a-z])")
PLAIN = Plain(
    {
        "ids": "j.id = ANY ({}::uuid[])",
        "task": "j.task ~ {}",
        "tasks": "j.task = ANY ({}::text[])",
        "error": "position({}::text IN j.reason) > 0",
        "label": "coalesce(j.requirements::jsonb -> 'labels' ? {}, false)",
        "schedule": "j.id IN (SELECT f.job_id FROM rota.fires f WHERE f.owner = j.owner AND f.name = {})",
        "group": "j.lasting AND j.error_group = {}",
        "workflow": "j.id IN (SELECT m.job FROM rota.members m WHERE m.workflow = ANY ({}::uuid[]))",
    },
    {"ids": ids_only, "task": glob, "workflow": lambda workflow: ids_only([workflow])},
)
OF_ENDED = Plain(
    {**PLAIN.conditions, "ended_after": "j.finished_at >= {}", "ended_before": "j.finished_at < {}"}, PLAIN.values
)
_NEVER = "false AND {}::bigint > 0"
_OF_LIVING = Plain(
    {**PLAIN.conditions, "ended_after": _NEVER, "ended_before": _NEVER, "group": "false AND {}::text IS NULL"},
    PLAIN.values,
)


class Table(NamedTuple):
    name: str  # as the text of a statement names it
    top: str = HIGHEST  # all its ids are lower
    settled: bool = False  # nothing is added to it any more


class Reading:
    """What all sources of one search share."""

    def __init__(self, unit: Unit, query: JobFilter, sees: str | None, bounds: Bounds, more: Sequence[str]) -> None:
        self.unit, self.query, self.sees, self.bounds, self._more = unit, query, sees, bounds, more
        self.descending = query.order.descending

    def begun(self, statement: Statement, ended: bool, value: str = "0::bigint") -> str:
        """The columns of a row."""
        dialect = ENDED if ended else LIVING
        fits = conditions(self.query, OF_ENDED if ended else _OF_LIVING, dialect, statement.mark).text
        return ", ".join(["j.id", f"{fits} AS fits", f"{value} AS place", *(dialect.fields[one] for one in self._more)])

    def own(self, statement: Statement) -> str:
        return "true" if self.sees is None else f"j.owner = {statement.mark(self.sees)}"

    async def rows(self, text: str, statement: Statement) -> list[Row]:
        found = await fetched(self.unit, text, statement)
        return [Row(str(job), fits, value, tuple(more)) for job, fits, value, *more in found]

    @property
    def order(self) -> str:
        return "DESC" if self.descending else "ASC"

    @property
    def behind(self) -> str:
        return "<" if self.descending else ">"

    def start(self, after: Place | None) -> tuple[str, str]:
        """How the ids of the next rows compare with which one. With two bounds on one side the server would begin at
        either."""
        first = self.bounds.highest if self.descending else self.bounds.lowest
        if after is None or (after.id > first if self.descending else after.id < first):
            return f"{self.behind}=", first
        return self.behind, after.id

    @property
    def end(self) -> tuple[str, str]:
        return (">=", self.bounds.lowest) if self.descending else ("<=", self.bounds.highest)

    def ranged(self, after: Place | None, statement: Statement) -> str:
        edges = self.start(after), self.end
        return " AND ".join(f"j.id {compared} {statement.mark(edge)}::uuid" for compared, edge in edges)


async def fetched(unit: Unit, text: str, statement: Statement) -> list[Any]:
    found: list[Any] = await unit.connection.fetch(_IN_SCHEMA.sub(f"{unit.database.schema}.", text), *statement.values)
    return found


class Selected(Reading):
    """Rows of one table in the order of their ids, as its index of ids has them."""

    def __init__(self, table: Table, ended: bool, *shared: Any) -> None:
        super().__init__(*shared)
        self._table, self._ended, self.top = table, ended, table.top

    async def read(self, after: Place | None, count: int) -> Part:
        statement = Statement("${}")
        text = f"SELECT {self.begun(statement, self._ended)} FROM {self._table.name} j WHERE {self.own(statement)}"
        text += f" AND {self.ranged(after, statement)} ORDER BY j.id {self.order} LIMIT {statement.mark(count)}"
        rows = await self.rows(text, statement)
        return Part(rows, rows[-1].place if len(rows) == count else None)


RUNNING = Table("(SELECT * FROM rota.jobs r WHERE r.node IS NOT NULL OFFSET 0)")


class Runs(Reading):
    """Ended jobs of some prefixes, in one partition. The ids come from the index alone; only jobs that are then known
    to be next are looked at. Rows are compared as wholes, so that no other index will do."""

    def __init__(self, table: Table, prefixes: Sequence[Sequence[str]], *shared: Any) -> None:
        super().__init__(*shared)
        self._table, self._prefixes, self.top = table, prefixes, table.top

    async def read(self, after: Place | None, count: int) -> Part:
        ids, more = await self._next(after, count)
        statement = Statement("${}")
        text = f"SELECT {self.begun(statement, True)} FROM {self._table.name} j WHERE j.id = ANY ("
        rows = await self.rows(f"{text}{statement.mark(ids)}::uuid[])", statement) if ids else []
        rows.sort(key=lambda row: row.id, reverse=self.descending)
        return Part(rows, Place(0, str(ids[-1])) if more else None)

    async def _next(self, after: Place | None, count: int) -> tuple[list[Any], bool]:
        """The next ids, and whether there are more."""
        each, statement = share(count, len(self._prefixes)), Statement("${}")
        mark, columns = statement.mark, ("owner", "state", "queue", "task")
        lists = ", ".join(f"{mark(list(column))}::text[]" for column in zip(*self._prefixes, strict=True))
        job, prefix = (", ".join(f"{row}.{column}" for column in columns) for row in "jp")
        within = " AND ".join(
            f"({job}, j.id) {compared} ({prefix}, {mark(edge)}::uuid)"
            for compared, edge in (self.start(after), self.end)
        )
        ordered = ", ".join(f"j.{column} {self.order}" for column in (*columns, "id"))
        text = f"""SELECT p.run, r.id FROM unnest({lists}) WITH ORDINALITY AS p(owner, state, queue, task, run)
            CROSS JOIN LATERAL (
                SELECT j.id FROM {self._table.name} j WHERE {within} ORDER BY {ordered} LIMIT {mark(each)}
            ) r"""
        return self._up_to_the_first_end(await fetched(self.unit, text, statement), each, count)

    def _up_to_the_first_end(self, found: list[Any], each: int, count: int) -> tuple[list[Any], bool]:
        taken = Counter(run for run, _ in found)
        lasts = {run: job for run, job in found if taken[run] == each}
        ids = sorted((job for _, job in found), reverse=self.descending)
        if lasts:
            end = max(lasts.values()) if self.descending else min(lasts.values())
            ids = ids[: ids.index(end) + 1]
        return ids[:count], bool(lasts) or len(ids) > count


class Listed(Reading):
    """Jobs whose ids are known, or are selected from a small table."""

    top = HIGHEST

    def __init__(self, ids: Any, *shared: Any) -> None:
        super().__init__(*shared)
        self._choose = ids

    async def read(self, after: Place | None, count: int) -> Part:
        choosing = Statement("${}")
        first = HIGHEST if self.descending else LOWEST
        chosen = (
            f"SELECT DISTINCT c.id FROM ({self._choose(choosing)}) c WHERE c.id {self.behind} "
            f"{choosing.mark(first if after is None else after.id)}::uuid ORDER BY c.id {self.order} "
            f"LIMIT {choosing.mark(count)}"
        )
        ids = [job for (job,) in await fetched(self.unit, chosen, choosing)]
        rows: dict[str, Row] = {}
        for table, ended in (("rota.jobs", False), ("rota.history", True)):
            statement = Statement("${}")
            text = f"SELECT {self.begun(statement, ended)} FROM {table} j WHERE {self.own(statement)}"
            text += f" AND j.id = ANY ({statement.mark(ids)}::uuid[])"
            rows |= {row.id: row for row in await self.rows(text, statement)}
        found = sorted(rows.values(), key=lambda row: row.id, reverse=self.descending)
        return Part(found, Place(0, str(ids[-1])) if len(ids) == count else None)


class ByEnd(Reading):
    """Ended jobs in the order of their ends."""

    top = HIGHEST

    def __init__(self, lasting: bool | None, *shared: Any) -> None:
        super().__init__(*shared)
        self._where = {True: "j.lasting", False: "NOT j.lasting", None: "true"}[lasting]

    async def read(self, after: Place | None, count: int) -> Part:
        statement = Statement("${}")
        mark, (low, high) = statement.mark, self.bounds.finished
        text = f"SELECT {self.begun(statement, True, 'j.finished_at')} FROM rota.history j"
        text += f" WHERE {self._where} AND {self.own(statement)}"
        text += "" if self.bounds.group is None else f" AND j.error_group = {mark(self.bounds.group)}"
        text += "" if low is None else f" AND j.finished_at >= {mark(low)}"
        text += "" if high is None else f" AND j.finished_at <= {mark(high)}"
        if after is not None:
            end = mark(after.value)
            text += f" AND j.finished_at {self.behind}= {end}"
            text += f" AND (j.finished_at, j.id) {self.behind} ({end}, {mark(after.id)}::uuid)"
        text += f" ORDER BY j.finished_at {self.order}, j.id {self.order} LIMIT {mark(count)}"
        rows = await self.rows(text, statement)
        return Part(rows, rows[-1].place if len(rows) == count else None)


# The different beginnings of a partition's entries, each found by a look-up from the one before. With `owner =`, a
# comparison of rows that begins with the owner would read all jobs of the owner up to there, so it begins behind it.
PREFIXES = """WITH RECURSIVE p AS (
    (SELECT {columns} FROM {table} j WHERE {own} ORDER BY {order} LIMIT 1)
    UNION ALL
    SELECT n.* FROM p CROSS JOIN LATERAL (
        SELECT {columns} FROM {table} j WHERE {own} AND ({of_job}) > ({of_last}) ORDER BY {order} LIMIT 1
    ) n
)
SELECT * FROM p LIMIT {most}"""


async def prefixes(
    unit: Unit, table: Table, owner: str | None, most: int, columns: Sequence[str]
) -> list[tuple[str, ...]]:
    """`columns`: the first ones of the index."""
    statement = Statement("${}")
    behind = columns[0 if owner is None else 1 :]
    text = PREFIXES.format(
        table=table.name, own="true" if owner is None else f"j.owner = {statement.mark(owner)}",
        columns=", ".join(f"j.{column}" for column in columns),
        order=", ".join(f"j.{column}" for column in columns),
        of_job=", ".join(f"j.{column}" for column in behind),
        of_last=", ".join(f"p.{column}" for column in behind),
        most=statement.mark(most),
    )  # fmt: skip
    return [tuple(row) for row in await fetched(unit, text, statement)]


async def number(ended: bool, *shared: Any) -> int:
    """How many jobs of the history, or living ones, fit."""
    reading, statement = Reading(*shared), Statement("${}")
    fits = conditions(reading.query, OF_ENDED if ended else _OF_LIVING, ENDED if ended else LIVING, statement.mark).text
    table = "rota.history" if ended else "rota.jobs"
    text = f"SELECT count(*) FROM {table} j WHERE {reading.own(statement)} AND {fits}"
    ((found,),) = await fetched(reading.unit, text, statement)
    return int(found)
