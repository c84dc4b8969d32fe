"""Events over HTTP: streams that can be resumed, pages, filters; to each only what concerns them."""

from __future__ import annotations

import asyncio

import pytest

from rota.api import app, event_feed
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.times import DAY, SECOND
from rota.store.values import Retention
from tests.api.caller import Caller, secret
from tests.api.serving import serving
from tests.api.streams import events_in, opened
from tests.contracts.world import DONE, FATAL, PLENTY, World

ANN, BOB = Principal("ann"), Principal("bob")
FAILED = "/api/v1/events?kind=job.failed"


async def fail(world: World, who: Principal = ANN, **changes: object) -> str:
    actor = await world.node()
    job = await world.one(who, **changes)
    await actor.run(FATAL, job)
    return job


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "PERIOD", 0.01)
    monkeypatch.setattr(event_feed, "POLL", 0.05)


async def test_a_stream_tells_what_happens_from_now_on(world: World, caller: Caller) -> None:
    await fail(world)
    async with opened(caller, FAILED) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.headers["cache-control"] == "no-store"
        job = await fail(world)
        (event,) = await stream.count(1)
        assert (event.kind, event.data["subject"], event.data["user"]) == ("job.failed", job, "ann")
        assert event.data["data"]["reason"] == "hopeless"
        assert event.id == event.data["id"]


async def test_others_events_never_show(world: World, caller: Caller) -> None:
    path = "/api/v1/events"
    async with opened(caller, path, secret("admin", "bob")) as bobs, opened(caller, path, secret("viewer")) as anns:
        his, hers = await fail(world, BOB), await fail(world, ANN)
        await anns.until(lambda: "job.failed" in anns.kinds)
        await bobs.until(lambda: "job.failed" in bobs.kinds)
        assert his not in anns.body.decode()
        assert hers not in bobs.body.decode()
        assert "node.joined" in bobs.kinds  # for operators
        assert not any(kind.startswith("node.") for kind in anns.kinds)


async def test_a_stream_goes_on_where_it_was_left_also_with_another_api(world: World, caller: Caller) -> None:
    """No event is lost, none comes twice, whenever the reader is interrupted."""
    jobs = [await fail(world) for _ in range(3)]
    seen: list[str] = []
    after = "0"
    for _ in range(6):
        another = Caller(world)  # as after a restart
        async with opened(another, f"{FAILED}&after={after}") as stream:
            jobs.append(await fail(world))
            await stream.until(lambda stream=stream: stream.events)
            told = stream.events
        seen += [event.data["subject"] for event in told]
        after = told[-1].id or ""
    async with opened(caller, FAILED, headers={"last-event-id": after}) as stream:
        await stream.until(lambda: len(seen) + len(stream.events) >= len(jobs))
        seen += [event.data["subject"] for event in stream.events]
    assert seen == jobs


async def test_filters(world: World, caller: Caller) -> None:
    async with opened(caller, "/api/v1/events?kind=job.*&task=te*&queue=default&after=0") as stream:
        await fail(world)
        wanted = await fail(world, task="tea")
        await stream.until(lambda: wanted in stream.body.decode())
        assert stream.kinds[0] == "watch.began"
        assert {event.data["subject"] for event in stream.events[1:]} == {wanted}
    async with opened(caller, f"/api/v1/events?job={wanted}&after=0") as stream:
        await stream.until(lambda: "job.failed" in stream.kinds)
        assert {event.data["subject"] for event in stream.events if event.kind != "watch.began"} == {wanted}


async def test_pages(world: World, caller: Caller) -> None:
    jobs = [await fail(world) for _ in range(5)]
    found, after = [], "0"
    for _ in range(30):
        page = (await caller.get(f"{FAILED}&format=json&limit=2&after={after}")).json
        found += [event["subject"] for event in page["items"]]
        after = page["next"]
    assert found == jobs
    page = (await caller.get(FAILED, headers={"accept": "application/json"})).json
    assert [event["subject"] for event in page["items"]] == jobs
    assert (await caller.get(f"{FAILED}&format=json&after={after}")).json == {"items": [], "next": after}


async def test_ids_that_are_too_old_or_wrong(world: World, caller: Caller) -> None:
    await fail(world)
    world.clock.advance(3 * DAY / SECOND)
    while await world.store.prune(SYSTEM, Retention(DAY, 9 * DAY, DAY, 9 * DAY), PLENTY):
        pass
    job = await fail(world)
    gone = await caller.get("/api/v1/events?format=json&after=1")
    assert (gone.status, gone.json["code"]) == (410, "events_gone")
    async with opened(caller, f"{FAILED}&after=1") as stream:
        gap, event = await stream.count(2)
        assert (gap.kind, gap.data["asked"], event.data["subject"]) == ("gap", "1", job)
        assert gone.json["expected"].startswith(gap.data["after"])
    for wrong in ("x", "-1", "1.", "9" * 19):
        assert (await caller.get(f"/api/v1/events?after={wrong}")).status == 400
    assert (await caller.get("/api/v1/events?format=json&after=999999")).status == 400
    assert (await caller.get("/api/v1/events?kind=Job;")).json["what"] == "kind"


async def test_a_stream_ends_with_its_key(world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "KEY_CHECK", 0.01)
    async with opened(caller, FAILED) as stream, opened(caller, FAILED, key=secret("viewer")) as other:
        del caller.keys.grants[secret("admin")]
        caller.authenticator.forget()
        await stream.until(lambda: stream.ended)
        assert not other.ended


async def test_over_a_socket(world: World) -> None:
    request = b"GET %s HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %s\r\n\r\n"
    async with serving(world) as place:
        reader, writer = await place.open(request % (FAILED.encode(), secret("viewer").encode()))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"200 OK" in head
        await reader.readuntil(b"retry: 1000\n\n")
        job = await fail(world)
        async with asyncio.timeout(10):
            told = await reader.readuntil(b"\n\n\r\n")
        (event,) = events_in(told.partition(b"\r\n")[2].partition(b"\r\n")[2].removesuffix(b"\r\n"))
        assert event.data["subject"] == job
        writer.close()


async def test_ended_jobs_of_others_are_not_there(world: World, caller: Caller) -> None:
    actor = await world.node()
    await actor.run(DONE, await world.one(LOCAL))
    page = (await caller.get("/api/v1/events?format=json", key=secret("viewer", "bob"))).json
    assert page["items"] == []
