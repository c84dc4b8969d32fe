"""For users' own tests: run tasks without a server and without waiting for the clock.

    async with rota.testing.harness(app) as rota_test:
        job = await welcome.submit(user_id=7, delay="2h")
        await rota_test.drain()
        assert (await job.info()).result == "sent"

Inside the harness the app has a temporary store in memory and a clock that moves only when told. `drain()` runs all due
jobs, moves the clock to the next due time, and goes on until no job is left: delays and retries take no time. Time
*inside* a function is real: a function that sleeps, sleeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from rota import config
from rota.batching import Batcher
from rota.clock import Chance, ManualClock
from rota.control.scheduler import Scheduler
from rota.errors import RotaError
from rota.logs.capture import captured
from rota.logs.shipper import Shipper
from rota.model.job import JobInfo, Kind, Verdict
from rota.model.lifecycle import State
from rota.model.node import NewNode
from rota.model.outcome import Settlement
from rota.model.principal import SYSTEM
from rota.model.times import SECOND, Instant, duration
from rota.store.base import Store
from rota.store.values import JobFilter
from rota.telemetry.events import Bus
from rota.work.attempt import Executor, Pipeline, weight
from rota.work.executors.command import CommandExecutor
from rota.work.executors.function import FunctionExecutor
from rota.work.executors.http import HttpExecutor
from rota.work.functions.in_node import InNode
from rota.work.keeper.client import KeeperClient
from rota.work.output import Drain
from rota.work.worker import Worker

if TYPE_CHECKING:
    from rota.app import App
    from rota.handles.task import Task

SLOTS = 100
BATCH = 500
# A job that always snoozes would keep drain() busy for ever.
MOST_ROUNDS = 10_000
NODE = "harness"
__all__ = ["Harness", "ManualClock", "harness", "run"]


class Harness:
    def __init__(self, store: Store, clock: ManualClock, worker: Worker) -> None:
        self._store, self.clock, self._worker = store, clock, worker
        self._scheduler = Scheduler(store, Bus(), lambda: True)

    async def run_due(self) -> None:
        """Runs jobs that are due now, and their successors that are due now; the clock stands still."""
        for _ in range(MOST_ROUNDS):
            promoted = await self._move_on()
            for job in await self._store.find(SYSTEM, JobFilter(states=(State.READY,), limit=BATCH)):
                self._worker.serve(job.queue, SLOTS)
            await self._worker.tick()
            if not promoted and not self._worker.running and not await self._move_on():
                return
            while not await self._worker.finished(60.0):
                pass
        raise RotaError(f"jobs keep coming back: gave up after {MOST_ROUNDS} rounds")

    async def _move_on(self) -> int:
        """Makes due fires, and due jobs ready; returns their number."""
        fired = len((await self._store.coming_schedules(SYSTEM, self.clock.now(), BATCH))[0])
        if fired:
            self._scheduler.when_changed()
            for _ in range(2):  # the first tick prepares, the second applies
                await self._scheduler.tick()
        settled = await self._store.settle(SYSTEM, BATCH)
        released, _waiting = await self._store.release(SYSTEM, BATCH)
        promoted, _upcoming = await self._store.promote(SYSTEM, BATCH)
        admitted = await self._store.admit(SYSTEM, BATCH)
        return fired + settled.moved + released + promoted + admitted.moved

    async def drain(self) -> None:
        """Runs everything, moving the clock from one due time to the next, until no job is left that could run.
        For schedules the clock is not moved, because they never end: use `advance()`."""
        for _ in range(MOST_ROUNDS):
            await self.run_due()
            upcoming = await self._upcoming()
            if upcoming is None:
                return
            self.clock.advance(max(0, upcoming - self.clock.now()) / SECOND)
        raise RotaError(f"jobs keep coming back: gave up after {MOST_ROUNDS} due times")

    async def advance(self, span: str | float) -> None:
        """Moves the clock and runs everything that becomes due on the way, each at its time."""
        end = self.clock.now() + duration(span)
        await self.run_due()
        while (upcoming := await self._upcoming(schedules=True)) is not None and upcoming <= end:
            self.clock.advance(max(0, upcoming - self.clock.now()) / SECOND)
            await self.run_due()
        self.clock.advance((end - self.clock.now()) / SECOND)

    async def _upcoming(self, schedules: bool = False) -> Instant | None:
        instants = [(await self._store.promote(SYSTEM, BATCH))[1]]
        if State.HELD in await self._store.counts(SYSTEM):  # by a rate, or a gate that opens by itself
            instants.append((await self._store.admit(SYSTEM, BATCH)).next_at)
        if schedules:
            instants.append((await self._store.coming_schedules(SYSTEM, self.clock.now(), BATCH))[1])
        return min((instant for instant in instants if instant is not None), default=None)


@asynccontextmanager
async def harness(app: App, *, seed: int = 0, now: Instant | None = None, **settings: Any) -> AsyncIterator[Harness]:
    """The app on a temporary store in memory until the block ends; afterwards it is as before."""
    clock = ManualClock() if now is None else ManualClock(now)
    await app.load_async()
    settings = {"store": "sqlite:///:memory:", "queues": f"default:{SLOTS}", **settings}
    with app.borrowed(clock, Chance(seed), **settings), captured():
        store = (await app.client()).store
        keeper = KeeperClient()
        try:
            await store.register(SYSTEM, NewNode(NODE, NODE, ("worker",), {}, "", 10 * SECOND), app.catalogue.infos())
            await app.declare()
            yield Harness(store, clock, _worker(app, store, clock, keeper))
        finally:
            await keeper.close()
            await app.close()


def _worker(app: App, store: Store, clock: ManualClock, keeper: KeeperClient) -> Worker:
    shipper = Shipper(store, app.settings.max_output, app.bus)
    finishes: Batcher[Settlement, Verdict] = Batcher(lambda batch: store.finish(SYSTEM, batch), weigh=weight)
    grace = app.settings.kill_grace / SECOND
    executors: dict[str, Executor] = {
        Kind.FUNCTION: FunctionExecutor(app.catalogue, InNode(app.settings.max_result), grace),
        Kind.COMMAND: CommandExecutor(keeper, app.settings, config.variables(), Drain()),
        Kind.HTTP: HttpExecutor.of(app.settings),
    }
    pipeline = Pipeline(executors, shipper, finishes, app.bus, app.chance)
    return Worker(store, clock, NODE, app.settings.queues, lambda: list(Kind), 0, pipeline, shipper, app.bus)


def run(app: App, task: Task[..., Any], **arguments: Any) -> JobInfo:
    """For tests without an event loop: orders one job, runs everything to its end, and returns the job."""

    async def once() -> JobInfo:
        async with harness(app) as rota_test:
            job = await task.submit(**arguments)
            await rota_test.drain()
            return await job.info()

    return asyncio.run(once())
