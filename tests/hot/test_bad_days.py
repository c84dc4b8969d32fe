"""What must not stop anything for ever: nonsense from a server, one that refuses its work, loops that were closed."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from rota.clock import Chance, ManualClock
from rota.hot import member as member_
from rota.hot.lane import HotAway, HotRefused, Lane
from rota.hot.local import LocalLane, LocalServer
from rota.hot.member import Member
from rota.hot.redis import RedisLane
from rota.hot.store import HotStore
from rota.model.principal import SYSTEM
from rota.store.sqlite import SqliteStore
from rota.store.values import Topic
from tests.hot.lanes import PATIENT, STORE, opened
from tests.servers.valkey import Valkey


class Nonsense(LocalLane):
    opens = True

    async def open(self, store: str) -> None:
        if not self.opens:
            raise TypeError("'int' object is not subscriptable")
        await super().open(store)


async def _nonsense(lane: Lane) -> None:
    raise ValueError("not enough values to unpack")


async def _until(true: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        await true.wait()


def test_a_loop_that_was_closed_by_hand_harms_no_other() -> None:
    clock, server = ManualClock(), LocalServer(ManualClock())
    inner = SqliteStore(":memory:", clock, Chance(1), inline=True)
    store = HotStore.around(inner, lambda: [LocalLane(server)], clock, Chance(2))

    async def listen() -> None:
        await inner.migrate()
        await store.open()
        store.listen(frozenset({Topic.DUE}), lambda: None)
        await asyncio.sleep(0)

    async def promote() -> None:
        assert (await store.promote(SYSTEM, 10))[0] == 0

    loop = asyncio.new_event_loop()
    loop.run_until_complete(listen())
    loop.close()
    asyncio.run(promote())


async def test_nonsense_is_a_refusal() -> None:
    changes = asyncio.Event()
    member = Member(LocalLane(LocalServer(ManualClock())), "5f3a9c", Chance(1), lambda _: changes.set())
    member.begin()
    await _until(changes)
    with pytest.raises(HotRefused, match=r"local: it answered with what can't be understood \(ValueError\)"):
        await member.call(_nonsense)
    with pytest.raises(HotAway):
        await member.call(_nonsense)
    await member.close()


async def test_nonsense_at_the_beginning_is_tried_again() -> None:
    lane, changes = Nonsense(LocalServer(ManualClock())), asyncio.Event()
    lane.opens = False
    member = Member(lane, "5f3a9c", Chance(1), lambda _: changes.set())
    member.begin()
    await _until(member.tried)
    assert member.problem == "it answered with what can't be understood (TypeError)"
    lane.opens = True
    changes.clear()
    await _until(changes)
    assert member.healthy
    await member.close()


async def test_one_that_refuses_whenever_it_was_reached_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_, "FIRST_PAUSE", 0.002)
    server, reached = LocalServer(ManualClock()), list[float]()

    def changed(member: Member) -> None:
        if member.healthy:
            reached.append(asyncio.get_running_loop().time())

    member = Member(LocalLane(server), "5f3a9c", Chance(1), changed)
    member.begin()
    server.full = True
    async with asyncio.timeout(20):
        while len(reached) < 8:
            if member.healthy:
                with pytest.raises(HotRefused, match="memory is full"):
                    await member.call(lambda lane: lane.begin_epoch("one"))
            await asyncio.sleep(0)
    await member.close()
    pauses = [later - sooner for sooner, later in pairwise(reached)]
    assert pauses[-1] > 0.05 > pauses[0]


async def test_an_entry_without_beginning_can_be_dropped(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        heap = f"rota:{{{STORE}}}:due"
        server.call("ZADD", heap, "-inf", b"\xff", "-1e300", "x", "-0.5", "y")
        seen = (await lane.look(1, 10)).due
        assert {one.job for one in seen} == {"x", "y", "\udcff"}
        await lane.drop_due(seen)
        assert server.call("ZCARD", heap) == 0
