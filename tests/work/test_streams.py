"""A worker that has just had work looks again by itself for a moment: a stream needs no wake-ups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.clock import Chance, ManualClock
from rota.service import Loop
from rota.work.worker import LONGEST_SLEEP, LOOK_AGAIN, STREAM
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
