"""Builds a workflow: jobs that are ordered all at once or not at all.

async with app.workflow("nightly") as flow:
    rows = flow.add(extract, day="2027-01-01")
    flow.add(load, rows=rows)
    flow.add(["rm", "-rf", "scratch"], after=rows, on="finish")
    flow.add(app.http("POST", "https://example.com/done"), after=rows)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast, overload

import msgspec

from rota.clients import workflows
from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput
from rota.handles.job import Job
from rota.handles.task import Task
from rota.handles.workflow import Workflow
from rota.model.graph import Need, after_all, check
from rota.model.job import Membership, NewJob, Spec, keyed_last, same_keys
from rota.model.options import NAMED_ORDER, Options, new_job, read_options, workflow_name
from rota.orders import HttpCall
from rota.store.carriers.at_once import run_at_once
from rota.tasks.context import Context
from rota.wire_orders.workflows import LARGEST

if TYPE_CHECKING:
    from typing import Unpack

    from rota.app_core import AppCore
    from rota.handles.keywords import CommandOrderKeywords

    AnyWork: TypeAlias = Task[..., Any] | HttpCall | Sequence[str]
    LastWork: TypeAlias = AnyWork | tuple[Task[..., Any], Mapping[str, Any]]

R = TypeVar("R")
_WORDS = {Need.TROUBLE: "on_failure", Need.FINE: "on_success"}


class Work(NamedTuple):
    """What a job does, and its options."""

    spec: Spec
    task: str
    body: str
    options: Options


class LastJob(NamedTuple):
    """A job that runs when all other jobs of its workflow have ended like this."""

    job: Job[Any]
    need: Need
    work: Work


class WorkflowBuilder(Workflow):
    """A workflow that is being put together in an `async with` (or `with`) block; afterwards it is like any other.
    Nothing is ordered if the block ends with an error."""

    def __init__(
        self,
        app: AppCore,
        name: str,
        of: Workflow | Job[Any] | Context | str | None,
        within: Any = None,
        on_failure: LastWork | None = None,
        on_success: LastWork | None = None,
    ) -> None:
        super().__init__(app, "")
        self._name, self._of, self._within = workflow_name(name), of, within
        self._client: JobsClient | None = None  # while the block lasts
        self._orders: list[tuple[Job[Any], NewJob]] = []
        self._last_jobs: list[LastJob] = []
        for need, last in ((Need.TROUBLE, on_failure), (Need.FINE, on_success)):
            if last is not None:
                self._add_last(need, *_last_work(need, last))

    @overload
    def add(self, task: Task[..., R], /, *args: Any, **kwargs: Any) -> Job[R]: ...

    @overload
    def add(self, task: HttpCall | Sequence[str], /, **options: Unpack[CommandOrderKeywords]) -> Job[Any]: ...

    def add(self, task: AnyWork, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Adds a task with its arguments, a command as a list, or `app.http(...)`, with options as `submit` takes
        them. A job among the arguments stands for its result. `after`: a job, or a list of jobs, or of pairs such as
        `(job, "finish")`; `on`: what they must have ended with; `name`: a name for people."""
        task = self._app.own_work(task, "add")
        job_id, work = self._new_id("add"), self._read(task, args, kwargs)
        job = self._handle(task, job_id)
        self._orders.append((job, new_job(job_id, *work)))
        return job

    @overload
    def on_failure(self, task: Task[..., R], /, *args: Any, **kwargs: Any) -> Job[R]: ...

    @overload
    def on_failure(self, task: HttpCall | Sequence[str], /, **options: Unpack[CommandOrderKeywords]) -> Job[Any]: ...

    def on_failure(self, task: AnyWork, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Adds a job that runs when all others of this order have ended, and one of them failed."""
        return self._add_last(Need.TROUBLE, task, args, kwargs, self._new_id("on_failure"))

    @overload
    def on_success(self, task: Task[..., R], /, *args: Any, **kwargs: Any) -> Job[R]: ...

    @overload
    def on_success(self, task: HttpCall | Sequence[str], /, **options: Unpack[CommandOrderKeywords]) -> Job[Any]: ...

    def on_success(self, task: AnyWork, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Adds a job that runs when all others of this order that were needed have succeeded."""
        return self._add_last(Need.FINE, task, args, kwargs, self._new_id("on_success"))

    def _new_id(self, what: str) -> str:
        """The id of one more job."""
        if self._client is None:
            raise InvalidInput(what, "outside of its block", "a call inside `async with app.workflow() as flow:`")
        if len(self._orders) + len(self._last_jobs) >= LARGEST:
            raise InvalidInput("workflow", f"more than {LARGEST} jobs", f"at most {LARGEST}; a job of it may add more")
        return self._client.job_ids(1)[0]

    def _add_last(
        self, need: Need, task: AnyWork, args: tuple[Any, ...], kwargs: dict[str, Any], job_id: str = ""
    ) -> Job[Any]:
        """`job_id`: empty before the block, when there is no client; then it gets one with the order."""
        what = _WORDS[need]
        task = self._app.own_work(task, what)
        work = self._read(task, args, kwargs)
        for edge in work.options.after:
            if not edge.fills:
                raise InvalidInput(what, f"after {edge.parent}", "no after=: it comes after all other jobs")
            if need is Need.TROUBLE:
                raise InvalidInput(what, f"the result of job {edge.parent}", "values: that job may have failed")
        job = self._handle(task, job_id)
        self._last_jobs.append(LastJob(job, need, work))
        return job

    def _handle(self, task: AnyWork, job_id: str) -> Job[Any]:
        return task._handle(job_id) if isinstance(task, Task) else Job(self._app, job_id)

    def _read(self, task: AnyWork, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Work:
        if isinstance(task, Task):
            task._check_connection(self._within)
            spec, body, options = task._read(args, kwargs)
            return Work(spec, task.name, body, options)
        if isinstance(task, HttpCall):
            if args:
                raise InvalidInput("arguments", args, "none: app.http(...) says all of the call")
            return Work(task.spec, task.task, "{}", read_options(Options(), kwargs, NAMED_ORDER))
        if args:
            raise InvalidInput("arguments", args, "none: a command has its arguments in its list")
        spec, name, (body,), options = self._app.command_order(task, kwargs)
        return Work(spec, name, body, options)

    # -- the block ---------------------------------------------------------------------------------------------------
    async def __aenter__(self) -> WorkflowBuilder:
        return await self._begin(await self._app.client() if self._within is None else await self._client_within(True))

    async def _begin(self, client: JobsClient) -> WorkflowBuilder:
        self.id = await self._place(client)
        self._client = client
        return self

    async def _client_within(self, waits: bool) -> JobsClient:
        """A client in the caller's own transaction."""
        return await self._app.client_within(self._within, waits)

    async def __aexit__(self, kind: object, *_: object) -> None:
        client, self._client = self._client, None
        if kind is None and client is not None:
            await self._app.catalogue.hooks.submit_async(self._tasks(), lambda meta: self._order(client, meta))

    def __enter__(self) -> WorkflowBuilder:
        if self._within is None:
            return self._app.sync(self.__aenter__())
        return run_at_once(self._begin(run_at_once(self._client_within(False))))

    def __exit__(self, kind: object, *_: object) -> None:
        client, self._client = self._client, None
        if kind is None and client is not None:
            run = self._app.sync if self._within is None else run_at_once
            self._app.catalogue.hooks.submit_sync(
                self._tasks(), lambda meta: run(self._order(client, meta)), self._app.sync
            )

    def _tasks(self) -> list[str]:
        if not self._orders and (self._of is None or self._last_jobs):
            other = " besides those of on_failure and on_success" if self._last_jobs else ""
            raise InvalidInput("workflow", self._name or self.id, f"at least one job{other}")
        return [*(order.task for _, order in self._orders), *(last.work[1] for last in self._last_jobs)]

    async def _place(self, client: JobsClient) -> str:
        """The id of a new workflow, or of the existing one that the jobs are added to."""
        match self._of:
            case None:
                return client.job_ids(1)[0]
            case Workflow():
                return self._of.id
            case str():
                return await client.workflow(self._of)
            case Job() | Context():
                job = self._of.id if isinstance(self._of, Job) else self._of.job.id
                found = (await client.get(job)).workflow
                if found is None:
                    raise InvalidInput("workflow", job, "a job that belongs to one")
                return found
        raise InvalidInput("workflow", self._of, "a workflow, its id, or a job of it")

    async def _order(self, client: JobsClient, meta: str | None) -> list[Job[Any]]:
        if not self._orders:
            return []
        last = list(self._last(client))
        keyed = keyed_last([order for _, order in self._orders], [order for _, order in last])
        orders = [*self._orders, *((job, order) for (job, _), order in zip(last, keyed, strict=True))]
        names = {job.id: f"{order.job_name or order.task} ({number})" for number, (job, order) in enumerate(orders, 1)}
        jobs = same_keys([order for _, order in orders])
        check({job.id: job.after for job in jobs}, names)
        member = Membership(self.id, self._name, new=self._of is None)
        self.id, ids = await place_workflow(self._app, client, member, jobs, meta)
        for (job, _), job_id in zip(orders, ids, strict=True):
            job.id = job_id
        handles = [job for job, _ in orders]
        self._orders.clear()
        self._last_jobs.clear()
        return handles

    def _last(self, client: JobsClient) -> Iterator[tuple[Job[Any], NewJob]]:
        """The jobs that come after all others."""
        others = [order.id for _, order in self._orders]
        for last in self._last_jobs:
            last.job.id = last.job.id or client.job_ids(1)[0]
            order = new_job(last.job.id, *last.work)
            yield last.job, msgspec.structs.replace(order, after=after_all(last.need, others, order.after))


async def place_workflow(
    app: AppCore, client: JobsClient, member: Membership, orders: Sequence[NewJob], meta: str | None
) -> tuple[str, list[str]]:
    """Orders the jobs of a workflow (`clients.workflows`) once the tasks of the app are known."""
    await client.make_known(app.catalogue)
    return await workflows.submit(client, member, orders, meta)


def _last_work(need: Need, given: LastWork) -> tuple[AnyWork, tuple[Any, ...], dict[str, Any]]:
    if isinstance(given, tuple) and given and isinstance(given[0], Task):
        if len(given) != 2 or not isinstance(given[1], Mapping):
            raise InvalidInput(_WORDS[need], given, "a task, or a task and its arguments: (alarm, {'to': 'me'})")
        return given[0], (), dict(given[1])
    return cast("AnyWork", given), (), {}
