"""What a loop does with jobs that were ordered: they reach the heap soon, and whoever must know is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rota.errors import StoreUnavailable
from rota.hot import side as hot_side
from rota.hot.lane import Added, Due, HotAway
from rota.hot.wakes import HOLDS
from rota.model.times import MINUTE, SECOND
from rota.store.values import Topic
from tests.hot.virtual import Tier, tier, virtual


def entries(case: Tier, *after: int) -> list[Due]:
    return [Due(f"job-{second}", case.clock.now() + second * SECOND) for second in after]


class Alarm:
    def __init__(self, case: Tier) -> None:
        self.rung = 0
        case.side.listen()
        case.store.listen(frozenset({Topic.DUE}), self.ring)

    def ring(self) -> None:
        self.rung += 1


class SlowAdds:
    """Adds of a lane wait until they may go on."""

    def __init__(self, case: Tier) -> None:
        self.sizes: list[int] = []
        self.go_on = asyncio.Event()
        (lane,) = case.lanes
        self._add = lane.add_due
        lane.add_due = self.add  # type: ignore[method-assign]

    async def add(self, entries: Sequence[Due]) -> Added:
        self.sizes.append(len(entries))
        await self.go_on.wait()
        return await self._add(entries)


@virtual
async def test_nobody_waits_for_the_heap_and_what_comes_meanwhile_goes_together() -> None:
    async with tier() as case:
        slow = SlowAdds(case)
        for number in range(5):
            case.side.add(entries(case, number))
            await case.settle()
        assert slow.sizes == [1]
        slow.go_on.set()
        await case.settle()
        assert slow.sizes == [1, 4]
        assert len(case.entries()) == 5


@virtual
async def test_many_are_added_piece_by_piece() -> None:
    async with tier() as case:
        slow = SlowAdds(case)
        slow.go_on.set()
        case.side.add(entries(case, *range(2 * hot_side.AT_ONCE + 1)))
        await case.settle()
        assert slow.sizes == [hot_side.AT_ONCE, hot_side.AT_ONCE, 1]


@virtual
async def test_only_an_entry_that_is_earlier_than_all_others_wakes_promoters() -> None:
    async with tier() as case:
        alarm = Alarm(case)
        case.due._doubtful = False
        for after, rung in ((60, 1), (70, 1), (60, 1), (50, 2)):
            case.side.add(entries(case, after))
            await case.settle()
            assert alarm.rung >= rung
            alarm.rung = rung
        assert not case.due._doubtful, "the heap knows it"
        assert [topics for _, topics in case.noted.told] == [{Topic.DUE}] * 2, "others, since nobody trusts yet"


@virtual
async def test_an_entry_that_was_lost_wakes_them_and_raises_doubt() -> None:
    async with tier(members=3) as case:
        alarm = Alarm(case)
        case.due._doubtful = False
        case.server.mute = True
        case.side.add(entries(case, *range(0, 600, 60)))
        await case.settle()
        assert alarm.rung
        assert case.due._doubtful


@virtual
async def test_promoters_of_other_processes_are_woken_by_the_hot_tier_once_it_is_trusted() -> None:
    async with tier() as one:
        other = Tier(beside=one)
        await other.open(filled=False)
        alarm = Alarm(other)
        one.side.listen()
        await asyncio.sleep(2 * HOLDS)
        other.due._doubtful = False
        one.side.add(entries(one, 10))
        await asyncio.sleep(0.01)
        assert (alarm.rung, other.due._doubtful) == (1, False)
        one.server.full = True
        one.side.add(entries(one, 20))
        await asyncio.sleep(0.01)
        assert (alarm.rung, other.due._doubtful) == (2, True)
        await other.store.close()


@virtual
async def test_a_store_that_can_not_tell_does_not_stop_the_adds() -> None:
    async with tier() as case:
        case.noted.failures["tell"] = [StoreUnavailable("gone for a moment")]
        case.side.add(entries(case, 60))
        await case.settle()
        case.side.add(entries(case, 30))
        await case.settle()
        assert len(case.entries()) == 2


@virtual
async def test_what_is_under_way_when_the_loop_ends_is_added() -> None:
    """`asyncio.run` cancels all tasks."""
    async with tier() as case:
        slow = SlowAdds(case)
        case.side.add(entries(case, 60))
        await case.settle()
        case.side.add(entries(case, 70))
        slow.go_on.set()
        adding = case.side._adding
        assert adding is not None
        adding.cancel()
        await asyncio.wait([adding])
        assert adding.cancelled()
        assert case.entries().keys() == {"job-60", "job-70"}
        assert case.noted.told == [], "that would begin what nobody waits for"


@virtual
async def test_the_end_of_the_loop_does_not_wait_for_a_server_that_hangs() -> None:
    async with tier() as case:
        SlowAdds(case)
        case.side.add(entries(case, 60))
        await case.settle()
        case.side.add(entries(case, 70))
        begun, adding = case.clock.monotonic(), case.side._adding
        assert adding is not None
        adding.cancel()
        await asyncio.wait([adding])
        assert case.clock.monotonic() - begun <= hot_side.LAST_LIMIT + 0.01


@virtual
async def test_its_end_waits_for_adds_for_a_second_at_most() -> None:
    async with tier() as case:
        case.side.add(entries(case, 60))
        await case.side.close()
        assert len(case.entries()) == 1
    async with tier() as case:
        SlowAdds(case)
        case.side.add(entries(case, 60))
        begun = case.clock.monotonic()
        await case.side.close()
        assert case.clock.monotonic() - begun <= hot_side.LAST_LIMIT + 0.01


@virtual
async def test_it_says_when_its_members_were_tried() -> None:
    case = Tier(members=3)
    case.servers[1].away = True

    async def never(store: str) -> None:
        await asyncio.sleep(MINUTE)

    made = case.make_lanes

    def lanes() -> list[object]:
        found = made()
        found[2].open = never  # type: ignore[method-assign]
        return [*found]

    case.make_lanes = lanes  # type: ignore[assignment, method-assign]
    await case.open(filled=False)
    assert case.clock.monotonic() == pytest.approx(5.0), "the third one hangs"
    assert [member.healthy for member in case.side.members] == [True, False, False]
    assert [member.tried.is_set() for member in case.side.members] == [True, True, False]
    with pytest.raises(HotAway):
        await case.side.members[2].call(lambda lane: lane.look(0, 0))
    await case.store.close()
