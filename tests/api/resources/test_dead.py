"""Dead letters over HTTP."""

from __future__ import annotations

from tests.api.caller import Caller
from tests.api.resources.conftest import ANN
from tests.api.resources.test_jobs import listed
from tests.contracts.world import FATAL, World


async def fail(world: World, count: int) -> list[str]:
    jobs = await world.several(count, ANN)
    node = await world.node()
    for claimed in await node.claim():
        await node.finish(claimed, FATAL)
    return jobs


async def test_they_are_listed_replayed_and_purged(world: World, caller: Caller) -> None:
    jobs = await fail(world, 5)
    living = await world.one(ANN)
    assert sorted(await listed(caller, "/api/v1/dead")) == sorted(jobs)
    assert (await caller.get(f"/api/v1/dead/{jobs[0]}")).json["state"] == "failed"
    assert (await caller.get(f"/api/v1/dead/{living}")).status == 404
    assert (await caller.post(f"/api/v1/dead/{jobs[0]}/replay")).json["answer"] == "replayed"
    assert (await caller.post(f"/api/v1/dead/{jobs[0]}/replay")).json["code"] == "illegal_event"
    assert (await caller.post(f"/api/v1/dead/{jobs[1]}/purge")).json["answer"] == "purged"
    assert (await caller.get(f"/api/v1/jobs/{jobs[1]}")).status == 404
    assert (await caller.post("/api/v1/dead/replay", {"ids": [jobs[2], living]})).json["changed"] == 1
    done = (await caller.post("/api/v1/dead/purge", {"error": "hopeless"})).json
    assert (done["matched"], done["changed"]) == (2, 2)
    assert sorted(await world.all()) == sorted([jobs[0], jobs[2], living])
