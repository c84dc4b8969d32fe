"""The connections of an app in a harness: one store, kept open until the harness ends.

Sync calls run on a loop of the caller's own thread, not on a loop in another one: a job that a sync call runs (eager
mode) then runs where the test is.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from rota.clients.jobs import JobsClient
from rota.clock import Chance
from rota.connections import AppConnections, in_loop, refuse_in_loop
from rota.errors import RotaError, WaitTimeout
from rota.model.job import JobInfo, NewJob, Submitted
from rota.model.principal import Principal
from rota.model.times import Instant, Span
from rota.store.base import Store
from rota.testing.orders import OrderBook

T = TypeVar("T")
# Jobs within jobs, in eager mode. Each level of sync functions needs some twenty frames of Python's stack.
DEEPEST = 30
# For async code that waits for a job while the test runs it. A wait in the time of the harness would never end.
PATIENCE = 2.0
_depth: contextvars.ContextVar[int] = contextvars.ContextVar("rota_depth", default=0)

# Runs due jobs, and returns when the jobs with these ids have run.
RunNow = Callable[[Sequence[str]], Awaitable[None]]


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a loop of its own, on this thread; the thread's current event loop stays as it is set."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(work)


class HarnessConnections(AppConnections):
    def __init__(self, book: OrderBook) -> None:
        super().__init__()
        self.run_now: RunNow | None = None  # in eager mode
        self._book = book
        self._sync = threading.local()

    async def open(self, make_client: Callable[[], Awaitable[JobsClient]]) -> JobsClient:
        async def watched() -> JobsClient:
            made = await make_client()
            return WatchedClient(made.store, made.who, made.chance, self)

        return await super().open(watched)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        refuse_in_loop(work)
        self._sync.waits = True
        try:
            return run_here(work)
        finally:
            self._sync.waits = False

    def block(self, work: Coroutine[Any, Any, T]) -> T:
        """Like `run`, also inside a running loop: for sync code that may be there, with a connection of its own."""
        if not in_loop():
            return self.run(work)
        with ThreadPoolExecutor(1, "rota-harness") as thread:
            return thread.submit(self.run, work).result()

    @property
    def patience(self) -> float:
        """Seconds of real time that a wait for a job may take. A sync call blocks its thread: nothing would run the
        job meanwhile."""
        return 0.0 if getattr(self._sync, "waits", False) else PATIENCE

    def close(self) -> None:
        """Code under test may close the app. What it would find in its store afterwards stays."""

    async def close_async(self) -> None: ...

    async def end(self) -> None:
        self.run_now = None
        await super().close_async()

    async def ordered(
        self, jobs: Sequence[NewJob], answers: Sequence[Submitted], now: Instant, committed: bool
    ) -> None:
        self._book.add(jobs, answers, now)
        if self.run_now is None or not committed:
            return
        if _depth.get() >= DEEPEST:
            raise RotaError(f"jobs order jobs, {DEEPEST} deep: eager mode gives up; without it, drain() runs them")
        token = _depth.set(_depth.get() + 1)
        try:
            await self.run_now([answer.id for answer in answers if answer.created])
        finally:
            _depth.reset(token)


class WatchedClient(JobsClient):
    """Tells the harness of every order."""

    def __init__(
        self, store: Store, who: Principal, chance: Chance, harness: HarnessConnections, committed: bool = True
    ) -> None:
        """`committed`: False if its orders are part of a transaction that is still open."""
        super().__init__(store, who, chance)
        self._harness, self._committed = harness, committed

    async def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        answers = await super().submit(jobs)
        await self._harness.ordered(jobs, answers, self.store.now(), self._committed)
        return answers

    async def submit_whole(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        answers = await super().submit_whole(jobs)
        await self._harness.ordered(jobs, answers, self.store.now(), self._committed)
        return answers

    def wait_limit(self, timeout: Span | None) -> float | None:
        given = super().wait_limit(timeout)
        return self._harness.patience if given is None else min(given, self._harness.patience)

    async def wait(self, job_id: str, timeout: Span | None = None) -> JobInfo:
        try:
            return await super().wait(job_id, timeout)
        except WaitTimeout as error:
            error.args = (f"{error}: in a harness it runs in run_due(), drain() or advance(), or with eager=True",)
            raise
