"""A lane of the hot tier that lies: it loses what it was told to do, and invents what it is asked about.

It takes time to get to the server and back. What a server that sleeps or hangs was sent is carried out late, after its
caller has given up, or never.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from rota.hot.connection import LIMIT
from rota.hot.lane import Added, Due, HotAway, Lane, LaneState, Look, Report
from rota.hot.local import LocalLane
from rota.model.times import SECOND, Instant
from tests.sim.hot_ways import CLOSED, STUBBORN
from tests.sim.loop import PROCESS
from tests.sim.wire import finish

if TYPE_CHECKING:
    from tests.sim.hot_tier import HotServer

T = TypeVar("T")
# What no job is called, and what no text can be in a database.
NO_IDS = ("", "no id", "x\0y", "\udcff", "01890a5d-ac96-774b-bcce-b302099a8057")
NO_WAKES = ("", "/", "xyz/somebody", "D", "d\0/")


class LyingLane(Lane):
    """`who` uses it: a life of a node, or a customer."""

    def __init__(self, server: HotServer, who: str) -> None:
        self.place, self._server, self._who = server.place, server, who
        self._lane = LocalLane(server.local)
        self._rng = Random(f"{server.world.plan.seed}/{server.place}/{who}")
        self._context, self._process = contextvars.copy_context(), PROCESS.get()
        self.deaf_until = 0.0  # its subscription is half open: nothing arrives, and nobody is told

    # -- the way to the server and back ------------------------------------------------------------------------------
    async def _call(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        loop, server = self._server.world.loop, self._server
        arrives, lost = server.way_there(self._who, self._rng)
        until = loop.time() + LIMIT
        if lost or arrives >= until:
            if not lost and self._rng.random() < 0.5:
                server.world.later(arrives - loop.time(), self._too_late, act)
            await asyncio.sleep(LIMIT)
            raise HotAway(f"{self.place}: no answer within {LIMIT:g}s")
        await asyncio.sleep(arrives - loop.time())
        answer: T = finish(act())
        _, lost = server.way_there(self._who, self._rng)
        if lost:
            await asyncio.sleep(until - loop.time())
            raise HotAway(f"{self.place}: no answer within {LIMIT:g}s")
        await asyncio.sleep(self._rng.uniform(0.0001, 0.0005))
        return answer

    def _too_late(self, act: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            finish(act())
        except Exception:  # the server went away meanwhile, or the caller has another connection
            return

    def _lies(self, what: str) -> bool:
        return self._server.lies(what, self._who, self._rng)

    async def open(self, store: str) -> None:
        await self._call(lambda: self._lane.open(store))

    # -- the heap of due jobs ----------------------------------------------------------------------------------------
    async def add_due(self, entries: Sequence[Due]) -> Added:
        self._server.known += [job for job, _ in entries]
        return await self._call(lambda: self._add(entries))

    async def _add(self, entries: Sequence[Due]) -> Added:
        if self._lies("adds lost"):
            all_lost = self._server.world.plan.lying == CLOSED or self._rng.random() < 0.7
            kept = [] if all_lost else [one for one in entries if self._rng.random() < 0.5]
            added = await self._lane.add_due(kept)
            return Added(self._rng.random() < 0.5, added.epoch)
        if self._lies("times changed"):
            entries = [Due(job, at + self._rng.randint(-5 * SECOND, 5 * SECOND)) for job, at in entries]
        return await self._lane.add_due(entries)

    async def look(self, until: Instant, limit: int) -> Look:
        return await self._call(lambda: self._look(until, limit))

    async def _look(self, until: Instant, limit: int) -> Look:
        self._server.world.witness.note(self._who, "look", shelf=self.place)
        if self._server.world.plan.lying == STUBBORN:
            return Look("filled", [Due(f"01890a5d-ac96-774b-bcce-{number:012}", 1) for number in range(limit)], 1)
        memory = self._server.local.memory
        if self._lies("old state") and self._server.snapshots:
            self._server.local.memory = self._rng.choice(self._server.snapshots)
        try:
            epoch, due, upcoming = await self._lane.look(until, limit)
        finally:
            self._server.local.memory = memory
        if self._lies("entries invented"):
            due = sorted([*due, *self._invented(until)], key=lambda one: (one.at, one.job))[:limit]
        if self._lies("entries missing"):
            due = [one for one in due if self._rng.random() < 0.5]
        if self._lies("upcoming"):
            soon = [until + self._rng.randint(-SECOND, 20 * SECOND) for _ in range(2)]
            upcoming = self._rng.choice([None, 0, *soon])
        if self._lies("nonsense"):
            raise ValueError("not enough values to unpack")  # an answer of another shape
        if self._lies("epoch"):
            epoch = self._rng.choice(["", "another"])
        return Look(epoch, due, upcoming)

    def _invented(self, until: Instant) -> list[Due]:
        """Jobs of now and before, those that are due later, those that never were to be due; and no jobs at all."""
        orders = list(self._server.world.customer.orders)
        found = [*self._server.known[-20:], *orders[-20:], *NO_IDS]
        chosen = self._rng.sample(found, min(len(found), self._rng.randint(1, 8)))
        return [Due(job, until - self._rng.randint(0, 10 * SECOND)) for job in chosen]

    async def drop_due(self, entries: Sequence[Due]) -> None:
        await self._call(lambda: self._lane.drop_due([] if self._lies("drops lost") else entries))

    async def begin_epoch(self, epoch: str) -> None:
        lost = self._lies("epoch lost")
        await self._call(lambda: self._lane.begin_epoch("of somebody" if lost else epoch))

    async def page_due(self, after: Due, limit: int) -> list[Due]:
        return await self._call(lambda: self._lane.page_due(after, limit))

    # -- the latest news of running jobs -----------------------------------------------------------------------------
    async def report(self, reports: Sequence[Report], life: float, most: int) -> None:
        await self._call(lambda: self._lane.report(reports, life, most))

    async def reports(self, jobs: Sequence[str]) -> list[Report | None]:
        return await self._call(lambda: self._lane.reports(jobs))

    # -- wake-ups ----------------------------------------------------------------------------------------------------
    async def publish(self, text: str) -> None:
        await self._call(lambda: self._publish(text))

    async def _publish(self, text: str) -> None:
        await self._lane.state()  # which fails as `publish` does
        if not self._lies("wake-ups lost"):
            await self._lane.publish(text)
        if self._lies("wake-ups doubled"):
            await self._lane.publish(text)

    async def subscribe(self, hear: Callable[[str], None], lost: Callable[[], None]) -> None:
        def heard(text: str) -> None:
            loop = self._server.world.loop
            if self._gone or not self._server.hears(self._who) or loop.time() < self.deaf_until:
                return
            if self._lies("wake-ups unheard"):
                return
            if self._lies("wake-ups garbled"):
                text = self._rng.choice(NO_WAKES)
            slow = self._rng.uniform(0, 0.3) if self._lies("wake-ups late") else 0.0003
            self._server.world.later(slow, lambda: loop.call_soon(hear, text, context=self._context))

        def ended() -> None:
            if not self._gone:
                self._server.world.loop.call_soon(lost, context=self._context)

        await self._call(lambda: self._lane.subscribe(heard, ended))

    @property
    def _gone(self) -> bool:
        return self._process is not None and self._process.dead

    # -- life --------------------------------------------------------------------------------------------------------
    async def state(self) -> LaneState:
        return await self._call(self._lane.state)

    async def close(self) -> None:
        await self._lane.close()

    def drop(self) -> None:
        self._lane.drop()

    def descriptors(self) -> Iterable[int]:
        return ()
