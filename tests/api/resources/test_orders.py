"""Orders over HTTP: one and many, whole or refused, and the same again."""

from __future__ import annotations

from typing import Any

import pytest

from rota.model.task import TaskInfo
from tests.api.caller import Caller, secret
from tests.contracts.world import World

WELCOME = TaskInfo("welcome", ("user_id",), ("user_id",), types={"user_id": ("integer",)}, queue="mail")


async def test_a_task_with_its_own_options(world: World, caller: Caller) -> None:
    await world.node(tasks=[WELCOME])
    reply = await caller.post("/api/v1/jobs", {"task": "welcome", "args": {"user_id": 7}}, key=secret("submitter"))
    assert (reply.status, reply.json["created"]) == (201, True)
    job = (await caller.get(f"/api/v1/jobs/{reply.json['id']}")).json
    assert (job["owner"], job["task"], job["args"], job["queue"]) == ("ann", "welcome", {"user_id": 7}, "mail")


async def test_a_task_that_is_offered_later_is_found(world: World, caller: Caller) -> None:
    order = {"task": "welcome", "args": {"user_id": 7}}
    assert (await caller.post("/api/v1/jobs", order)).json["code"] == "unknown_task"
    await world.node(tasks=[WELCOME])
    world.clock.advance(1_000_000)
    assert (await caller.post("/api/v1/jobs", order)).status == 201


async def test_a_list_is_accepted_whole_or_refused_with_the_place_of_the_bad_one(world: World, caller: Caller) -> None:
    good = {"command": ["true"], "in": "10s", "priority": 2}
    async with world.unchanged():
        reply = await caller.post("/api/v1/jobs", {"jobs": [good, good | {"priority": 10}]})
    assert (reply.status, reply.json["what"]) == (400, "jobs[1].priority")
    reply = await caller.post("/api/v1/jobs", {"jobs": [good] * 3})
    assert (reply.status, len({one["id"] for one in reply.json["jobs"]})) == (201, 3)
    assert (await caller.post("/api/v1/jobs", {"jobs": [good], "command": ["x"]})).json["what"] == "command"
    assert (await caller.post("/api/v1/jobs", {"jobs": []})).json["what"] == "jobs"


@pytest.mark.parametrize(
    ("order", "what"),
    [
        ({}, "task, command and http"),
        ({"task": "nobody"}, "task"),
        ({"command": "true"}, "command"),
        ({"command": ["true"], "owner": "bob"}, "owner"),
        ({"command": ["true"], "queue": 7}, "queue"),
        ({"command": ["true"], "queue": "no queue"}, "queue"),
        ({"command": ["true"], "in": "soon"}, "in"),
        ({"command": ["tr\0ue"]}, "command"),
        ({"jobs": [{"command": ["true"], "retries": "2"}]}, "jobs[0].retries"),
        ({"http": {"method": "GET"}}, "http.url"),
    ],
)
async def test_refusals_name_the_field(world: World, caller: Caller, order: Any, what: str) -> None:
    async with world.unchanged():
        reply = await caller.post("/api/v1/jobs", order)
    assert (reply.status, reply.json["what"]) == (400, what)


async def test_a_parent_that_is_another_users_is_as_absent_as_one_that_is_nobodys(world: World, caller: Caller) -> None:
    other = (await caller.post("/api/v1/jobs", {"command": ["true"]}, key=secret("admin", "bob"))).json["id"]
    replies = [
        await caller.post("/api/v1/jobs", {"command": ["true"], "after": parent})
        for parent in (other, other[:-4] + "0000")
    ]
    assert [reply.status for reply in replies] == [404, 404]
    assert replies[0].json["detail"].replace(other, "") == replies[1].json["detail"].replace(other[:-4] + "0000", "")


async def test_roles_and_scopes_bound_what_is_ordered(caller: Caller) -> None:
    assert (await caller.post("/api/v1/jobs", {"command": ["true"]}, key=secret("submitter"))).status == 403
    call = {"http": {"method": "GET", "url": "http://example.com"}}
    assert (await caller.post("/api/v1/jobs", call, key=secret("operator"))).status == 403
    assert (await caller.post("/api/v1/jobs", {"command": ["true"]}, key=secret("viewer"))).status == 403


# -- the same again --------------------------------------------------------------------------------------------------
async def test_an_idempotency_key_makes_one_job(world: World, caller: Caller) -> None:
    headers = {"idempotency-key": "abc"}
    order = {"command": ["true"]}
    first, again = [await caller.post("/api/v1/jobs", order, headers=headers) for _ in range(2)]
    assert (first.status, again.status) == (201, 200)
    assert first.json["id"] == again.json["id"]
    other = await caller.post("/api/v1/jobs", {"command": ["false"]}, headers=headers)
    assert (other.status, other.json["code"]) == (422, "idempotency_key_reused")
    of_bob = await caller.post("/api/v1/jobs", order, headers=headers, key=secret("admin", "bob"))
    assert of_bob.status == 201
    assert len(await world.all()) == 2


async def test_an_idempotency_key_makes_a_list_once(world: World, caller: Caller) -> None:
    headers = {"idempotency-key": "abc"}
    many = {"jobs": [{"command": ["true"]}, {"command": ["true"], "key": "own"}]}
    first, again = [await caller.post("/api/v1/jobs", many, headers=headers) for _ in range(2)]
    assert [one["id"] for one in first.json["jobs"]] == [one["id"] for one in again.json["jobs"]]
    assert (first.status, again.status, len(await world.all())) == (201, 200, 2)


async def test_keys_of_orders_conflict_with_other_orders(caller: Caller) -> None:
    await caller.post("/api/v1/jobs", {"command": ["true"], "key": "k"})
    reply = await caller.post("/api/v1/jobs", {"command": ["false"], "key": "k"}, headers={"idempotency-key": "x"})
    assert (reply.status, reply.json["code"]) == (409, "key_conflict")


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
async def test_wrong_idempotency_keys(caller: Caller, key: str) -> None:
    reply = await caller.post("/api/v1/jobs", {"command": ["true"]}, headers={"idempotency-key": key})
    assert (reply.status, reply.json["what"]) == (400, "Idempotency-Key")
