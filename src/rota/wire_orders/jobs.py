"""Reads the order of a job: checks it, and builds the spec, the arguments and the options that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import msgspec

from rota import orders
from rota.errors import InvalidInput
from rota.model.job import NewJob, Spec
from rota.model.option_table import ORDER_NAMES
from rota.model.options import Options, new_job, read_options, with_results
from rota.model.retry import Retry
from rota.model.task import TaskInfo
from rota.tasks.results import argument_names, split
from rota.wire_orders.entries import KINDS, Entry, OrderEntry, command_options, job_options, named_as_given

_RETRY = ("retries", "backoff")


class Tasks(Protocol):
    """The tasks that can be ordered."""

    def get(self, name: str) -> TaskInfo:
        """Raises UnknownTask."""


class Ordered(NamedTuple):
    """What a job does, and its options."""

    spec: Spec
    task: str
    body: str  # arguments as JSON
    options: Options

    def job(self, job_id: str) -> NewJob:
        return new_job(job_id, *self)


def read_order(
    entry: OrderEntry, limit: int, tasks: Tasks, allowed: Sequence[str] = (*ORDER_NAMES, "results")
) -> Ordered:
    """`limit`: the largest arguments, command or call, in bytes. `after` and `results` have ids of jobs. `allowed`: the
    options that may stand here."""
    if entry.name is not None and entry.task is not None:
        raise InvalidInput("name", entry.name, "it at a command or an HTTP call; a task has a name")
    work = work_of(entry, entry.name, limit, tasks)
    given = job_options(entry)
    for name in given:
        if name not in allowed and name not in _RETRY:
            what = named_as_given(entry, name)
            raise InvalidInput(what, given[name], f"no such option here; one of {', '.join(allowed)}")
    options = _read(entry, given, work.options)
    if entry.results:
        options = with_results(options, {job.lower(): paths for job, paths in entry.fills().items()})
    return work._replace(options=options)


def read_orders(entries: Sequence[OrderEntry], limit: int, tasks: Tasks) -> list[Ordered]:
    """Complaints name the place of the order in the list."""
    found = []
    for place, entry in enumerate(entries):
        try:
            found.append(read_order(entry, limit, tasks))
        except InvalidInput as error:
            raise within(f"jobs[{place}]", error) from None
    return found


def within(place: str, error: InvalidInput) -> InvalidInput:
    """The complaint, with the place of the wrong value before its name."""
    error.what, error.args = f"{place}.{error.what}", (f"{place}: {error}",)
    return error


def work_of(entry: Entry, name: str | None, limit: int, tasks: Tasks) -> Ordered:
    """The work, with the options that it has unless its order says otherwise. `name`: of the task of a command or a
    call; None: that of its program or host."""
    given = [kind for kind in KINDS if getattr(entry, kind) is not None]
    if len(given) != 1:
        raise InvalidInput("task, command and http", " and ".join(given) or "none", "one of them")
    if entry.results is not None and entry.task is None:
        raise InvalidInput("results", list(entry.results), "none: only tasks get results")
    about = command_options(entry)
    if entry.command is not None:
        if entry.args is not None:
            raise InvalidInput("args", entry.args, "none: a command has its arguments in its list")
        return Ordered(*orders.command(limit, entry.command, name, about), "{}", Options())
    for option, value in about.items():
        raise InvalidInput(option, value, f"it at a command, not at {given[0]}")
    if entry.http is not None:
        if entry.args is not None:
            raise InvalidInput("args", entry.args, "none: an HTTP call has a body")
        words = msgspec.structs.asdict(entry.http)
        call = orders.http(limit, words.pop("method"), words.pop("url"), words | {"name": name})
        return Ordered(call.spec, call.task, "{}", Options())
    info = tasks.get(entry.task or "")
    if entry.results is None:
        body, defaults = orders.named(limit, info, entry.args or {})
    else:
        plain, fills = split(entry.whole(), "args")
        body, defaults = orders.named(limit, info, plain, argument_names(fills))
    return Ordered(_function(info.name), info.name, body, defaults)


_function = lru_cache(maxsize=1024)(Spec.function)


def options_of(entry: Entry, defaults: Options) -> Options:
    """The options of a job of a workflow, without its parents: these are given by names of the workflow."""
    given = job_options(entry)
    return _read(entry, {name: value for name, value in given.items() if name not in ("after", "on")}, defaults)


def _read(entry: Entry, given: dict[str, Any], defaults: Options) -> Options:
    given.pop("results", None)  # they are edges: see `with_results`
    changes = {name: given.pop(name) for name in _RETRY if name in given}
    if changes:
        given["retry"] = Retry(**(defaults.retry.parts() | changes))
    if not given:
        return defaults
    try:
        return read_options(defaults, given)
    except InvalidInput as error:
        if (what := named_as_given(entry, error.what)) != error.what:
            raise InvalidInput(what, error.given, error.expected) from None
        raise
