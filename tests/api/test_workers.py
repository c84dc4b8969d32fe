"""The routes of far-away workers: who may call them, and what they answer."""

from __future__ import annotations

import pytest

from rota.api import workers
from rota.model.access import Permission, Role
from rota.model.principal import SYSTEM
from rota.model.times import SECOND
from tests.api.caller import Caller, secret
from tests.contracts.world import World

WORKER = secret("worker")
NODE = {
    "incarnation": "inc1", "id": "far", "roles": ["worker"], "queues": {"default": 2}, "version": "1.0",
    "lease": 10 * SECOND, "tasks": [{"name": "true"}],
}  # fmt: skip


@pytest.fixture
def caller(world: World) -> Caller:
    return Caller(world)


async def test_a_job_from_its_claim_to_its_end(world: World, caller: Caller) -> None:
    job = await world.one()
    assert (await caller.post("/api/v1/worker/register", NODE, key=WORKER)).status == 204
    wants = {"default": 1}
    claim = {"incarnation": "inc1", "claim": "c1", "wants": wants, "kinds": ["command"], "start": wants}
    reply = await caller.post("/api/v1/worker/claim", claim, key=WORKER)
    (claimed,), (ticket,) = reply.json["jobs"], reply.json["tickets"]
    assert claimed[0] == job
    end = {"job_id": job, "fence": claimed[1], "event": "succeed", "ending": "succeeded", "result": "7"}
    finish = {"incarnation": "inc1", "tickets": [ticket], "settlements": [end]}
    assert (await caller.post("/api/v1/worker/finish", finish, key=WORKER)).json == {"verdicts": ["applied"]}
    assert (await world.info(job)).result == 7
    assert (await caller.post("/api/v1/worker/leave", {"incarnation": "inc1"}, key=WORKER)).status == 204


async def test_workers_only(world: World, caller: Caller) -> None:
    assert {route.permission for route in workers.ROUTES} == {Permission.WORK}
    for role in set(Role) - {Role.WORKER}:
        assert (await caller.post("/api/v1/worker/register", NODE, key=secret(role))).status == 403
    assert (await caller.post("/api/v1/worker/register", NODE, key=None)).status == 401
    assert await world.store.nodes(SYSTEM) == []


async def test_a_worker_sees_nothing_else(world: World, caller: Caller) -> None:
    job = await world.one()
    for path in ("/api/v1/jobs", f"/api/v1/jobs/{job}", "/api/v1/nodes", "/api/v1/queues"):
        assert (await caller.get(path, key=WORKER)).status == 403


async def test_a_line_is_for_a_worker_that_has_joined_with_the_key(caller: Caller) -> None:
    await caller.post("/api/v1/worker/register", NODE, key=WORKER)
    other = secret("worker", "bob")
    for query, key in (("incarnation=inc2&line=a", WORKER), ("incarnation=inc1&line=a", other)):
        assert (await caller.get(f"/api/v1/worker/line?{query}", key=key)).status == 404
    assert (await caller.get("/api/v1/worker/line?incarnation=inc1&line=../x", key=WORKER)).status in (400, 422)
