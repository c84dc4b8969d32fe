"""`harness(app)`: the app on a temporary store, with a clock that moves only when told."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rota.app import App
from rota.app_core import AppCore
from rota.clock import Chance, ManualClock
from rota.config import Settings
from rota.connections import in_loop
from rota.errors import InvalidInput, RotaError
from rota.model.job import JobInfo
from rota.model.node import NewNode
from rota.model.principal import SYSTEM
from rota.model.times import SECOND, Instant, Span, duration, instant
from rota.store.base import Store
from rota.testing.callers import HarnessCallers
from rota.testing.connections import HarnessConnections, run_here
from rota.testing.due_jobs import MOST_ROUNDS, NODE, SLOTS, DueJobs, Means
from rota.testing.fakes import CommandFake, Fakes, HttpFake
from rota.testing.orders import AnyOrder, OrderBook, OrderRecord, moment
from rota.work.functions.hooked import NodeHooks

if TYPE_CHECKING:
    from rota.handles.task import Task

MEMORY = "sqlite:///:memory:"


class HarnessBase:
    """What both harnesses have: the clock, the orders and the fakes."""

    def __init__(self, clock: ManualClock, book: OrderBook, fakes: Fakes) -> None:
        self.clock, self._book, self._fakes = clock, book, fakes

    @property
    def now(self) -> datetime:
        """The time of the clock."""
        return moment(self.clock.now())

    def freeze(self, at: datetime | str) -> None:
        """Moves the clock to a later time, and runs nothing: jobs that become due are late. `advance_to` runs them."""
        self.clock.advance((self._later(at) - self.clock.now()) / SECOND)

    def _later(self, at: datetime | str) -> Instant:
        chosen = instant(at, "time")
        if chosen < self.clock.now():
            raise InvalidInput("time", at, f"a time from {self.now.isoformat()} on: the clock never goes back")
        return chosen

    # -- orders ------------------------------------------------------------------------------------------------------
    @property
    def orders(self) -> list[OrderRecord]:
        """All orders so far, those of tasks too, in their sequence. Fires of schedules are no orders."""
        return list(self._book.orders)

    def submitted(self, work: AnyOrder, /, **args: Any) -> list[OrderRecord]:
        """The orders of a task with these arguments (others are not compared), of a command that begins with these
        words, or of an HTTP call."""
        return self._book.find(work, args)

    def assert_submitted(self, work: AnyOrder, /, **args: Any) -> OrderRecord:
        """Returns the latest order that fits, as `submitted` looks for it."""
        __tracebackhide__ = True
        found = self._book.find(work, args)
        if not found:
            raise AssertionError(self._book.missing(work, args))
        return found[-1]

    def assert_not_submitted(self, work: AnyOrder, /, **args: Any) -> None:
        __tracebackhide__ = True
        if found := self._book.find(work, args):
            raise AssertionError(self._book.unwanted(work, args, found))

    # -- fakes -------------------------------------------------------------------------------------------------------
    def fake_command(
        self, command: str | Sequence[str], *, exit_code: int = 0, stdout: str | bytes = "", stderr: str | bytes = "",
        times: int | None = None,
    ) -> CommandFake:  # fmt: skip
        """Answers commands of this program, or that begin with these words, without running them. The newest fake that
        fits answers, at most `times` times."""
        return self._fakes.add_command(command, exit_code, stdout, stderr, times)

    def fake_http(
        self, url: str, *, method: str | None = None, status: int = 200, json: Any = None,
        body: str | bytes | None = None, headers: Mapping[str, str] | None = None, error: str | None = None,
        times: int | None = None,
    ) -> HttpFake:  # fmt: skip
        """Answers HTTP calls of this URL without making them: `*` stands for any characters, and without a query any
        query fits. `error`: the server can't be reached."""
        return self._fakes.add_call(url, method, status, json, body, headers, error, times)


class Harness(HarnessBase):
    """For `async with`."""

    def __init__(self, clock: ManualClock, book: OrderBook, fakes: Fakes, due: DueJobs) -> None:
        super().__init__(clock, book, fakes)
        self._due = due

    async def run_due(self) -> None:
        """Runs jobs that are due now, and their successors that are due now; the clock stands still."""
        async with self._due.shift() as shift:
            await self._due.run(shift)

    async def drain(self) -> None:
        """Runs everything, moving the clock from one due time to the next, until no job is left that could run.
        For schedules the clock is not moved, because they never end: use `advance()`."""
        async with self._due.shift() as shift:
            for _ in range(MOST_ROUNDS):
                await self._due.run(shift)
                upcoming = await self._due.upcoming()
                if upcoming is None:
                    return
                self._due.move_to(upcoming)
        raise RotaError(f"jobs keep coming back: gave up after {MOST_ROUNDS} due times")

    async def advance(self, span: Span) -> None:
        """Moves the clock and runs everything that becomes due on the way, each at its time."""
        await self._advance(self.clock.now() + duration(span))

    async def advance_to(self, at: datetime | str) -> None:
        """Like `advance`, up to this time."""
        await self._advance(self._later(at))

    async def _advance(self, end: Instant) -> None:
        async with self._due.shift() as shift:
            await self._due.advance(shift, end)


