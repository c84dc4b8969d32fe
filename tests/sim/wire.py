"""The way from a process to the store, and what goes wrong on it.

A call takes time to get there and its answer takes time to come back; the calls of one process arrive in their order.
A call may fail before anything was done, or after it was done (the answer is lost); for a while all may fail. What
was sent is carried out even if nobody waits for the answer any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Set
from functools import partial
from random import Random
from typing import Any

from rota.errors import StoreDenied, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from rota.store.listeners import Listeners
from rota.store.sqlite import SqliteStore
from rota.store.values import Topic
from tests.sim.loop import PROCESS, Process, SimLoop
from tests.sim.plan import Plan
from tests.sim.witness import Cause, Witness, cause

# What a store in trouble may refuse at any time, and what an attempt must not lose for it.
WRITES = ("finish", "append_output", "note", "renew")
REFUSALS = (StoreError, StoreDenied, StoreReadOnly, StoreFull)
# Neither reach the store: nothing can go wrong.
LOCAL = {"now", "doubt", "guards", "exposed", "services", "tell_people", "carry_wakes"}


class Wire:
    """Stands where a process would have its `Store`."""

    def __init__(
        self,
        name: str,
        store: SqliteStore,
        loop: SimLoop,
        plan: Plan,
        witness: Witness,
        process: Process | None = None,
    ) -> None:
        self._name, self._store, self._loop, self._plan, self._witness = name, store, loop, plan, witness
        self._rng = Random(f"{plan.seed}/wire/{name}")
        self._refusals = Random(f"{plan.seed}/refusals/{name}")
        self._free_at = 0.0
        self._process = process
        self._listeners = Listeners()  # of this process
        self.down_until = 0.0
        self.healed = False
        self._traps: dict[tuple[str, str], Callable[[], None]] = {}

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb) if verb in LOCAL else partial(self._call, verb)

    def heal(self) -> None:
        self.healed, self.down_until = True, 0.0

    def listen(self, topics: frozenset[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        def rung() -> None:
            if self.healed or self._rng.random() >= self._plan.deaf_rate:
                self._wake(wake)

        stops = self._listeners.add(topics, wake), self._store.listen(topics, rung)

        def stop() -> None:
            for each in stops:
                each()

        return stop

    def heard(self, topics: Set[Topic]) -> None:
        self._listeners.wake(topics)

    def _wake(self, wake: Callable[[], None]) -> None:
        """In the context of its own process: nobody else's is known there."""
        if self._process is None or PROCESS.get() is self._process:
            wake()
        else:
            self._process.context.copy().run(wake)

    def set_trap(self, verb: str, moment: str, act: Callable[[], None]) -> None:
        """The next time such a call is "sent" or "applied" (and not yet answered), `act` is called, once."""
        self._traps[verb, moment] = act

    def _pass(self, verb: str, moment: str) -> None:
        if act := self._traps.pop((verb, moment), None):
            act()

    async def _call(self, verb: str, *args: Any, **named: Any) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._free_at = max(self._loop.time() + self._latency(), self._free_at)
        self._loop.call_at(
            self._free_at, self._arrive, verb, (*args, *named.values()), answer, cause(self._loop.time())
        )
        self._pass(verb, "sent")
        return await answer

    def _arrive(self, verb: str, args: tuple[Any, ...], answer: asyncio.Future[Any], why: Cause) -> None:
        if self._loop.time() < self.down_until or self._goes_wrong():
            return self._reply(answer, StoreUnavailable("simulated: the store can't be reached"))
        if verb in WRITES and not self.healed and self._refusals.random() < self._plan.refuse_rate:
            self._witness.note(self._name, "refused", verb=verb)
            return self._reply(answer, self._refusals.choice(REFUSALS)("simulated: the disk is broken"))
        try:
            result = finish(getattr(self._store, verb)(*args))
        except Exception as error:
            self._witness.rolled_back()
            return self._reply(answer, error)
        self._witness.applied(self._name, verb, args, result, why)
        self._pass(verb, "applied")
        if self._goes_wrong():
            self._witness.note(self._name, "lost", verb=verb)
            return self._reply(answer, StoreUnavailable("simulated: the answer was lost"))
        return self._reply(answer, result)

    def _reply(self, answer: asyncio.Future[Any], result: Any) -> None:
        self._loop.call_later(self._latency(), _deliver, answer, result)

    def _goes_wrong(self) -> bool:
        return not self.healed and self._rng.random() < self._plan.error_rate / 2

    def _latency(self) -> float:
        if not self.healed and self._rng.random() < self._plan.slow_rate:
            return self._rng.uniform(0.05, 3)
        return self._rng.uniform(0.0001, 0.002)


def finish(call: Coroutine[Any, Any, Any]) -> Any:
    """Store calls run inline: the first step is the last."""
    try:
        call.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a store call did not run inline")


def _deliver(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
