"""The meter: flows pay for the slots that they use, while they use them, each instant once."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any, cast

import pytest

from rota.errors import StoreUnavailable
from rota.logs.shipper import Shipper
from rota.model.feedback import Feedback
from rota.model.job import Claimed, Kind
from rota.model.node import News
from rota.model.outcome import Outcome
from rota.model.principal import LOCAL, SYSTEM
from rota.model.requirements import Requirements
from rota.model.times import HOUR, SECOND
from rota.telemetry.events import Bus
from rota.work.attempt import Attempt, Pipeline
from rota.work.meter import PERIOD, Meter
from rota.work.worker import Worker
from tests.contracts.world import ALICE, DONE, Actor, World, settled
from tests.control.stage import Troubled

MOST_TICKS = 50  # until a worker to which nothing happens has done all it can


class Shop:
    """A worker whose jobs run until the test ends them."""

    kinds = (Kind.FUNCTION, Kind.COMMAND)

    def __init__(
        self, world: World, actor: Actor, queues: dict[str, int], prefetch: int = 0, lend: bool = True
    ) -> None:
        self._world, self._actor = world, actor
        self._ends: dict[str, asyncio.Event] = {}
        self._running: dict[str, Claimed] = {}
        self._ended: Counter[str] = Counter()
        self._woken = False
        self.worker = Worker(
            world.store, world.clock, actor.incarnation, queues, lambda: self.kinds, prefetch, cast("Pipeline", self),
            Shipper(world.store, 1_000, Bus()), Bus(), lend,
        )  # fmt: skip
        self.worker.wake = self._wake

    @classmethod
    async def open(cls, world: World, queues: dict[str, int], **options: Any) -> Shop:
        return cls(world, await world.node(), queues, **options)

    def _wake(self) -> None:
        self._woken = True

    ending = False  # this one and the next: in place of the pipeline

    async def run(self, attempt: Attempt) -> None:
        claimed = attempt.claimed
        ended = self._ends[claimed.job_id] = asyncio.Event()
        self._running[claimed.job_id] = claimed
        await ended.wait()
        await self._world.store.finish(SYSTEM, [settled(claimed, DONE)])
        del self._running[claimed.job_id]

    @property
    def names(self) -> list[str]:
        return list(self._running)

    async def work(self) -> dict[str, int]:
        """Ticks as long as the worker wants to; how many run then of each queue."""
        for _ in range(MOST_TICKS):
            self._woken = False
            await self.worker.tick()
            await asyncio.sleep(0)
            if not self._woken:
                break
        else:
            raise AssertionError("it never rests")
        return dict(Counter(one.queue for one in self._running.values()))

    async def end(self, queue: str, result: Outcome = DONE) -> None:
        """The one of them that has run longest, if any does; the worker may want its slot at once."""
        job = next((job for job, one in self._running.items() if one.queue == queue), None)
        if job is not None:
            self._ends[job].set()
            before = self.worker.running
            for _ in range(MOST_TICKS):
                if self.worker.running < before:
                    break
                await asyncio.sleep(0)
            if self._woken:
                await self.work()

    async def renew(self) -> News:
        return await self._actor.renew()


async def test_slot_time_is_counted_while_jobs_run_and_each_instant_once(world: World) -> None:
    shop = await Shop.open(world, {"a": 4})
    await world.several(2, queue="a", task="t")
    await world.one(ALICE, queue="a", task="t")
    await shop.work()
    used = shop.worker.used
    assert used(["a"]) == {}
    world.clock.advance(2)
    assert used(["a"]) == {("a", "local/t"): 4 * SECOND, ("a", "alice/t"): 2 * SECOND}
    assert used(["a"]) == {}
    world.clock.advance(1)
    await shop.end("a")
    world.clock.advance(1)
    assert used(["a"]) == {("a", "local/t"): 3 * SECOND, ("a", "alice/t"): 2 * SECOND}


async def test_what_ended_between_two_looks_counts(world: World) -> None:
    shop = await Shop.open(world, {"a": 1})
    await world.several(5, queue="a", task="t")
    for _ in range(5):
        await shop.work()
        world.clock.advance(0.5)
        await shop.end("a")
    assert shop.worker.used(["a"]) == {("a", "local/t"): round(2.5 * SECOND)}


async def test_jobs_of_several_tasks_charge_the_flow_that_they_name(world: World) -> None:
    shop = await Shop.open(world, {"a": 3})
    for task in ("t", "f", "t"):
        await world.one(queue="a", task=task, requirements=Requirements(flow="bulk"))
    await world.one(ALICE, queue="b", task="t")
    await shop.work()
    world.clock.advance(2)
    assert shop.worker.used(["a"]) == {("a", "local/bulk"): 6 * SECOND}


async def test_of_queues_without_feedback_it_is_forgotten(world: World) -> None:
    shop = await Shop.open(world, {"a": 1, "b": 1})
    await world.one(queue="a")
    await world.one(queue="b")
    await shop.work()
    world.clock.advance(1)
    assert set(shop.worker.used(["b"])) == {("b", "local/true")}
    assert shop.worker.used(["a", "b"]) == {}, "it does not pay for what was before it was switched on"


async def test_each_tick_charges_the_queues_that_count_now(world: World) -> None:
    await world.store.set_feedback(LOCAL, "a", Feedback(SECOND, 5, HOUR))
    shop = await Shop.open(world, {"a": 2, "b": 2})
    counted = ["a"]
    meter = Meter(world.store, shop.worker, lambda: counted)
    await world.several(2, queue="a")
    await world.one(queue="b")
    await shop.work()
    for seconds in (1, 2):
        world.clock.advance(seconds)
        assert await meter.tick() == PERIOD
    (flow,) = await world.store.flows(LOCAL, 10)
    assert (flow.queue, flow.flow, flow.used, flow.level) == ("a", "local/true", timedelta(seconds=6), 2)
    counted.clear()
    world.clock.advance(100)
    await meter.tick()
    assert (await world.store.flows(LOCAL, 10))[0].used == timedelta(seconds=6)


async def test_two_nodes_add_up(world: World) -> None:
    await world.store.set_feedback(LOCAL, "a", Feedback(SECOND, 5, HOUR))
    shops = [await Shop.open(world, {"a": 1}) for _ in range(2)]
    await world.several(2, queue="a")
    for shop in shops:
        await shop.work()
    world.clock.advance(1)
    for shop in shops:
        await Meter(world.store, shop.worker, lambda: ["a"]).tick()
    assert [flow.used for flow in await world.store.flows(LOCAL, 10)] == [timedelta(seconds=2)]


async def test_an_error_of_the_store_is_not_charged_twice(world: World) -> None:
    await world.store.set_feedback(LOCAL, "a", Feedback(SECOND, 5, HOUR))
    shop = await Shop.open(world, {"a": 1})
    await world.one(queue="a")
    await shop.work()
    store = Troubled(world.store)
    store.fails_after["charge"] = 1
    meter = Meter(store.face, shop.worker, lambda: ["a"])
    world.clock.advance(1)
    with pytest.raises(StoreUnavailable):
        await meter.tick()
    world.clock.advance(1)
    await meter.tick()
    assert (await world.store.flows(LOCAL, 1))[0].used == timedelta(seconds=2)
