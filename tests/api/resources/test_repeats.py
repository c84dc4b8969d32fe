"""Requests with an Idempotency-Key that come again: to another server of the store, at once, or after a crash between
two writes. They have one effect, and the answer of the first time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rota.api import trails
from rota.api.app import table
from rota.errors import StoreUnavailable
from rota.model.times import DAY
from tests.api.caller import Caller, Reply
from tests.api.resources.conftest import ANN
from tests.api.resources.repeated import ROUTES, Asked, ask, audit, same
from tests.contracts.world import World


def test_every_unsafe_route_is_here_or_knows_its_orders() -> None:
    unsafe = [route for route in table() if route.method != "GET" and route.tag not in ("calls", "worker")]
    assert all("Idempotency-Key" in route.takes for route in unsafe)
    assert {route.name for route in unsafe} == {*ROUTES, "submit_jobs", "submit_workflow"}
    assert {route.name for route in unsafe if route.keyed} == set(ROUTES)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ROUTES)
async def test_a_repeat_on_another_server(world: World, caller: Caller, other: Caller, name: str) -> None:
    asked = await ROUTES[name](world, caller)
    first = await ask(caller, asked)
    assert first.status < 300, first
    world.clock.advance(1)
    async with world.unchanged():
        for server in (other, caller):
            again = await ask(server, asked)
            assert same(first, again), (first, again)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ROUTES)
async def test_tries_at_once_through_two_servers(world: World, caller: Caller, other: Caller, name: str) -> None:
    """Eight tries. Each is sent again while another server carries it out."""
    asked = await ROUTES[name](world, caller)
    before = len(await audit(world))

    async def one(number: int) -> Reply:
        while True:
            reply = await ask((caller, other)[number % 2], asked)
            if reply.status != 409 or reply.json["code"] != "repeat_in_flight":
                return reply
            assert reply.headers["retry-after"] == "1"
            await asyncio.sleep(0.001)

    first, *rest = await asyncio.gather(*map(one, range(8)))
    assert first.status < 300, first
    assert all(same(first, reply) for reply in rest), (first, rest)
    deeds = [row.deed for row in (await audit(world))[: -before or None]]
    assert len(deeds) == len(set(deeds)), "no deed has two rows"


# -- a crash after a write ---------------------------------------------------------------------------------------------
WRITES = {"retry_job": 2, "put_schedule": 1, "set_queue": 2, "cancel_job": 1, "fire_schedule": 1, "rotate_key": 1}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ROUTES)
async def test_a_server_that_dies_after_any_write(
    world: World, caller: Caller, other: Caller, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the handler does after its write: the answer is lost, and a repeat goes on from there."""
    asked = await ROUTES[name](world, caller)
    before = len(await audit(world))
    carry = trails.Trail.call
    crashes = 0
    for survives in range(10):  # so many writes before the crash, in each try

        async def dying(self: Any, call: Any, *args: Any, left: list[int] = [survives]) -> Any:  # noqa: B006
            answer = await carry(self, call, *args)
            if call.verb.access.value == "write":
                if not left[0]:
                    raise StoreUnavailable("killed")
                left[0] -= 1
            return answer

        monkeypatch.setattr(trails.Trail, "call", dying)
        reply = await ask(caller, asked)
        if reply.status < 300:
            break
        assert reply.status == 503
        crashes += 1
    monkeypatch.undo()
    assert crashes == WRITES.get(name, crashes)
    async with world.unchanged():
        assert same(reply, await ask(other, asked))
    deeds = [row.deed for row in (await audit(world))[: -before or None]]
    assert len(deeds) == len(set(deeds)), "no deed has two rows"


async def test_a_change_of_many_goes_on_where_it_stopped(
    world: World, caller: Caller, other: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that were changed before the crash fit the conditions no more, and count all the same."""
    jobs = await world.several(450, ANN, delay=DAY)
    asked: Asked = ("POST", "/api/v1/jobs/cancel", {"queue": "default"})
    cancel, calls = world.store.cancel, 0

    async def dying(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StoreUnavailable("killed")
        return await cancel(*args, **named)

    monkeypatch.setattr(world.store, "cancel", dying)
    assert (await ask(caller, asked)).status == 503
    late = await world.one(ANN, delay=DAY)
    reply = await ask(other, asked)
    assert reply.json == {"matched": 450, "changed": 450, "more": False, "dry_run": False, "jobs": []}
    assert (calls, await world.state(late)) == (4, "scheduled"), "pages of 200, and the first one once"
    assert set(await world.states(*jobs)) == {"cancelled"}
    assert len([row for row in await audit(world) if row.deed == "cancel"]) == 3
