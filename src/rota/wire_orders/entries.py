"""The shapes of orders as JSON. The fields are made from `model/option_table.py`, so each option is written once.

`{"task": "welcome", "args": {"user_id": 7}, "key": "w-7"}`, `{"command": ["true"], "in": "10s", "retries": 2}` and
`{"http": {"method": "POST", "url": "https://example.com"}}` are orders of single jobs (`OrderEntry`). A job of a
workflow (`JobEntry`) has a name beside that, which `after` and `results` of the other jobs use in the place of ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from rota.errors import InvalidInput
from rota.model.option_table import CALLS, COMMANDS, JOBS, Option
from rota.tasks.encoding import JobReference
from rota.tasks.results import Fills, split

KINDS = ("task", "command", "http")


def _fields(options: Iterable[Option]) -> list[tuple[str, Any, None]]:
    written = [one for one in options if one.json is not None]
    others = [(f"{one.also}_", one.json | None, None) for one in written if one.also]
    return [(one.name, one.json | None, None) for one in written] + others


def _other_names(options: Iterable[Option]) -> dict[str, str]:
    """`in` is a word of Python: the field that is written so has another name there."""
    return {f"{one.also}_": one.also for one in options if one.also}


if TYPE_CHECKING:
    HttpFields = msgspec.Struct

    class JobFields(msgspec.Struct, kw_only=True):
        """The fields that are read by name."""

        key: str | None = None
        after: str | list[str] | dict[str, str] | None = None
        on: str | None = None
        results: dict[str, Any] | None = None
        cwd: str | None = None

else:
    HttpFields = msgspec.defstruct("HttpFields", _fields(CALLS), kw_only=True)
    JobFields = msgspec.defstruct(
        "JobFields", _fields((*COMMANDS, *JOBS)), kw_only=True, rename=_other_names((*COMMANDS, *JOBS))
    )


class HttpEntry(HttpFields, forbid_unknown_fields=True):
    """An HTTP call, with its options."""

    method: str
    url: str


class Entry(JobFields, kw_only=True, forbid_unknown_fields=True):
    """The work of a job (one of `task`, `command` and `http`) and its options."""

    task: str | None = None
    args: dict[str, Any] | None = None
    command: list[str] | None = None
    http: HttpEntry | None = None

    def whole(self) -> dict[str, Any]:
        """The arguments, with references to jobs in the places of results."""
        arguments = dict(self.args or {})
        for name, value in (self.results or {}).items():
            if name in arguments:
                raise InvalidInput("results", name, "arguments that are not in `args`")
            arguments[name] = _references(name, value)
        return arguments

    def fills(self) -> Fills:
        """The places of results, by the jobs as the entry names them."""
        return split(self.whole(), "args")[1] if self.results else {}


class OrderEntry(Entry, kw_only=True, forbid_unknown_fields=True):
    """The order of one job. `name`: of a command or a call."""

    name: str | None = None


class JobEntry(Entry, kw_only=True, forbid_unknown_fields=True):
    """A job of a workflow."""

    name: str


class Description(msgspec.Struct, forbid_unknown_fields=True):
    """A workflow. `on_failure` and `on_success` come after all other jobs."""

    jobs: list[JobEntry]
    name: str = ""
    on_failure: JobEntry | None = None
    on_success: JobEntry | None = None

    def all(self) -> list[JobEntry]:
        """With those that come after all others."""
        return [*self.jobs, *self.last()]

    def last(self) -> list[JobEntry]:
        return [job for job in (self.on_failure, self.on_success) if job is not None]


def _references(what: str, value: Any) -> Any:
    match value:
        case str():
            return JobReference(value)
        case list():
            return [_references(what, part) for part in value]
        case dict():
            return {key: _references(what, part) for key, part in value.items()}
    raise InvalidInput("results", value, f"a job for {what!r}, or a list or an object of jobs")


_COMMANDS = tuple(one.name for one in COMMANDS if one.json is not None)
_JOBS = tuple(one.name for one in JOBS if one.json is not None)
_ALSO = {one.name: f"{one.also}_" for one in JOBS if one.also}
_of_command, _of_job = attrgetter(*_COMMANDS), attrgetter(*_JOBS, *_ALSO.values())
# Most orders of a large list have no options: one comparison finds that out.
_NO_COMMAND, _NO_JOB = (None,) * len(_COMMANDS), (None,) * (len(_JOBS) + len(_ALSO))


def command_options(entry: Entry) -> dict[str, Any]:
    """The given options of the command."""
    values = _of_command(entry)
    if values == _NO_COMMAND:
        return {}
    return {name: value for name, value in zip(_COMMANDS, values, strict=True) if value is not None}


def named_as_given(entry: Entry, what: str) -> str:
    """The fields that a complaint about options is about, as the entry names them: `at and in` for `at and delay`."""
    return " and ".join(_field(entry, name) for name in what.split(" and "))


def _field(entry: Entry, name: str) -> str:
    other = _ALSO.get(name)
    return name if other is None or getattr(entry, other) is None else other.rstrip("_")


def job_options(entry: Entry) -> dict[str, Any]:
    """The given options of the job, by the names of the table."""
    values = _of_job(entry)
    if values == _NO_JOB:
        return {}
    given = {name: value for name, value in zip(_JOBS, values, strict=False) if value is not None}
    for name, other in _ALSO.items():
        if (value := getattr(entry, other)) is not None:
            if name in given:
                raise InvalidInput(f"{name} and {other.rstrip('_')}", "both", "one of them: they mean the same")
            given[name] = value
    return given
