"""A worker shares its slots between its queues: each gets what it was promised, and what nobody needs is lent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.clock import Chance, ManualClock
from rota.model.principal import LOCAL, SYSTEM
from tests.contracts.admission import close, open_again
from tests.contracts.world import World
from tests.store.sqlite.backends import SqliteMemory
from tests.work.test_meter import Shop


@pytest.fixture
async def world(tmp_path: Path, clock: ManualClock, chance: Chance) -> AsyncIterator[World]:
    backend = SqliteMemory(tmp_path, clock)
    store = backend.store(Chance(2))
    await backend.prepare(store)
    await store.open()
    yield World(store, backend, clock, chance)
    await store.close()


async def shop(world: World, queues: dict[str, int], **options: int | bool) -> Shop:
    return await Shop.open(world, queues, **options)


async def test_a_queue_alone_has_all_slots(world: World) -> None:
    await world.several(10, queue="a")
    assert await (await shop(world, {"a": 4})).work() == {"a": 4}


async def test_idle_slots_are_lent_all_but_one(world: World) -> None:
    await world.several(20, queue="a")
    there = await shop(world, {"a": 4, "b": 4})
    assert await there.work() == {"a": 7}


async def test_one_that_wakes_up_has_its_one_slot_at_once_and_the_rest_as_they_come_free(world: World) -> None:
    await world.several(40, queue="a")
    there = await shop(world, {"a": 4, "b": 4})
    await there.work()
    await world.several(20, queue="b")
    assert await there.work() == {"a": 7, "b": 1}
    for share in (2, 3, 4):
        await there.end("a")
        assert await there.work() == {"a": 8 - share, "b": share}
    await there.end("a")
    assert await there.work() == {"a": 4, "b": 4}, "and no further: that is its share"


async def test_busy_queues_keep_to_their_shares(world: World) -> None:
    for queue in "abc":
        await world.several(30, queue=queue)
    there = await shop(world, {"a": 1, "b": 2, "c": 5})
    for _ in range(10):
        assert await there.work() == {"a": 1, "b": 2, "c": 5}
        for queue in "abc":
            await there.end(queue)


async def test_without_lending_each_has_its_own(world: World) -> None:
    await world.several(20, queue="a")
    there = await shop(world, {"a": 3, "b": 4}, lend=False)
    assert await there.work() == {"a": 3}


async def test_never_more_than_all_slots_and_none_is_lost(world: World) -> None:
    there = await shop(world, {"a": 2, "b": 3, "c": 1})
    for turn in range(60):
        for queue in "abc":
            await world.several(int(world.chance.random() * 4), queue=queue)
        running = await there.work()
        assert sum(running.values()) <= 6
        for queue in running:
            if world.chance.random() < 0.7:
                await there.end(queue)
        world.clock.advance(turn % 3)
    while running := await there.work():
        for queue in running:
            await there.end(queue)
    await world.several(20, queue="c")
    assert await there.work() == {"c": 4}, "all are free again; one is kept for each of the others"


@pytest.mark.parametrize("jobs", [{}, {"a": 1}, {"a": 2, "b": 1}, {"b": 2, "c": 2}, {"a": 1, "b": 1, "c": 1}])
async def test_with_free_slots_and_nothing_more_to_do_it_rests(world: World, jobs: dict[str, int]) -> None:
    for queue, count in jobs.items():
        await world.several(count, queue=queue)
    there = await shop(world, {"a": 2, "b": 2, "c": 2})
    assert await there.work() == jobs
    for queue in "abc":
        await world.several(2, queue=queue)
        assert (await there.work())[queue] > jobs.get(queue, 0), "and what comes is found"
        await there.end(queue)
        await there.end(queue)


async def test_a_queue_that_is_paused_lends_its_slots(world: World) -> None:
    for queue in "ab":
        await world.several(20, queue=queue)
    await world.store.pause_queue(LOCAL, "a", "")
    there = await shop(world, {"a": 4, "b": 4})
    assert await there.work() == {"b": 7}
    await world.store.resume_queue(LOCAL, "a")
    assert await there.work() == {"a": 1, "b": 7}


# -- claimed ahead ----------------------------------------------------------------------------------------------------


async def test_what_is_claimed_ahead_takes_no_slot(world: World) -> None:
    jobs = await world.several(6, queue="a")
    there = await shop(world, {"a": 2}, prefetch=2)
    assert await there.work() == {"a": 2}
    assert [ref.job_id for ref in (await there.renew()).holds] == jobs[:4]
    await there.end("a")
    assert await there.work() == {"a": 2}
    assert there.names == jobs[1:3]


async def test_one_whose_gate_was_closed_meanwhile_is_not_started_and_takes_no_slot(world: World) -> None:
    await world.several(2, queue="a")
    await world.several(2, queue="a", task="gated")
    free = await world.several(2, queue="a")
    there = await shop(world, {"a": 2}, prefetch=2)
    await there.work()
    gate = await close(world, task="gated")
    await there.end("a")
    await there.end("a")
    assert await there.work() == {"a": 2}
    assert there.names == free
    await open_again(world, gate)
    for _ in range(2):
        await there.end("a")
    assert await there.work() == {"a": 2}


async def test_those_that_wait_too_long_go_back(world: World) -> None:
    jobs = await world.several(3, queue="a")
    there = await shop(world, {"a": 1}, prefetch=2)
    await there.work()
    world.clock.advance(2.1)
    await there.work()
    other = await world.node()
    claimed = await world.store.claim(SYSTEM, other.incarnation, {"a": 5}, there.kinds, {"a": 5})
    assert [one.job_id for one in claimed] == jobs[1:]