class SyncHarness(HarnessBase):
    """For `with`: the same without an event loop."""

    def __init__(self, harness: Harness, connections: HarnessConnections) -> None:
        super().__init__(harness.clock, harness._book, harness._fakes)
        self.waiting, self._connections = harness, connections  # the same harness, for async code

    def run_due(self) -> None:
        self._connections.run(self.waiting.run_due())

    def drain(self) -> None:
        self._connections.run(self.waiting.drain())

    def advance(self, span: Span) -> None:
        self._connections.run(self.waiting.advance(span))

    def advance_to(self, at: datetime | str) -> None:
        self._connections.run(self.waiting.advance_to(at))


class HarnessBlock:
    """The block of a harness: `async with` gives a `Harness`, `with` a `SyncHarness`."""

    def __init__(
        self, clock: ManualClock, chance: Chance, means: Means, eager: bool, settings: Mapping[str, Any]
    ) -> None:
        self._clock, self._chance, self._means, self._eager = clock, chance, means, eager
        self._settings = {"store": MEMORY, "queues": f"default:{SLOTS}", **settings}
        self._left = ExitStack()
        self._hooks = NodeHooks(means.app.catalogue.hooks, logging.getLogger("rota.hooks").error)
        self._connections: HarnessConnections | None = None

    async def __aenter__(self) -> Harness:
        if self._connections is not None:
            raise InvalidInput("harness", "a block that was entered before", "a new harness(app) for each block")
        app, book = self._means.app, OrderBook(self._means.app)
        await app.load_async()
        connections = HarnessConnections(book)
        callers = HarnessCallers(connections, in_memory=self._means.in_memory)
        with ExitStack() as entered:
            entered.enter_context(app.borrowed(connections, callers, self._clock, self._chance, **self._settings))
            try:
                due = DueJobs(self._means, await _prepared(app), self._clock)
                await self._hooks.start()
            except BaseException:
                await connections.end()
                raise
            self._left = entered.pop_all()
        self._connections = connections
        if self._eager:
            connections.run_now = due.run_now
        return Harness(self._clock, book, self._means.fakes, due)

    async def __aexit__(self, *_: object) -> None:
        assert self._connections is not None
        try:
            await self._hooks.stop()
            await self._connections.end()
        finally:
            self._left.close()

    def __enter__(self) -> SyncHarness:
        if in_loop():
            raise InvalidInput(
                "harness", "`with` inside a running event loop", "`async with rota.testing.harness(app)`"
            )
        harness = run_here(self.__aenter__())
        assert self._connections is not None
        return SyncHarness(harness, self._connections)

    def __exit__(self, *_: object) -> None:
        run_here(self.__aexit__())


async def _prepared(app: AppCore) -> Store:
    """The store of the app, with a node that offers its tasks, and with its declared schedules."""
    store = (await app.client()).store
    await store.register(SYSTEM, NewNode(NODE, NODE, ("worker",), {}, "", 10 * SECOND), app.catalogue.infos())
    await app.declare()
    return store


def harness(
    app: App,
    *,
    now: datetime | str | None = None,
    seed: int = 0,
    eager: bool = False,
    raise_errors: bool = False,
    allow_commands: bool = False,
    allow_http: bool = False,
    **settings: Any,
) -> HarnessBlock:
    """The app on a temporary store in memory until the block ends; afterwards it is as before. For `async with`, and
    for `with` in tests without an event loop (docs/testing.md).

    `now`: the time at the start. `seed`: of jitter and ids. `eager`: each order runs before its `submit` returns.
    `raise_errors`: exceptions of tasks come out of the call that ran them. `allow_commands`, `allow_http`: what no fake
    answers runs for real. Other settings as for `App`; `store=` names a real one, empty and for this test alone."""
    if not isinstance(app, App):
        raise InvalidInput("app", app, "a rota.App")
    flags = {"eager": eager, "raise_errors": raise_errors, "allow_commands": allow_commands, "allow_http": allow_http}
    for name in settings:
        if name not in Settings.__struct_fields__:
            known = ", ".join(("now", "seed", *flags))
            raise InvalidInput("option", name, f"one of {known}, or a setting of rota.App (docs/settings.md)")
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InvalidInput(name, value, "True or False")
    clock = ManualClock() if now is None else ManualClock(instant(now, "now"))
    means = Means(app._core, Fakes(), allow_commands, allow_http, raise_errors, settings.get("store", MEMORY) == MEMORY)
    return HarnessBlock(clock, Chance(seed), means, eager, settings)


def run(app: App, task: Task[..., Any], /, **arguments: Any) -> JobInfo:
    """For tests without an event loop: orders one job, runs everything to its end, and returns the job."""
    with harness(app) as rota_test:
        job = app._core.own(task).submit_sync(**arguments)
        rota_test.drain()
        return job.info_sync()
