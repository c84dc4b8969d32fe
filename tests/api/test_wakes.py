"""The server as its clients meet it, and its stream of wake-ups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rota.api import wakes
from rota.model.access import Role
from rota.model.principal import LOCAL
from rota.remote.versions import OURS
from rota.store.values import Topic
from tests.api.caller import Caller, secret
from tests.contracts.world import World
from tests.remote.in_process import api_on, connected


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - the store tells nobody of its listeners
            await asyncio.sleep(0)


@pytest.mark.parametrize("role", Role)
async def test_it_tells_each_key_what_it_may_do(world: World, role: Role) -> None:
    reply = await Caller(world).get("/api/v1/server", key=secret(role))
    assert reply.status == 200
    assert {name: reply.json[name] for name in ("version", "store", "user", "key", "role")} == {
        "version": OURS, "store": "sqlite", "user": "ann", "key": f"ann-{role}", "role": role,
    }  # fmt: skip


async def test_without_a_key_it_tells_nothing(world: World) -> None:
    for path in ("/api/v1/server", "/api/v1/wakes?topics=n"):
        assert (await Caller(world).get(path, key=None)).status == 401


@pytest.mark.parametrize("query", ["", "?topics=", "?topics=x", "?topics=n&more=1"])
async def test_topics_must_be_known(world: World, query: str) -> None:
    assert (await Caller(world).get(f"/api/v1/wakes{query}")).status == 400


async def test_listeners_hear_of_their_topics_and_no_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakes, "PAUSE", 0.0)
    store, _ = connected(api_on(world.store, world.clock), world.clock)
    news, ready = asyncio.Event(), asyncio.Event()
    ends = [store.listen(frozenset({Topic.NEWS}), news.set), store.listen(frozenset({Topic.READY}), ready.set)]
    await until(lambda: len(world.store._listeners._entries) == 2)  # type: ignore[attr-defined]
    job = await world.one()
    async with asyncio.timeout(5):
        await ready.wait()
    assert not news.is_set()
    await world.store.cancel(LOCAL, [job], "")
    async with asyncio.timeout(5):
        await news.wait()
    for end in ends:
        end()
    await until(lambda: not world.store._listeners._entries)  # type: ignore[attr-defined]
    await store.close()


async def test_a_quiet_stream_gives_signs_of_life(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakes, "PING", 0.0)
    lines = wakes._lines(world.store, frozenset({Topic.NEWS}))
    assert [await anext(lines) for _ in range(3)] == [b"\n"] * 3
    await lines.aclose()  # type: ignore[attr-defined]
    assert not world.store._listeners._entries  # type: ignore[attr-defined]
