"""Jobs over HTTP."""

from __future__ import annotations

from rota.model.principal import Principal
from tests.api.caller import Caller, secret
from tests.contracts.world import World


async def test_a_job_is_shown_to_its_owner_alone(world: World) -> None:
    caller = Caller(world)
    job = world.job()
    await world.store.submit(Principal("ann"), [[job]])
    reply = await caller.get(f"/api/v1/jobs/{job.id}")
    assert (reply.status, reply.json["id"], reply.json["state"]) == (200, job.id, "ready")
    for key in (secret("admin", "bob"), secret("viewer", "bob")):
        other = await caller.get(f"/api/v1/jobs/{job.id}", key=key)
        assert (other.status, other.json["code"]) == (404, "not_found")
