"""An event loop in virtual time, on which whole processes can be stopped and killed.

Nothing sleeps and nothing waits for I/O: callbacks run in order, and when none is ready the clock jumps to the next
timer. Which process a callback belongs to is said by a context variable; tasks, timers and wake-ups inherit it. A
callback of a process that is paused is withheld until the process goes on; of one that is dead, for ever. So a process
can stop between any two callbacks, and after its death no `finally` of it runs: as after kill -9.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from rota.errors import StoreError

START = 1_800_000_000_000_000  # the wall clock at the beginning, in microseconds
# So many callbacks without time going on: something spins.
SPIN = 100_000

PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Stalled(Exception):
    """Nothing is left to do, or the same instant never ends."""


class Process:
    """Something that is stopped and killed as a whole: a node, its keeper, a command, a thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paused = self.dead = False
        self.withheld: list[asyncio.Handle] = []
        self.fuse = 0
        self.burnt: Callable[[], None] = lambda: None
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)

    def light(self, callbacks: int, burnt: Callable[[], None]) -> None:
        """After so many more callbacks of this process, `burnt` is called."""
        self.fuse, self.burnt = callbacks, burnt

    def burn(self) -> None:
        if self.fuse:
            self.fuse -= 1
            if not self.fuse:
                self.burnt()


class SimLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()
        self._spins = 0
        self._processes: list[Process] = []
        self._over = False
        self._pending: set[asyncio.Task[Any]] = set()
        self.crashed: list[str] = []  # errors that nobody expected
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._callback_failed)

    # -- time and callbacks ------------------------------------------------------------------------------------------
    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Time goes on with every wait, be it shorter than what a float can add: nobody's clock stands still."""
        when = max(self._now + delay, math.nextafter(self._now, math.inf)) if delay > 0 else self._now
        return self.call_at(when, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, work: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """At once, so that every run of a seed is the same."""
        future = self.create_future()
        try:
            future.set_result(work(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is thrown away when its turn comes."""

    def _run_once(self) -> None:
        if not self._ready:
            self._jump()
        self._spins += 1
        if self._spins > SPIN:
            raise Stalled(f"more than {SPIN} rounds at the same instant")
        for _ in range(len(self._ready)):
            self._run_handle(self._ready.popleft())

    def _jump(self) -> None:
        while self._timers:
            when, _, timer = heapq.heappop(self._timers)
            if timer.cancelled():
                continue
            if when > self._now:
                self._now, self._spins = when, 0
            self._ready.append(timer)
            return
        raise Stalled("deadlock: everyone waits and no timer is set")

    def _run_handle(self, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        process: Process | None = handle._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or self._over:
            handle._run()
        elif process.dead or process.paused:
            process.withheld.append(handle)
        else:
            handle._run()
            process.burn()

    # -- processes ---------------------------------------------------------------------------------------------------
    def process(self, name: str) -> Process:
        process = Process(name)
        self._processes.append(process)
        return process

    def resume(self, process: Process) -> None:
        process.paused = False
        withheld, process.withheld = process.withheld, []
        self._ready.extend(withheld)

    # -- tasks -------------------------------------------------------------------------------------------------------
    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        """Tasks are kept until they end: one that is collected would run its `finally` after its process's death."""
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        self._pending.add(task)
        task.add_done_callback(self._task_ended, context=contextvars.Context())
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._pending.discard(task)
        if task.cancelled() or self._over:
            return
        error = task.exception()
        if error is not None and not isinstance(error, StoreError):
            self.crashed.append(f"{type(error).__name__}: {error}")

    def _callback_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._over and not isinstance(context.get("exception"), StoreError):
            self.crashed.append(f"{context.get('message')}: {context.get('exception')!r}")

    def wind_up(self) -> None:
        """Ends everything that is left, also what is left of the dead. Nothing that happens now counts."""
        self._over, self._spins = True, 0
        for process in self._processes:
            self.resume(process)
        self.run_until_complete(self._cancel_all())
        self.close()

    async def _cancel_all(self) -> None:
        me = asyncio.current_task()
        for _ in range(1000):
            left = [task for task in self._pending if task is not me]
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.sleep(0)


class SimClock:
    """The clock of the simulation. `jump` moves the wall clock alone."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._offset = 0

    def now(self) -> int:
        return START + round(self._loop.time() * 1_000_000) + self._offset

    def monotonic(self) -> float:
        return self._loop.time()

    def jump(self, seconds: float) -> None:
        self._offset += round(seconds * 1_000_000)


class SkewedClock(SimClock):
    """The clock of one machine: it goes as fast as all others, and shows another time."""

    def __init__(self, loop: SimLoop, seconds: float) -> None:
        super().__init__(loop)
        self.jump(seconds)
