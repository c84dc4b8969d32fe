"""Workflows over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.caller import Caller, secret
from tests.api.resources.test_jobs import ABSENT, listed
from tests.contracts.world import World

FLOW: dict[str, Any] = {
    "name": "nightly",
    "jobs": [{"name": "a", "command": ["true"]}, {"name": "b", "command": ["true"], "after": ["a"]}],
    "on_failure": {"name": "warn", "command": ["false"]},
}


async def test_a_workflow_is_ordered_shown_cancelled_and_run_again(world: World, caller: Caller) -> None:
    reply = await caller.post("/api/v1/workflows", FLOW)
    assert (reply.status, reply.json["name"], list(reply.json["jobs"])) == (201, "nightly", ["a", "b", "warn"])
    path = f"/api/v1/workflows/{reply.json['id']}"
    shown = (await caller.get(path)).json
    assert [job["name"] for job in shown["jobs"]] == ["a", "b", "warn"]
    assert shown["jobs"][1]["after"][0]["id"] == reply.json["jobs"]["a"]
    assert (await caller.post(f"{path}/replay")).json["what"] == "replay"
    assert (await caller.post(f"{path}/cancel", {"reason": "no"})).json == {
        "id": reply.json["id"], "done": True, "jobs": 3,
    }  # fmt: skip
    assert (await caller.post(f"{path}/retry", {"start": reply.json["jobs"]["warn"]})).json["jobs"] == 1
    assert (await caller.post(f"{path}/retry", {"start": ABSENT})).json["what"] == "job"
    for verb in ("", "/cancel", "/retry", "/replay"):
        method = "POST" if verb else "GET"
        assert (await caller.call(method, f"{path}{verb}", key=secret("admin", "bob"))).status == 404


async def test_workflows_are_listed_in_pages(world: World, caller: Caller) -> None:
    made = [(await caller.post("/api/v1/workflows", FLOW | {"name": f"w{n % 2}"})).json["id"] for n in range(5)]
    assert await listed(caller, "/api/v1/workflows") == made[::-1]
    assert await listed(caller, "/api/v1/workflows?name=w1") == [made[3], made[1]]
    assert await listed(caller, "/api/v1/workflows", key=secret("viewer", "bob")) == []


async def test_an_idempotency_key_makes_one_workflow(world: World, caller: Caller) -> None:
    first, again = [await caller.post("/api/v1/workflows", FLOW, headers={"idempotency-key": "x"}) for _ in range(2)]
    assert (first.status, again.status, first.json) == (201, 200, again.json)
    other = await caller.post("/api/v1/workflows", FLOW | {"jobs": FLOW["jobs"][:1]}, headers={"idempotency-key": "x"})
    assert other.status == 422


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"jobs": []}, "a workflow has 1 to"),
        ({"jobs": [{"name": "a", "command": ["x"], "after": ["b"]}]}, "job 'a': after: 'b' is not valid"),
        ({"jobs": [{"name": "a"}]}, "job 'a': task, command and http"),
        ({"jobs": [{"command": ["x"]}]}, "name"),
        ({"name": "a\nb"}, "workflow name"),
    ],
)
async def test_a_wrong_workflow_is_refused_whole(world: World, caller: Caller, change: Any, said: str) -> None:
    async with world.unchanged():
        reply = await caller.post("/api/v1/workflows", FLOW | change)
    assert reply.status == 400
    assert said in reply.json["detail"]


async def test_a_wrong_value_of_a_workflow_is_named_with_its_job(caller: Caller) -> None:
    body = {"name": "w", "jobs": [{"name": "a", "command": ["true"], "priority": 77}]}
    reply = await caller.post("/api/v1/workflows", body)
    assert (reply.status, reply.json["what"], reply.json["given"]) == (400, "job 'a': priority", 77)
    assert "0 (most urgent) to 9" in reply.json["expected"]
