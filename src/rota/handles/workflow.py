"""`Workflow`: a handle for jobs that were ordered together, by its id."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rota.clients import workflows
from rota.clients.jobs import POLL, NewsListener
from rota.errors import InvalidInput, WaitTimeout
from rota.handles.handle import Handle, core_of, id_of
from rota.handles.job import Job
from rota.handles.workflow_labels import details
from rota.model.drawing import Vertex, graphviz, mermaid, tree
from rota.model.lifecycle import LIVE, State
from rota.model.times import Span, as_instant, short
from rota.store.graph import WorkflowInfo, WorkflowJob

if TYPE_CHECKING:
    from rota.app import App
    from rota.app_core import AppCore


class Workflow(Handle):
    def __init__(self, app: App | AppCore, workflow_id: str) -> None:
        self._app, self.id = core_of(app), id_of(workflow_id, "workflow id")

    def _identity(self) -> tuple[type[Handle], str]:
        return Workflow, self.id

    def __repr__(self) -> str:
        return f"Workflow({self.id!r})"

    async def info(self) -> WorkflowInfo:
        """Its name, and how many of its jobs are in which state."""
        return await workflows.info(await self._app.client(), self.id)

    async def jobs(self) -> list[WorkflowJob]:
        """Its jobs with their parents, in the order in which they were ordered."""
        return await workflows.jobs(await self._app.client(), self.id)

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

    async def cancel(self, reason: str = workflows.CANCELLED) -> int:
        """Ends all of its jobs that have not ended; returns how many there were."""
        return await workflows.cancel(await self._app.client(), self.id, reason)

    async def retry(self, start: Job[Any] | str | None = None) -> int:
        """Runs failed and cancelled jobs again, and jobs that were skipped because of them; with `start`, only that job
        and those below it. Jobs that had run because of the failures wait again, too. Returns how many failed or
        cancelled ones there were."""
        return await workflows.retry(await self._app.client(), self.id, _job_id(start))

    async def replay(self, start: Job[Any] | str | None = None) -> int:
        """Runs all jobs again, or those from `start` on, however they ended. All of these must have ended."""
        return await workflows.replay(await self._app.client(), self.id, _job_id(start))

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

    def jobs_sync(self) -> list[WorkflowJob]:
        return self._app.sync(self.jobs())

    def wait_sync(self, timeout: Span | None = None) -> WorkflowInfo:
        return self._app.sync(self.wait(timeout))

    def cancel_sync(self, reason: str = workflows.CANCELLED) -> int:
        return self._app.sync(self.cancel(reason))

    def retry_sync(self, start: Job[Any] | str | None = None) -> int:
        return self._app.sync(self.retry(start))

    def replay_sync(self, start: Job[Any] | str | None = None) -> int:
        return self._app.sync(self.replay(start))

    def draw_sync(self, form: str = "tree") -> str:
        return self._app.sync(self.draw(form))


def _job_id(given: Any) -> Any:
    """Of a handle or an id; of anything else, the value itself, which is the id of no job."""
    return given if isinstance(given, str) else getattr(given, "id", given)


def _vertex(job: WorkflowJob, detail: str) -> Vertex:
    parents = tuple((edge.parent, edge.need) for edge in job.parents)
    note = job.reason or ""
    if job.started_at is not None and job.finished_at is not None and job.state is State.SUCCEEDED:
        took = max(as_instant(job.finished_at) - as_instant(job.started_at), 0)
        note = f"in {short(took // 1000 * 1000)}"
    return Vertex(job.id, job.task, job.state, parents, note, detail)
