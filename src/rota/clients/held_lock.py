"""A lock that this process holds: renewed in the background, until it is released or lost.

It is lost when the store says that it is not ours, or when its end comes near and no renewal has succeeded. The end is
counted on the monotonic clock, which goes on while the machine sleeps, from the instant at which the last successful
renewal was *asked* for: the store counts from a later one. A margin before that leaves time to stop.

Nobody can do better from inside the process: it may stand still between a look at the lock and the next line. What must
not happen twice needs the fence.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from rota.clock import Clock
from rota.errors import RotaError
from rota.model.job import Verdict
from rota.model.locks import margin
from rota.model.principal import Principal
from rota.model.times import SECOND, Duration
from rota.store.base import Store

# Seconds between looks at the end: after the machine has slept it may have come before the loop's own timers say so.
LOOK = 0.5
# Seconds for one renewal, and at most between two tries after a failure.
ONE_TRY = 10.0
SOON = 5.0
# Seconds for the release. If the store does not answer, the lock ends by itself.
LAST_TRY = 2.0
NOT_OURS = "it has expired, or was released by someone else"
TOO_LATE = "it could not be renewed in time"
FORKED = "it is held by the process that this one was forked from"
Pause = Callable[[float], Awaitable[None]]


class Term(NamedTuple):
    """What is held, by whom, and for how long at a time. `holder`: the token of this acquisition."""

    name: str
    holder: str
    ttl: Duration


def ignored() -> None:
    """The default for `when_lost`."""


class HeldLock:
    """Belongs to the loop on which it was made; `problem` may be read from any thread. `asked`: the instant at which it
    was asked for; `when_lost` is called on the loop."""

    def __init__(
        self,
        store: Store,
        who: Principal,
        clock: Clock,
        term: Term,
        fence: int,
        asked: float,
        when_lost: Callable[[], None] = ignored,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._store, self._who, self._clock, self._term = store, who, clock, term
        self.fence, self._when_lost, self._pause = fence, when_lost, pause
        self._process = os.getpid()
        self._lost: str | None = None
        self._deadline = self._end(asked)
        self._tasks = [asyncio.create_task(self._renewing()), asyncio.create_task(self._watching())]

    def _end(self, asked: float) -> float:
        return asked + (self._term.ttl - margin(self._term.ttl)) / SECOND

    @property
    def problem(self) -> str | None:
        """Why the lock is lost; None: it is held."""
        if os.getpid() != self._process:
            return FORKED
        return self._lost or (TOO_LATE if self._clock.monotonic() >= self._deadline else None)

    async def renew(self) -> None:
        asked = self._clock.monotonic()
        verdict = await self._store.renew_lock(self._who, *self._term[:2], self.fence, self._term.ttl)
        if verdict is Verdict.APPLIED:
            self._deadline = self._end(asked)
        else:
            self._lose(NOT_OURS)

    def _lose(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
            self._when_lost()

    async def _renewing(self) -> None:
        """A third of the ttl after each success; a few times as often after a failure, whatever it was."""
        period = self._term.ttl / SECOND / 3
        pause = period
        while self._lost is None:
            await self._pause(pause)
            try:
                async with asyncio.timeout(min(period, ONE_TRY)):
                    await self.renew()
            except (RotaError, TimeoutError):
                pause = min(period / 4, SOON)
            else:
                pause = period

    async def _watching(self) -> None:
        while (left := self._deadline - self._clock.monotonic()) > 0:
            await self._pause(min(left, LOOK))
        self._lose(TOO_LATE)

    async def end(self) -> str | None:
        """Releases the lock. Returns why it was lost; None: it was held until now."""
        if (problem := self.problem) == FORKED:
            return problem
        for task in self._tasks:
            task.cancel()
        if problem is None:
            problem = self._lost = await self._release()
        return problem

    async def _release(self) -> str | None:
        try:
            async with asyncio.timeout(LAST_TRY):
                verdict = await self._store.release_lock(self._who, *self._term[:2], self.fence)
        except (RotaError, TimeoutError):  # nobody else has it before its end
            return None
        return NOT_OURS if verdict is Verdict.STALE else None
