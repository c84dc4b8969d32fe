"""A member of the hot tier: a lane, and whether it can be used now.

A member that fails once is away for all callers at once, so that nobody waits for a dead server twice. A task of its
own tries to reach it again, and says when that succeeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from rota.clock import Chance
from rota.hot.lane import HotAway, HotRefused, Lane
from rota.store.loops import may_be_abandoned

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
# A member that is lost sooner than that after it was reached is not reached for at once, and nobody was told that it
# is back: such is a server with full memory, which answers, and refuses what it is asked for.
STEADY, LONGEST_REST = 5.0, 30.0


class Member:
    """`changed(member)` is called when it was reached, and when it was lost."""

    def __init__(self, lane: Lane, store: str, chance: Chance, changed: Callable[[Member], None]) -> None:
        self._lane, self._store, self._chance, self._changed = lane, store, chance, changed
        self.place = lane.place
        self.problem: str | None = "it was not asked yet"  # None: it can be used
        self.tried = asyncio.Event()  # once
        self.openings = 0  # how often it was reached: what was sent before may not be there any more
        self._pause = 0.0  # before the next try
        self._reached_at = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def healthy(self) -> bool:
        return self.problem is None

    def begin(self) -> None:
        """Goes on reaching for the server, until it answers."""
        if self._task is None and not self._closed:
            self._task = may_be_abandoned(asyncio.get_running_loop().create_task(self._reach()))

    async def call(self, work: Callable[[Lane], Awaitable[T]]) -> T:
        """Raises HotAway or HotRefused; at once, if the member is away."""
        if self.problem is not None:
            raise HotAway(self.problem)
        opening = self.openings
        try:
            return await work(self._lane)
        except Exception as error:
            if opening == self.openings:  # not of a connection that was replaced meanwhile
                self.lose(self._plainly(error))
            if isinstance(error, HotAway | HotRefused):
                raise
            raise HotRefused(f"{self.place}: {self._plainly(error)}") from error

    def lose(self, problem: str) -> None:
        was_healthy, self.problem = self.healthy, problem
        if was_healthy:
            steady = asyncio.get_running_loop().time() - self._reached_at > STEADY
            self._pause = 0.0 if steady else self._longer(LONGEST_REST)
            self._changed(self)
        self.begin()

    async def _reach(self) -> None:
        while not self._closed:
            await asyncio.sleep(self._pause * (0.5 + self._chance.random() / 2))
            try:
                await self._lane.open(self._store)
            except Exception as error:
                known, self.problem = self.problem, self._plainly(error)
                if not self.tried.is_set() or known != self.problem:
                    self._changed(self)
                self.tried.set()
                self._pause = self._longer(LONGEST_PAUSE)
            else:
                break
        self.openings += 1
        self._reached_at = asyncio.get_running_loop().time()
        self._task, self.problem = None, None
        self.tried.set()
        self._changed(self)

    def _longer(self, longest: float) -> float:
        return min(max(2 * self._pause, FIRST_PAUSE), longest)

    def _plainly(self, error: Exception) -> str:
        """Without the place, which is named beside it."""
        if not isinstance(error, HotAway | HotRefused):
            return f"it answered with what can't be understood ({type(error).__name__})"
        return str(error).removeprefix(f"{self.place}: ")

    # -- the end -----------------------------------------------------------------------------------------------------
    async def close(self) -> None:
        self._end()
        await self._lane.close()

    def drop(self) -> None:
        self._closed = True
        self._lane.drop()

    def descriptors(self) -> Iterable[int]:
        return self._lane.descriptors()

    def _end(self) -> None:
        self._closed, self.problem = True, "it was closed"
        if self._task is not None:
            self._task.cancel()
            self._task = None
