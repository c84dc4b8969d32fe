"""Ended jobs that a key runs again, by calls and by resources."""

from __future__ import annotations

import pytest

from rota.model.principal import Principal
from tests.api.caller import Caller, secret
from tests.contracts.world import FATAL, World


@pytest.mark.parametrize("path", ["calls/replay", "jobs/{}/retry", "jobs/retry", "dead/{}/replay", "dead/replay"])
async def test_a_key_runs_again_only_what_it_may_order(world: World, path: str) -> None:
    job = await world.one(Principal("ann"))
    node = await world.node()
    (claimed,) = await node.claim()
    await node.finish(claimed, FATAL)
    caller, body = Caller(world), None if "{}" in path else {"ids": [job]}
    reply = await caller.post(f"/api/v1/{path.format(job)}", body, key=secret("submitter"))
    assert (reply.status, reply.json["code"]) == (403, "not_allowed"), reply
    assert await world.state(job) == "failed"
    assert (await caller.post(f"/api/v1/{path.format(job)}", body, key=secret("admin"))).status == 200
    assert await world.state(job) != "failed"
