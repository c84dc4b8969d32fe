"""The options of an order: their values, and how they are read and checked. `option_table` has a row for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from rota.errors import InvalidInput
from rota.model import secrets
from rota.model.feedback import flow
from rota.model.gates import labels, scope
from rota.model.graph import Edge, Need, Path, edges, need
from rota.model.job import NewJob, Spec, Terms, queue_name, shared
from rota.model.limits import Key, Policy, Rate, concurrency, fields, fill, keys, rate
from rota.model.option_table import COMMAND_NAMES, ORDER_NAMES
from rota.model.rank import priority
from rota.model.readers import one_of, printable
from rota.model.requirements import NO_REQUIREMENTS, Alone, Requirements
from rota.model.retry import Retry
from rota.model.times import MINUTE, Duration, Instant, duration, instant, some_time

LONGEST_KEY = 255
LONGEST_NAME = 200
LONGEST_REASON = 1_000
DRAIN: Duration = 10 * MINUTE


class Drained(StrEnum):
    """The fate of other jobs that have not ended when a job wants to be alone."""

    YIELD = "yield"  # they go on, and it tries again later
    CANCEL = "cancel"


class TaskOptions(Terms, frozen=True, kw_only=True):
    """The options that a task may have by itself."""

    secrets: tuple[str, ...] = ()  # names of arguments and environment variables
    labels: tuple[str, ...] = ()
    flow: str | None = None  # None: that of the task
    exclusive: str | None = None  # a template of a key
    rate: Rate | None = None  # of the task's own key
    limits: tuple[Key, ...] = ()  # with templates as names
    full: Policy = Policy.WAIT
    alone: str | None = None  # a scope such as queue:mail
    drain: Duration = DRAIN
    drained: Drained = Drained.YIELD

    @property
    def templates(self) -> list[Key]:
        """The keys that a job needs, with fields for its arguments; without the task's own key."""
        first = [] if self.exclusive is None else [Key(self.exclusive, 1)]
        return [Key(key.name, key.concurrency, key.rate, self.full) for key in (*first, *self.limits)]

    @property
    def texts(self) -> list[str]:
        """The texts with fields for arguments: the names of the keys and the flow."""
        return [*(key.name for key in self.templates), *([] if self.flow is None else [self.flow])]


class Options(TaskOptions, frozen=True, kw_only=True):
    """All options of an order. `after` has been read together with `on`."""

    at: Instant | None = None
    delay: Duration = 0
    expires: Duration | None = None
    key: str | None = None
    after: tuple[Edge, ...] = ()
    job_name: str = ""  # in its workflow; `name` of orders


# The options of an order that may be part of a workflow. (The name of a command or a call is that of its task.)
NAMED_ORDER = (*ORDER_NAMES, "name")


def read_options(
    defaults: Options, given: Mapping[str, Any], allowed: Sequence[str] = ORDER_NAMES, beside: Sequence[str] = ()
) -> Options:
    """`given` over `defaults`; None counts as not given. `beside`: names that the caller reads itself."""
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name not in allowed:
            raise InvalidInput("option", name, f"one of {', '.join((*beside, *allowed))}")
        if value is not None and name not in ("after", "on"):
            changes["job_name" if name == "name" else name] = READERS[name](value)
    if "secrets" in changes:  # an order can't make public what its task has declared
        changes["secrets"] = secrets.names([*defaults.secrets, *changes["secrets"]])
    if given.get("after") is not None:
        changes["after"] = parents(given["after"], given.get("on"))
    elif given.get("on") is not None:
        raise InvalidInput("on", given["on"], "it together with after=, which says what to wait for")
    if changes.get("at") is not None and changes.get("delay") is not None:
        raise InvalidInput("at and delay", "both", "one of them")
    whole = msgspec.structs.replace(defaults, **changes) if changes else defaults
    for name in ("drain", "drained"):
        if name in changes and whole.alone is None:
            raise InvalidInput(name, given[name], "it together with alone=, which says what else must not run")
    if "full" in changes and not whole.templates and whole.rate is None:
        raise InvalidInput("full", given["full"], "it together with exclusive=, rate= or limits=, which may be full")
    return whole


