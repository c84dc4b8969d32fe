"""The service that sets aside functions which no node has ever offered."""

from __future__ import annotations

import pytest

from rota.control import unoffered
from rota.control.unoffered import BREATH, PERIOD, SETTLING, UnofferedSweep
from rota.model.lifecycle import State
from rota.model.times import HOUR, SECOND, Duration
from rota.telemetry.events import Bus, Event, UnofferedSetAside
from rota.telemetry.lines import sentence
from tests.contracts.test_offers import functions
from tests.contracts.world import World


class Service(UnofferedSweep):
    def __init__(self, world: World, grace: Duration = HOUR) -> None:
        self.told: list[Event] = []
        self.leading = True
        bus = Bus()
        bus.subscribe(self.told.append)
        super().__init__(world.store, world.clock, bus, grace, lambda: self.leading)


async def test_a_new_leader_waits_before_it_sets_anything_aside(world: World) -> None:
    service = Service(world)
    (job,) = await functions(world, "new", 1)
    world.clock.advance(2 * HOUR // SECOND)
    assert await service.tick() == PERIOD
    world.clock.advance(SETTLING // SECOND - 1)
    assert await service.tick() == 1.0
    assert await world.state(job) is State.READY
    world.clock.advance(1)
    assert await service.tick() == BREATH
    assert await world.state(job) is State.FAILED
    assert await service.tick() == PERIOD


async def test_only_the_leader_does_it(world: World) -> None:
    service = Service(world)
    (job,) = await functions(world, "new", 1)
    await service.tick()
    service.leading = False
    world.clock.advance(2 * HOUR // SECOND)
    assert await service.tick() == PERIOD
    service.leading = True
    assert await service.tick() == PERIOD, "it leads anew"
    assert await world.state(job) is State.READY


async def test_it_tells_of_what_it_did(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unoffered, "BATCH", 2)
    service = Service(world, 10 * SECOND)
    await functions(world, "new", 3)
    await service.tick()
    world.clock.advance(10)
    while await service.tick() == BREATH:
        pass
    assert service.told == [UnofferedSetAside("new", 2, 10 * SECOND), UnofferedSetAside("new", 1, 10 * SECOND)]
    assert [sentence(event) for event in service.told] == [
        ("error", "2 jobs of task new were set aside: no node has offered that task for 10s"),
        ("error", "a job of task new was set aside: no node has offered that task for 10s"),
    ]
