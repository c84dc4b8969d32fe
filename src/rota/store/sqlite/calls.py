"""How calls of the SQLite store run: threads, connections, forks and wake-ups.

Calls run on two threads, one per connection: one thread for writes and one for reads, so that a long read never delays
a renewal. With `inline=True` there are no threads, for tests and simulation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Set
from contextlib import suppress
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import Any, Concatenate, ParamSpec, TypeVar

from rota import forking
from rota.clock import Chance, Clock
from rota.errors import StoreUnavailable
from rota.model.principal import Principal
from rota.model.rank import AGEING_STEP
from rota.model.times import DAY, Duration, Instant
from rota.store.carriers.store import CarriedStore
from rota.store.listeners import Listeners
from rota.store.sqlite import graph, limits
from rota.store.sqlite.database import MEMORY, Database, beside
from rota.store.sqlite.fork import TORN, Fork
from rota.store.sqlite.node_locks import NodeLocks
from rota.store.sqlite.threads import Threads
from rota.store.sqlite.unit import at_once
from rota.store.sqlite.wakeups import Wakeups
from rota.store.values import OF_ORDERS, Topic
from rota.store.verbs import WRITE, Carried
from rota.store.walks import Walk

T = TypeVar("T")
P = ParamSpec("P")


@lru_cache(maxsize=200)
def _plain(carrier: Callable[..., Any]) -> Callable[..., Any]:
    return at_once(carrier) if iscoroutinefunction(carrier) else carrier


def looks_first(
    look: Callable[Concatenate[Database, P], T | None], carrier: Callable[Concatenate[Database, P], T]
) -> Carried[P, T]:
    """A verb that writes only if the read `look` has no answer. A read needs no write lock and no sync to disk, and
    mostly finds nothing to do."""

    async def method(store: Any, who: Principal, /, *args: P.args, **named: P.kwargs) -> T:
        answer: T | None = await store._read(look, *args, **named)
        return answer if answer is not None else await store._write(carrier, *args, **named)

    method.carrier, method.access = carrier, WRITE  # type: ignore[attr-defined]
    return method


class Calls(CarriedStore):
    def __init__(
        self,
        path: str,
        clock: Clock,
        chance: Chance,
        *,
        inline: bool = False,
        ageing_step: Duration = AGEING_STEP,
        key_life: Duration = 7 * DAY,
    ) -> None:
        # Absolute, with links followed: the process may change its folder, and all processes must use the same folder
        # of locks.
        self.path = path = path if path == MEMORY else os.path.realpath(path)
        self._clock, self._ageing_step, self._key_life = clock, ageing_step, key_life
        folder = beside(path)
        self._wakeups = None if path == MEMORY else Wakeups(folder, chance.token())
        self.node_locks = None if path == MEMORY else NodeLocks(folder)
        self._listeners = Listeners()
        self._inline, self._chance = inline, chance
        self._threads = None if inline else Threads(shared=path == MEMORY)
        self._closed = False
        self._writer: Database | None = None
        self._reader: Database | None = None
        self._old_workflows, self._dead_letters = Walk(clock, ("",)), Walk(clock, ("0", "0"))
        self._fork = Fork()
        forking.watch(self)

    def now(self) -> Instant:
        return self._clock.now()

    # -- closing and forks -------------------------------------------------------------------------------------------
    async def close(self) -> None:
        self._closed = True
        self._listeners.clear()
        for presence in (self._wakeups, self.node_locks):
            if presence:
                presence.close()
        for writes, side in ((True, self._writer), (False, self._reader)):
            if side is not None:
                await self._carry_out(writes, side.close)
        self._writer = self._reader = None
        if self._threads:
            self._threads.stop()

    def let_go(self) -> None:
        self._closed = True
        self._listeners.clear()
        writer, reader, self._writer, self._reader = self._writer, self._reader, None, None
        if self._threads:
            self._threads.end([(writes, side.close) for writes, side in ((True, writer), (False, reader)) if side])

    def before_fork(self) -> None:
        """SQLite's connections must be closed when a process forks: see `Fork`."""
        if self.path != MEMORY and self._fork.wait():
            for side in (self._writer, self._reader):
                if side is not None:
                    side.close()
            self._writer = self._reader = None

    def after_fork_in_parent(self) -> None:
        self._fork.over()

    def after_fork_in_child(self) -> None:
        self._fork = Fork(torn=self.path != MEMORY and not (self._writer is None is self._reader))
        forking.keep_for_ever(self._writer, self._reader, self._threads, self._listeners)
        self._writer, self._reader, self._listeners = None, None, Listeners()
        self._threads = None if self._inline else Threads(shared=self.path == MEMORY)
        if self._wakeups and self.node_locks:
            self.node_locks.disown()
            self._wakeups.forget()
            self._wakeups = Wakeups(beside(self.path), self._chance.token())

    # -- wake-ups ----------------------------------------------------------------------------------------------------
    def listen(self, topics: frozenset[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        remove = self._listeners.add(topics, wake)
        end: Callable[[], None] | None = None
        if self._wakeups:
            with suppress(OSError):  # without wake-ups by other processes; polling remains
                end = self._wakeups.hear(topics, wake)

        def stop() -> None:
            remove()
            if end:
                end()

        return stop

    async def tell(self, topics: Set[Topic] = OF_ORDERS) -> None:
        if self._wakeups:
            self._wakeups.ring(topics)
        self._listeners.wake(topics)

    def heard(self, topics: Set[Topic]) -> None:
        self._listeners.wake(topics)

    # -- how calls run -----------------------------------------------------------------------------------------------
    def _write(
        self, work: Callable[Concatenate[Database, P], T], *args: P.args, **named: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        plain = _plain(work)
        return self._commit(lambda db: _settled(db, plain(db, *args, **named)))

    async def _commit(self, work: Callable[[Database], T]) -> T:
        """A write that does not settle the jobs it ended."""
        answer, topics = await self._run(True, lambda: self._write_and_ring(work))
        if topics:
            self._listeners.wake(topics)
        return answer

    def _write_and_ring(self, work: Callable[[Database], T]) -> tuple[T, set[Topic]]:
        db = self._write_side()
        answer = db.write(work)
        if self._wakeups and db.topics:
            self._wakeups.ring(db.topics)
        return answer, db.topics

    async def _read(self, work: Callable[Concatenate[Database, P], T], *args: P.args, **named: P.kwargs) -> T:
        plain = _plain(work)
        return await self._run(False, lambda: self._read_side().read(lambda db: plain(db, *args, **named)))

    async def _run(self, writes: bool, call: Callable[[], T]) -> T:
        if self._closed:
            raise StoreUnavailable(f"the store {self.path} was closed")
        if self._fork.torn:
            raise StoreUnavailable(TORN.format(self.path))
        alone = writes or self.path == MEMORY  # memory has one connection, for reads and writes of all threads
        return await self._carry_out(writes, self._fork.guarded(alone, call))

    async def _carry_out(self, writes: bool, call: Callable[[], T]) -> T:
        if self._threads is None:
            return call()
        return await self._threads.run(writes, call)

    def _write_side(self) -> Database:
        if self._writer is None:
            self._writer = Database(self.path, self._clock, self._ageing_step)
        return self._writer

    def _read_side(self) -> Database:
        if self.path == MEMORY:
            return self._write_side()
        if self._reader is None:
            self._reader = Database(self.path, self._clock, self._ageing_step, writable=False)
        return self._reader


def _settled(db: Database, answer: T) -> T:
    """Before any write commits: settles ended jobs that have children, and hands on freed keys."""
    settling, freed = db.rows("left_over")[0]
    if settling:
        graph.settle(db)
    if freed:
        limits.hand_on(db)
    return answer
