"""Searches of output over HTTP: pages, and the stream of what is found."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from rota.api.line_places import LineCursor
from rota.model.access import Role
from rota.model.principal import Principal
from rota.store.found_lines import LinePlace
from tests.api.caller import Caller, secret
from tests.api.resources.conftest import ANN
from tests.api.streams import opened
from tests.contracts.test_sealing import printed, seal
from tests.contracts.world import World

BOB = Principal("bob")
PATH = "/api/v1/logs/search"


async def found(caller: Caller, query: str, limit: int = 2, **more: Any) -> list[dict[str, Any]]:
    """The lines of all pages."""
    lines: list[dict[str, Any]] = []
    cursor = ""
    while True:
        reply = await caller.get(f"{PATH}?q={quote(query)}&limit={limit}{cursor}", **more)
        assert reply.status == 200, reply
        lines += reply.json["items"]
        if reply.json["next"] is None:
            return lines
        cursor = f"&cursor={reply.json['next']}"


async def test_lines_are_found_newest_first_in_pages(world: World, caller: Caller) -> None:
    node = await world.node()
    jobs = []
    for number in range(5):
        jobs.append((await printed(world, node, b"line %d refused\n" % number, b"\xff\n", who=ANN)).job_id)
        world.clock.advance(1)
        if number == 2:
            await seal(world)
    await printed(world, node, b"refused, too\n", who=BOB)
    lines = await found(caller, "refused")
    assert [one["job"] for one in lines] == jobs[::-1]
    assert [one["text"] for one in lines] == [f"line {number} refused" for number in (4, 3, 2, 1, 0)]
    assert (lines[0]["user"], lines[0]["stream"], lines[0]["attempt"]) == ("ann", "stdout", 1)
    assert [one["text"] for one in await found(caller, f"refused id:{jobs[1][-8:]}")] == ["line 1 refused"]
    (one,) = (await caller.get(f"{PATH}?q={quote('line 3')}&after=1&before=1")).json["items"]
    assert (one["before"], one["after"][0]["text"], one["after"][0]["base64"]) == ([], "\ufffd", "/w==")


async def test_a_stream_of_what_is_found(world: World, caller: Caller) -> None:
    node = await world.node()
    for number in range(5):
        await printed(world, node, b"line %d\n" % number, who=ANN)
        world.clock.advance(1)
    await seal(world)
    async with opened(caller, f"{PATH}/stream?q=line&limit=3") as stream:
        await stream.until(lambda: stream.ended)
        told = [event.data["text"] for event in stream.events if event.kind == "line"]
        assert told == ["line 4", "line 3", "line 2"]
        assert stream.kinds[-2:] == ["progress", "end"]
        cursor = stream.events[-1].data["next"]
    async with opened(caller, f"{PATH}/stream?q=line&cursor={cursor}") as stream:
        await stream.until(lambda: stream.ended)
        assert [event.data["text"] for event in stream.events if event.kind == "line"] == ["line 1", "line 0"]
        assert stream.events[-1].data["next"] is None
        assert stream.events[-2].data["examined"] == stream.events[-2].data["of"] == 35


async def test_relative_times_are_those_of_the_first_page(world: World, caller: Caller) -> None:
    node = await world.node()
    for _ in range(3):
        await printed(world, node, b"line\n", who=ANN)
    reply = await caller.get(f"{PATH}?q={quote('at>-1m')}&limit=2")
    world.clock.advance(3600)
    reply = await caller.get(f"{PATH}?q={quote('at>-1m')}&limit=2&cursor={reply.json['next']}")
    assert len(reply.json["items"]) == 1


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUBMITTER, Role.ADMIN])
async def test_nothing_of_others_and_nothing_without_the_permission(world: World, caller: Caller, role: Role) -> None:
    node = await world.node()
    await printed(world, node, b"secret of ann\n", who=ANN)
    await seal(world)
    await printed(world, node, b"another secret\n", who=ANN)
    for path in (PATH, f"{PATH}/stream"):
        for query in ("secret", "*", "user:ann", "-user:bob", "/s.*t/"):
            key = secret(role, "bob")
            reply = await caller.get(f"{path}?q={quote(query)}", key=key)
            assert reply.status == (403 if role is Role.VIEWER else 200)
            assert b"ann" not in reply.body
            assert b"secret" not in reply.body


PLACE = LineCursor.before(LinePlace(7), 7)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("q=colour%3Ared", "query"),
        ("q=%2F(%2F", "query"),
        ("q=" + "x" * 10_001, "q"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("before=51", "before"),
        ("after=-1", "after"),
        ("cursor=x", "cursor"),
        (f"q=a&cursor={PLACE.text({'q': 'b', 'before': 0, 'after': 0})}", "cursor"),
        ("context=3", "query parameter"),
    ],
)
async def test_wrong_searches(world: World, caller: Caller, query: str, what: str) -> None:
    for path in (PATH, f"{PATH}/stream") if "1001" not in query else (PATH,):
        reply = await caller.get(f"{path}?{query}")
        assert (reply.status, reply.json["what"]) == (400, what), reply
