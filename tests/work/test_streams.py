"""When a worker looks for work without being woken: in a stream of it, and when it has put a claim off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.clock import Chance, ManualClock
from rota.service import Loop
from rota.work.worker import LONGEST_SLEEP, LOOK_AGAIN, PUT_OFF, STREAM
from tests.contracts.world import World
from tests.store.sqlite.backends import SqliteMemory
from tests.work.test_meter import Shop

LIMIT = 20.0  # seconds for what should happen at once


@pytest.fixture
async def world(tmp_path: Path, clock: ManualClock, chance: Chance) -> AsyncIterator[World]:
    backend = SqliteMemory(tmp_path, clock)
    store = backend.store(Chance(2))
    await backend.prepare(store)
    await store.open()
    yield World(store, backend, clock, chance)
    await store.close()


async def looked(shop: Shop) -> tuple[int, float]:
    """What one look has brought, and how long the worker means to sleep then."""
    before = shop.worker.running
    pause = await shop.worker.tick()
    await asyncio.sleep(0)  # what was claimed begins to run
    return shop.worker.running - before, pause


async def test_in_a_stream_it_looks_again_until_it_finds_nothing(world: World) -> None:
    shop = await Shop.open(world, {"default": 10})
    await world.one()
    assert await looked(shop) == (1, LONGEST_SLEEP), "one job is no stream: the next will wake it"
    for _ in range(3):
        world.clock.advance(STREAM / 2)
        await world.one()
        assert await looked(shop) == (1, LOOK_AGAIN)
    world.clock.advance(LOOK_AGAIN)
    assert await looked(shop) == (0, LONGEST_SLEEP)
    assert await looked(shop) == (0, LONGEST_SLEEP)


async def test_work_that_comes_slowly_is_no_stream(world: World) -> None:
    shop = await Shop.open(world, {"default": 10})
    for _ in range(3):
        await world.one()
        assert await looked(shop) == (1, LONGEST_SLEEP)
        world.clock.advance(2 * STREAM)


async def test_without_a_free_slot_there_is_nothing_to_look_for(world: World) -> None:
    shop = await Shop.open(world, {"default": 2})
    await world.one()
    assert await looked(shop) == (1, LONGEST_SLEEP)
    await world.several(5)
    assert await looked(shop) == (1, LONGEST_SLEEP), "whoever ends wakes it"


async def test_a_stream_whose_wake_ups_are_all_lost_goes_on(world: World) -> None:
    """The clock stands still: whatever comes, comes soon after what was there before."""
    shop = await Shop.open(world, {"default": 50})
    failures: list[str] = []
    loop = Loop(shop.worker, world.chance, lambda service, error: failures.append(f"{service}: {error}"))
    await world.several(2)
    await looked(shop)
    await world.one()
    task = asyncio.create_task(loop.run())
    async with asyncio.timeout(LIMIT):
        for running in range(3, 40):
            while shop.worker.running < running:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await world.one()  # and nobody says so
    loop.stop()
    await task
    assert not failures


async def test_a_claim_is_put_off_for_ends_that_are_being_written_but_not_for_long(world: World) -> None:
    shop = await Shop.open(world, {"default": 4})
    await world.several(3)
    assert await looked(shop) == (3, LONGEST_SLEEP)
    world.clock.advance(1)
    shop.ending = True
    await world.one()
    assert await looked(shop) == (0, PUT_OFF), "one slot is free, and more will be in a moment"
    world.clock.advance(PUT_OFF)
    assert await looked(shop) == (1, LONGEST_SLEEP), "that write hangs; the job need not wait for it"


async def test_with_half_of_the_slots_free_nothing_is_put_off(world: World) -> None:
    shop = await Shop.open(world, {"default": 4})
    await world.several(2)
    await looked(shop)
    world.clock.advance(1)
    shop.ending = True
    await world.one()
    assert await looked(shop) == (1, LONGEST_SLEEP)


async def test_each_end_that_is_written_gives_the_others_their_time_anew(world: World) -> None:
    shop = await Shop.open(world, {"default": 8})
    await world.several(7)
    await looked(shop)
    shop.ending = True
    await world.several(2)
    for _ in range(2):
        assert await looked(shop) == (0, PUT_OFF)
        world.clock.advance(PUT_OFF * 0.6)
        await shop.end("default")
    assert shop.worker.running == 5, "it has waited for longer than that since the first, but not since the last end"
