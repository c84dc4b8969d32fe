"""Orders and starts over HTTP: told to whoever listens, and what was not told is said."""

from __future__ import annotations

import asyncio

import pytest

from rota.api import event_feed
from rota.clients import events as events_client
from rota.errors import StoreUnavailable
from rota.model.principal import Principal
from rota.model.times import SECOND
from rota.store.carriers.watches import LIFE
from tests.api.caller import Caller, secret
from tests.api.far import Far, worker_key
from tests.api.streams import opened
from tests.contracts.world import World

ANN = Principal("ann")
STARTS = "/api/v1/events?kind=job.started"
GONE = LIFE / SECOND + 1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "PERIOD", 0.01)
    monkeypatch.setattr(event_feed, "POLL", 0.05)


async def run(world: World) -> str:
    actor = await world.node("here")
    job = await world.one(ANN)
    await actor.run(job_id=job)
    await actor.leave()
    return job


async def test_a_stream_tells_orders_and_starts_of_all_from_its_beginning(world: World, caller: Caller) -> None:
    async with opened(caller, "/api/v1/events?kind=job.*") as stream:
        job = await run(world)
        ordered, started, _ = await stream.count(3)
        assert [(one.kind, one.data["subject"]) for one in stream.events] == [
            ("job.ordered", job), ("job.started", job), ("job.succeeded", job),
        ]  # fmt: skip
        assert ordered.data["data"] == {"queue": "default", "task": "true"}
        assert started.data["data"] == {"queue": "default", "task": "true", "attempt": 1, "node": "here"}


async def test_a_stream_begins_when_it_is_watched_for(
    world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, let_go, watch = asyncio.Event(), asyncio.Event(), world.store.watch

    async def slow(who: Principal) -> None:
        asked.set()
        await let_go.wait()
        await watch(who)

    monkeypatch.setattr(world.store, "watch", slow)
    opening = opened(caller, STARTS)
    begun = asyncio.create_task(opening.__aenter__())
    await asked.wait()
    await run(world)  # before the beginning
    assert not begun.done()
    let_go.set()
    stream = await begun
    job = await run(world)
    assert [one.data["subject"] for one in await stream.count(1)] == [job]
    await opening.__aexit__(None, None, None)


async def test_a_stream_that_can_not_begin_is_refused(
    world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(who: Principal) -> None:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(world.store, "watch", fail)
    answer = await caller.get(STARTS)
    assert (answer.status, answer.json["code"]) == (503, "store_unavailable")


async def test_who_listens_for_ends_only_does_not_watch(world: World, caller: Caller) -> None:
    async with opened(caller, "/api/v1/events?kind=job.succeeded") as stream:
        await run(world)
        await stream.count(1)
    page = (await caller.get("/api/v1/events?format=json&kind=job.*")).json
    assert [one["kind"] for one in page["items"]] == ["job.succeeded"]


async def test_a_stream_that_goes_on_is_told_what_it_missed(world: World, caller: Caller) -> None:
    async with opened(caller, STARTS) as stream:
        first = await run(world)
        (told,) = await stream.count(1)
    world.clock.advance(GONE)
    await run(world)  # nobody listens
    async with opened(Caller(world), f"{STARTS}&after={told.id}") as stream:  # as after a restart
        last = await run(world)
        began, started = await stream.count(2)
    assert (told.data["subject"], started.data["subject"]) == (first, last)
    assert (began.kind, began.data["data"]["kinds"]) == ("watch.began", ["job.ordered", "job.started"])
    assert began.data["data"]["since"] < began.data["at"]


async def test_a_stream_that_goes_on_in_time_misses_nothing(world: World, caller: Caller) -> None:
    async with opened(caller, STARTS) as stream:
        jobs = [await run(world)]
        (told,) = await stream.count(1)
    world.clock.advance(GONE / 2)
    jobs.append(await run(world))
    async with opened(Caller(world), f"{STARTS}&after={told.id}") as stream:
        jobs.append(await run(world))
        events = [told, *await stream.count(2)]
    assert [one.data["subject"] for one in events] == jobs


async def test_a_stream_renews_its_watch(world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_client, "RENEW", 0.0)
    async with opened(caller, STARTS) as stream:
        for n in range(1, 6):
            # What is told was read after a renewal, which may be as old as the event before it.
            world.clock.advance(GONE / 3)
            job = await run(world)
            told = await stream.count(n)
            assert (told[-1].kind, told[-1].data["subject"]) == ("job.started", job)


async def test_pages_that_go_on_watch_and_say_what_is_missing(world: World, caller: Caller) -> None:
    await run(world)
    page = (await caller.get(f"{STARTS}&format=json")).json
    assert page["items"] == []
    page = (await caller.get(f"{STARTS}&format=json&after={page['next']}")).json
    assert [one["kind"] for one in page["items"]] == ["watch.began"]
    job = await run(world)
    page = (await caller.get(f"{STARTS}&format=json&after={page['next']}")).json
    assert [(one["kind"], one["subject"]) for one in page["items"]] == [("job.started", job)]


async def test_starts_of_far_away_workers_are_told(world: World, caller: Caller) -> None:
    far = await Far(caller.desk.workers, worker_key(), "faraway", "far").join()
    async with opened(caller, STARTS) as stream:
        job = await world.one(ANN)
        await far.take()
        (started,) = await stream.count(1)
    assert (started.data["subject"], started.data["data"]["node"]) == (job, "far")


async def test_a_viewer_may_watch_over_the_calls_of_clients(world: World, caller: Caller) -> None:
    answer = await caller.post("/api/v1/calls/watch", {}, key=secret("viewer"))
    assert answer.status == 200
