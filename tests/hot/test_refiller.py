"""When the heap is filled again, and what a filling holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from unittest.mock import patch

import pytest

from rota.clock import Chance
from rota.errors import StoreUnavailable
from rota.hot import refiller as refilling
from rota.hot.heap import filled
from rota.hot.lane import Due, HotAway
from rota.hot.refiller import KEPT, PERIOD, REST, Refiller, refill
from rota.model.principal import Principal
from rota.model.times import HOUR, MINUTE, SECOND, Instant
from rota.store.base import Store
from rota.store.forwarding import ForwardingStore
from rota.store.hints import ScheduledJob
from tests.hot.virtual import Tier, tier, virtual


class Filler:
    """A refiller, and the looks of the promoter beside it."""

    def __init__(self, case: Tier, leads: Callable[[], bool] = lambda: True, seed: int = 9) -> None:
        self.case, self.counts = case, case.store.hot_counts
        self.refiller = Refiller(case.noted, case.heap, case.clock, Chance(seed), leads, self.counts)

    async def run(self, seconds: float, looks: bool = True) -> int:
        """Returns how many refills there were."""
        before, end = self.counts.refills, self.case.clock.monotonic() + seconds
        while self.case.clock.monotonic() < end:
            if looks:
                await self.case.heap.look(0, 0)
            await asyncio.sleep(await self.refiller.tick())
        return self.counts.refills - before


def refill_with(case: Tier, after_first_page: Callable[[], None]) -> Store:
    class Disturbed(ForwardingStore):
        pages = 0

        async def scheduled_jobs(
            self, who: Principal, /, after: ScheduledJob, until: Instant, limit: int
        ) -> list[ScheduledJob]:
            self.pages += 1
            if self.pages == 2:
                after_first_page()
            return await self.inner.scheduled_jobs(who, after, until, limit)

    return Disturbed.around(case.noted)


@virtual
async def test_a_refill_brings_all_jobs_that_are_due_before_the_next_one() -> None:
    async with tier(filled=False) as case:
        wanted = [await case.world.one(delay=delay) for delay in (SECOND, HOUR, KEPT)]
        await case.world.one(delay=KEPT + SECOND)
        await case.world.one()
        await case.settle()
        case.server.flush()
        assert await refill(case.noted, case.heap, "e") == 3
        assert case.entries().keys() == set(wanted)
        assert case.server.memory.epoch == "e"
        assert case.heap.whole


@virtual
async def test_a_refill_of_many_pages() -> None:
    with patch.object(refilling, "PAGE", 10):
        async with tier(members=3, filled=False) as case:
            jobs = await case.world.several(25, delay=SECOND) + await case.world.several(25, delay=70 * MINUTE)
            for minute in range(1, 40):
                jobs += await case.world.several(1, delay=minute * MINUTE)
            await case.settle()
            for server in case.servers:
                server.flush()
            assert await refill(case.noted, case.heap, "e") == len(jobs)
            assert case.entries().keys() == set(jobs)


@virtual
async def test_a_member_that_is_emptied_during_the_filling_is_not_filled() -> None:
    with patch.object(refilling, "PAGE", 10):
        async with tier(filled=False) as case:
            await case.world.several(25, delay=SECOND)
            await case.settle()
            for known in ("", "before"):
                case.server.flush()
                if known:
                    await case.heap.begin_epoch(known)
                pages = refill_with(case, lambda: case.server.flush())
                await refill(pages, case.heap, "e")
                assert case.server.memory.epoch == ""
                assert await case.heap.look(0, 0) is None
            await refill(case.noted, case.heap, "e")
            assert case.heap.whole


@virtual
async def test_what_is_being_filled_is_not_filled_yet() -> None:
    async with tier(filled=False) as case:
        marks = await case.heap.begin_filling("e")
        await case.heap.add([Due("a", 1)])
        assert await case.heap.look(5, 5) is None
        assert await case.heap.emptied(marks) == frozenset()
        await case.heap.begin_epoch("e")
        assert (await case.heap.begin_filling("f")).popitem()[1] == "e", "what is filled goes on being used"
        assert await case.heap.look(5, 5)


@virtual
async def test_at_the_start_and_every_half_hour() -> None:
    async with tier(filled=False) as case:
        filler = Filler(case)
        assert await filler.run(5) == 1
        assert await filler.run(PERIOD / SECOND - 10) == 0
        assert await filler.run(10) == 1
        assert await filler.run(3 * PERIOD / SECOND) == 3


@virtual
async def test_only_the_leader_refills() -> None:
    leads = False
    async with tier(filled=False) as case:
        filler = Filler(case, lambda: leads)
        assert await filler.run(10) == 0
        leads = True
        assert await filler.run(1) == 1


@pytest.mark.parametrize("members", [1, 3])
@virtual
async def test_a_member_that_was_emptied_is_noticed_and_filled_within_seconds(members: int) -> None:
    async with tier(members, filled=False) as case:
        filler = Filler(case)
        jobs = [await case.world.one(delay=minute * MINUTE) for minute in range(1, 20)]
        await filler.run(5)
        case.server.flush()
        assert await case.heap.look(0, 0) is None
        assert await filler.run(2) == 1
        assert case.entries().keys() == set(jobs)
        assert await case.heap.look(0, 0) is not None


@virtual
async def test_an_old_copy_that_was_restored_has_another_epoch() -> None:
    async with tier(filled=False) as case:
        filler = Filler(case)
        await filler.run(5)
        old = case.server.snapshot()
        case.server.flush()
        assert await filler.run(5) == 1
        job = await case.world.one(delay=MINUTE)
        await case.settle()
        case.server.restore(old)
        assert case.entries() == {}
        assert await filler.run(5) == 1
        assert [*case.entries()] == [job]


@virtual
async def test_a_new_leader_goes_on_with_the_heap_of_its_predecessor() -> None:
    async with tier(filled=False) as case:
        await Filler(case).run(5)
        epoch = case.server.memory.epoch
        successor = Filler(case, seed=10)
        assert await successor.run(60) == 0
        assert case.server.memory.epoch == epoch
        assert await successor.run(PERIOD / SECOND) == 1


@virtual
async def test_a_leader_that_was_deposed_adopts_the_heap_of_the_other() -> None:
    leads = True
    async with tier(filled=False) as case:
        first = Filler(case, lambda: leads)
        await first.run(5)
        leads = False
        await first.run(5)
        await refill(case.noted, case.heap, "by another")
        leads = True
        assert await first.run(5) == 0


@virtual
async def test_members_with_different_epochs_are_filled_alike() -> None:
    async with tier(members=3) as case:
        case.servers[1].memory.epoch = "another"
        assert await Filler(case).run(5) == 1
        assert len({server.memory.epoch for server in case.servers}) == 1


@pytest.mark.parametrize("members", [1, 3])
@virtual
async def test_a_member_that_was_away_and_kept_its_memory_is_filled_again(members: int) -> None:
    """It lacks what was added meanwhile, though its epoch is right."""
    async with tier(members, filled=False) as case:
        filler = Filler(case)
        await filler.run(5)
        case.server.away = True
        await filler.run(5)
        jobs = [await case.world.one(delay=minute * MINUTE) for minute in range(2, 20)]
        await filler.run(5)
        assert len(case.entries()) < len(jobs)
        case.server.away = False
        async with asyncio.timeout(5):
            while await case.heap.look(0, 0) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert await filler.run(3) == 1
        assert case.entries().keys() == set(jobs)


@virtual
async def test_a_member_that_lost_a_part_meanwhile_does_not_count_as_filled() -> None:
    async with tier(members=3, filled=False) as case:
        jobs = [await case.world.one(delay=minute * MINUTE) for minute in range(1, 40)]
        await case.settle()
        for server in case.servers:
            server.flush()
        member = case.side.members[0]

        async def lose() -> None:
            """The first page does not arrive there. When the second one is read, the member is back."""
            member.lose("no answer")
            case.noted.meanwhile["scheduled_jobs"] = lambda: asyncio.sleep(1)

        case.noted.meanwhile["scheduled_jobs"] = lose
        with patch.object(refilling, "PAGE", 20):
            await refill(case.noted, case.heap, "partial")
        assert member.healthy
        assert [filled(server.memory.epoch) for server in case.servers] == ["", "partial", "partial"]
        assert not case.heap.whole
        assert await Filler(case).run(5) >= 1
        assert case.entries().keys() == set(jobs)
        assert case.heap.whole


@virtual
async def test_one_that_is_away_does_not_keep_the_others_from_being_filled() -> None:
    async with tier(members=3, filled=False) as case:
        case.server.away = True
        await case.side.reached(5)
        filler = Filler(case)
        with pytest.raises(HotAway):
            await case.side.members[0].call(lambda lane: lane.look(0, 0))
        assert await filler.run(60) == 1, "not again and again"
        assert [bool(server.memory.epoch) for server in case.servers] == [False, True, True]
        assert not case.heap.whole


@virtual
async def test_between_refills_there_is_a_rest() -> None:
    async with tier(filled=False) as case:
        filler = Filler(case)
        before, end = filler.counts.refills, case.clock.monotonic() + 20
        while case.clock.monotonic() < end:
            case.server.flush()
            await case.heap.look(0, 0)
            await asyncio.sleep(await filler.refiller.tick())
        assert filler.counts.refills - before <= 20 / REST


@virtual
async def test_a_refill_that_failed_is_tried_again() -> None:
    async with tier(filled=False) as case:
        filler = Filler(case)
        case.noted.failures["scheduled_jobs"] = [StoreUnavailable("gone for a moment")]
        with pytest.raises(StoreUnavailable):
            await filler.run(1)
        assert await filler.run(3) == 1


@virtual
async def test_without_members_that_answer_nothing_is_read() -> None:
    async with tier(filled=False) as case:
        case.server.away = True
        with pytest.raises(HotAway):
            await case.side.members[0].call(lambda lane: lane.look(0, 0))
        assert await Filler(case).run(30) == 0
        assert "scheduled_jobs" not in case.noted.asked
