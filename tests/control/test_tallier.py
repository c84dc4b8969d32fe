"""The tallier: only the leader counts, in steps, until there is nothing left."""

from __future__ import annotations

import pytest

from rota.control import tallier
from rota.control.tallier import BREATH, PERIOD, Tallier
from rota.model.principal import LOCAL
from rota.model.statistics import Window
from rota.model.times import HOUR, SECOND
from rota.store.statistics import SETTLED
from tests.contracts.world import DONE, World


async def test_only_the_leader_counts(world: World) -> None:
    actor = await world.node()
    await actor.run(DONE, await world.one())
    world.clock.advance(SETTLED / SECOND)
    async with world.unchanged():
        assert await Tallier(world.store, lambda: False).tick() == PERIOD


async def test_it_counts_step_by_step_and_then_rests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallier, "BATCH", 1)
    actor = await world.node()
    for _ in range(3):
        await actor.run(DONE, await world.one())
        world.clock.advance(1)
    world.clock.advance(SETTLED / SECOND)
    service = Tallier(world.store, lambda: True)
    pauses = [await service.tick() for _ in range(4)]
    assert pauses[0] == BREATH
    assert pauses[-1] == PERIOD
    assert (await world.store.statistics(LOCAL, Window(HOUR))).rates.ended.count == 3
