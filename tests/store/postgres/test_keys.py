"""Orders with keys that others want at the same moment, in another order."""

from __future__ import annotations

import asyncio
import itertools
import uuid

import pytest

from rota.clock import Chance, ManualClock
from rota.model.job import NewJob
from rota.model.principal import LOCAL
from rota.store.postgres import PostgresStore, database
from rota.store.postgres.database import LockedUp, Unit
from rota.store.values import Answer
from tests.contracts.world import World
from tests.store.postgres.ranking import LIMIT, Place, until

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"


def orders(world: World, *keys: str) -> list[list[NewJob]]:
    """One with each key, all of the same content."""
    return [[world.job(key=key)] for key in keys]


def created(answers: list[Answer]) -> list[bool]:
    return [one.created for answer in answers if isinstance(answer, list) for one in answer]


async def test_two_calls_with_the_same_keys_the_other_way_round_do_not_lock_up(
    world: World, store: PostgresStore, place: Place, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "TRIES", 1)
    other = await place.store(clock=clock)
    waiting = f"%{place.schema}.accept%"
    with place.connect() as db:
        db.execute("BEGIN")  # holds both up half way
        db.execute("INSERT INTO keys VALUES ('local', 'm', '', %s, 0)", [uuid.uuid4()])
        first = asyncio.create_task(store.submit(LOCAL, orders(world, "a", "m", "z")))
        await until(lambda: place.value(WAITING, waiting) == 1)
        second = asyncio.create_task(other.submit(LOCAL, orders(world, "z", "a")))
        await until(lambda: place.value(WAITING, waiting) == 2)
        db.execute("ROLLBACK")
    async with asyncio.timeout(LIMIT):
        assert created(await first) == [True] * 3
        assert created(await second) == [False] * 2
    assert len(await world.all()) == 3


async def test_many_clients_with_the_same_keys_in_any_order(
    world: World, place: Place, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "TRIES", 1)
    keys, chance = [f"k{number}" for number in range(12)], Chance(7)
    stores = [await place.store(clock=clock) for _ in range(4)]
    calls = [
        store.submit(LOCAL, orders(world, *sorted(keys, key=lambda _: chance.random())))
        for store in stores
        for _ in range(5)
    ]
    async with asyncio.timeout(LIMIT):
        answers = await asyncio.gather(*calls)
    assert sum(map(sum, map(created, answers))) == len(keys)
    assert len(await world.all()) == len(keys)


async def test_a_key_that_was_taken_for_a_refused_order_is_free_for_the_next(
    world: World, store: PostgresStore
) -> None:
    await world.one(key="used")
    refused = [world.job(key="new"), world.job(key="used", task="other")]
    first, second = await store.submit(LOCAL, [refused, [world.job(key="new", task="third")]])
    assert not isinstance(first, list)
    assert isinstance(second, list)
    assert second[0].created
    assert (await world.info(second[0].id)).task == "third"


async def test_what_locks_up_is_tried_again_after_growing_pauses_and_not_for_ever(store: PostgresStore) -> None:
    tries: list[float] = []
    loop = asyncio.get_running_loop()

    async def locks_up(unit: Unit, times: int) -> int:
        tries.append(loop.time())
        if len(tries) <= times:
            raise LockedUp("others")
        return len(tries)

    assert (await store._database.call(store._database.pools().work, locks_up, 2))[0] == 3
    gaps = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert gaps[0] >= database.FIRST_PAUSE / 2
    assert gaps[1] >= database.FIRST_PAUSE
    tries.clear()
    with pytest.raises(LockedUp):
        await store._database.call(store._database.pools().work, locks_up, 100)
    assert len(tries) == database.TRIES
