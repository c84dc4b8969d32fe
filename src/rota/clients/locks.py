"""The client for locks of one user. `App.lock`, the command line and the HTTP API use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from rota.clients.held_lock import LAST_TRY, HeldLock, Term, ignored
from rota.clients.jobs import NewsListener
from rota.clock import Chance, Clock
from rota.errors import LockTaken, NotFound, RotaError, StoreError
from rota.model.locks import LockInfo, lock_name
from rota.model.principal import Principal
from rota.model.times import SECOND, Duration, as_instant, as_timedelta
from rota.store.base import Store
from rota.store.values import Topic

# A lost wake-up costs a waiter this long at most. Waiters look at different times, so that none is always the first.
POLL = 1.0


class LocksClient:
    def __init__(self, store: Store, who: Principal, chance: Chance) -> None:
        self._store, self._who, self._chance = store, who, chance

    async def locks(self, names: Sequence[str] | None = None) -> list[LockInfo]:
        """These locks, or up to 1,000; held ones first."""
        return await self._store.locks(self._who, None if names is None else [lock_name(name) for name in names])

    async def free(self, name: str) -> None:
        """Frees a lock whoever holds it; its holder loses it."""
        if not await self._store.free_lock(self._who, lock_name(name)):
            raise NotFound("held lock", name)

    async def acquire(
        self,
        clock: Clock,
        name: str,
        ttl: Duration,
        wait: Duration | None = None,
        when_lost: Callable[[], None] = ignored,
    ) -> HeldLock:
        """Waits until the lock is ours. Raises LockTaken after `wait` (0: after one try; None: never)."""
        term = Term(name, f"{self._chance.token()}{self._chance.token()}", ttl)
        tries = _Tries(self._store, self._who, self._chance, clock, term, when_lost)
        try:
            held = await tries.once()
            if held is None and wait != 0:
                held = await tries.until(None if wait is None else wait / SECOND)
        except BaseException:
            await tries.give_back()
            raise
        if held is None:
            raise tries.taken()
        return held


class _Tries:
    """The tries of one acquisition, under one token: a try whose answer got lost is repeated, and means the same."""

    def __init__(
        self,
        store: Store,
        who: Principal,
        chance: Chance,
        clock: Clock,
        term: Term,
        when_lost: Callable[[], None],
    ) -> None:
        self._store, self._who, self._chance, self._clock, self._term = store, who, chance, clock, term
        self._when_lost = when_lost
        self._seen: LockInfo | None = None
        self._unheard = False  # a try has had no answer, and may have taken the lock

    async def once(self) -> HeldLock | None:
        asked = self._clock.monotonic()
        self._unheard = True
        answer = await self._store.acquire_lock(self._who, *self._term)
        self._unheard, self._seen = False, answer.lock
        if not answer.mine:
            return None
        return HeldLock(self._store, self._who, self._clock, self._term, answer.lock.fence, asked, self._when_lost)

    async def until(self, limit: float | None) -> HeldLock | None:
        """None: the time is over."""
        listener = NewsListener(self._store, frozenset({Topic.LOCK}))
        try:
            async with asyncio.timeout(limit) as ending:
                while True:
                    try:
                        if (self._unheard or await self._looks_free()) and (held := await self.once()):
                            return held
                    except StoreError as error:
                        if not error.passing:
                            raise
                    await listener.wait(self._pause())
        except TimeoutError:
            if not ending.expired():
                raise
            await self.give_back()
            return None
        finally:
            listener.close()

    async def _looks_free(self) -> bool:
        """A read: a try would take the turn of another writer."""
        found = await self._store.locks(self._who, [self._term.name])
        self._seen = found[0] if found else None
        return not any(lock.held for lock in found)

    def _pause(self) -> float:
        """Until the end of the holder, if that comes before the next look."""
        pause = POLL * (0.5 + self._chance.random() / 2)
        if self._seen is None or not self._seen.held:
            return pause
        return min(pause, max(0.0, (as_instant(self._seen.expires_at) - self._store.now()) / SECOND))

    async def give_back(self) -> None:
        if self._unheard:
            with suppress(RotaError, TimeoutError):
                async with asyncio.timeout(LAST_TRY):
                    await self._store.release_lock(self._who, self._term.name, self._term.holder)

    def taken(self) -> LockTaken:
        since = None if self._seen is None else as_instant(self._seen.taken_at)
        age = None if since is None else as_timedelta(max(0, self._store.now() - since))
        return LockTaken(self._term.name, age)
