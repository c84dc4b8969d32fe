"""The reconciler gives back attempts whose claim was never answered; renewals don't wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from rota.lease import Lease
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.model.outcome import Settlement
from rota.model.principal import Principal
from rota.store.base import Store
from rota.work.heartbeat import Heartbeat
from rota.work.reconciler import Reconciler
from rota.work.worker import LOST_AFTER
from tests.contracts.world import Actor, World
from tests.work.test_meter import Shop

LONG = 10.0


class Stuck:
    """A store in which ends wait for a row that somebody else holds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked, self.free = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def finish(self, who: Principal, settlements: Sequence[Settlement]) -> list[Verdict]:
        self.asked.set()
        await self.free.wait()
        return await self._store.finish(who, settlements)


class Place:
    """A worker that knows of nothing, its heartbeat and its reconciler, on a store whose ends get stuck."""

    def __init__(self, world: World, actor: Actor) -> None:
        self.store = Stuck(world.store)
        self.clock = world.clock
        there = World(cast("Store", self.store), world.backend, world.clock, world.chance)
        self.worker = Shop(there, actor, {"default": 4}).worker
        self.lease = Lease(world.clock, 10.0)
        self.lost: list[str] = []
        self.heartbeat = Heartbeat(
            world.store, world.clock, actor.incarnation, self.lease, self.worker, lambda _: None, self.lost.append
        )
        self.woken = False
        self.reconciler = Reconciler(self.worker)
        self.reconciler.wake = self._wake
        self.heartbeat.heard_holds = self.reconciler.heard

    def _wake(self) -> None:
        self.woken = True

    async def renew(self, after: float) -> None:
        self.clock.advance(after)
        async with asyncio.timeout(LONG):
            await self.heartbeat.tick()


async def test_renewals_go_on_while_an_end_waits_for_a_row(world: World) -> None:
    job = await world.one()
    actor = await world.node()
    place = Place(world, actor)
    await actor.claim()  # the worker never hears of it
    await place.renew(after=0)
    await place.renew(after=LOST_AFTER + 1)
    assert place.woken
    giving_back = asyncio.create_task(place.reconciler.tick())
    await place.store.asked.wait()
    for _ in range(20):
        await place.renew(after=1)
        assert not place.lease.endangered
    assert not giving_back.done()
    assert await world.state(job) is State.RUNNING
    place.store.free.set()
    await giving_back
    assert await world.state(job) is State.READY
    assert not place.lost


async def test_what_has_been_unknown_for_a_moment_is_left_alone(world: World) -> None:
    job = await world.one()
    actor = await world.node()
    place = Place(world, actor)
    place.store.free.set()
    await actor.claim()
    await place.renew(after=0)
    await place.renew(after=LOST_AFTER - 1)
    await place.reconciler.tick()
    assert not place.woken
    assert await world.state(job) is State.RUNNING


async def test_each_is_given_back_once(world: World) -> None:
    await world.one()
    actor = await world.node()
    place = Place(world, actor)
    place.store.free.set()
    await actor.claim()
    await place.renew(after=0)
    await place.renew(after=LOST_AFTER + 1)
    await place.reconciler.tick()
    place.store.asked.clear()
    await place.reconciler.tick()
    assert not place.store.asked.is_set()
