"""`Job`: a handle for one order, by its id."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from rota.clients.jobs import after
from rota.errors import JobFailed
from rota.handles.handle import Handle, core_of, id_of
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.times import Span
from rota.store.values import Cancelling, Chunk, Position
from rota.tasks.encoding import JobReference
from rota.views.jobs import Explanation

if TYPE_CHECKING:
    from rota.app import App
    from rota.app_core import AppCore
    from rota.tasks.catalogue import ResultReader

R_co = TypeVar("R_co", covariant=True)


class Job(Handle, JobReference, Generic[R_co]):
    """A handle for one order. `R` is what its task returns: Any for commands, HTTP calls and handles by id."""

    @overload
    def __init__(self: Job[Any], app: App | AppCore, job_id: str) -> None: ...

    @overload
    def __init__(self, app: App | AppCore, job_id: str, returns: ResultReader | None) -> None: ...

    def __init__(self, app: App | AppCore, job_id: str, returns: ResultReader | None = None) -> None:
        """`returns` reads its result; without it the result is plain data."""
        self._app, self.id, self._returns = core_of(app), id_of(job_id, "job id"), returns

    def _identity(self) -> tuple[type[Handle], str]:
        return Job, self.id

    def __repr__(self) -> str:
        task = "" if self._returns is None else f", task={self._returns.task!r}"
        return f"Job({self.id!r}{task})"

    async def info(self) -> JobInfo:
        """The job as it is now: state, attempts, result, error and options."""
        return await (await self._app.client()).get(self.id)

    async def wait(self, timeout: Span | None = None) -> JobInfo:
        """The job once it has ended; raises `WaitTimeout` after the timeout."""
        return await (await self._app.client()).wait(self.id, timeout)

    async def result(self, timeout: Span | None = None) -> R_co:
        """The value that its task returned, as its annotation says; raises `JobFailed` unless it succeeded."""
        info = await self.wait(timeout)
        if info.state is not State.SUCCEEDED:
            if info.error is None:
                raise JobFailed(self.id, info.state, info.reason)
            raise JobFailed(self.id, info.state, info.error.message, info.error.type, info.error.trace)
        found: R_co = info.result if self._returns is None else self._returns.read(self.id, info.result)
        return found

    async def cancel(self, reason: str = "cancelled by its user") -> Cancelling:
        return (await (await self._app.client()).cancel([self.id], reason))[0]

    async def retry(self) -> bool:
        """Runs it again if it failed or was cancelled, and at once if it waits for its time."""
        return (await (await self._app.client()).retry([self.id]))[0]

    async def explain(self) -> Explanation:
        """Explains why it is not running, or why it ended as it did: one sentence per reason, and the same as data."""
        return await (await self._app.client()).explain(self.id)

    async def reprioritise(self, priority: int) -> bool:
        """Gives it another priority while it waits; False if it no longer does."""
        return (await (await self._app.client()).reprioritise([self.id], priority))[0]

    async def output(self, follow: bool = False) -> AsyncIterator[Chunk]:
        """The output of its attempts, in order; with `follow` until it has ended."""
        async for chunk in (await self._app.client()).output(self.id, follow):
            yield chunk

    async def logs(self) -> str:
        """The output of its attempts so far, as one text."""
        return b"".join([chunk.body async for chunk in self.output()]).decode("utf-8", "replace")

    # The sync face: the same calls for code that has no event loop.

    def info_sync(self) -> JobInfo:
        return self._app.sync(self.info())

    def wait_sync(self, timeout: Span | None = None) -> JobInfo:
        return self._app.sync(self.wait(timeout))

    def result_sync(self, timeout: Span | None = None) -> R_co:
        return self._app.sync(self.result(timeout))

    def cancel_sync(self, reason: str = "cancelled by its user") -> Cancelling:
        return self._app.sync(self.cancel(reason))

    def retry_sync(self) -> bool:
        return self._app.sync(self.retry())

    def explain_sync(self) -> Explanation:
        return self._app.sync(self.explain())

    def reprioritise_sync(self, priority: int) -> bool:
        return self._app.sync(self.reprioritise(priority))

    def output_sync(self, follow: bool = False) -> Iterator[Chunk]:
        position = Position()
        while chunks := self._app.sync(self._output_page(position, follow)):
            yield from chunks
            position = after(chunks)

    async def _output_page(self, position: Position, follow: bool) -> Sequence[Chunk]:
        return await (await self._app.client()).output_page(self.id, position, follow)

    def logs_sync(self) -> str:
        return self._app.sync(self.logs())
