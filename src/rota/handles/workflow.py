"""`Workflow`: a handle for jobs that were ordered together, by its id."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rota.clients.jobs import POLL, NewsListener
from rota.errors import InvalidInput, NotFound, WaitTimeout
from rota.handles.handle import Handle, app_of, id_of
from rota.handles.job import Job
from rota.handles.workflow_labels import details
from rota.model.drawing import Vertex, graphviz, mermaid, tree
from rota.model.graph import Need, below
from rota.model.lifecycle import LIVE, TERMINAL, State
from rota.model.options import check_reason
from rota.model.times import Span, short
from rota.store.graph import WorkflowFilter, WorkflowInfo, WorkflowJob
from rota.store.values import Cancelling

if TYPE_CHECKING:
    from rota.app import App

# The states that a retry runs again; jobs that were skipped because of these reopen by themselves.
_FAILED = (State.FAILED, State.CANCELLED)


class Workflow(Handle):
    def __init__(self, app: App, workflow_id: str) -> None:
        self._app, self.id = app_of(app), id_of(workflow_id, "workflow id")

    def _identity(self) -> tuple[type[Handle], str]:
        return Workflow, self.id

    def __repr__(self) -> str:
        return f"Workflow({self.id!r})"

    async def info(self) -> WorkflowInfo:
        """Its name, and how many of its jobs are in which state."""
        client = await self._app.client()
        for info in await client.store.workflows(client.who, WorkflowFilter(ids=(self.id,))):
            return info
        raise NotFound("workflow", self.id)

    async def jobs(self) -> list[WorkflowJob]:
        """Its jobs with their parents, in the order in which they were ordered."""
        client = await self._app.client()
        found = await client.store.workflow(client.who, self.id)
        if not found:
            await self.info()
        return list(found)

    async def wait(self, timeout: Span | None = None) -> WorkflowInfo:
        """The workflow once all its jobs have ended; raises `WaitTimeout` after the timeout."""
        client = await self._app.client()
        limit, news = client.wait_limit(timeout), NewsListener(client.store)
        try:
            async with asyncio.timeout(limit):
                while LIVE & (info := await self.info()).counts.keys():
                    await news.wait(POLL)
                return info
        except TimeoutError:
            raise WaitTimeout(self.id, "running", "workflow") from None
        finally:
            news.close()

    async def cancel(self, reason: str = "its workflow was cancelled") -> int:
        """Ends all of its jobs that have not ended; returns how many there were."""
        check_reason(reason)
        ids = [job.id for job in await self.jobs() if job.state in LIVE]
        client = await self._app.client()
        # In one call: between two calls, children of the first jobs would be skipped or start.
        answers = await client.store.cancel(client.who, ids, reason)
        return sum(answer in (Cancelling.CANCELLED, Cancelling.REQUESTED) for answer in answers)

    async def retry(self, start: Job[Any] | str | None = None) -> int:
        """Runs failed and cancelled jobs again, and jobs that were skipped because of them; with `start`, only that job
        and those below it. Jobs that had run because of the failures wait again, too. Returns how many failed or
        cancelled ones there were."""
        jobs = await self._from(start)
        ids = [job.id for job in jobs if job.state in _FAILED]
        if not ids:
            return 0
        client = await self._app.client()
        count = sum(await client.replay(ids))
        if alarms := _alarms(jobs):
            await client.rerun(alarms)
        return count

    async def replay(self, start: Job[Any] | str | None = None) -> int:
        """Runs all jobs again, or those from `start` on, however they ended. All of these must have ended."""
        jobs = await self._from(start)
        living = [job for job in jobs if job.state not in TERMINAL]
        if living:
            expected = f"a workflow whose jobs have ended; {living[0].id} ({living[0].task}) is {living[0].state}"
            raise InvalidInput("replay", self.id, expected)
        return sum(await (await self._app.client()).rerun([job.id for job in jobs]))

    async def _from(self, start: Job[Any] | str | None) -> list[WorkflowJob]:
        jobs = await self.jobs()
        if start is None:
            return jobs
        first: Any = start if isinstance(start, str) else getattr(start, "id", start)
        if first not in {job.id for job in jobs}:
            raise InvalidInput("job", first, f"a job of workflow {self.id}")
        chosen = set(below(_children(jobs), [first]))
        return [job for job in jobs if job.id in chosen]

    async def draw(self, form: str = "tree") -> str:
        """As text: a `tree` for the terminal, or the language of `graphviz` or `mermaid`."""
        jobs = await self.jobs()
        vertices = [_vertex(job, detail) for job, detail in zip(jobs, details(jobs), strict=True)]
        match form:
            case "tree":
                return "\n".join(tree(vertices))
            case "graphviz":
                return graphviz(vertices, (await self.info()).name or self.id)
            case "mermaid":
                return mermaid(vertices)
        raise InvalidInput("form", form, "tree, graphviz or mermaid")

    # The sync face: the same calls for code that has no event loop.

    def info_sync(self) -> WorkflowInfo:
        return self._app.sync(self.info())

    def wait_sync(self, timeout: Span | None = None) -> WorkflowInfo:
        return self._app.sync(self.wait(timeout))

    def cancel_sync(self, reason: str = "its workflow was cancelled") -> int:
        return self._app.sync(self.cancel(reason))

    def retry_sync(self, start: Job[Any] | str | None = None) -> int:
        return self._app.sync(self.retry(start))


def _children(jobs: Sequence[WorkflowJob]) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for job in jobs:
        for edge in job.parents:
            children.setdefault(edge.parent, []).append(job.id)
    return children


def _alarms(jobs: Sequence[WorkflowJob]) -> list[str]:
    """The jobs that have succeeded and ran because others failed, and those below them."""
    again = {job.id for job in jobs if job.state in (*_FAILED, State.SKIPPED)}
    alarms = [
        job.id
        for job in jobs
        if any(edge.need in (Need.FAILURE, Need.TROUBLE) and edge.parent in again for edge in job.parents)
    ]
    states = {job.id: job.state for job in jobs}
    return [one for one in below(_children(jobs), alarms) if states.get(one) is State.SUCCEEDED]


def _vertex(job: WorkflowJob, detail: str) -> Vertex:
    parents = tuple((edge.parent, edge.need) for edge in job.parents)
    note = job.reason or ""
    if job.started_at is not None and job.finished_at is not None and job.state is State.SUCCEEDED:
        note = f"in {short(max(job.finished_at - job.started_at, 0) // 1000 * 1000)}"
    return Vertex(job.id, job.task, job.state, parents, note, detail)
