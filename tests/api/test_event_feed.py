"""The event feed: one reader for all streams, nothing lost or doubled while one joins, and slow readers cut off."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from rota.api import event_feed
from rota.model.principal import Principal
from tests.api.caller import Caller
from tests.api.streams import opened
from tests.contracts.world import FATAL, World

ANN = Principal("ann")
FAILED = "/api/v1/events?kind=job.failed"


async def fail(world: World) -> str:
    actor = await world.node()
    job = await world.one(ANN)
    await actor.run(FATAL, job)
    return job


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "PERIOD", 0.01)
    monkeypatch.setattr(event_feed, "POLL", 0.05)


@pytest.fixture
def caller(world: World) -> Caller:
    return Caller(world)


async def test_events_that_come_while_a_stream_catches_up_come_once(world: World, caller: Caller) -> None:
    jobs = [await fail(world) for _ in range(5)]
    async with opened(caller, FAILED), AsyncExitStack() as stack:  # the feed runs already
        streams = [await stack.enter_async_context(opened(caller, f"{FAILED}&after=0")) for _ in range(4)]
        jobs += [await fail(world) for _ in range(5)]
        for one in streams:
            assert [event.data["subject"] for event in await one.count(10)] == jobs
    assert caller.desk.events.position is None  # nobody reads the outbox for nobody


async def test_a_slow_reader_is_cut_off_and_can_go_on(
    world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(caller, FAILED) as slow, opened(caller, FAILED) as quick:
        first = await fail(world)
        await slow.count(1)
        monkeypatch.setattr(event_feed, "MOST_BUFFERED", 600)
        slow.reading.clear()
        jobs = []
        for n in range(8):
            jobs.append(await fail(world))
            await quick.count(2 + n)
        slow.reading.set()
        await slow.until(lambda: slow.ended)
        *told, cut = slow.events
        assert cut.kind == "cut"
        assert cut.data["after"] == told[-1].id
        got = [event.data["subject"] for event in told]
        assert got == [first, *jobs][: len(got)]
        assert len(got) < 9
    async with opened(caller, f"{FAILED}&after={cut.data['after']}") as stream:
        await stream.until(lambda: len(got) + len(stream.events) == 9)
        assert got + [event.data["subject"] for event in stream.events] == [first, *jobs]


async def test_streams_end_when_the_server_stops(world: World, caller: Caller) -> None:
    async with opened(caller, FAILED) as stream:
        caller.api.end_streams()
        await stream.until(lambda: stream.ended)
    assert caller.desk.events.position is None


async def test_pings_come_while_nothing_happens(world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "PING_EVERY", 0.01)
    async with opened(caller, FAILED) as stream:
        await stream.until(lambda: b": ping\n\n" in stream.body)


async def test_many_streams_read_the_outbox_once(world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """All streams of a process share one reader of the outbox."""
    reads = 0
    read = world.store.events

    async def counted(*given: object, **named: object) -> object:
        nonlocal reads
        reads += 1
        return await read(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(event_feed, "POLL", 60)
    monkeypatch.setattr(world.store, "events", counted)
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(opened(caller, FAILED)) for _ in range(50)]
        await fail(world)
        for one in streams:
            await one.count(1)
    assert reads < 10
