"""The bad days of a real server: what a lane says, and what is true afterwards."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator

import pytest

from rota.hot.lane import Due, HotAway, HotRefused, Lane, Look, Report
from rota.hot.redis import RedisLane
from tests.hot.lanes import NOON, PATIENT, SERVERS, STORE, Ear, due, opened
from tests.servers.valkey import Valkey, valkey

LIMIT = 1.0  # a server on a busy machine may take a while
MUCH = 1 << 30


@pytest.fixture(params=SERVERS)
def own(request: pytest.FixtureRequest) -> Iterator[Valkey]:
    """A server for this test alone, which may harm it."""
    with valkey(request.param) as server:
        yield server


def calls(lane: Lane) -> list[asyncio.Future[object]]:
    """One of each kind, under way."""
    one = due(("a", 1))
    return [
        asyncio.ensure_future(call)
        for call in (
            lane.add_due(one), lane.look(NOON, 9), lane.drop_due(one), lane.begin_epoch("x"), lane.page_due(one[0], 9),
            lane.report([Report("a", (1, 1), b"")], 9, MUCH), lane.reports(["a"]), lane.publish("x"), lane.state(),
        )
    ]  # fmt: skip


async def all_away(lane: Lane, words: str) -> None:
    for answer in await asyncio.gather(*calls(lane), return_exceptions=True):
        assert isinstance(answer, HotAway)
        assert str(answer).startswith(lane.place)
        assert words in str(answer)


# -- it forgets ------------------------------------------------------------------------------------------------------
async def test_scripts_that_were_flushed_are_sent_again(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        entries = [Due(f"{number:05}", NOON + number) for number in range(7_500)]
        for _ in range(3):
            server.call("SCRIPT", "FLUSH")
            assert (await lane.add_due(entries)).earliest
            server.call("SCRIPT", "FLUSH")
            assert (await lane.look(NOON + 10_000, 9_000)).due == entries
            server.call("SCRIPT", "FLUSH")
            await lane.drop_due(entries)
        server.call("SCRIPT", "FLUSH")
        answers = await asyncio.gather(*(lane.look(NOON, 1) for _ in range(50)))
        assert answers == [Look("", [], None)] * 50


async def test_scripts_that_are_flushed_under_load(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):

        async def work(name: str) -> None:
            for number in range(50):
                await lane.add_due([Due(f"{name}{number}", NOON + number)])

        working = asyncio.gather(*(work(name) for name in "abcdefgh"))
        while not working.done():
            await asyncio.to_thread(server.call, "SCRIPT", "FLUSH")
        await working
        assert (await lane.state()).entries == 400


async def test_after_flushall_the_epoch_is_gone_too(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        await lane.add_due(due(("a", 1)))
        await lane.begin_epoch("one")
        server.call("FLUSHALL")
        assert await lane.look(NOON, 9) == Look("", [], None)
        assert (await lane.add_due(due(("b", 2)))).epoch == ""
        await lane.begin_epoch("two")
        assert server.call("GET", "rota:owner") == STORE.encode()
        assert (await lane.look(NOON, 9)).epoch == "two"


async def test_after_flushall_another_store_may_be_faster(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        server.call("FLUSHALL")
        async with opened(RedisLane(server.url(), PATIENT), store="other"):
            with pytest.raises(HotRefused, match=r"it serves another store \(other\)"):
                await lane.begin_epoch("one")


async def test_a_heap_that_is_evicted_takes_its_epoch_along(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        await lane.add_due(due(("a", 1)))
        await lane.begin_epoch("one")
        for key in server.call("KEYS", f"rota:{{{STORE}}}:*"):
            server.call("DEL", key)
        assert (await lane.look(NOON, 9)).epoch == ""


async def test_all_keys_stand_under_the_prefix(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        await asyncio.gather(*calls(lane))
        assert {key for key in server.call("KEYS", "*") if not key.startswith(b"rota:{5f3a9c}:")} == {b"rota:owner"}


# -- it is full ------------------------------------------------------------------------------------------------------
async def test_full_memory_refuses_what_needs_more_and_works_on(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        await lane.add_due(due(("a", 1), ("b", 2)))
        server.call("CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(HotRefused, match=r"its memory is full \(maxmemory\)"):
            await lane.add_due(due(("c", 3)))
        with pytest.raises(HotRefused, match=r"its memory is full \(maxmemory\)"):
            await lane.report([Report("a", (1, 1), b"")], 60, MUCH)
        async with opened(RedisLane(server.url(), PATIENT)) as (other,):  # or nobody could make room
            await other.drop_due(due(("a", 1)))
            assert (await other.look(NOON, 9)).upcoming == NOON + 2_000_000
        state = await lane.state()
        assert (state.most, state.entries) == (1 << 20, 1)
        assert (state.memory or 0) > 1 << 20
        server.call("CONFIG", "SET", "maxmemory", "0")
        await lane.add_due(due(("c", 3)))


async def test_an_empty_server_that_is_full_is_refused(server: Valkey) -> None:
    server.call("CONFIG", "SET", "maxmemory", "1mb")
    with pytest.raises(HotRefused, match="its memory is full"):
        await RedisLane(server.url(), PATIENT).open(STORE)


async def test_a_primary_that_becomes_a_replica_is_refused(own: Valkey, server: Valkey) -> None:
    async with opened(RedisLane(own.url(), PATIENT)) as (lane,):
        await lane.add_due(due(("a", 1)))
        own.call("REPLICAOF", "127.0.0.1", server.port)
        with pytest.raises(HotRefused, match="it is a read-only replica"):
            await lane.add_due(due(("b", 1)))


# -- it stops --------------------------------------------------------------------------------------------------------
async def test_a_server_that_is_stopped_is_away_within_the_limit(own: Valkey) -> None:
    ear = Ear()
    async with opened(RedisLane(own.url(), LIMIT)) as (lane,):
        await lane.add_due(due(("a", 1)))
        await lane.subscribe(ear.hear, ear.lose)
        own.pause()
        began = time.monotonic()
        await all_away(lane, "no answer within 1s")
        assert LIMIT <= time.monotonic() - began < 10 * LIMIT
        await all_away(lane, "no answer within 1s")  # at once: the connection is dead
        await ear.until(lambda ear: ear.losses == 1)
        assert time.monotonic() - began < 10 * LIMIT
        with pytest.raises(HotAway, match="no answer within"):
            await lane.open(STORE)
        own.resume()
        await until_open(lane)
        assert (await lane.look(NOON, 9)).upcoming == NOON + 1_000_000
        assert ear.losses == 1


async def test_a_server_that_is_killed_and_started_again(own: Valkey) -> None:
    ear = Ear()
    async with opened(RedisLane(own.url(), PATIENT)) as (lane,):
        await lane.add_due(due(("a", 1)))
        await lane.begin_epoch("one")
        await lane.subscribe(ear.hear, ear.lose)
        under_way = calls(lane)
        own.kill()
        for answer in await asyncio.gather(*under_way, return_exceptions=True):
            assert isinstance(answer, HotAway)
        await ear.until(lambda ear: ear.losses == 1)
        await all_away(lane, "")
        with pytest.raises(HotAway, match="connection refused"):
            await lane.open(STORE)
        own.start()
        await until_open(lane)
        assert await lane.look(NOON, 9) == Look("", [], None)
        await lane.subscribe(ear.hear, ear.lose)
        await lane.publish("again")
        await ear.until(lambda ear: ear.texts == ["again"])


async def test_one_that_persists_has_its_heap_after_a_restart() -> None:
    with valkey(appendonly="yes", appendfsync="always") as server:
        async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
            await lane.add_due(due(("a", 1)))
            await lane.begin_epoch("one")
            server.kill()
            server.start()
            await until_open(lane)
            assert await lane.look(NOON + 9_000_000, 9) == Look("one", due(("a", 1)), None)


async def until_open(lane: Lane) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                return await lane.open(STORE)
            except HotAway:
                await asyncio.sleep(0)


# -- callers that leave ----------------------------------------------------------------------------------------------
async def test_callers_that_are_cancelled_leave_the_others_their_answers(server: Valkey) -> None:
    chance = random.Random(11)
    right = cancelled = 0

    async def ask(lane: Lane, number: int) -> None:
        nonlocal right, cancelled
        try:
            for _ in range(3):
                [found] = await lane.reports([f"job{number}"])
                assert found == Report(f"job{number}", (number, 1), str(number).encode())
                look = await lane.look(NOON + number, 5_000)
                assert len(look.due) == number + 1
                right += 1
        except asyncio.CancelledError:
            cancelled += 1

    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        await lane.add_due([Due(f"job{number:04}", NOON + number) for number in range(60)])
        await lane.report([Report(f"job{one}", (one, 1), str(one).encode()) for one in range(60)], 60, MUCH)
        tasks = [asyncio.create_task(ask(lane, number % 60)) for number in range(3_000)]
        for _ in range(60):
            await asyncio.sleep(0)
            for task in chance.sample(tasks, 30):
                task.cancel()
        for answer in await asyncio.gather(*tasks, return_exceptions=True):
            assert answer is None or isinstance(answer, asyncio.CancelledError), answer
        assert right > 1_000
        assert cancelled > 200


# -- life ------------------------------------------------------------------------------------------------------------
async def test_the_state_names_the_server(server: Valkey) -> None:
    async with opened(RedisLane(server.url(), PATIENT)) as (lane,):
        state = await lane.state()
        assert state.server.split()[0] in ("Valkey", "Redis")
        assert (state.epoch, state.entries, state.reports, state.most) == ("", 0, 0, None)
        assert (state.memory or 0) > 100_000


async def test_a_lane_that_is_closed_is_away(server: Valkey) -> None:
    lane = RedisLane(server.url(), PATIENT)
    await lane.open(STORE)
    under_way = calls(lane)
    await asyncio.sleep(0)
    await lane.close()
    for answer in await asyncio.gather(*under_way, return_exceptions=True):
        assert isinstance(answer, HotAway), answer
    await all_away(lane, "it is not open")
    assert list(lane.descriptors()) == []
    await lane.close()


async def test_a_lane_that_is_closed_while_it_opens_stays_closed(server: Valkey) -> None:
    lane = RedisLane(server.url(), PATIENT)
    opening = asyncio.create_task(lane.open(STORE))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await lane.close()
    with pytest.raises(HotAway, match="closed meanwhile"):
        await opening
    await all_away(lane, "it is not open")


def test_what_a_closed_loop_left_is_dropped(server: Valkey) -> None:
    async def leave() -> RedisLane:
        lane = RedisLane(server.url(), PATIENT)
        await lane.open(STORE)
        await lane.subscribe(lambda _: None, lambda: None)
        return lane

    loop = asyncio.new_event_loop()
    lane = loop.run_until_complete(leave())
    loop.close()
    sockets = list(lane.descriptors())
    assert len(sockets) == 2
    lane.drop()
    for one in sockets:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(one)
    lane.drop()
