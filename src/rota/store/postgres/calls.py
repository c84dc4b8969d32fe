"""How calls of the PostgreSQL store run: units of work, retries after deadlocks, and wake-ups."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Set
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar

from rota import forking
from rota.clock import Chance
from rota.errors import StoreError
from rota.model.times import Duration, Instant
from rota.store.carriers.store import CarriedStore
from rota.store.listeners import Listeners
from rota.store.notifier import Notifier
from rota.store.postgres.database import Database, Unit
from rota.store.postgres.session import LockSession
from rota.store.values import OF_ORDERS, Topic

T = TypeVar("T")
P = ParamSpec("P")
# A wake-up need not survive a crash, so its commit does not wait for the disk.
_RING = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"


def _nobody_carries(topics: set[Topic]) -> bool:
    return False


class Calls(CarriedStore):
    def __init__(self, database: Database, chance: Chance, notify: bool) -> None:
        self._database, self._chance, self._notify = database, chance, notify
        self._session = LockSession(database, chance.token(), self._wake)
        self._listeners = Listeners()
        self._carry: Callable[[set[Topic]], bool] = _nobody_carries
        self._notifiers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Notifier] = weakref.WeakKeyDictionary()
        forking.watch(self)

    def now(self) -> Instant:
        return self._database.now()

    def doubt(self) -> Duration:
        return self._database.server_clock.doubt if self._database.server_time else 0

    # -- closing and forks -------------------------------------------------------------------------------------------
    async def close(self) -> None:
        self._listeners.clear()
        if notifier := self._notifiers.pop(asyncio.get_running_loop(), None):
            await notifier.close()
        await self._session.close()
        await self._database.close()

    def let_go(self) -> None:
        self._listeners.clear()
        self._session.let_go()
        self._database.let_go()

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None:
        forking.keep_for_ever(self._notifiers, self._listeners)
        self._notifiers, self._listeners = weakref.WeakKeyDictionary(), Listeners()
        self._session.forget(self._chance.token())
        self._database.loops.forget()

    # -- how calls run -----------------------------------------------------------------------------------------------
    async def _write(self, deed: Callable[Concatenate[Unit, P], Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
        answer, topics = await self._database.call(self._database.pools().work, deed, *args, **named)
        if topics:
            self._announce(topics)
        return answer

    async def _read(self, deed: Callable[Concatenate[Unit, P], Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
        answer, _ = await self._database.call(self._database.pools().reads, deed, *args, **named)
        return answer

    # -- wake-ups ----------------------------------------------------------------------------------------------------
    def listen(self, topics: frozenset[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        stop = self._listeners.add(topics, wake)
        self._session.move_in()
        return stop

    async def tell(self, topics: Set[Topic] = OF_ORDERS) -> None:
        self._wake(topics)
        self._tell_others(set(topics))

    def carry_wakes(self, carry: Callable[[set[Topic]], bool]) -> None:
        self._carry = carry

    def heard(self, topics: Set[Topic]) -> None:
        self._wake(topics)

    def _announce(self, topics: set[Topic]) -> None:
        self._wake(topics)
        if not self._carry(topics):
            self._tell_others(topics)

    def _tell_others(self, topics: set[Topic]) -> None:
        if self._notify:
            loop = asyncio.get_running_loop()
            if loop not in self._notifiers:
                self._notifiers[loop] = Notifier(self._ring)
            self._notifiers[loop].ring(topics)

    def _wake(self, topics: Set[Topic]) -> None:
        """Wakes the listeners of this process only."""
        self._listeners.wake(topics)

    async def _ring(self, letters: str) -> None:
        with suppress(StoreError):  # a lost wake-up costs a second at most
            async with self._database.unit(self._database.pools().work) as unit:
                await unit.connection.execute(_RING, self._database.schema, f"{letters}/{self._session.name}")
