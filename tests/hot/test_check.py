"""The comparison of the heap with the store."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from rota.hot import check as checking
from rota.hot.check import EXAMPLES, HeapCheck, check
from rota.hot.lane import Due, HotAway
from rota.model.principal import LOCAL
from rota.model.times import HOUR, MINUTE, SECOND
from rota.store.hints import ScheduledJob
from tests.hot.virtual import Tier, tier, virtual


async def found(case: Tier) -> HeapCheck:
    await case.settle()
    return await check(case.noted, case.heap)


@virtual
async def test_an_empty_store_and_an_empty_heap_are_the_same() -> None:
    async with tier() as case:
        assert await found(case) == HeapCheck(0, 0, [], 0, [], 0)


@pytest.mark.parametrize("members", [1, 3])
@virtual
async def test_what_was_submitted_is_the_same_in_both(members: int) -> None:
    with patch.object(checking, "PAGE", 7):
        async with tier(members) as case:
            for minute in range(1, 30):
                await case.world.several(1 + minute % 3, delay=minute * MINUTE)
            await case.world.several(20, delay=HOUR)
            await case.world.one(delay=HOUR + SECOND)
            await case.world.one()
            result = await found(case)
            assert (result.missing, result.idle) == ([], [])
            assert result.scheduled == result.entries > 70


@virtual
async def test_missing_and_moved_and_idle_ones_are_named() -> None:
    async with tier() as case:
        at = case.clock.now() + MINUTE
        missing, moved, gone, fine = [await case.world.one(delay=MINUTE) for _ in range(4)]
        await case.settle()
        case.lose(missing)
        case.forge(Due(moved, at + SECOND))
        await case.store.cancel(LOCAL, [gone], "stop")
        result = await found(case)
        assert result.missing == sorted([ScheduledJob(at, missing), ScheduledJob(at, moved)])
        assert result.idle == sorted([ScheduledJob(at, gone), ScheduledJob(at + SECOND, moved)])
        assert (result.scheduled, result.entries) == (3, 3)
        assert (result.missing_count, result.idle_count) == (2, 2)
        assert fine in case.entries()


@virtual
async def test_an_entry_that_is_a_little_early_is_right() -> None:
    async with tier() as case:
        jobs = await case.world.several(3, delay=MINUTE)
        await case.settle()
        case.forge(*(Due(job, case.clock.now() + MINUTE - 5_000) for job in jobs))
        result = await found(case)
        assert (result.missing_count, result.idle_count, result.scheduled, result.entries) == (0, 0, 3, 3)


@virtual
async def test_many_differences_are_counted_and_a_few_are_named() -> None:
    async with tier() as case:
        jobs = await case.world.several(2 * EXAMPLES, delay=MINUTE) + await case.world.several(5, delay=2 * MINUTE)
        await case.settle()
        case.lose(*jobs)
        case.forge(*(Due(f"x{number}", case.clock.now() + number) for number in range(2 * EXAMPLES)))
        result = await found(case)
        assert (result.missing_count, result.idle_count) == (2 * EXAMPLES + 5, 2 * EXAMPLES)
        assert len(result.missing) == len(result.idle) == EXAMPLES


@virtual
async def test_overdue_entries_are_idle_and_later_ones_are_not_looked_at() -> None:
    async with tier() as case:
        case.forge(Due("at the beginning of time", 0), Due("late", case.clock.now() - MINUTE))
        case.forge(Due("later", case.clock.now() + 2 * HOUR))
        job = await case.world.one(delay=MINUTE)
        await case.settle()
        case.lose(job)
        result = await found(case)
        assert (result.entries, result.idle_count) == (2, 2)
        assert [one.id for one in result.missing] == [job]


@virtual
async def test_a_member_that_is_away_is_an_error() -> None:
    async with tier(members=3) as case:
        case.server.away = True
        with pytest.raises(HotAway):
            await found(case)
