"""`--columns`: fields of the query language as columns, of tables for people and of CSV for spreadsheets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rota.cli.show import Cell, state
from rota.clients.jobs import JobsClient
from rota.clients.workflows import names_of
from rota.errors import InvalidInput, InvalidQuery
from rota.model.job import JobInfo
from rota.model.query.evaluate import at_path, job_values
from rota.model.query.fields import FIELDS, JOB_FIELDS, QUOTES, Type
from rota.model.query.parse import parse
from rota.model.query.tree import Not, Term
from rota.model.times import SECOND, Duration, aware, iso, short

_PART = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')  # up to a comma outside of quotes
# What spreadsheets take for the beginning of a formula, and for what may hide one.
_FORMULA = re.compile(r"[=+\-@\t\r\n]")


class Column(NamedTuple):
    name: str  # as it was written
    term: Term

    @property
    def type(self) -> Type:
        return FIELDS[self.term.field].type


Names = Mapping[str, str]  # of workflows, by their ids


def columns_of(given: str) -> tuple[Column, ...]:
    """Raises InvalidInput for what is no field of jobs."""
    return tuple(_column(part.strip(), given) for part in _PART.findall(given) or [given])


def _column(name: str, given: str) -> Column:
    """A column is written as the field of a condition is: so `NAME:*` is read, the condition that it is there."""
    try:
        found = parse(f"{name}:*", 0)
    except InvalidQuery as error:
        problem = error.problem.removesuffix(QUOTES)
        raise InvalidInput("--columns", given, f"fields of the query language ({problem})") from None
    if not isinstance(found, Not) or not isinstance(found.of, Term):
        raise InvalidInput("--columns", given, f"some of {', '.join(field.name for field in JOB_FIELDS)}")
    return Column(name, found.of)


async def names_for(client: JobsClient, columns: Sequence[Column], jobs: Sequence[JobInfo]) -> Names:
    """The names of the workflows of the jobs, if there is a column for them."""
    if all(column.term.field != "workflow" for column in columns):
        return {}
    return await names_of(client.store, client.who, jobs)


def _values(column: Column, job: JobInfo, names: Names) -> list[Any]:
    term = column.term
    if column.type is Type.JSON:  # lists and objects too, as JSON
        value = at_path(getattr(job, term.field), term.path)
        return [] if value is None else [value]
    if term.field == "workflow":
        return [names.get(job.workflow, job.workflow)] if job.workflow is not None else []
    return job_values(term, job)


# -- tables ----------------------------------------------------------------------------------------------------------
def cells(columns: Sequence[Column], job: JobInfo, names: Names) -> tuple[Cell, ...]:
    return tuple(_cell(column, job, names) for column in columns)


def _cell(column: Column, job: JobInfo, names: Names) -> Cell:
    if column.term.field == "state":
        return state(job.state)
    return ", ".join(_shown(column.type, value) for value in _values(column, job, names))


def _shown(kind: Type, value: Any) -> str:
    if kind is Type.TIME:
        return f"{iso(aware(value))[:19]}Z"
    return short(value) if kind is Type.SPAN else _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# -- spreadsheets ----------------------------------------------------------------------------------------------------
def fields(columns: Sequence[Column], job: JobInfo, names: Names) -> list[str]:
    """The row of a job: times in ISO 8601, durations in seconds."""
    return [_field(column, _values(column, job, names)) for column in columns]


def _field(column: Column, values: Sequence[Any]) -> str:
    if column.type is Type.TIME:
        return "".join(iso(aware(value)) for value in values)
    if column.type is Type.SPAN:
        return "".join(_seconds(value) for value in values)
    numbers = [value for value in values if isinstance(value, int | float)]
    return _text(numbers[0]) if numbers else harmless(", ".join(map(_text, values)))


def _seconds(span: Duration) -> str:
    return f"{span // SECOND}.{span % SECOND:06}".rstrip("0").rstrip(".")


def harmless(text: str) -> str:
    """A text that a spreadsheet would run as a formula gets an apostrophe before it: it comes from a job."""
    return f"'{text}" if _FORMULA.match(text) else text
