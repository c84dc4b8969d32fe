"""The sources of a search for jobs on SQLite.

Jobs that live, and jobs that have ended, lie in *runs*: entries of one index with the same first columns, in the order
of their ids. A read of several runs takes a share from each. Up to the end of the share that ends first, all is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rota.model.lifecycle import State
from rota.store.search.plain import Plain, conditions
from rota.store.search.plan import HIGHEST, Bounds
from rota.store.search.statements import Statement
from rota.store.search.walk import Part, Place, Row, share
from rota.store.sqlite.database import Database, encode
from rota.store.sqlite.search_dialect import SQLITE
from rota.store.values import JobFilter

MOST_RUNS = 3_000
ALL_ENDED = "j.state = 'succeeded' OR j.state = 'cancelled' OR j.state = 'skipped' OR j.state = 'dropped'"


def array(given: Sequence[str]) -> str:
    return encode(given).decode()


PLAIN = Plain(
    {
        "ids": "j.id IN (SELECT value FROM json_each({}))",
        "task": "j.task GLOB {}",
        "tasks": "j.task IN (SELECT value FROM json_each({}))",
        "error": "instr(j.reason, {}) > 0",
        "label": SQLITE.labels.format("l.value = {}"),
        "schedule": "j.id IN (SELECT f.job_id FROM fires f WHERE f.owner = j.owner AND f.name = {})",
        "group": "j.state = 'failed' AND j.error_group = {}",
        "workflow": "j.id IN (SELECT m.job FROM members m WHERE m.workflow = {})",
        "ended_after": "j.finished_at >= {}",
        "ended_before": "j.finished_at < {}",
    },
    {"ids": array, "tasks": array},
)


class Index(NamedTuple):
    name: str
    columns: tuple[str, ...]  # before the id
    rows: str  # which it has


LIVING = Index("jobs_living", ("owner",), "j.finished_at IS NULL")
ENDED = Index("jobs_ended_as", ("owner", "state", "queue", "task"), "j.finished_at IS NOT NULL")


def runs(
    db: Database,
    index: Index,
    sees: str | None,
    wanted: Callable[[Sequence[str]], bool],
    tasks: Sequence[str] | None = None,
) -> Iterator[list[str]]:
    """The different values of the index's columns, found by a look-up each. A beginning that is not wanted is left out
    with all that goes on from it. Tasks that are given are not looked up; they may have no jobs.

    Bytes that are no UTF-8 are escaped by surrogates, so that a run can be read again by its values; see `readable`.
    """
    looks = [_next_values(index, known) for known in range(len(index.columns))]

    def below(known: list[str]) -> Iterator[list[str]]:
        if len(known) == len(index.columns):
            yield known
            return
        if tasks is not None and index.columns[len(known)] == "task":
            yield from ([*known, task] for task in tasks)
            return
        look, last = looks[len(known)], b""
        text = look.first
        while (found := db.connection.execute(text, (*map(_as_bytes, known), last)).get) is not None:
            text, last = look.next, found
            if wanted(more := [*known, last.decode("utf-8", "surrogateescape")]):
                yield from below(more)

    if sees is None or wanted([sees]):
        yield from below([] if sees is None else [sees])


class _Look(NamedTuple):
    first: str  # the lowest value from a given one on
    next: str  # the lowest value above a given one


def _next_values(index: Index, known: int) -> _Look:
    """Texts travel as bytes: one that is no UTF-8 must not hide the others."""
    same = "".join(f"j.{column} = {_TEXT} AND " for column in index.columns[:known])
    column = f"j.{index.columns[known]}"
    above = (
        f"SELECT CAST({column} AS BLOB) FROM jobs j INDEXED BY {index.name} "
        f"WHERE {index.rows} AND {same}{column} {{}} {_TEXT} ORDER BY {column} LIMIT 1"
    )
    return _Look(above.format(">="), above.format(">"))


_TEXT = "CAST(? AS TEXT)"


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def readable(value: str) -> str:
    """A value of a run, or nothing if it is no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return ""
    return value


class Reading:
    """What all sources of one search share."""

    top = HIGHEST

    def __init__(self, db: Database, query: JobFilter, sees: str | None, bounds: Bounds, more: Sequence[str]) -> None:
        self.db, self.sees, self.bounds = db, sees, bounds
        self.descending = query.order.descending
        self._query, self._more = query, more

    def begun(self, statement: Statement, value: str = "0") -> str:
        """The columns of a row."""
        fits = conditions(self._query, PLAIN, SQLITE, statement.mark).text
        return f"SELECT {', '.join(['j.id', fits, value, *self._more])} FROM jobs j"

    def own(self, statement: Statement) -> str:
        return "" if self.sees is None else f" AND j.owner = {statement.mark(self.sees)}"

    def rows(self, text: str, values: Sequence[Any]) -> list[Row]:
        found = self.db.found(text, values)
        return [Row(job, bool(fits), value, tuple(more)) for job, fits, value, *more in found]

    def looked_at(self, ids: Sequence[str]) -> list[Row]:
        statement = Statement("?{}")
        text = f"{self.begun(statement)} WHERE j.id IN (SELECT value FROM json_each({statement.mark(array(ids))}))"
        rows = self.rows(text + self.own(statement), statement.values) if ids else []
        return sorted(rows, key=lambda row: row.id, reverse=self.descending)

    @property
    def order(self) -> str:
        return "DESC" if self.descending else "ASC"

    @property
    def behind(self) -> str:
        return "<" if self.descending else ">"

    def start(self, after: Place | None) -> str:
        """The next rows are behind it. With two bounds on one side SQLite would begin at either."""
        if self.descending:
            return min(self.bounds.highest + "~", HIGHEST + "~" if after is None else after.id)
        return max(self.bounds.lowest[:-1], "" if after is None else after.id)

    @property
    def end(self) -> str:
        """No id is behind it."""
        return self.bounds.lowest if self.descending else self.bounds.highest

    @property
    def not_behind(self) -> str:
        return ">=" if self.descending else "<="


