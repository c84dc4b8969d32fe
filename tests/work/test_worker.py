"""A worker shares its slots between its queues: each gets what it was promised, and what nobody needs is lent. It looks
for work when it is woken, in a stream of work, and when it has put a claim off."""

from __future__ import annotations

import asyncio

import pytest

from rota.model.principal import LOCAL, SYSTEM
from rota.service import Loop
from rota.work.worker import LONGEST_SLEEP, LOOK_AGAIN, PUT_OFF, STREAM
from tests.contracts.admission import close, open_again
from tests.contracts.world import World
from tests.work.test_meter import Shop

LIMIT = 20.0  # seconds for what should happen at once


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


# -- when it looks without being woken: in a stream of work, and when it has put a claim off ---------------------------
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