def about_command(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits options into those of the command, its name among them, and those of the job."""
    about = {name: value for name, value in given.items() if name in COMMAND_NAMES and value is not None}
    return about, {name: value for name, value in given.items() if name not in COMMAND_NAMES}


def parents(given: Any, on: Any = None) -> tuple[Edge, ...]:
    """Jobs to wait for: one or several, as handles or ids, or pairs with what each must have ended with."""
    otherwise = Need.SUCCESS if on is None else need(on)
    several = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(several, list | tuple | set | frozenset) or _is_pair(several):
        several = [several]
    return edges(_edge(one, otherwise) for one in several)


def with_results(options: Options, fills: Mapping[str, tuple[Path, ...]]) -> Options:
    """The options of an order with results of jobs among its arguments (places by job): it comes after these jobs, and
    needs their success."""
    for edge in options.after:
        if edge.parent in fills and edge.need is not Need.SUCCESS:
            what = f"job {edge.parent} with need {edge.need}"
            raise InvalidInput("after", what, "need success, or no need: its result is an argument")
    waiting = [tuple(map(str, path)) for paths in fills.values() for path in paths]
    for template in options.texts:
        for field in fields(template):
            path = tuple(field.split("."))
            if any(path[: len(one)] == one[: len(path)] for one in waiting):
                expected = f"fields of arguments that are known now; {field!r} is the result of a job"
                raise InvalidInput("flow" if template == options.flow else "key", template, expected)
    results = (Edge(job, Need.SUCCESS, paths) for job, paths in fills.items())
    return msgspec.structs.replace(options, after=edges([*options.after, *results]))


def _is_pair(given: Any) -> bool:
    """Whether a tuple is a job and its need. A handle is no text, so a text beside it must be its need."""
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[1], str):
        return False
    return given[1] in list(Need) or (not isinstance(given[0], str) and len(given[1]) < 32)


def _edge(given: Any, otherwise: Need) -> Edge:
    parent, chosen = (given[0], need(given[1])) if isinstance(given, tuple) and len(given) == 2 else (given, otherwise)
    job_id = parent if isinstance(parent, str) else getattr(parent, "id", None)
    if not isinstance(job_id, str) or not 0 < len(job_id) <= LONGEST_KEY or not job_id.isprintable():
        raise InvalidInput("after", parent, "a job or its id, a list of them, or pairs such as (job, 'finish')")
    return Edge(job_id.lower(), chosen)


def new_job(job_id: str, spec: Spec, task: str, body: str, options: Options) -> NewJob:
    needed = requirements(task, body, options)
    return NewJob(
        job_id, task, spec.with_secrets(options.secrets), body, requirements=needed, **shared(options, NewJob)
    )


def new_jobs(
    ids: Sequence[str], spec: Spec, task: str, bodies: Sequence[str], options: Options, meta: str | None = None
) -> list[NewJob]:
    first = NewJob("", task, spec.with_secrets(options.secrets), **shared(options, NewJob), meta=meta)
    return [
        msgspec.structs.replace(first, id=job_id, args=body, requirements=requirements(task, body, options))
        for job_id, body in zip(ids, bodies, strict=True)
    ]


def requirements(task: str, body: str, options: Options) -> Requirements:
    """The requirements of a job: its options for admission, with arguments filled into the keys and the flow."""
    templates = options.templates
    if not (options.labels or templates or options.rate or options.alone or options.flow):
        return NO_REQUIREMENTS
    arguments = msgspec.json.decode(body) if any(map(fields, options.texts)) else {}
    wanted = [msgspec.structs.replace(key, name=fill(key.name, arguments)) for key in templates]
    if options.rate is not None:
        wanted.append(Key(f"task:{task}", None, options.rate, options.full))
    return Requirements(
        options.labels, keys(wanted), _alone(options), options.flow and flow(fill(options.flow, arguments))
    )


def _alone(options: Options) -> Alone | None:
    if options.alone is None:
        return None
    match = scope(options.alone)
    return Alone(match, match.like, options.drain, options.drained is Drained.CANCEL)


def _template(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput("exclusive", value, "a key such as user:{user_id}, with fields for arguments")
    fields(value)
    return value


def _flow(value: Any) -> str:
    name = flow(value)
    fields(name)
    return name


def _limits(value: Any) -> tuple[Key, ...]:
    """Keys with how many may run at once (5), how many may start (`60/1m`), or None: as set at run time."""
    expected = "keys and their bounds such as {'db': 5, 'api:{region}': '60/1m'}"
    if isinstance(value, list | tuple) and all(isinstance(one, Key) for one in value):
        return tuple(value)
    if not isinstance(value, Mapping):
        raise InvalidInput("limits", value, expected)
    found: list[Key] = []
    for template, bound in value.items():
        if not isinstance(template, str) or not template:
            raise InvalidInput("limits", template, expected)
        fields(template)
        count = (
            concurrency(bound, f"limit of key {template!r}")
            if bound is not None and not isinstance(bound, str | Rate)
            else None
        )
        found.append(Key(template, count, rate(bound) if isinstance(bound, str | Rate) else None))
    return tuple(found)


def check_reason(value: Any) -> None:
    if not isinstance(value, str) or len(value) > LONGEST_REASON or "\0" in value:
        raise InvalidInput("reason", value, f"a text of up to {LONGEST_REASON} characters")


def workflow_name(value: Any) -> str:
    return printable(value, "workflow name", 0, LONGEST_NAME, f"up to {LONGEST_NAME} printable characters")


def task_name(value: Any, what: str = "task name") -> str:
    return printable(value, what, 1, LONGEST_NAME, f"a name of up to {LONGEST_NAME} printable characters")


def _retry(value: Any) -> Retry:
    if isinstance(value, Retry):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput("retry", value, "a number of retries or rota.Retry(...)")
    return Retry(value)


def _key(value: Any) -> str:
    return printable(value, "key", 1, LONGEST_KEY, f"a text of 1 to {LONGEST_KEY} printable characters")


READERS: dict[str, Callable[[Any], Any]] = {
    "at": lambda value: instant(value, "at"),
    "delay": lambda value: duration(value, "delay"),
    "priority": priority,
    "queue": queue_name,
    "key": _key,
    "name": lambda value: task_name(value, "name"),
    "retry": _retry,
    "timeout": lambda value: some_time(value, "timeout"),
    "expires": lambda value: some_time(value, "expires"),
    "secrets": secrets.names,
    "labels": labels,
    "flow": _flow,
    "exclusive": _template,
    "rate": rate,
    "limits": _limits,
    "full": lambda value: one_of(Policy, value, "full"),
    "alone": lambda value: scope(value, "alone").scope(),
    "drain": lambda value: some_time(value, "drain"),
    "drained": lambda value: one_of(Drained, value, "drained"),
}
