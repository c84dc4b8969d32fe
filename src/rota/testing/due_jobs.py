"""Runs the due jobs of a harness, on the loop and the thread of whoever asks.

There is no node: each call makes a worker of its own. So a job may order another one and have it run before it goes on
(eager mode), on the same thread, in a loop inside its function.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from rota import config
from rota.batching import Batcher
from rota.clock import ManualClock
from rota.control.scheduler import Scheduler
from rota.errors import JobFailed, RotaError
from rota.logs.capture import captured
from rota.logs.shipper import Shipper
from rota.model.job import Kind, Verdict
from rota.model.lifecycle import State
from rota.model.outcome import Crashed, Failed, Outcome, Problem, SetAside, Settlement, TimedOut
from rota.model.principal import SYSTEM
from rota.model.times import SECOND, Instant
from rota.signals import Cancel, RetryAfter, Snooze
from rota.store.base import Store
from rota.store.values import JobFilter, Topic
from rota.telemetry.events import Bus
from rota.testing.executors import FakedCalls, FakedCommands, FakedDialer, Functions
from rota.testing.fakes import Fakes
from rota.work.attempt import Attempt, Executor, Pipeline, weight
from rota.work.executors.command import CommandExecutor
from rota.work.executors.http import HttpExecutor
from rota.work.keeper.client import KeeperClient
from rota.work.output import Drain
from rota.work.worker import Worker

if TYPE_CHECKING:
    from rota.app_core import AppCore

SLOTS = 100
BATCH = 500
# A job that always snoozes would keep drain() busy for ever.
MOST_ROUNDS = 10_000
NODE = "harness"
_ASKED_FOR = (Snooze, Cancel, RetryAfter)


class Means:
    """The options of a harness, for those who run its jobs."""

    def __init__(
        self, app: AppCore, fakes: Fakes, commands: bool, http: bool, raise_errors: bool, in_memory: bool
    ) -> None:
        self.app, self.fakes, self.commands, self.http, self.raise_errors = app, fakes, commands, http, raise_errors
        self.in_memory = in_memory


class Failures:
    """The exceptions of attempts, if they are to be raised."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._raised: dict[str, BaseException] = {}  # by job, until its attempt ends
        self.found: list[BaseException] = []

    def raised(self, job_id: str, error: BaseException) -> None:
        self._raised[job_id] = error

    def ended(self, job_id: str, outcome: Outcome) -> None:
        error = self._raised.pop(job_id, None)
        if self._wanted and isinstance(outcome, Failed | TimedOut | SetAside | Crashed):
            if error is None:
                error = JobFailed(job_id, "failed", outcome.problem.message)
            if not isinstance(error, _ASKED_FOR):
                self.found.append(error)


class Shift:
    """A worker on the current loop."""

    def __init__(self, means: Means, store: Store, clock: ManualClock, keeper: KeeperClient) -> None:
        self._store, self._failures = store, Failures(means.raise_errors)
        app = means.app
        shipper = Shipper(store, app.settings.max_output, app.bus)
        finishes: Batcher[Settlement, Verdict] = Batcher(lambda batch: store.finish(SYSTEM, batch), weigh=weight)
        executors = _executors(means, clock, keeper, self._failures)
        pipeline = Pipeline(executors, shipper, finishes, app.bus, app.chance)
        queues = dict.fromkeys(app.settings.queues, SLOTS)
        self._worker = Worker(store, clock, NODE, queues, lambda: list(Kind), 0, pipeline, shipper, app.bus)
        self._scheduler = Scheduler(store, Bus(), lambda: True)
        self.disturbed = True  # something other than the end of a job has happened
        self.close = store.listen(frozenset(Topic) - {Topic.NEWS, Topic.DEAF}, self._disturb)

    def _disturb(self) -> None:
        self.disturbed = True

    async def fire(self) -> None:
        """Makes the due fires of schedules."""
        self._scheduler.when_changed()
        for _ in range(2):  # the first tick prepares, the second applies
            await self._scheduler.tick()

    async def claim(self) -> list[str]:
        """Starts ready jobs of all queues; returns the ids of all that run now."""
        await self._worker.tick()
        if not self._worker.running:
            found = await self._store.find(SYSTEM, JobFilter(states=(State.READY,), limit=BATCH))
            for queue in {job.queue for job in found}:
                self._worker.serve(queue, SLOTS)
            if found:
                await self._worker.tick()
        return [attempt.claimed.job_id for attempt in self._worker.attempts]

    async def finish(self) -> None:
        while not await self._worker.finished(60.0):
            pass
        if self._failures.found:
            raise self._failures.found[0]


def _executors(means: Means, clock: ManualClock, keeper: KeeperClient, failures: Failures) -> dict[str, Executor]:
    app, fakes, settings = means.app, means.fakes, means.app.settings
    faked = HttpExecutor(
        FakedDialer(fakes), settings.http_timeout, settings.http_max_body, settings.max_result, clock.now
    )
    command = CommandExecutor(keeper, settings, config.variables(), Drain()) if means.commands else None
    call = HttpExecutor.of(settings) if means.http else None
    grace = settings.kill_grace / SECOND
    return {
        Kind.FUNCTION: _Told(Functions(app.catalogue, settings.max_result, grace, failures.raised), failures),
        Kind.COMMAND: _Told(FakedCommands(fakes, command), failures),
        Kind.HTTP: _Told(FakedCalls(fakes, faked, call), failures),
    }


