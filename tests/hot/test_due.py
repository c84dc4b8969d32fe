"""Promotion by the heap: on time whatever the heap says or forgets, and never early."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rota.errors import StoreUnavailable
from rota.hot.due import SWEEP
from rota.hot.lane import Due
from rota.hot.refiller import refill
from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.retry import Retry
from rota.model.times import HOUR, MILLISECOND, MINUTE, SECOND, Instant
from tests.contracts.world import BOOM
from tests.hot.virtual import Tier, seconds, tier, virtual

LIMIT = 500
FOLLOWS = 300 * MILLISECOND


async def promote(case: Tier, late: int = 0, limit: int = LIMIT) -> tuple[int, Instant | None]:
    return await case.store.promote(SYSTEM, limit, late)


async def quiet(case: Tier) -> None:
    """Just after a sweep, and all is known."""
    for _ in range(2):
        await case.settle()
        await promote(case)
    case.noted.asked.clear()


# -- by the heap ------------------------------------------------------------------------------------------------------
@virtual
async def test_due_jobs_are_promoted_by_their_ids_at_their_instant() -> None:
    async with tier() as case, case.promoting():
        begun = case.clock.now()
        jobs = [await case.world.one(delay=seconds(after)) for after in (1.25, 7.5, 30)]
        assert [await case.ready(job) - begun for job in jobs] == [
            pytest.approx(seconds(after), abs=2 * MILLISECOND) for after in (1.25, 7.5, 30)
        ]
        await case.settle()
        counts = case.store.hot_counts
        assert (counts.promoted, counts.swept, counts.fallbacks) == (3, 0, 0)
        assert case.entries() == {}


@virtual
async def test_it_sleeps_until_the_next_entry_or_sweep() -> None:
    async with tier() as case:
        await quiet(case)
        now = case.clock.now()
        assert await promote(case) == (0, now + seconds(SWEEP) - 1)
        await case.world.one(delay=SECOND)
        await case.settle()
        moved, upcoming = await promote(case)
        assert (moved, upcoming) == (0, now + SECOND)
        assert "promote" not in case.noted.asked
        assert "promote_jobs" not in case.noted.asked


@virtual
async def test_an_earlier_one_wakes_it() -> None:
    async with tier() as case, case.promoting():
        await case.world.one(delay=MINUTE)
        await asyncio.sleep(10.1)
        begun = case.clock.now()
        early = await case.world.one(delay=50 * MILLISECOND)
        assert await case.ready(early) - begun <= 52 * MILLISECOND


@virtual
async def test_jobs_of_one_instant_are_promoted_batch_by_batch() -> None:
    async with tier() as case:
        jobs = await case.world.several(7, delay=SECOND)
        await quiet(case)
        await asyncio.sleep(1)
        for left, moved in ((4, 3), (1, 3), (0, 1)):
            found, upcoming = await promote(case, limit=3)
            assert found == moved
            assert upcoming == pytest.approx(case.clock.now() + (not left) * SECOND, abs=2)
            assert len(case.entries()) == left
        assert set(await case.world.states(*jobs)) == {State.READY}
        assert case.store.hot_counts.swept == 0


@virtual
async def test_an_entry_that_was_added_behind_due_ones_is_not_slept_over() -> None:
    """It was not the earliest, so it woke nobody; and it came after the look."""
    async with tier() as case:
        await case.world.one(delay=SECOND)
        await quiet(case)
        await asyncio.sleep(1)
        soon = case.clock.now() + 50 * MILLISECOND
        case.noted.meanwhile["promote_jobs"] = lambda: _order_and_wait(case)
        assert await promote(case) == (1, soon)


async def _order_and_wait(case: Tier) -> None:
    await case.world.one(delay=50 * MILLISECOND)
    while case.side._adding is not None:  # noqa: ASYNC110
        await asyncio.sleep(0)


@virtual
async def test_members_share_the_heap() -> None:
    async with tier(members=3) as case, case.promoting():
        begun = case.clock.now()
        jobs = {await case.world.one(delay=minute * MINUTE): minute for minute in range(1, 20)}
        await case.settle()
        assert all(len(server.memory.times) > 1 for server in case.servers)
        for job, minute in jobs.items():
            assert await case.ready(job, 100) - begun <= minute * MINUTE + 2 * MILLISECOND
        counts = case.store.hot_counts
        assert (counts.promoted, counts.swept, counts.fallbacks) == (19, 0, 0)


# -- entries that are wrong -------------------------------------------------------------------------------------------
@virtual
async def test_an_entry_that_is_too_early_is_put_right_and_nothing_starts_early() -> None:
    async with tier() as case, case.promoting():
        begun = case.clock.now()
        job = await case.world.one(delay=20 * SECOND)
        await case.settle()
        case.forge(Due(job, begun + SECOND))
        await case.noted.tell()
        assert await case.ready(job) - begun == pytest.approx(20 * SECOND, abs=2 * MILLISECOND)
        assert case.noted.asked.count("promote_jobs") == 2


@virtual
async def test_an_entry_that_is_too_late_is_put_right_by_reading_ahead() -> None:
    async with tier() as case, case.promoting():
        begun = case.clock.now()
        job = await case.world.one(delay=10 * SECOND)
        await case.settle()
        case.forge(Due(job, begun + 20 * SECOND))
        assert await case.ready(job) - begun == pytest.approx(10 * SECOND, abs=2 * MILLISECOND)


@virtual
async def test_entries_without_a_scheduled_job_promote_nothing_and_leave() -> None:
    async with tier() as case:
        cancelled, ready, waits = await case.world.one(delay=SECOND), await case.world.one(), await case.world.one()
        child = (await case.world.submit(case.world.child(waits)))[0]
        await case.settle()
        await case.store.cancel(LOCAL, [cancelled], "stop")
        wrong = [ready, child, "01900000-0000-7000-8000-000000000001", "no id", "", "\udcff"]
        case.forge(*(Due(job, case.clock.now()) for job in wrong))
        await asyncio.sleep(1)
        async with case.world.unchanged():
            assert (await promote(case))[0] == 0
        assert case.entries() == {}


@virtual
async def test_a_clock_that_is_a_little_fast_makes_nothing_early_and_nothing_spin() -> None:
    async with tier() as case, case.promoting():
        case.noted.fast = 5 * MILLISECOND
        begun = case.clock.now()
        job = await case.world.one(delay=10 * SECOND)
        late = await case.ready(job) - begun - 10 * SECOND
        assert 0 <= late <= 12 * MILLISECOND
        assert case.noted.asked.count("promote_jobs") <= 6


@virtual
async def test_expired_entries_do_not_hold_up_the_others() -> None:
    async with tier() as case:
        expired = await case.world.several(8, delay=100 * MILLISECOND, expires=100 * MILLISECOND)
        good = await case.world.one(delay=300 * MILLISECOND)
        await case.settle()
        case.due._swept_at = case.clock.monotonic()  # the sweep, which ends them, is to come
        case.due._doubtful = False
        await asyncio.sleep(0.3)
        begun = case.clock.now()
        async with case.promoting():
            assert await case.ready(good) - begun <= 5 * MILLISECOND
            await asyncio.sleep(2 * SWEEP)
        assert case.noted.asked.count("promote_jobs") < 15
        assert {await case.world.state(job) for job in expired} == {State.CANCELLED}
        assert case.entries() == {}


# -- without the heap -------------------------------------------------------------------------------------------------
@virtual
async def test_a_heap_that_nobody_filled_is_not_trusted() -> None:
    async with tier(filled=False) as case:
        job = await case.world.one(delay=10 * SECOND)
        await case.settle()
        assert case.entries() != {}
        now = case.clock.now()
        assert await promote(case) == (0, now + SECOND), "who adds to it may think that the leader knows"
        assert case.store.hot_counts.fallbacks == 1
        await asyncio.sleep(10)
        assert (await promote(case))[0] == 1
        assert await case.world.state(job) is State.READY
        assert "promote_jobs" not in case.noted.asked


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("gone", ["away", "mute", "empty"])
@virtual
async def test_while_a_member_is_away_the_store_promotes_on_time(members: int, gone: str) -> None:
    async with tier(members) as case, case.promoting():
        await asyncio.sleep(5)
        begun = case.clock.now()
        before = [await case.world.one(delay=seconds(after)) for after in (3, 7)]
        await case.settle()
        if gone == "empty":
            case.server.flush()
        else:
            setattr(case.server, gone, True)
        meanwhile = [await case.world.one(delay=seconds(after)) for after in (3.5, 4, 60)]
        for job in before + meanwhile:
            await case.ready(job, 100)
        late = [at - begun for at in case.noted.moved]
        assert late == [pytest.approx(seconds(after), abs=2 * MILLISECOND) for after in (3, 3.5, 4, 7, 60)]
        assert case.store.hot_counts.fallbacks > 0


@virtual
async def test_what_was_lost_meanwhile_is_read_as_soon_as_the_heap_is_whole_again() -> None:
    async with tier() as case:
        await promote(case)
        case.server.away = True
        await promote(case)
        job = await case.world.one(delay=1_500 * MILLISECOND)
        await case.settle()
        case.server.away = False
        await asyncio.sleep(1)
        assert case.entries() == {}
        assert await promote(case) == (0, case.clock.now() + 500 * MILLISECOND - 1)
        assert [*case.entries()] == [job]


# -- what the heap was not told of ------------------------------------------------------------------------------------
async def a_retry(case: Tier) -> str:
    job = await case.world.one(retry=Retry(2, "1s", 0))
    actor = await case.world.node()
    await actor.finish(await actor.take(job), BOOM)
    return job


async def hurried(case: Tier) -> str:
    job = await case.world.one(delay=HOUR - SECOND)
    await case.settle()
    await case.store.hurry(LOCAL, [job])
    return job


async def a_child(case: Tier) -> str:
    parent = await case.world.one()
    (job,) = await case.world.submit(case.world.child(parent, delay=SECOND))
    actor = await case.world.node()
    await actor.run(job_id=parent)
    return job


async def a_child_of_an_ended_job(case: Tier) -> str:
    parent = await case.world.one()
    actor = await case.world.node()
    await actor.run(job_id=parent)
    (job,) = await case.world.submit(case.world.child(parent, delay=SECOND))
    return job


async def without_a_hot_tier(case: Tier) -> str:
    order = case.world.job(delay=SECOND)
    await case.noted.submit(LOCAL, [[order]])
    return order.id


async def replayed(case: Tier) -> str:
    job = await case.world.one(delay=HOUR)
    await case.settle()
    await case.store.cancel(LOCAL, [job], "stop")
    await case.store.replay(LOCAL, [job])
    return job


@pytest.mark.parametrize("make", [a_retry, hurried, a_child, a_child_of_an_ended_job, without_a_hot_tier, replayed])
@virtual
async def test_jobs_that_become_due_in_other_ways_are_read_ahead(make: Callable[[Tier], Awaitable[str]]) -> None:
    async with tier() as case, case.promoting():
        await asyncio.sleep(10.1)
        job = await make(case)
        due = await case.noted.due_times(SYSTEM, [job])
        at = due[0].at if due else case.clock.now()
        assert await case.ready(job) - at <= 3 * MILLISECOND
        assert case.store.hot_counts.swept == 0


@virtual
async def test_reading_ahead_goes_on_where_it_ended() -> None:
    async with tier() as case, case.promoting():
        await asyncio.sleep(10.1)
        begun = case.clock.now()
        orders = [case.world.job(delay=seconds(after)) for after in (0.5, 5, 9.5, 14)]
        await case.noted.inner.submit(LOCAL, [orders])
        for order, after in zip(orders, (0.5, 5, 9.5, 14), strict=True):
            assert await case.ready(order.id) - begun <= seconds(after) + 2 * MILLISECOND
        assert case.store.hot_counts.swept == 0


@virtual
async def test_a_failed_read_leaves_the_doubt() -> None:
    async with tier() as case:
        await quiet(case)
        order = case.world.job(delay=SECOND)
        await case.noted.submit(LOCAL, [[order]])
        case.due.doubt()
        case.noted.failures["scheduled_jobs"] = [StoreUnavailable("gone for a moment")]
        with pytest.raises(StoreUnavailable):
            await promote(case)
        await promote(case)
        assert [*case.entries()] == [order.id]


# -- the sweep --------------------------------------------------------------------------------------------------------
@virtual
async def test_the_sweep_finds_what_the_heap_has_lost_within_two_seconds_and_counts_it() -> None:
    async with tier() as case, case.promoting():
        for after in (1, 2.5, 3.999):
            await asyncio.sleep(10.1)
            begun = case.clock.now()
            job = await case.world.one(delay=seconds(after))
            await asyncio.sleep(after - 0.001)
            case.lose(job)
            assert await case.ready(job) - begun <= seconds(after + SWEEP + 0.11)
        assert case.store.hot_counts.swept == 3


@virtual
async def test_a_sweep_that_is_not_done_goes_on_at_once() -> None:
    async with tier() as case:
        await quiet(case)
        await case.world.several(7, delay=100 * MILLISECOND)
        await case.settle()
        case.lose(*case.entries())
        await asyncio.sleep(SWEEP)
        case.due._doubtful = False
        found = 0
        while found < 7:
            moved, upcoming = await promote(case, limit=3)
            found += moved
            assert moved
            assert upcoming is not None
            assert moved < 3 or upcoming <= case.clock.now()


# -- followers --------------------------------------------------------------------------------------------------------
@virtual
async def test_followers_leave_jobs_to_the_leader_for_a_while() -> None:
    async with tier() as case, case.promoting(lambda: False):
        begun = case.clock.now()
        job = await case.world.one(delay=5 * SECOND)
        assert await case.ready(job) - begun == pytest.approx(5 * SECOND + FOLLOWS, abs=2 * MILLISECOND)
        case.noted.asked.clear()
        await asyncio.sleep(60)
        assert "scheduled_jobs" not in case.noted.asked, "without doubt they don't read ahead"
        assert case.noted.asked.count("promote") <= 8, "they sweep every ten seconds"


@virtual
async def test_a_new_leader_sweeps_at_once() -> None:
    leads = False
    async with tier() as case, case.promoting(lambda: leads):
        await asyncio.sleep(10.2)
        order = case.world.job(delay=SECOND)
        await case.noted.inner.submit(LOCAL, [[order]])
        await asyncio.sleep(0.5)
        case.lose(order.id)
        await asyncio.sleep(3)
        assert await case.world.state(order.id) is State.SCHEDULED
        leads, begun = True, case.clock.now()
        await case.noted.tell()  # as the renewal of its lease does
        assert await case.ready(order.id) - begun < seconds(0.1)


@virtual
async def test_a_refill_while_it_promotes_disturbs_nothing() -> None:
    async with tier() as case, case.promoting():
        jobs = [await case.world.one(delay=number * 100 * MILLISECOND) for number in range(1, 50)]
        for number in range(20):
            await refill(case.noted, case.heap, f"epoch-{number}")
            await asyncio.sleep(0.1)
        for job in jobs:
            await case.ready(job)
        await case.settle()
        assert sum(case.noted.moved.values()) == 49
        assert case.entries() == {}
