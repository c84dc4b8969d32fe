"""The output counter: only the leader counts."""

from __future__ import annotations

from rota.control.output_counter import PERIOD, OutputCounter
from rota.model.principal import LOCAL, Principal
from rota.model.quotas import quotas
from tests.contracts.world import World

ANN = Principal("ann")


async def test_only_the_leader_counts(world: World) -> None:
    actor = await world.node()
    claimed = await actor.take(await world.one(ANN))
    await actor.say(claimed.ref, 0, b"12345")
    await world.store.put_user(LOCAL, "ann", quotas("output=1KB"), new=True)
    assert await OutputCounter(world.store, lambda: False).tick() == PERIOD
    assert (await world.store.quota_use(ANN)).output == 0
    assert await OutputCounter(world.store, lambda: True).tick() == PERIOD
    assert (await world.store.quota_use(ANN)).output == 5
