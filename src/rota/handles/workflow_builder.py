"""Builds a workflow: jobs that are ordered all at once or not at all.

async with app.workflow("nightly") as flow:
    rows = flow.add(extract, day="2027-01-01")
    flow.add(load, after=rows)
    flow.add(["rm", "-rf", "scratch"], after=rows, on="finish")
    flow.add(app.http("POST", "https://example.com/done"), after=rows)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from rota.clients.jobs import JobsClient
from rota.errors import InvalidInput
from rota.handles.job import Job
from rota.handles.task import Task
from rota.handles.workflow import Workflow
from rota.model.graph import check
from rota.model.job import Membership, NewJob
from rota.model.options import Options, new_job, read_options, workflow_name
from rota.orders import HttpCall
from rota.store.carriers.at_once import run_at_once
from rota.tasks.context import Context

if TYPE_CHECKING:
    from typing import Unpack

    from rota.app import App
    from rota.handles.keywords import CommandOrderKeywords

R = TypeVar("R")
# One order is one transaction.
LARGEST = 20_000


class WorkflowBuilder(Workflow):
    """A workflow that is being put together in an `async with` (or `with`) block; afterwards it is like any other.
    Nothing is ordered if the block ends with an error."""

    def __init__(self, app: App, name: str, of: Workflow | Job[Any] | Context | str | None, within: Any = None) -> None:
        super().__init__(app, "")
        self._name, self._of, self._within = workflow_name(name), of, within
        self._client: JobsClient | None = None  # while the block lasts
        self._orders: list[tuple[Job[Any], NewJob]] = []

    @overload
    def add(self, task: Task[..., R], /, *args: Any, **kwargs: Any) -> Job[R]: ...

    @overload
    def add(self, task: HttpCall | Sequence[str], /, **options: Unpack[CommandOrderKeywords]) -> Job[Any]: ...

    def add(self, task: Task[..., Any] | HttpCall | Sequence[str], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Adds a task with its arguments, a command as a list, or `app.http(...)`, with options as `submit` takes
        them. `after`: a job, or a list of jobs, or of pairs such as `(job, "finish")`; `on`: what they must have ended
        with."""
        if self._client is None:
            raise InvalidInput("add", "outside of its block", "a call inside `async with app.workflow() as flow:`")
        if len(self._orders) == LARGEST:
            raise InvalidInput("workflow", f"more than {LARGEST} jobs", f"at most {LARGEST}; a job of it may add more")
        if isinstance(task, Task):
            task.check_connection(self._within)
            spec, body, options = task.read(args, kwargs)
            name = task.name
        elif isinstance(task, HttpCall):
            if args:
                raise InvalidInput("arguments", args, "none: app.http(...) says all of the call")
            spec, name = task.spec, task.task
            body, options = "{}", read_options(Options(), kwargs)
        else:
            if args:
                raise InvalidInput("arguments", args, "none: a command has its arguments in its list")
            spec, name, (body,), options = self._app.command_order(task, kwargs)
        (job_id,) = self._client.job_ids(1)
        job = task.handle(job_id) if isinstance(task, Task) else Job(self._app, job_id)
        self._orders.append((job, new_job(job_id, spec, name, body, options)))
        return job

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
            await self._order(client)

    def __enter__(self) -> WorkflowBuilder:
        if self._within is None:
            return self._app.sync(self.__aenter__())
        return run_at_once(self._begin(run_at_once(self._client_within(False))))

    def __exit__(self, *error: object) -> None:
        if self._within is None:
            self._app.sync(self.__aexit__(*error))
        else:
            run_at_once(self.__aexit__(*error))

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

    async def _order(self, client: JobsClient) -> None:
        if not self._orders:
            if self._of is None:
                raise InvalidInput("workflow", self._name or self.id, "at least one job")
            return
        membership = Membership(self.id, self._name, new=self._of is None)
        names = {job.id: f"{order.task} ({number})" for number, (job, order) in enumerate(self._orders, 1)}
        check({order.id: order.after for _, order in self._orders}, names)
        jobs = [msgspec.structs.replace(order, workflow=membership) for _, order in self._orders]
        await client.make_known(self._app.catalogue)
        answers = await client.submit_whole(jobs)
        for (job, _), answer in zip(self._orders, answers, strict=True):
            job.id = answer.id
        if self._of is None and not any(answer.created for answer in answers):
            # The keys were known: this is the workflow of the first order.
            self.id = (await client.get(answers[0].id)).workflow or self.id
        self._orders.clear()