class _Told:
    """An executor whose failures are kept."""

    def __init__(self, executor: Executor, failures: Failures) -> None:
        self._executor, self._failures = executor, failures

    async def execute(self, attempt: Attempt) -> Outcome:
        try:
            outcome = await self._executor.execute(attempt)
        except RotaError as error:  # as the pipeline judges it
            self._failures.raised(attempt.claimed.job_id, error)
            self._failures.ended(attempt.claimed.job_id, SetAside(Problem(type(error).__name__, str(error))))
            raise
        self._failures.ended(attempt.claimed.job_id, outcome)
        return outcome


class DueJobs:
    """The due jobs and fires of one store, at the time of its clock."""

    def __init__(self, means: Means, store: Store, clock: ManualClock) -> None:
        self._means, self._store, self._clock = means, store, clock
        self._rounds: dict[str, Future[None]] = {}  # by the job that runs in it
        self._capturing, self._shifts, self._capture = threading.Lock(), 0, ExitStack()

    @contextmanager
    def _captured(self) -> Iterator[None]:
        """Output of jobs is captured while one runs, not all the time: pytest replaces the streams between the phases
        of a test. Shifts within shifts, and in other threads, share the capture of the first."""
        with self._capturing:
            self._shifts += 1
            if self._shifts == 1:
                self._capture = ExitStack()
                self._capture.enter_context(captured())
        try:
            yield
        finally:
            with self._capturing:
                self._shifts -= 1
                if not self._shifts:
                    self._capture.close()

    @asynccontextmanager
    async def shift(self) -> AsyncIterator[Shift]:
        keeper = KeeperClient()
        try:
            with self._captured():
                shift = Shift(self._means, self._store, self._clock, keeper)
                try:
                    yield shift
                finally:
                    shift.close()
        finally:
            await keeper.close()

    async def run(self, shift: Shift) -> None:
        """Runs jobs that are due now, and their successors that are due now; the clock stands still."""
        for _ in range(MOST_ROUNDS):
            moved = await self._move_on(shift)
            if await self._round(shift):
                continue
            if not moved:
                return
        raise RotaError(f"jobs keep coming back: gave up after {MOST_ROUNDS} rounds")

    async def run_now(self, ids: Sequence[str]) -> None:
        """Returns when these jobs have run, here or in another shift that has taken them."""
        async with self.shift() as shift:
            await self.run(shift)
        for job_id in ids:
            while (over := self._rounds.get(job_id)) is not None:
                await asyncio.wrap_future(over)

    async def _round(self, shift: Shift) -> bool:
        """Runs ready jobs, all together; False if there are none."""
        running = await shift.claim()
        if not running:
            return False
        over: Future[None] = Future()
        self._rounds |= dict.fromkeys(running, over)
        try:
            await shift.finish()
        finally:
            for job_id in running:
                self._rounds.pop(job_id, None)
            over.set_result(None)
        return True

    async def _move_on(self, shift: Shift) -> int:
        """Makes due fires, and due jobs ready; returns their number."""
        fired = len((await self._store.coming_schedules(SYSTEM, self._clock.now(), BATCH))[0])
        if fired:
            await shift.fire()
        settled = await self._store.settle(SYSTEM, BATCH)
        released, _waiting = await self._store.release(SYSTEM, BATCH)
        promoted, _upcoming = await self._store.promote(SYSTEM, BATCH)
        admitted = await self._store.admit(SYSTEM, BATCH)
        return fired + settled.moved + released + promoted + admitted.moved

    async def upcoming(self) -> Instant | None:
        """When a job is due next."""
        instants = [(await self._store.promote(SYSTEM, BATCH))[1]]
        if State.HELD in await self._store.counts(SYSTEM):  # by a rate, or a gate that opens by itself
            instants.append((await self._store.admit(SYSTEM, BATCH)).next_at)
        return _earliest(*instants)

    def move_to(self, at: Instant) -> None:
        self._clock.advance(max(0, at - self._clock.now()) / SECOND)

    # -- long spans --------------------------------------------------------------------------------------------------
    async def advance(self, shift: Shift, end: Instant) -> None:
        """Moves the clock, and runs everything that becomes due on the way."""
        await self.run(shift)
        while True:
            job, (_, fire) = await self.upcoming(), await self._fires()
            at = _earliest(job, fire)
            if at is None or at > end:
                break
            self.move_to(at)
            if at == job or not self._means.in_memory:
                await self.run(shift)
            else:
                await self._fire_only(shift, end if job is None else min(end, job - 1))
        self.move_to(end)

    async def _fire_only(self, shift: Shift, until: Instant) -> None:
        """Lets schedules fire up to this time, while nothing else happens than that their jobs end. Looks for other
        work take two thirds of the time of a fire. A store in memory says at each commit whether there is any."""
        while True:
            await shift.fire()
            shift.disturbed = False
            if not await self._round(shift) or shift.disturbed:
                await self.run(shift)
                return
            left, at = await self._fires()
            if left or at is None or at > until:
                return
            self.move_to(at)

    async def _fires(self) -> tuple[bool, Instant | None]:
        """Whether fires are due, and when the next is due after these."""
        found, upcoming = await self._store.coming_schedules(SYSTEM, self._clock.now(), BATCH)
        return bool(found), upcoming


def _earliest(*instants: Instant | None) -> Instant | None:
    return min((instant for instant in instants if instant is not None), default=None)
