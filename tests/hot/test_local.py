"""The server in this process, and the ways in which it lies."""

from __future__ import annotations

import pytest

from rota.clock import ManualClock
from rota.hot.lane import HotAway, HotRefused, Look, Report
from rota.hot.local import LocalLane, LocalServer
from tests.hot.lanes import NOON, STORE, Ear, due, opened


@pytest.fixture
def local() -> LocalServer:
    return LocalServer(ManualClock())


async def test_while_it_is_away_nothing_is_answered_and_nothing_forgotten(local: LocalServer) -> None:
    async with opened(LocalLane(local)) as (lane,):
        ear = Ear()
        await lane.subscribe(ear.hear, ear.lose)
        await lane.add_due(due(("a", 1)))
        local.away = True
        await ear.until(lambda ear: ear.losses == 1)
        for call in (lane.look(NOON, 1), lane.add_due([]), lane.state(), lane.publish("x"), lane.open(STORE)):
            with pytest.raises(HotAway):
                await call
        local.away = False
        with pytest.raises(HotAway):  # its connection has ended
            await lane.look(NOON, 1)
        await lane.open(STORE)
        assert (await lane.look(NOON, 1)).upcoming == NOON + 1_000_000
        assert ear.losses == 1


async def test_full_memory_refuses_what_needs_more(local: LocalServer) -> None:
    async with opened(LocalLane(local)) as (lane,):
        await lane.add_due(due(("a", 1)))
        local.full = True
        for call in (lane.add_due(due(("b", 1))), lane.begin_epoch("x"), lane.report([], 1, 1)):
            with pytest.raises(HotRefused, match="maxmemory"):
                await call
        await lane.drop_due(due(("a", 1)))
        assert await lane.look(NOON, 1) == Look("", [], None)


async def test_a_flush_forgets_everything_the_owner_too(local: LocalServer) -> None:
    async with opened(LocalLane(local)) as (lane,):
        await lane.add_due(due(("a", 1)))
        await lane.begin_epoch("one")
        await lane.report([Report("a", (1, 1), b"")], 60, 10_000)
        local.flush()
        assert await lane.look(NOON, 1) == Look("", [], None)
        assert await lane.reports(["a"]) == [None]
        await LocalLane(local).open("other")
        with pytest.raises(HotRefused, match="serves another store"):
            await lane.begin_epoch("two")


async def test_a_snapshot_is_what_was_then(local: LocalServer) -> None:
    async with opened(LocalLane(local)) as (lane,):
        await lane.begin_epoch("one")
        await lane.add_due(due(("a", 1), ("b", 2)))
        then = local.snapshot()
        await lane.drop_due(due(("a", 1)))
        await lane.begin_epoch("two")
        for _ in range(2):
            local.restore(then)
            assert await lane.look(NOON + 9_000_000, 9) == Look("one", due(("a", 1), ("b", 2)), None)
            await lane.drop_due(due(("b", 2)))


async def test_a_mute_one_carries_out_what_it_is_told(local: LocalServer) -> None:
    async with opened(LocalLane(local)) as (lane,):
        local.mute = True
        with pytest.raises(HotAway, match="no answer"):
            await lane.add_due(due(("a", 1)))
        local.mute = False
        assert (await lane.look(NOON + 9_000_000, 9)).due == due(("a", 1))


async def test_a_lane_that_was_dropped_hears_nothing(local: LocalServer) -> None:
    async with opened(LocalLane(local), LocalLane(local)) as (one, other):
        ear = Ear()
        await one.subscribe(ear.hear, ear.lose)
        one.drop()
        await other.publish("x")
        await one.close()
        assert (ear.texts, ear.losses, list(one.descriptors())) == ([], 0, [])
