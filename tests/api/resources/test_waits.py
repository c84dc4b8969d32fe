"""Long polls, and output that is followed."""

from __future__ import annotations

import asyncio
from typing import Any

from rota.model.job import Membership
from rota.model.principal import Principal
from tests.api.caller import HOST, Caller, secret
from tests.api.streams import opened
from tests.contracts.world import DONE, World

ANN, BOB = Principal("ann"), Principal("bob")
WORKFLOW = "01900000-0000-7000-8000-000000000001"


async def test_a_wait_ends_with_its_job(world: World, caller: Caller) -> None:
    actor = await world.node()
    job = await world.one(ANN)
    waits = [asyncio.create_task(caller.get(f"/api/v1/jobs/{job}/wait")) for _ in range(20)]
    await actor.run(DONE, job)
    for wait in waits:
        reply = await wait
        assert (reply.status, reply.json["state"]) == (200, "succeeded")
    assert (await caller.get(f"/api/v1/jobs/{job}/wait")).status == 200


async def test_a_wait_gives_up_with_the_state(world: World, caller: Caller) -> None:
    job = await world.one(ANN)
    for timeout in ("0s", "20ms"):
        reply = await caller.get(f"/api/v1/jobs/{job}/wait?timeout={timeout}")
        assert (reply.status, reply.json["state"]) == (202, "ready")
    for wrong in ("26s", "soon", "-1s"):
        reply = await caller.get(f"/api/v1/jobs/{job}/wait?timeout={wrong}")
        assert (reply.status, reply.json["what"]) == (400, "timeout")
    assert (await caller.get(f"/api/v1/jobs/{job}/wait", key=secret("admin", "bob"))).status == 404


async def test_a_wait_for_a_workflow(world: World, caller: Caller) -> None:
    actor = await world.node()
    member = Membership(WORKFLOW, "plan")
    jobs = await world.submit(world.job(workflow=member), world.job(workflow=member), who=ANN)
    path = f"/api/v1/workflows/{WORKFLOW}/wait"
    reply = await caller.get(f"{path}?timeout=10ms")
    assert (reply.status, reply.json["id"]) == (202, WORKFLOW)
    wait = asyncio.create_task(caller.get(path))
    for job in jobs:
        await actor.run(DONE, job)
    assert (await wait).status == 200
    assert (await caller.get(path, key=secret("admin", "bob"))).status == 404


async def test_output_is_followed_and_resumed_until_the_job_has_ended(world: World, caller: Caller) -> None:
    actor = await world.node()
    job = await world.one(ANN)
    claimed = await actor.take(job)
    await actor.say(claimed.ref, 0, b"one\n")
    path = f"/api/v1/jobs/{job}/output/stream"
    async with opened(caller, path) as stream:
        (first,) = await stream.count(1)
        await actor.say(claimed.ref, 1, b"two \xff")
        await stream.count(2)
        await actor.finish(claimed, DONE)
        await stream.until(lambda: stream.ended)
        one, two, end = stream.events
        assert (one.data["text"], one.data["attempt"]) == ("one\n", 1)
        assert two.data["base64"] == "dHdvIP8="
        assert (end.kind, end.data) == ("end", {"state": "succeeded"})
    async with opened(caller, path, headers={"last-event-id": first.id or ""}) as stream:
        await stream.until(lambda: stream.ended)
        assert [event.data.get("text") for event in stream.events[:1]] == ["two �"]
    assert (await caller.get(f"{path}?after=x")).status == 400
    assert (await caller.get(path, key=secret("viewer"))).status == 403
    assert (await caller.get(path, key=secret("admin", "bob"))).status == 404


async def test_a_caller_that_hangs_up_is_not_waited_for(world: World, caller: Caller) -> None:
    job = await world.one(ANN)

    scope = {
        "type": "http", "method": "GET", "raw_path": f"/api/v1/jobs/{job}/wait".encode(), "query_string": b"",
        "headers": [(b"host", HOST.encode()), (b"authorization", f"Bearer {secret('admin')}".encode())],
        "client": ("127.0.0.1", 1), "scheme": "http",
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 202) == 202

    async with asyncio.timeout(5):
        await caller.api(scope, receive, send)
