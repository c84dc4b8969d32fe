"""`rota workflow submit`: jobs that wait for each other, described as JSON. Names are local to the file, and the whole
file is checked before anything is written."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from rota import orders
from rota.app import App
from rota.cli.session import make_app, read_input
from rota.cli.show import answer, safe
from rota.cli.submit import OfferedTasks, folder, known_tasks
from rota.errors import InvalidInput
from rota.handles.job import Job
from rota.handles.workflow import Workflow
from rota.handles.workflow_builder import LARGEST, place_workflow
from rota.model.graph import Edge, Need, after_all, check, edges, need
from rota.model.job import Membership, NewJob, Spec, keyed_last
from rota.model.option_table import CALLS, COMMANDS, JOBS, Option
from rota.model.options import Options, new_job, read_options, requirements, task_name, with_results, workflow_name
from rota.model.retry import Retry
from rota.tasks.encoding import JobReference
from rota.tasks.results import Fills, argument_names, split

LARGEST_FILE = 256 << 20  # bytes
_EXPECTED = (
    """{"name": "...", "jobs": [{"name": "a", "task": "extract"}, {"name": "b", "command": ["ls"], "after": ["a"]}]}"""
)


def _fields(options: Iterable[Option]) -> list[tuple[str, Any, None]]:
    return [(one.name, one.json | None, None) for one in options if one.json is not None]


if TYPE_CHECKING:
    HttpFields = msgspec.Struct

    class JobFields(msgspec.Struct):
        """The fields that are read by name here."""

        key: str | None
        after: str | list[str] | dict[str, str] | None
        on: str | None
        results: dict[str, Any] | None

else:
    HttpFields = msgspec.defstruct("HttpFields", _fields(CALLS), kw_only=True)
    JobFields = msgspec.defstruct("JobFields", _fields((*COMMANDS, *JOBS)), kw_only=True)


class HttpEntry(HttpFields, forbid_unknown_fields=True):
    """An HTTP entry of the file, with the options of calls."""

    method: str
    url: str


class JobEntry(JobFields, forbid_unknown_fields=True):
    """A job entry of the file, with the options of jobs and commands."""

    name: str
    task: str | None = None
    args: dict[str, Any] | None = None
    command: list[str] | None = None
    http: HttpEntry | None = None

    def whole(self) -> dict[str, Any]:
        """The arguments, with references to jobs by their names in the file in the places of results."""
        arguments = dict(self.args or {})
        for name, value in (self.results or {}).items():
            if name in arguments:
                raise InvalidInput("results", name, "arguments that are not in `args`")
            arguments[name] = _references(name, value)
        return arguments

    def fills(self) -> Fills:
        return split(self.whole(), "args")[1] if self.results else {}

    def given(self, options: Iterable[Option]) -> dict[str, Any]:
        """The values of options by their names; None: not given."""
        return {one.name: getattr(self, one.name) for one in options if one.json is not None}


def _references(what: str, value: Any) -> Any:
    match value:
        case str():
            return JobReference(value)
        case list():
            return [_references(what, part) for part in value]
        case dict():
            return {key: _references(what, part) for key, part in value.items()}
    raise InvalidInput("results", value, f"the name of a job for {what!r}, or a list or an object of names")


class Description(msgspec.Struct, forbid_unknown_fields=True):
    jobs: list[JobEntry]
    name: str = ""
    on_failure: JobEntry | None = None
    on_success: JobEntry | None = None

    def all(self) -> list[JobEntry]:
        """With those that come after all others."""
        return [*self.jobs, *self.last()]

    def last(self) -> list[JobEntry]:
        return [job for job in (self.on_failure, self.on_success) if job is not None]


class WrongFile(InvalidInput):
    def __init__(self, source: str, problem: str) -> None:
        super().__init__("workflow", source, "a workflow as JSON")
        self.args = (f"{source}: {problem}",)


async def submit_(args: argparse.Namespace) -> int:
    source = "standard input" if args.file == "-" else args.file
    found = _read(args.file, source)
    with _told(source):
        workflow_name(found.name)
        parents = _graph(found, source)
    async with make_app(args) as app:
        orders = await _orders(app, args, found.all(), source)
        client = await app.client()
        ids = dict(zip(parents, client.job_ids(len(parents)), strict=True))
        member = Membership(client.job_ids(1)[0], found.name)
        workflow = Workflow(app, member.id)

        tied = _tied(orders, parents, ids)
        others = tied[: len(found.jobs)]
        whole = [*others, *keyed_last(others, tied[len(found.jobs) :])]

        async def ordered(meta: str | None) -> list[Job[Any]]:
            workflow.id, made = await place_workflow(app, client, member, whole, meta)
            return [Job(app, job_id) for job_id in made]

        jobs = await app.catalogue.hooks.submit_async([one.task for one in orders], ordered)
    names = {name: job.id for name, job in zip(parents, jobs, strict=True)}
    return answer(args, {"id": workflow.id, "name": found.name, "jobs": names}, workflow.id)


@contextmanager
def _told(source: str, name: str | None = None) -> Iterator[None]:
    """Adds the place in the file to complaints."""
    try:
        yield
    except WrongFile:
        raise
    except InvalidInput as error:
        raise WrongFile(source, str(error) if name is None else f"job {name!r}: {error}") from None


def _read(path: str, source: str) -> Description:
    text = read_input(path, "FILE", "a workflow that can be read", LARGEST_FILE + 1)
    if len(text) > LARGEST_FILE:
        raise WrongFile(source, f"has more than {LARGEST_FILE:,} bytes")
    try:
        return msgspec.json.decode(text, type=Description)
    except msgspec.ValidationError as error:
        raise WrongFile(source, f"{error}; expected a workflow such as {_EXPECTED}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WrongFile(source, f"is not JSON ({error})") from None


# -- edges ----------------------------------------------------------------------------------------------
def _graph(found: Description, source: str) -> dict[str, tuple[Edge, ...]]:
    """The parents of each job, by the names of the file."""
    jobs = found.all()
    if not found.jobs or len(jobs) > LARGEST:
        raise WrongFile(source, f"has {len(found.jobs):,} jobs; a workflow has 1 to {LARGEST:,}")
    names = _names(jobs, source)
    graph: dict[str, tuple[Edge, ...]] = {}
    for job in found.jobs:
        with _told(source, job.name):
            graph[job.name] = _edges(job, names)
    for job in found.last():
        with _told(source, job.name):
            graph[job.name] = _edges_of_last(job, found)
    _check_circles(graph, source)
    return graph


def _names(jobs: Sequence[JobEntry], source: str) -> dict[str, int]:
    """The names of the jobs and their places. Refuses names and keys that are there twice."""
    names: dict[str, int] = {}
    keys: dict[str, str] = {}
    for place, job in enumerate(jobs, 1):
        with _told(f"{source}: job {place}"):
            task_name(job.name)
        if job.name in names:
            raise WrongFile(source, f"jobs {names[job.name]} and {place} have the same name, {job.name!r}")
        names[job.name] = place
        if job.key is not None:
            if job.key in keys:
                raise WrongFile(source, f"jobs {keys[job.key]!r} and {job.name!r} have the same key, {job.key!r}")
            keys[job.key] = job.name
    return names


def _edges(job: JobEntry, names: Collection[str]) -> tuple[Edge, ...]:
    if job.on is not None and not job.after:
        raise InvalidInput("on", job.on, "it together with after, which says what to wait for")
    otherwise = Need.SUCCESS if job.on is None else need(job.on)
    if isinstance(job.after, Mapping):
        if job.on is not None:
            raise InvalidInput("on", job.on, "it beside a list: in a mapping each name has its own")
        found = [Edge(parent, need(needed)) for parent, needed in job.after.items()]
    else:
        found = [Edge(parent, otherwise) for parent in ([job.after] if isinstance(job.after, str) else job.after or ())]
    fills = job.fills()
    for what, parent in (*(("after", edge.parent) for edge in found), *(("results", name) for name in fills)):
        if parent not in names:
            close = difflib.get_close_matches(parent, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"names in `{what}` are those of jobs in this file"
            raise InvalidInput(what, parent, f"the name of a job; {hint}")
        if parent == job.name:
            raise InvalidInput(what, parent, "other jobs; it waits for itself")
    return with_results(Options(after=edges(found)), fills).after


def _edges_of_last(job: JobEntry, found: Description) -> tuple[Edge, ...]:
    """Of a job that comes after all others."""
    failure = job is found.on_failure
    if job.after is not None or job.on is not None:
        raise InvalidInput("after and on", "given", "none of them: it comes after all other jobs")
    if failure and job.results:
        raise InvalidInput("results", list(job.results), "none: a job that it comes after may have failed")
    others = [one.name for one in found.jobs]
    return after_all(Need.TROUBLE if failure else Need.FINE, others, _edges(job, others))


def _check_circles(graph: Mapping[str, tuple[Edge, ...]], source: str) -> None:
    try:
        check(graph, {name: name for name in graph})
    except InvalidInput as error:
        raise WrongFile(source, safe(str(error).removeprefix("after: "))) from None


# -- orders ---------------------------------------------------------------------------------------------------
class Ordered(msgspec.Struct, frozen=True):
    name: str
    spec: Spec
    task: str
    body: str
    options: Options


async def _orders(app: App, args: argparse.Namespace, jobs: Sequence[JobEntry], source: str) -> list[Ordered]:
    known = await known_tasks(app, args) if any(job.task is not None for job in jobs) else OfferedTasks({}, "")
    orders = []
    for job in jobs:
        with _told(source, job.name):
            order = _order(app, args, job, known)
            # Refuses keys that can't be filled in.
            requirements(order.task, order.body, with_results(order.options, job.fills()))
            orders.append(order)
    return orders


def _order(app: App, args: argparse.Namespace, job: JobEntry, known: OfferedTasks) -> Ordered:
    given = [name for name in ("task", "command", "http") if getattr(job, name) is not None]
    if len(given) != 1:
        raise InvalidInput("task, command and http", " and ".join(given) or "none", "one of them")
    if job.results is not None and job.task is None:
        raise InvalidInput("results", list(job.results), "none: only tasks get results")
    about = job.given(COMMANDS)
    if job.command is not None:
        if job.args is not None:
            raise InvalidInput("args", job.args, "none: a command has its arguments in its list")
        about["cwd"] = folder(about["cwd"], "cwd")
        spec, task = app.command(job.command, name=job.name, **about)
        return Ordered(job.name, spec, task, "{}", options_of(job, Options()))
    for name, value in about.items():
        if value is not None:
            raise InvalidInput(name, value, f"it at a command, not at {given[0]}")
    if job.http is not None:
        if job.args is not None:
            raise InvalidInput("args", job.args, "none: an HTTP call has a body")
        call = app.http(**msgspec.structs.asdict(job.http), name=job.name)
        return Ordered(job.name, call.spec, call.task, "{}", options_of(job, Options()))
    info = known.get(job.task or "")
    if args.app:  # the app's code is here: check types too
        app.catalogue.get(info.name).encode_order((), job.whole(), app.settings.max_args)
    plain, fills = split(job.whole(), "args")
    body, defaults = orders.named(app.settings.max_args, info, plain, argument_names(fills))
    return Ordered(job.name, Spec.function(info.name), info.name, body, options_of(job, defaults))


def options_of(job: JobEntry, defaults: Options) -> Options:
    """The options of a job without its parents, which are given by names of the file."""
    given = job.given(JOBS)
    changes = {name: value for name in ("retries", "backoff") if (value := given.pop(name)) is not None}
    given |= {"retry": Retry(**(defaults.retry.parts() | changes)), "after": None, "on": None}
    del given["results"]
    return read_options(defaults, given)


def _tied(
    orders: Sequence[Ordered],
    parents: Mapping[str, Sequence[Edge]],
    ids: Mapping[str, str],
) -> list[NewJob]:
    """The whole order, with ids in the place of names."""
    whole = []
    for one in orders:
        after = edges(Edge(ids[edge.parent], edge.need, edge.fills) for edge in parents[one.name])
        options = msgspec.structs.replace(one.options, after=after, job_name=one.name)
        whole.append(new_job(ids[one.name], one.spec, one.task, one.body, options))
    return whole
