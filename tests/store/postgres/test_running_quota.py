"""The quota for running jobs where claims really happen at once, and where one was under way when it was set."""

from __future__ import annotations

from collections import Counter

import psycopg
import pytest

from rota.clock import ManualClock
from rota.model.limits import Key
from rota.model.principal import LOCAL, SYSTEM
from rota.model.quotas import quotas
from rota.store.postgres import PostgresStore
from tests.contracts.admission import HELD, admitted, finish_all, needs
from tests.contracts.world import Actor, World
from tests.store.postgres.ranking import Place
from tests.store.postgres.test_admission import Witness, together, work

QUOTA = "quota"


@pytest.fixture
async def claimers(world: World, place: Place, store: PostgresStore, clock: ManualClock) -> list[Actor]:
    stores = [store, *[await place.store(clock=clock) for _ in range(3)]]
    return [await world.node(store=stores[number % 4]) for number in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize("running", [1, 3])
async def test_eight_claimers_never_run_more_than_it_allows(world: World, claimers: list[Actor], running: int) -> None:
    await world.store.put_user(LOCAL, LOCAL.user, quotas(f"running={running}"), new=True)
    bounds = {QUOTA: running, "a": 1, "b": 2}
    wanted: dict[str, tuple[str, ...]] = {}
    for number in range(100):
        keys = [key for place, key in enumerate("ab") if number % 4 & 1 << place]
        wanted[await world.one(requirements=needs(*(Key(key, bounds[key]) for key in keys)))] = (QUOTA, *keys)
    witness = Witness(bounds, wanted)
    await together([work(actor, witness, number % 4 + 1) for number, actor in enumerate(claimers)])
    assert set(witness.ended.values()) == {1}


async def test_the_quota_moves_while_eight_claim(world: World, claimers: list[Actor]) -> None:
    await world.store.put_user(LOCAL, LOCAL.user, quotas("running=2"), new=True)
    jobs = await world.several(80)
    ended: Counter[str] = Counter()

    async def change() -> None:
        for turn in range(20):
            given = {"running": None if turn % 4 == 3 else turn % 3 + 1}
            await world.store.put_user(LOCAL, LOCAL.user, quotas(given), new=False)

    async def one(actor: Actor) -> None:
        while len(ended) < len(jobs):
            claimed = await actor.claim(3)
            ended.update(job.job_id for job in claimed)
            await finish_all(actor, claimed)
            await actor.store.admit(SYSTEM, 100)

    await together([change(), *(one(actor) for actor in claimers)])
    assert ended == Counter(jobs)


async def test_jobs_of_a_claim_that_did_not_see_the_quota_count_soon(world: World, place: Place) -> None:
    actor = await world.node()
    await world.store.put_user(LOCAL, LOCAL.user, quotas("running=1"), new=True)
    running = await actor.take(await world.one())
    with psycopg.connect(place.url.partition("?")[0], autocommit=True) as connection:
        connection.execute(f"DELETE FROM {place.schema}.slots".encode())  # as if that claim had begun earlier
        connection.execute(f"UPDATE {place.schema}.jobs SET special = false".encode())
    await admitted(world)
    waiting = await world.one()
    assert await actor.claim() == []
    assert await world.state(waiting) is HELD
    await actor.finish(running)
    assert len(await actor.claim()) == 1
