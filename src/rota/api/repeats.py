"""Writes that a client sends again because it got no answer: recognised, and answered as the first time.

A client of rota's own sends an idempotency key with every write, the same with every try. The answer is kept for some
minutes; a repeat that comes while the first try runs waits for it. A try that failed is not kept, so a repeat is
carried out. Orders are not kept here: their ids make a repeat recognisable in the store, for every server
(`api.repeated_orders`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from rota.clock import Clock

KEPT = 300.0  # seconds
MOST = 10_000  # answers; the oldest are forgotten first

Name = tuple[str, str, bytes]  # the access key, the idempotency key, and a digest of the call


class _Kept(NamedTuple):
    answer: asyncio.Future[Any]
    until: float


class Repeats:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[Name, _Kept] = OrderedDict()

    async def once(self, name: Name, call: Callable[[], Awaitable[Any]]) -> Any:
        """The answer of the call, carried out once for each name."""
        now = self._clock.monotonic()
        self._forget(now)
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = _Kept(asyncio.ensure_future(call()), now + KEPT)
            kept.answer.add_done_callback(lambda done: self._ended(name, done))
        return await asyncio.shield(kept.answer)  # a caller that goes away must not stop it for its next try

    def _ended(self, name: Name, done: asyncio.Future[Any]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._kept.pop(name, None)

    def _forget(self, now: float) -> None:
        while self._kept:
            name, oldest = next(iter(self._kept.items()))
            if oldest.until > now and len(self._kept) < MOST:
                return
            del self._kept[name]
