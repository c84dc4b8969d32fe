"""Long lists of fires leave the loop to others."""

from __future__ import annotations

import asyncio

from rota.clients.schedules import SchedulesClient
from rota.model.principal import LOCAL
from rota.model.times import SECOND
from rota.model.trigger.rules import Every
from tests.contracts.timetables import minutely
from tests.contracts.world import World
from tests.control.stage import save


async def test_others_have_their_turn_meanwhile(world: World) -> None:
    planning = SchedulesClient(world.store, LOCAL, world.chance)
    await save(world, "s", rule=Every(SECOND))
    turns: list[int] = []

    async def meanwhile() -> None:
        while True:
            turns.append(len(turns))
            await asyncio.sleep(0)

    others = asyncio.create_task(meanwhile())
    assert len(await planning.preview(minutely("other"), 2_000)) == 2_000
    assert len(turns) >= 100
    turns.clear()
    assert len(await planning.upcoming("s", 2_000)) == 2_000
    assert len(turns) >= 100
    turns.clear()
    world.clock.advance(3_000)
    start = world.clock.now() - 2_000 * SECOND
    found = [one async for one in planning.backfill("s", start, start + 1_999 * SECOND, dry_run=True)]
    assert found[0].total == 2_000
    assert len(turns) >= 100
    others.cancel()
