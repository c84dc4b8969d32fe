"""The one service loop.

A service does one step per `tick()` and returns how long it may sleep. The loop owns everything else: sleeping, waking,
backing off after errors, stopping. No service calls another; they meet in the store.

Every loop proves progress. A tick that takes longer than its limit is cancelled, reported, and tried again like a
failed one. The watchdog gives the node up if that does not help: a tick hangs several times in a row, does not end when
it is cancelled, or its loop is gone. The watchdog counts its looks, not the time, so a process that was asleep gets
time to go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol

from rota.clock import Chance

FIRST_BACK_OFF = 0.1
# Services go on within a second after the store is back.
LONGEST_BACK_OFF = 1.0
# A tick makes a few store calls, each with a limit of its own (30 s on a server).
LIMIT = 60.0
# Hung ticks in a row after which another try won't help.
HOPELESS = 3
# Looks of the watchdog in which a cancelled tick must end.
LOOKS = 5


class Overdue(Exception):
    """A tick hung for this long and was cancelled."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nothing happened for {seconds:g} s")
        self.seconds = seconds


class Service(Protocol):
    @property
    def name(self) -> str: ...

    async def tick(self) -> float:
        """Does one step; returns the seconds to sleep, unless it is woken."""


class SelfWaking:
    """A service that decides by itself when it is woken. Its loop sets `wake`."""

    wake: Callable[[], None] = staticmethod(lambda: None)


class Loop:
    """Runs one service until it is stopped."""

    def __init__(
        self,
        service: Service,
        chance: Chance,
        failed: Callable[[str, Exception], None],
        longest_back_off: float = LONGEST_BACK_OFF,
        limit: float | None = None,
    ) -> None:
        self.service = service
        self._chance, self._failed, self._longest = chance, failed, longest_back_off
        self.limit = LIMIT if limit is None else limit
        self.hung = 0  # ticks in a row that had to be cancelled
        self._began: float | None = None  # the current tick
        self._woken = asyncio.Event()
        self._stopping = False
        if isinstance(service, SelfWaking):
            service.wake = self.wake

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()

    async def run(self) -> None:
        errors = 0
        while not self._stopping:
            self._woken.clear()
            try:
                delay = await self._tick()
                errors = 0
            except Exception as error:
                errors += 1
                self._failed(self.service.name, error)
                await self._back_off(errors)
            else:
                await self._sleep(delay)

    async def _tick(self) -> float:
        self._began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.limit) as limit:
                delay = await self.service.tick()
        except TimeoutError:
            self.hung = self.hung + 1 if limit.expired() else 0
            if limit.expired():
                raise Overdue(self.limit) from None
            raise
        except Exception:
            self.hung = 0
            raise
        finally:
            self._began = None
        self.hung = 0
        return delay

    @property
    def overdue(self) -> bool:
        """The current tick should have ended."""
        return self._began is not None and asyncio.get_running_loop().time() > self._began + self.limit

    async def _sleep(self, delay: float) -> None:
        if delay <= 0 or self._woken.is_set():
            await asyncio.sleep(0)  # a busy service must not starve the others
            return
        alarm = asyncio.get_running_loop().call_later(delay, self._woken.set)
        await self._woken.wait()
        alarm.cancel()

    async def _back_off(self, errors: int) -> None:
        """Only a stop ends the wait: wake-ups must not turn a back-off into a tight loop."""
        longest = min(FIRST_BACK_OFF * 2 ** min(errors, 10), self._longest)
        until = asyncio.get_running_loop().time() + longest * (0.5 + self._chance.random() / 2)
        while not self._stopping and (left := until - asyncio.get_running_loop().time()) > 0:
            self._woken.clear()
            await self._sleep(left)


class Watchdog:
    """Calls `give_up` with the reason if a loop makes no progress."""

    name = "watchdog"
    PERIOD = 1.0

    def __init__(self, loops: Sequence[tuple[Loop, asyncio.Task[None]]], give_up: Callable[[str], None]) -> None:
        self._loops, self._give_up = loops, give_up
        self._looks: dict[Loop, int] = {}  # at overdue ticks

    async def tick(self) -> float:
        for loop, task in self._loops:
            self._looks[loop] = self._looks.get(loop, 0) + 1 if loop.overdue else 0
            if why := self._trouble(loop, task):
                self._give_up(f"its {loop.service.name} {why}")
        return self.PERIOD

    def _trouble(self, loop: Loop, task: asyncio.Task[None]) -> str | None:
        if task.done():
            return "has ended"
        if self._looks[loop] >= LOOKS:
            return f"has hung for {loop.limit:g} s and can't be cancelled"
        if loop.hung >= HOPELESS:
            return f"has hung {loop.hung} times in a row, for {loop.limit:g} s each"
        return None


async def first(work: Coroutine[None, None, object], event: asyncio.Event) -> None:
    """Waits for the work or for the event, whichever comes first."""
    tasks: set[asyncio.Task[object]] = {asyncio.create_task(work), asyncio.create_task(event.wait())}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
