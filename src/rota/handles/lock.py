"""`Lock` and `SyncLock`: what `app.lock` and `app.lock_sync` make, for `async with` and `with`."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rota.clients.held_lock import HeldLock, ignored
from rota.errors import InvalidInput, LockLost
from rota.model.locks import DEFAULT_TTL, lock_name, lock_ttl
from rota.model.times import Span, duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.app_core import AppCore


class HoldableLock:
    """What both faces share."""

    def __init__(self, app: AppCore, name: str, ttl: Span = DEFAULT_TTL, wait: Span | None = None) -> None:
        self._app, self.name = app, lock_name(name)
        self._ttl, self._wait = lock_ttl(ttl), None if wait is None else duration(wait, "wait")
        self._held: HeldLock | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def fence(self) -> int:
        """The number of this acquisition, higher than all before. Hand it to whatever must refuse an older holder."""
        return self._holding.fence

    @property
    def lost(self) -> bool:
        """Whether the lock was lost while it was held."""
        return self._held is not None and self._held.problem is not None

    def check(self) -> None:
        """Raises LockLost if the lock is not held any more."""
        if (problem := self._holding.problem) is not None:
            raise LockLost(self.name, problem)

    @property
    def _holding(self) -> HeldLock:
        if self._held is None:
            raise InvalidInput("lock", self.name, "a lock that is held: use it inside its `with`")
        return self._held

    async def _begin(self, when_lost: Callable[[], None] = ignored) -> None:
        if self._held is not None:
            raise InvalidInput("lock", self.name, "one that is not held already: make another with `app.lock`")
        client = await self._app.locks()
        self._held = await client.acquire(self._app.clock, self.name, self._ttl, self._wait, when_lost)

    async def _end(self, error: BaseException | None) -> LockLost | None:
        """Releases it. Returns the LockLost to raise: an error of the body goes first, unless the lock was lost before
        it ended."""
        held = self._holding
        lost = held.problem
        self._held = None
        problem = await held.end() or lost
        return None if problem is None or (error is not None and lost is None) else LockLost(self.name, problem)


class Lock(HoldableLock):
    def __init__(self, app: AppCore, name: str, ttl: Span = DEFAULT_TTL, wait: Span | None = None) -> None:
        super().__init__(app, name, ttl, wait)
        self._task: asyncio.Task[object] | None = None
        self._requests = 0  # to cancel the task, when the body began
        self._stopped = False  # the body was cancelled by us

    async def __aenter__(self) -> Self:
        self._task, self._stopped = asyncio.current_task(), False
        self._requests = self._task.cancelling() if self._task else 0
        await self._begin(self._stop)
        return self

    def _stop(self) -> None:
        if self._task is not None and not self._task.done():
            self._stopped = True
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lost = await self._end(error)
        # As in asyncio.timeout: a cancellation that others have asked for as well goes on.
        others = self._stopped and self._task is not None and self._task.uncancel() > self._requests
        if lost is not None and not (others and kind is asyncio.CancelledError):
            raise lost from error


class SyncLock(HoldableLock):
    def __enter__(self) -> Self:
        try:
            self._app.sync(self._begin())
        except Exception:
            raise
        except BaseException:  # Ctrl-C: perhaps just when it had got the lock
            self._app.sync(self._drop())
            raise
        return self

    async def _drop(self) -> None:
        if self._held is not None:
            await self._end(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (lost := self._app.sync(self._end(error))) is not None:
            raise lost from error
