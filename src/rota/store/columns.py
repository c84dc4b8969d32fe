"""The columns of the tables whose rows are written, copied and read in several places, each named once.

SQL files name lists of them instead of columns (`expand`):

    {jobs.kept}                    the names
    {jobs.kept g}                  with the alias g; {jobs.shown j p}: p is the alias of SQLite's payloads
    {jobs.kept g; reason = :why}   with another expression for a column; `* = NULL`: for all that are not named
    {jobs.inserted[]}              parameters that are arrays, for unnest
    {jobs.inserted?}               plain parameters
    {jobs.claimed::}               the names with their types

A new field of an order needs a line in ORDER, the column in both schemas, and the field of `NewJob`. It is shown if
`JobInfo` has a field of that name, and told to the node if `Claimed` has one. A test compares lists and schemas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from rota.model.job import Claimed, JobInfo, NewJob
from rota.model.trigger.records import StoredSchedule


class Column(NamedTuple):
    name: str
    type: str = "text"  # in PostgreSQL
    given: str = ""  # the attribute of NewJob with its value
    payload: bool = False  # SQLite keeps it in the table `payloads`


# The order: written once, copied to the history and back.
ORDER = (
    Column("id", "uuid", "id"),
    Column("queue", given="queue"),
    Column("kind", given="spec.kind.value"),
    Column("task", given="task"),
    Column("priority", "smallint", "priority"),
    Column("spec", given="spec.body", payload=True),
    Column("digest", given="spec.digest", payload=True),
    Column("args", given="args", payload=True),
    Column("timeout", "bigint", "timeout", payload=True),
    Column("key", given="key", payload=True),
    RETRY := Column("retry", payload=True),
    REQUIREMENTS := Column("requirements"),
    Column("meta", given="meta", payload=True),
)
# Worked out when the job is inserted.
BORN = (
    Column("owner"),
    Column("state"),
    Column("rank", "bigint"),
    Column("run_at", "bigint"),
    Column("expires_at", "bigint"),
    Column("created_at", "bigint"),
)
COUNTS = tuple(Column(name, "bigint") for name in ("fence", "tries", "failures", "crashes", "interruptions", "replays"))
STARTED = Column("started_at", "bigint")
CLAIM = (Column("claimed_at", "bigint"), Column("node"), Column("cancel"), REASON := Column("reason"))
LIVING = (
    SPECIAL := Column("special", "boolean"),
    Column("tied", "boolean"),
    Column("parents", "integer"),
    Column("waits", "integer"),
    Column("level", "smallint"),
    Column("own_step", "bigint"),
    HELD_BY := Column("held_by"),
)
RESULT = (Column("outcome"), Column("exit_code", "integer"), Column("error"), Column("result"), Column("usage"))
FINISHED, LASTING = Column("finished_at", "bigint"), Column("lasting", "boolean")
SKIP_CAUSE = Column("skip_cause")
ERROR_GROUP = Column("error_group")

ATTEMPT = (
    Column("job", "uuid"), Column("number", "bigint"), Column("fence", "bigint"), Column("node"), STARTED, FINISHED,
    *RESULT,
)  # fmt: skip
OUTPUT = (
    Column("job", "uuid"), Column("fence", "bigint"), Column("number", "bigint"), Column("at", "bigint"),
    Column("kept_at", "bigint"), Column("stream"), Column("body", "bytea"),
)  # fmt: skip

SEGMENT = (
    Column("id", "uuid"), Column("owner"), Column("task"), LASTING, Column("kept_at", "bigint"),
    Column("first_at", "bigint"), Column("last_at", "bigint"), Column("lines", "bigint"), Column("size", "bigint"),
    Column("cell", "bigint"), Column("low_job", "uuid"), Column("high_job", "uuid"),
    Column("low_fence", "bigint"), Column("low_number", "bigint"), Column("high_fence", "bigint"),
    Column("high_number", "bigint"), Column("stored", "bigint"), Column("gone"),
    Column("jobs", "bytea"), Column("words", "bytea"), Column("body", "bytea"),
)  # fmt: skip

# `swept`: the last job that the sweep of the gate has looked at.
GATE = (
    "id", "owner", "task", "queue", "by_user", "label", "effect", "reason", "until", "job", "author", "created_at",
    "dropped", "swept",
)  # fmt: skip

GIVEN = (*(column for column in ORDER if column.given), RETRY, REQUIREMENTS, SPECIAL)


def row_maker(columns: Sequence[Column]) -> Callable[..., tuple[Any, ...]]:
    """A function that makes a row of an order; it takes the values that the order does not have by the names of their
    columns. It is compiled from the list, because building a row in a loop takes three times as long."""
    values = [f"job.{one.given}" if one.given else one.name for one in columns]
    names = [one.name for one in columns if not one.given]
    made: Callable[..., tuple[Any, ...]] = eval(f"lambda job, *, {', '.join(names)}: ({', '.join(values)},)")  # noqa: S307
    return made


given_row = row_maker(GIVEN)


class Texts(NamedTuple):
    """The parts of an order that are stored as texts."""

    retry: str
    requirements: str | None
    special: bool


def texts(jobs: Iterable[NewJob]) -> Iterator[Texts]:
    """Orders of one call mostly share these objects: each is encoded once."""
    known: dict[tuple[int, int], Texts] = {}
    for job in jobs:
        key = id(job.retry), id(job.requirements)
        if (found := known.get(key)) is None:
            retry = msgspec.json.encode(job.retry).decode()
            found = known[key] = Texts(retry, job.requirements.text, job.requirements.special)
        yield found


def given_rows(jobs: Sequence[NewJob]) -> list[tuple[Any, ...]]:
    return [given_row(job, **text._asdict()) for job, text in zip(jobs, texts(jobs), strict=True)]


def given_lists(jobs: Sequence[NewJob]) -> dict[str, list[Any]]:
    """The values of GIVEN in these orders, by column."""
    rows = given_rows(jobs)
    return dict(zip((column.name for column in GIVEN), map(list, zip(*rows, strict=True)), strict=True))


# Fields of `Claimed` and of shown rows that have no column; every query gives an expression for them.
_WORKED_OUT = {
    "claimed": (
        Column("job_id"),
        Column("number", "bigint"),
        Column("slack", "bigint"),
        Column("flow"),
        Column("state"),
    ),
    "shown": (Column("cancelling", "boolean"), Column("progress")),
}
_JOBS = {column.name: column for column in (*ORDER, *BORN, *COUNTS, STARTED, *CLAIM, *LIVING, FINISHED, ERROR_GROUP)}


def _fields(use: str, names: Iterable[str]) -> tuple[Column, ...]:
    own = {column.name: column for column in _WORKED_OUT[use]}
    return tuple(own[name] if name in own else _JOBS[name] for name in names if name in own or name in _JOBS)


SHOWN = _fields("shown", (*JobInfo.__struct_fields__, "tries"))
_BOTH = {
    "jobs.order": ORDER,
    "jobs.given": GIVEN,
    "jobs.kept": (*ORDER, *(column for column in BORN if column.name != "state"), STARTED, *COUNTS),
    "jobs.claimed": _fields("claimed", Claimed.__struct_fields__),
    "jobs.shown": SHOWN,
    "attempts.kept": ATTEMPT,
    "output.kept": OUTPUT,
    "segments.kept": SEGMENT,
    "gates.closed": tuple(map(Column, GATE)),
    "schedules.shown": tuple(Column(name) for name in StoredSchedule.__struct_fields__),
}
LISTS = {
    "postgres": _BOTH | {"jobs.inserted": (*GIVEN, *BORN)},
    "sqlite": _BOTH
    | {
        "jobs.inserted": (Column("seq"), *(one for one in GIVEN if not one.payload), *BORN, HELD_BY, REASON),
        "payloads.inserted": (Column("seq"), *(one for one in GIVEN if one.payload)),
    },
}
# All columns of each table, for the test that compares them with the schema.
_LIFE = (*ORDER, *BORN, *COUNTS, STARTED, *CLAIM)
TABLES = {
    "postgres": {
        "jobs": (*_LIFE, *LIVING),
        "history": (*_LIFE, FINISHED, *RESULT, LASTING, SKIP_CAUSE, ERROR_GROUP),
        "attempts": (*ATTEMPT, LASTING),
        "output": (*OUTPUT, LASTING),
        "segments": SEGMENT,
    },
    "sqlite": {
        "jobs": tuple(
            one
            for one in (*_LIFE, *LIVING, FINISHED, SKIP_CAUSE, ERROR_GROUP)
            if not one.payload and one.name != "claimed_at"
        ),
        "payloads": tuple(one for one in ORDER if one.payload),
        "attempts": ATTEMPT,
        "output": OUTPUT,
        "segments": SEGMENT,
    },
}

_LIST = re.compile(r"\{(\w+\.\w+)(\[\]|\?|::)?((?: \w+){0,2})((?:;[^{};]+)*)\}")


def expand(dialect: str, text: str) -> str:
    """A text of SQL with the lists of columns that it names."""
    return _LIST.sub(lambda found: _list(dialect, *found.groups(default="")), text)


def _list(dialect: str, name: str, form: str, aliases: str, given: str) -> str:
    columns = LISTS[dialect][name]
    if form:
        forms = {"[]": ":{0.name}::{0.type}[]", "?": "?", "::": "{0.name} {0.type}"}
        return ", ".join(forms[form].format(column) for column in columns)
    own = {column.name for column in _WORKED_OUT.get(name.partition(".")[2], ())}
    others = dict(re.split(r"\s*=\s*", one.strip(), maxsplit=1) for one in given.split(";")[1:])
    names = aliases.split()
    parts = []
    for column in columns:
        alias = names[-1 if column.payload else 0] + "." if names else ""
        if not (value := others.pop(column.name, None) or others.get("*")) and column.name in own:
            raise ValueError(f"{name}: {column.name} is no column; what is it here?")
        parts.append(value or alias + column.name)
    if others.keys() - {"*"}:
        raise ValueError(f"{name} has no columns {', '.join(others)}")
    return ", ".join(parts)
