"""Walks all routes of the table with all kinds of callers: what each is answered follows from the table alone.
`test_methods.py` does the same for other methods and paths than those of the table.

A route whose path names something is classified here by what it names. A new route that is not makes a test fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rota.api.routes import PUBLIC, Route
from rota.model.access import ROLES, Grant, Permission, Role
from rota.model.principal import Principal
from rota.model.times import HOUR, SECOND
from tests.api.caller import Caller, secret
from tests.api.described import check_described
from tests.api.walking import (
    ABSENT,
    FOR_EVERY_KEY,
    KEYED,
    PUBLIC_ROUTES,
    ROUTES,
    allows,
    anything,
    call,
    named,
    on_both_stores,
)
from tests.contracts.world import FATAL, World

pytest_generate_tests = on_both_stores
# What the variable part of a path names, by the beginning of the path. "": something that all users share.
OWNED = {
    "/api/v1/jobs/{id}": "job",
    "/api/v1/dead/{id}": "dead",
    "/api/v1/workflows/{id}": "workflow",
    "/api/v1/schedules/{name}": "schedule",
    "/api/v1/calendars/{name}": "calendar",
    "/api/v1/gates/{id}": "gate",
    "/api/v1/limits/{key}": "limit",
    "/api/v1/locks/{name}": "lock",
    "/api/v1/queues/{name}": "",
    "/api/v1/tasks/{name}": "",
    "/api/v1/users/{user}": "",
    "/api/v1/keys/{id}": "",
}
# Bodies with which a route reaches the thing that its path names.
BODIES: dict[str, Any] = {
    "set_priority": {"priority": 1},
    "backfill_schedule": {"from": "2027-01-01T00:00:00Z", "to": "2027-01-01T00:00:01Z"},
}
# They add what is not there: the owner of a name is whoever adds it.
ADDING = {"put_schedule", "put_calendar", "set_limit"}
COMMAND = {"command": ["true"]}


def kind_of(route: Route) -> str | None:
    return next((kind for start, kind in OWNED.items() if route.path.startswith(start)), None)


@pytest.fixture
def caller(world: World) -> Caller:
    made = Caller(world)
    expired = Grant(key="old", user="ann", role=Role.ADMIN, expires_at=world.store.now() - 1)
    made.keys.grants[secret("expired")] = expired
    return made


def test_public_routes_are_those_that_are_meant() -> None:
    assert {named(route) for route in ROUTES if route.permission is PUBLIC} == PUBLIC_ROUTES


def test_routes_without_a_permission_are_those_that_are_meant() -> None:
    assert {named(route) for route in KEYED if not isinstance(route.permission, Permission)} == FOR_EVERY_KEY


def test_every_route_that_names_something_is_classified() -> None:
    unclassified = [named(route) for route in ROUTES if route.parts and kind_of(route) is None]
    assert not unclassified, "say in OWNED what the path names, and whether users share it"


async def test_without_a_valid_key_every_route_answers_the_same(world: World, caller: Caller) -> None:
    keys = {"none": None, "malformed": "rota_x", "unknown": secret("revoked"), "expired": secret("expired")}
    for what, key in keys.items():
        answers = set()
        for route in KEYED:
            for method in (route.method, "OPTIONS", "PROPFIND", "HEAD"):
                world.clock.advance(60 * SECOND)  # repeated wrong keys are slowed down
                reply = await call(caller, route, anything(route), key, method=method)
                answers.add((reply.status, method == "HEAD" or reply.body, reply.headers["content-length"]))
        assert len(answers) == 2, what  # one body, and none of HEAD
        assert {status for status, *_ in answers} == {401}, what


@pytest.mark.parametrize("role", Role)
async def test_each_role_reaches_what_its_permissions_say(caller: Caller, role: Role) -> None:
    for route in KEYED:
        reply = await call(caller, route, anything(route), secret(role))
        assert (reply.status == 403) == (not allows(role, route)), (named(route), reply)
        assert reply.status < 500, (named(route), reply)
        check_described(route, reply)
        if not allows(role, route):
            assert reply.json["code"] == "not_allowed"


async def of_bob(world: World, caller: Caller) -> dict[str, str]:
    """One thing of each kind that bob owns."""
    bob, key = Principal("bob"), secret("admin", "bob")
    dead = await world.one(bob)
    node = await world.node()
    (claimed,) = await node.claim()
    await node.finish(claimed, FATAL)
    schedule = {"cron": "0 3 * * *", "job": COMMAND}
    flow = {"jobs": [COMMAND | {"name": "a"}]}
    made = {
        "workflow": await caller.post("/api/v1/workflows", flow, key=key),
        "schedule": await caller.put("/api/v1/schedules/bobs", schedule, key=key),
        "calendar": await caller.put("/api/v1/calendars/bobs", {"dates": ["2027-01-01"]}, key=key),
        "gate": await caller.post("/api/v1/gates", {"queue": "x", "reason": "r"}, key=key),
        "limit": await caller.put("/api/v1/limits/bobs", {"concurrency": 1}, key=key),
    }
    assert all(reply.status in (200, 201) for reply in made.values()), made
    await world.store.acquire_lock(bob, "bobs", "holder", HOUR)
    ids = {"workflow": made["workflow"].json["id"], "gate": made["gate"].json["id"]}
    return {
        "job": await world.one(bob),
        "dead": dead,
        "schedule": "bobs",
        "calendar": "bobs",
        "limit": "bobs",
        "lock": "bobs",
        **ids,
    }


async def test_what_another_owns_is_as_absent_as_what_nobody_owns(world: World, caller: Caller) -> None:
    """The same answer for both, and nothing is changed; an admin is no exception."""
    things = await of_bob(world, caller)
    for route in KEYED:
        kind = kind_of(route)
        if not kind or route.name in ADDING or route.permission not in ROLES[Role.ADMIN]:
            continue
        (part,) = route.parts
        body = BODIES.get(route.name)
        async with world.unchanged():
            theirs, nobodys = [
                await call(caller, route, {part: value}, secret("admin"), body) for value in (things[kind], ABSENT)
            ]
        assert theirs.status == nobodys.status == 404, (named(route), theirs, nobodys)
        check_described(route, theirs)
        assert theirs.body.replace(things[kind].encode(), b"") == nobodys.body.replace(ABSENT.encode(), b"")
        own = await call(caller, route, {part: things[kind]}, secret("admin", "bob"), body)
        assert own.status not in (404, 500), (named(route), own)
        things = things | await again(world, caller, kind, things)


async def again(world: World, caller: Caller, kind: str, things: Mapping[str, str]) -> dict[str, str]:
    """What bob's own call may have ended is there again for the next route."""
    key = secret("admin", "bob")
    match kind:
        case "job":
            return {"job": await world.one(Principal("bob"))}
        case "dead":
            job = await world.one(Principal("bob"), queue="dead")
            node = await world.node()
            for claimed in await node.claim(queue="dead"):
                await node.finish(claimed, FATAL)
            return {"dead": job}
        case "schedule":
            await caller.put("/api/v1/schedules/bobs", {"cron": "0 3 * * *", "job": COMMAND}, key=key)
        case "calendar":
            await caller.put("/api/v1/calendars/bobs", {"dates": ["2027-01-01"]}, key=key)
        case "gate":
            reply = await caller.post("/api/v1/gates", {"queue": "x", "reason": "r"}, key=key)
            return {"gate": reply.json["id"]}
        case "limit":
            await caller.put("/api/v1/limits/bobs", {"concurrency": 1}, key=key)
        case "lock":
            await world.store.acquire_lock(Principal("bob"), "bobs", world.chance.token(), HOUR)
    return {}


async def test_a_name_that_another_has_is_free(world: World, caller: Caller) -> None:
    """Names belong to their users: adding one says nothing about those of others."""
    await of_bob(world, caller)
    bodies = {
        "put_schedule": {"cron": "0 4 * * *", "job": COMMAND},
        "put_calendar": {"dates": ["2027-02-02"]},
        "set_limit": {"concurrency": 9},
    }
    for route in KEYED:
        if route.name in ADDING:
            reply = await call(caller, route, dict.fromkeys(route.parts, "bobs"), secret("admin"), bodies[route.name])
            assert reply.status in (200, 201), (named(route), reply)
    assert (await caller.get("/api/v1/limits/bobs", key=secret("admin", "bob"))).json["concurrency"] == 1
    assert (await caller.get("/api/v1/schedules/bobs", key=secret("admin", "bob"))).json["rule"] == "0 3 * * *"
