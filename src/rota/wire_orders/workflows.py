"""Reads the description of a workflow. Names are local to it, and the whole is checked before anything is written."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from rota.errors import InvalidInput
from rota.model.graph import Edge, Need, after_all, check, edges, need
from rota.model.job import Membership, NewJob, keyed_last
from rota.model.options import Options, new_job, requirements, task_name, with_results, workflow_name
from rota.wire_orders.entries import Description, JobEntry
from rota.wire_orders.jobs import Ordered, Tasks, options_of, work_of

# One order is one transaction.
LARGEST = 20_000


class WrongWorkflow(InvalidInput):
    """`source`: where the description is from. `cause`: the complaint about a value in it, whose fields are kept."""

    def __init__(self, source: str, problem: str, cause: InvalidInput | None = None, job: str | None = None) -> None:
        super().__init__("workflow", source, "a workflow as JSON")
        if cause is not None:
            self.what = cause.what if job is None else f"job {job!r}: {cause.what}"
            self.given, self.expected = cause.given, cause.expected
        self.args = (f"{source}: {problem}",)


class ReadWorkflow(msgspec.Struct, frozen=True):
    """A workflow that was checked: its jobs, and the parents of each by their names."""

    name: str
    orders: dict[str, Ordered]
    parents: dict[str, tuple[Edge, ...]]
    last: int  # so many of them come after all others

    @property
    def tasks(self) -> list[str]:
        return [one.task for one in self.orders.values()]

    def jobs(self, new_ids: Callable[[int], Sequence[str]]) -> tuple[Membership, list[NewJob]]:
        """The whole order, with ids in the places of names."""
        ids = dict(zip(self.orders, new_ids(len(self.orders)), strict=True))
        tied = [_tied(name, one, self.parents[name], ids) for name, one in self.orders.items()]
        others = tied[: len(tied) - self.last]
        return Membership(new_ids(1)[0], self.name), [*others, *keyed_last(others, tied[len(others) :])]


def _tied(name: str, order: Ordered, parents: Sequence[Edge], ids: Mapping[str, str]) -> NewJob:
    after = edges(Edge(ids[edge.parent], edge.need, edge.fills) for edge in parents)
    options = msgspec.structs.replace(order.options, after=after, job_name=name)
    return new_job(ids[name], order.spec, order.task, order.body, options)


def read_graph(found: Description, source: str) -> dict[str, tuple[Edge, ...]]:
    """The parents of each job, by names. Raises WrongWorkflow."""
    with told(source):
        workflow_name(found.name)
        return _graph(found, source)


def read_workflow(
    found: Description, parents: dict[str, tuple[Edge, ...]], source: str, limit: int, tasks: Tasks
) -> ReadWorkflow:
    """`parents`: those of `read_graph`; `limit`: the largest arguments, command or call, in bytes."""
    orders = {}
    for job in found.all():
        with told(source, job.name):
            work = work_of(job, job.name, limit, tasks)
            order = work._replace(options=options_of(job, work.options))
            # Refuses keys that can't be filled in.
            requirements(order.task, order.body, with_results(order.options, job.fills()))
            orders[job.name] = order
    return ReadWorkflow(found.name, orders, parents, len(found.last()))


@contextmanager
def told(source: str, name: str | None = None) -> Iterator[None]:
    """Adds the place in the description to complaints."""
    try:
        yield
    except WrongWorkflow:
        raise
    except InvalidInput as error:
        problem = str(error) if name is None else f"job {name!r}: {error}"
        raise WrongWorkflow(source, problem, error, name) from None


def _graph(found: Description, source: str) -> dict[str, tuple[Edge, ...]]:
    jobs = found.all()
    if not found.jobs or len(jobs) > LARGEST:
        raise WrongWorkflow(source, f"has {len(found.jobs):,} jobs; a workflow has 1 to {LARGEST:,}")
    names = _names(jobs, source)
    graph: dict[str, tuple[Edge, ...]] = {}
    for job in found.jobs:
        with told(source, job.name):
            graph[job.name] = _edges(job, names)
    for job in found.last():
        with told(source, job.name):
            graph[job.name] = _edges_of_last(job, found)
    _check_circles(graph, source)
    return graph


def _names(jobs: Sequence[JobEntry], source: str) -> dict[str, int]:
    """The names of the jobs and their places. Refuses names and keys that are there twice."""
    names: dict[str, int] = {}
    keys: dict[str, str] = {}
    for place, job in enumerate(jobs, 1):
        with told(f"{source}: job {place}"):
            task_name(job.name)
        if job.name in names:
            raise WrongWorkflow(source, f"jobs {names[job.name]} and {place} have the same name, {job.name!r}")
        names[job.name] = place
        if job.key is not None:
            if job.key in keys:
                raise WrongWorkflow(source, f"jobs {keys[job.key]!r} and {job.name!r} have the same key, {job.key!r}")
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
        _check_parent(job, what, parent, names)
    return with_results(Options(after=edges(found)), fills).after


def _check_parent(job: JobEntry, what: str, parent: str, names: Collection[str]) -> None:
    if parent not in names:
        close = difflib.get_close_matches(parent, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"names in `{what}` are those of jobs in this file"
        raise InvalidInput(what, parent, f"the name of a job; {hint}")
    if parent == job.name:
        raise InvalidInput(what, parent, "other jobs; it waits for itself")


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
        raise WrongWorkflow(source, str(error).removeprefix("after: ")) from None
