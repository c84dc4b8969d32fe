"""Repeats of a write while its first try is carried out elsewhere: they are told so, and change nothing."""

from __future__ import annotations

import asyncio

import pytest

from rota.clock import ManualClock
from rota.errors import RepeatInFlight
from rota.model.limits import Limit
from rota.model.principal import SYSTEM
from rota.store.base import Store
from rota.store.people import AuditFilter
from rota.store.postgres.database import Unit
from tests.contracts.test_audit import ANN
from tests.contracts.test_repeats import naming
from tests.contracts.world import World
from tests.store.postgres.ranking import Place


@pytest.fixture
async def another(place: Place, clock: ManualClock) -> Store:
    return await place.store(clock=clock)


async def test_a_repeat_in_flight_is_told_so_and_does_not_wait(
    world: World, another: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, reached, go_on = Unit.end, asyncio.Event(), asyncio.Event()

    async def slowly(unit: Unit) -> None:
        if asyncio.current_task() is first:  # all is written, and not committed
            reached.set()
            await go_on.wait()
        await end(unit)

    monkeypatch.setattr(Unit, "end", slowly)
    first = asyncio.create_task(world.store.set_limit(naming("set_limit"), Limit("db", 1)))
    await reached.wait()
    for who in (naming("set_limit"), naming("set_limit", digest="other")):
        with pytest.raises(RepeatInFlight):
            await another.set_limit(who, Limit("db", 1))
    await another.set_limit(naming("set_limit", key="other"), Limit("mail", 1))
    await another.set_limit(ANN, Limit("disk", 1))
    go_on.set()
    await first
    await another.set_limit(naming("set_limit"), Limit("db", 1))
    assert len(await world.store.audit(SYSTEM, AuditFilter())) == 3


async def test_a_try_that_was_rolled_back_leaves_the_key_free(world: World, another: Store) -> None:
    begun = asyncio.Event()

    async def killed() -> None:
        async with world.store._database.unit(world.store._database.pools().work) as unit:  # type: ignore[attr-defined]
            await unit.begin()
            await unit.rows("hold_repeat", owner="ann", key="k", step=0, now=None)
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(killed())
    await begun.wait()
    with pytest.raises(RepeatInFlight):
        await another.set_limit(naming("set_limit"), Limit("db", 1))
    task.cancel()  # its connection is cut
    await asyncio.wait([task])
    async with asyncio.timeout(30):
        while True:
            try:
                await another.set_limit(naming("set_limit"), Limit("db", 1))
            except RepeatInFlight:
                await asyncio.sleep(0.01)
            else:
                break
    assert len(await world.store.audit(SYSTEM, AuditFilter())) == 1
