"""Health tells whether, and nothing else."""

from __future__ import annotations

from tests.api.caller import Caller
from tests.contracts.world import World


async def test_a_node_is_live_and_ready(world: World) -> None:
    caller = Caller(world)
    for path in ("/health/live", "/health/ready"):
        reply = await caller.get(path, key=None)
        assert (reply.status, reply.json) == (200, {"status": "ok"})


async def test_it_is_not_ready_without_services_or_store(world: World) -> None:
    caller = Caller(world)
    caller.desk.ready = lambda: False
    assert (await caller.get("/health/ready", key=None)).status == 503
    caller.desk.ready = lambda: True
    await world.store.close()
    assert (await caller.get("/health/ready", key=None)).status == 503
    assert (await caller.get("/health/live", key=None)).status == 200
