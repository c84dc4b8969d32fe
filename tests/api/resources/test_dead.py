"""Dead letters over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from rota.model.outcome import Failed, Problem
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


async def test_groups_of_errors_in_pages(world: World, caller: Caller) -> None:
    node = await world.node()
    for text in ("no user 1", "no user 2", "no room", "no way"):
        await world.one(ANN)
        await node.run(Failed(Problem("E", text), fatal=True))
        world.clock.advance(1)
    first = (await caller.get("/api/v1/dead/groups?limit=2")).json
    assert [(one["title"], one["count"]) for one in first["items"]] == [("E: no way", 1), ("E: no room", 1)]
    second = (await caller.get(f"/api/v1/dead/groups?limit=2&cursor={first['next']}")).json
    assert [(one["title"], one["count"], one["task"]) for one in second["items"]] == [("E: no user <n>", 2, "true")]
    assert second["next"] is None
    group = second["items"][0]["id"]
    assert len(await listed(caller, f"/api/v1/dead?group={group}")) == 2
    assert len(await listed(caller, f"/api/v1/jobs?group={group}")) == 2
    assert (await caller.get(f"/api/v1/jobs?cursor={first['next']}")).status == 400
    assert (await caller.get("/api/v1/dead/groups?cursor=x")).status == 400
    assert (await caller.post("/api/v1/dead/replay", {"group": group})).json["changed"] == 2
    assert len((await caller.get("/api/v1/dead/groups")).json["items"]) == 2


@pytest.mark.parametrize("body", [{}, {"q": ""}, {"q": "*"}, {"limit": 5}, {"dry_run": True}])
async def test_changes_of_all_dead_letters_need_a_condition(world: World, caller: Caller, body: dict[str, Any]) -> None:
    await world.one(ANN)
    await (await world.node()).run(FATAL)
    for verb in ("replay", "purge"):
        reply = await caller.post(f"/api/v1/dead/{verb}", body)
        assert (reply.status, reply.json["given"]) == (400, "no condition")
    assert (await caller.post("/api/v1/dead/purge", {"q": "state:failed"})).json["changed"] == 1
