"""Builds command and HTTP specs; validates the arguments of tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rota.errors import InvalidArguments, InvalidInput, TooLarge
from rota.model.http import target
from rota.model.job import NewJob, Spec, shared
from rota.model.limits import fields
from rota.model.option_table import CALL_NAMES, COMMAND_NAMES
from rota.model.options import LONGEST_NAME, Options, about_command, new_jobs, read_options, task_name
from rota.model.task import TaskInfo
from rota.tasks.checks import arguments_json, fits
from rota.tasks.encoding import ONLY_THERE, job_in, to_json


class JobOrder(NamedTuple):
    """An order of one or more jobs of a task, which differ in their arguments."""

    spec: Spec
    task: str
    bodies: Sequence[str]  # arguments as JSON
    options: Options

    def jobs(self, ids: Sequence[str], meta: str | None) -> list[NewJob]:
        return new_jobs(ids, *self, meta)

    def check(self) -> None:
        """Raises InvalidInput."""
        self.jobs([""] * len(self.bodies), None)


class HttpCall(msgspec.Struct, frozen=True):
    """The value of `app.http(...)`: a call to order, to schedule, or to add to a workflow."""

    spec: Spec
    task: str


def check_single(options: Options) -> None:
    """Refuses options of jobs in workflows."""
    if options.job_name:
        raise InvalidInput("name", options.job_name, "it for a job of a workflow: workflow.add(task, ..., name=...)")


def command(limit: int, argv: Sequence[str], name: str | None, about: Mapping[str, Any]) -> tuple[Spec, str]:
    """`limit`: the largest spec, in bytes."""
    if (job := job_in(argv)) is not None:
        raise InvalidInput("command", job, ONLY_THERE)
    spec = Spec.command(argv, **about)
    _check_size("command", spec, limit)
    return spec, task_name(name) if name is not None else _program(argv[0])


def http(limit: int, method: str, url: str, given: Mapping[str, Any]) -> HttpCall:
    """`given`: by the names in CALL_NAMES; None counts as not given."""
    words = {name: value for name, value in given.items() if value is not None}
    for word in words:
        if word not in CALL_NAMES:
            raise InvalidInput("option", word, f"one of {', '.join(CALL_NAMES)}")
    name, value = words.pop("name", None), words.pop("json", None)
    if value is not None:
        if "body" in words:
            raise InvalidInput("body and json", "both", "one of them")
        words["body"] = to_json(value, limit, "json")
        words["headers"] = _as_json(words.get("headers"))
    spec = Spec.http(method, url, **words)
    _check_size("HTTP call", spec, limit)
    # Calls of one host are one flow and share a rate, unless they have a name.
    return HttpCall(spec, task_name(name) if name is not None else target(url).host[:LONGEST_NAME])


def command_order(limit: int, argv: Sequence[str], given: Mapping[str, Any]) -> tuple[Spec, str, list[str], Options]:
    """The order of a command, from the options of the command and the job."""
    about, rest = about_command(given)
    name = about.pop("name", None)
    return *command(limit, argv, name, about), ["{}"], read_options(Options(), rest, beside=COMMAND_NAMES)


def call_order(limit: int, method: str, url: str, given: Mapping[str, Any]) -> tuple[Spec, str, list[str], Options]:
    """The order of an HTTP call, from the options of the call and the job."""
    call = http(limit, method, url, {name: value for name, value in given.items() if name in CALL_NAMES})
    rest = {name: value for name, value in given.items() if name not in CALL_NAMES}
    return call.spec, call.task, ["{}"], read_options(Options(), rest, beside=CALL_NAMES)


def _as_json(headers: Any) -> Any:
    if headers is not None and not isinstance(headers, Mapping):
        return headers  # validated later, with the rest
    named = dict(headers or {})
    if any(str(name).lower() == "content-type" for name in named):
        return named
    return named | {"Content-Type": "application/json"}


def _check_size(what: str, spec: Spec, limit: int) -> None:
    if (size := len(spec.body.encode())) > limit:
        raise TooLarge(what, size, limit)


def _program(path: str) -> str:
    """The default name of a command: that of its program, with unprintable characters replaced."""
    name = path.rsplit("/", 1)[-1] or path
    return "".join(c if c.isprintable() else "?" for c in name)[:LONGEST_NAME]


def check_templates(info: TaskInfo) -> None:
    """Refuses keys and flows with fields that the task has no parameter for, where the task is declared."""
    for template in info.texts:
        for field in fields(template):
            if field.partition(".")[0] not in info.parameters and not info.open:
                what = "flow" if template == info.flow else "key"
                parameters = ", ".join(info.parameters) or "none, since it has no parameters"
                raise InvalidInput(what, template, f"fields of task {info.name!r}: {parameters}")


def named(
    limit: int, info: TaskInfo, arguments: Mapping[str, Any], unchecked: Collection[str] = ()
) -> tuple[str, Options]:
    """Checks arguments against the description of a task. Returns them as JSON, and the options of the task."""
    body = arguments_json(arguments, limit, info.name)
    check_arguments(info, arguments, unchecked)
    return body, Options(**shared(info, Options))


def check_arguments(info: TaskInfo, arguments: Mapping[str, Any], unchecked: Collection[str] = ()) -> None:
    """`unchecked`: arguments whose values are not known yet."""
    missing = [name for name in info.required if name not in arguments]
    unknown = [] if info.open else [name for name in arguments if name not in info.parameters]
    if missing:
        raise InvalidArguments(info.name, f"{missing[0]!r} is missing", info.parameters)
    if unknown:
        raise InvalidArguments(info.name, f"{unknown[0]!r} is unknown", info.parameters)
    for name, value in arguments.items():
        if name not in unchecked and not fits(value, info.types.get(name, ())):
            expected = " or ".join(info.types[name])
            raise InvalidArguments(info.name, f"{name!r} must be {expected}, not {value!r:.60}", info.parameters)
