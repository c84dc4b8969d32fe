"""What the suites about jobs that wait for others share."""

from __future__ import annotations

from typing import Any

from rota.model.graph import Need
from tests.contracts.world import World

NOBODY = "00000000-0000-7000-8000-000000000000"
SUCCESS, FINISH, FAILURE, FINE, TROUBLE = Need


async def all_settled(world: World) -> None:
    """By the resolver, if the verb left something."""
    for _ in range(200):
        if not (await world.settle()).unsettled:
            return
    raise AssertionError("it never ends")


async def children(world: World, *parents: str, **changes: Any) -> dict[Need, str]:
    """One with each need."""
    return {need: (await world.submit(world.child(*parents, need=need, **changes)))[0] for need in Need}
