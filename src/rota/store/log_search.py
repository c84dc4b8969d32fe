"""The search for segments and unsealed chunks as SQL, built at run time like that for jobs (`job_search`): a condition
that is not given must not prevent the use of an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rota.lines.words import Probe
from rota.model.principal import Principal
from rota.store.cells import cells_of
from rota.store.log_store import MOST_JOBS, RawScan, SegmentScan

_READABLE = "coalesce(s.gone, '') = ''"


class Dialect(NamedTuple):
    schema: str
    mark: str  # of a parameter
    id: str  # the id of a segment as a text
    task: str  # the condition on the task: `{}` is a list of globs
    tasks: Callable[[Sequence[str]], Any]
    columns: Callable[[Sequence[Sequence[Any]]], Sequence[Any]]  # rows, given by columns, as parameters
    words: Callable[
        [Sequence[Sequence[Probe]]], Sequence[tuple[str, Sequence[Any]]]
    ]  # conditions on the filter of words
    of_jobs: str  # the condition on the jobs: rows of an id and a cell
    ids: Callable[[Sequence[str]], Any]  # ids as a parameter
    among: str  # a column is one of the ids in the list `{}`
    raw: str  # chunks o with their jobs j, as tables
    raw_job: str  # the id of the job of a chunk
    raw_of_jobs: str  # the condition on the jobs of chunks: `{}` is a list of ids
    raw_place: str  # the condition on the place of a chunk: its time, `<` or `>`, and the four values of a cursor


class Query(NamedTuple):
    text: str
    values: list[Any]


class _Builder:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect, self.values = dialect, list[Any]()

    def mark(self, value: Any) -> str:
        self.values.append(value)
        return self.dialect.mark.format(len(self.values))

    def rows(self, *columns: Sequence[Any]) -> list[str]:
        return [self.mark(value) for value in self.dialect.columns(columns)]


def _range(builder: _Builder, who: Principal, scan: SegmentScan) -> list[str]:
    """The conditions that an index decides."""
    # With jobs or ids, the indexes of segments that can be read must not attract the planner.
    conditions = ["s.gone IS NULL" if scan.jobs is None and scan.made_since is None else _READABLE]
    if scan.made_since is not None:
        conditions.append(f"s.id >= {builder.mark(scan.made_since)}")
    if who.sees is not None:
        conditions.append(f"s.owner = {builder.mark(who.sees)}")
    if scan.since is not None:
        conditions.append(f"s.last_at >= {builder.mark(scan.since)}")
    if scan.after is not None:
        last, place = builder.mark(scan.after.last_at), builder.mark(scan.after.id)
        conditions.append(f"(s.last_at, s.id) < ({last}, {place})")
    return conditions + _jobs(builder, scan)


def fitting(dialect: Dialect, who: Principal, scan: SegmentScan) -> Query:
    """The (last_at, id, bytes of the body) of segments that fit, among the first `scan.look` of the range."""
    builder = _Builder(dialect)
    conditions = " AND ".join(_range(builder, who, scan))
    source = f"{dialect.schema}segments s"
    look = (
        f"SELECT * FROM {source} WHERE {conditions} ORDER BY s.last_at DESC, s.id DESC LIMIT {builder.mark(scan.look)}"  # noqa: S608
    )
    rest = [*_about(builder, scan), *_words(builder, scan.words)]
    text = (
        f"SELECT s.last_at, {dialect.id}, octet_length(s.body) FROM ({look}) s WHERE {' AND '.join(rest) or 'true'}"  # noqa: S608
        f" ORDER BY s.last_at DESC, s.id DESC LIMIT {builder.mark(scan.limit)}"
    )
    return Query(text, builder.values)


def _about(builder: _Builder, scan: SegmentScan) -> list[str]:
    conditions = []
    if scan.until is not None:
        conditions.append(f"s.first_at < {builder.mark(scan.until)}")
    if scan.tasks is not None:
        conditions.append(_tasks(builder, "s.task", scan.tasks))
    return conditions


def _tasks(builder: _Builder, column: str, globs: Sequence[str]) -> str:
    return builder.dialect.task.format(builder.mark(builder.dialect.tasks(globs)), column=column)


def _jobs(builder: _Builder, scan: SegmentScan) -> list[str]:
    if scan.jobs is None:
        return []
    pairs = [(job, cell) for job in scan.jobs[:MOST_JOBS] for cell in cells_of(job)]
    ids, cells = [job for job, _ in pairs], [cell for _, cell in pairs]
    return [builder.dialect.of_jobs.format(*builder.rows(ids, cells), schema=builder.dialect.schema)]


def _words(builder: _Builder, groups: Sequence[Sequence[Probe]]) -> list[str]:
    return [condition.format(*map(builder.mark, values)) for condition, values in builder.dialect.words(groups)]


def looked_at(dialect: Dialect, who: Principal, scan: SegmentScan) -> Query:
    """The last (last_at, id) of the range, if it has at least `scan.look` segments."""
    builder = _Builder(dialect)
    conditions = " AND ".join(_range(builder, who, scan))
    text = (
        f"SELECT s.last_at, {dialect.id} FROM {dialect.schema}segments s WHERE {conditions}"  # noqa: S608
        f" ORDER BY s.last_at DESC, s.id DESC LIMIT 1 OFFSET {builder.mark(scan.look - 1)}"
    )
    return Query(text, builder.values)


def extent(dialect: Dialect, who: Principal, scan: SegmentScan, down_to: tuple[int, str] | None = None) -> Query:
    """How many segments the range has, and the bytes of output in them, down to a place."""
    builder = _Builder(dialect)
    conditions = _range(builder, who, scan)
    if down_to is not None:
        conditions.append(f"(s.last_at, s.id) >= ({builder.mark(down_to[0])}, {builder.mark(down_to[1])})")
    text = (
        f"SELECT count(*), CAST(coalesce(sum(s.size), 0) AS bigint) FROM {dialect.schema}segments s"  # noqa: S608
        f" WHERE {' AND '.join(conditions)}"
    )
    return Query(text, builder.values)


def bodies(dialect: Dialect, ids: Sequence[str]) -> Query:
    builder = _Builder(dialect)
    among = dialect.among.format(builder.mark(dialect.ids(ids)))
    text = (
        f"SELECT {dialect.id}, s.owner, s.task, s.first_at, s.last_at, s.lines, s.size, s.body"  # noqa: S608
        f" FROM {dialect.schema}segments s WHERE s.id {among} AND {_READABLE}"
    )
    return Query(text, builder.values)


def chunks(dialect: Dialect, who: Principal, scan: RawScan) -> Query:
    """The places of chunks that fit, with their tasks and sizes."""
    builder = _Builder(dialect)
    conditions = ["true" if scan.marks else "o.stream <> 'cut'"]
    # Of a few jobs all chunks are read, whatever the planner believes: it must not walk through those of all others.
    time = "o.kept_at" if scan.jobs is None else "o.kept_at + 0"
    if who.sees is not None:
        conditions.append(f"j.owner = {builder.mark(who.sees)}")
    if scan.since is not None:
        conditions.append(f"o.at >= {builder.mark(scan.since)}")
    if scan.until is not None:
        conditions.append(f"o.at < {builder.mark(scan.until)}")
    if scan.tasks is not None:
        conditions.append(_tasks(builder, "j.task", scan.tasks))
    if scan.jobs is not None:
        conditions.append(dialect.raw_of_jobs.format(builder.mark(dialect.ids(scan.jobs[:MOST_JOBS]))))
    if scan.after is not None:
        after = scan.after
        kept_at, *rest = map(builder.mark, (after.kept_at, after.job_id, after.fence, after.number))
        # The first condition is for the index.
        conditions.append(f"{time} {'<=' if scan.newest_first else '>='} {kept_at}")
        conditions.append(dialect.raw_place.format(time, "<" if scan.newest_first else ">", kept_at, *rest))
    order = ", ".join(f"{name}{' DESC' * scan.newest_first}" for name in (time, "o.job", "o.fence", "o.number"))
    text = (
        f"SELECT o.kept_at, {dialect.raw_job}, o.fence, o.number, j.task, octet_length(o.body)"  # noqa: S608
        f" FROM {dialect.raw.format(schema=dialect.schema)} WHERE {' AND '.join(conditions)}"
        f" ORDER BY {order} LIMIT {builder.mark(scan.limit)}"
    )
    return Query(text, builder.values)
