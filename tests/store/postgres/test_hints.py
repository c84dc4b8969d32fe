"""Jobs promoted by id beside other transactions."""

from __future__ import annotations

from rota.model.lifecycle import State
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from tests.contracts.world import World
from tests.store.postgres.ranking import Place


async def test_jobs_that_another_transaction_holds_are_skipped(world: World, place: Place) -> None:
    held, free = await world.several(2, delay=SECOND)
    world.clock.advance(1)
    with place.connect() as db, db.transaction():
        db.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", [held])
        assert await world.store.promote_jobs(SYSTEM, [held, free]) == 1
    assert await world.states(held, free) == [State.SCHEDULED, State.READY]
    assert await world.store.promote_jobs(SYSTEM, [held, free]) == 1
    assert await world.state(held) is State.READY