class Runs(Reading):
    """The ids come from the index alone; only jobs that are then known to be next are looked at."""

    def __init__(self, index: Index, prefixes: Sequence[Sequence[str]], *shared: Any) -> None:
        super().__init__(*shared)
        self._prefixes = [list(map(_as_bytes, one)) for one in prefixes]
        same = "".join(f" AND j.{column} = {_TEXT}" for column in index.columns)
        self._ids = (
            f"SELECT j.id FROM jobs j INDEXED BY {index.name} WHERE {index.rows}{same} AND j.id {self.behind} ? "
            f"AND j.id {self.not_behind} ? ORDER BY j.id {self.order} LIMIT ?"
        )

    async def read(self, after: Place | None, count: int) -> Part:
        ids, more = self._next(self.start(after), count)
        return Part(self.looked_at(ids), Place(0, ids[-1]) if more else None)

    def _next(self, start: str, count: int) -> tuple[list[str], bool]:
        """The next ids, and whether there are more."""
        each, end, found, more = share(count, len(self._prefixes)), self.end, list[str](), False
        for prefix in self._prefixes:
            part = [job for (job,) in self.db.connection.execute(self._ids, (*prefix, start, end, each))]
            found += part
            if len(part) == each:  # what lies behind its last one is of no use
                end, more = part[-1], True
        ids = sorted((job for job in found if (job >= end) == self.descending or job == end), reverse=self.descending)
        return ids[:count], more or len(ids) > count


class Listed(Reading):
    """Jobs whose ids are known, or are selected from a small table: `ids` is a query with the placeholders of the
    statement, and gives the column `id`."""

    def __init__(self, ids: Callable[[Statement], str], *shared: Any) -> None:
        super().__init__(*shared)
        statement = Statement("?{}")
        chosen = ids(statement)
        self._values = statement.values
        at = len(self._values)
        self._ids = (
            f"SELECT DISTINCT id FROM ({chosen}) WHERE id {self.behind} ?{at + 1} ORDER BY id {self.order} "
            f"LIMIT ?{at + 2}"
        )

    async def read(self, after: Place | None, count: int) -> Part:
        first = HIGHEST + "~" if self.descending else ""
        start = first if after is None else after.id
        found = self.db.connection.execute(self._ids, [*self._values, start, count])
        ids = [job for (job,) in found]
        return Part(self.looked_at(ids), Place(0, ids[-1]) if len(ids) == count else None)


class Selected(Reading):
    """Rows in the order of the ids, one statement for each read. `where`: the rows, and the way to them."""

    def __init__(self, where: str, *shared: Any) -> None:
        super().__init__(*shared)
        self._where = where

    async def read(self, after: Place | None, count: int) -> Part:
        statement = Statement("?{}")
        text = f"{self.begun(statement)} {self._where}{self.own(statement)}"
        mark = statement.mark
        text += f" AND j.id {self.behind} {mark(self.start(after))}"
        text += f" AND j.id {self.not_behind} {mark(self.end)}"
        rows = self.rows(f"{text} ORDER BY j.id {self.order} LIMIT {mark(count)}", statement.values)
        return Part(rows, rows[-1].place if len(rows) == count else None)


RUNNING = f"INDEXED BY jobs_running WHERE j.state = '{State.RUNNING.value}'"
ALL = "WHERE true"


class ByEnd(Reading):
    """Ended jobs in the order of their ends, by one of the indexes of these."""

    def __init__(self, index: str, rows: str, *shared: Any) -> None:
        super().__init__(*shared)
        self._index, self._rows = index, rows

    async def read(self, after: Place | None, count: int) -> Part:
        statement = Statement("?{}")
        mark, span = statement.mark, self.bounds.finished
        text = f"{self.begun(statement, 'j.finished_at')} INDEXED BY {self._index} WHERE ({self._rows})"
        text += "" if self.bounds.group is None else f" AND j.error_group = {mark(self.bounds.group)}"
        text += self.own(statement)
        text += "" if span.low is None else f" AND j.finished_at >= {mark(span.low)}"
        text += "" if span.high is None else f" AND j.finished_at <= {mark(span.high)}"
        if after is not None:
            end, behind = mark(after.value), self.behind
            text += f" AND j.finished_at {behind}= {end}"
            text += f" AND (j.finished_at {behind} {end} OR j.id {behind} {mark(after.id)})"
        text += f" ORDER BY j.finished_at {self.order}, j.id {self.order} LIMIT {mark(count)}"
        rows = self.rows(text, statement.values)
        return Part(rows, rows[-1].place if len(rows) == count else None)
