"""Lines of many jobs as a stream: what is told, to whom, and how a caller goes on."""

from __future__ import annotations

import msgspec
import pytest

from rota.api.resources import log_tail
from rota.model.job import Claimed
from rota.model.principal import Principal
from rota.views.found_lines import FoundLineView
from tests.api.caller import Caller, secret
from tests.api.streams import opened
from tests.contracts.world import Actor, World

ANN, BOB = Principal("ann"), Principal("bob")
PATH = "/api/v1/logs/tail"


async def running(world: World, actor: Actor, who: Principal = ANN) -> Claimed:
    return await actor.take(await world.one(who))


async def test_lines_are_told_and_a_caller_goes_on_behind_each(world: World, caller: Caller) -> None:
    actor = await world.node()
    his, job = await running(world, actor, BOB), await running(world, actor)
    path = f"{PATH}?q=one%20OR%20two%20OR%20three"
    async with opened(caller, path) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        await actor.say(his.ref, 0, b"his one\n")
        await actor.say(job.ref, 0, b"one\nnoise\ntwo \xff\nWARNING thr")
        one, two = await stream.count(2)
    assert [event.kind for event in (one, two)] == ["line", "line"]
    view = msgspec.convert(one.data, FoundLineView)
    assert (view.text, view.job, view.user, view.attempt, view.offset) == ("one", job.job_id, "ann", 1, 0)
    assert (two.data["text"], two.data["base64"]) == ("two \ufffd", "dHdvIP8=")
    await actor.say(job.ref, 1, b"ee two\n")
    async with opened(caller, path, headers={"last-event-id": one.id or ""}) as stream:
        assert [event.data["text"] for event in await stream.count(2)] == ["two \ufffd", "WARNING three two"]
    async with opened(caller, f"{PATH}?q=level:warning&after={one.id}") as stream:
        (event,) = await stream.count(1)
        assert (event.data["text"], event.data["level"]) == ("WARNING three two", "warning")


async def test_a_place_that_is_too_old_is_a_gap(world: World, caller: Caller) -> None:
    async with opened(caller, f"{PATH}?after=1") as stream:
        (event,) = await stream.count(1)
    assert (event.kind, event.id) == ("gap", None)
    assert "more than an hour" in event.data["detail"]


async def test_wrong_input_and_missing_permission(world: World, caller: Caller) -> None:
    for query, what in (("q=stat:x", "query"), ("after=x", "after"), ("nonsense=1", "query parameter")):
        reply = await caller.get(f"{PATH}?{query}")
        assert (reply.status, reply.json["what"]) == (400, what), reply
    assert (await caller.get(f"{PATH}?q=stat:x")).json["detail"].startswith("query, character 1: there is no field")
    assert (await caller.get(PATH, key=secret("viewer"))).status == 403


async def test_a_quiet_stream_has_signs_of_life(world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_tail, "PING_EVERY", 0.0)
    async with opened(caller, PATH) as stream:
        await stream.until(lambda: b": ping" in stream.body)
