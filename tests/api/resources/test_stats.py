"""Statistics over HTTP."""

from __future__ import annotations

from rota.model.principal import Principal
from tests.api.caller import Caller, secret
from tests.contracts.world import DONE, World

ANN, BOB = Principal("ann"), Principal("bob")


async def test_statistics_queues_and_history(world: World, caller: Caller) -> None:
    actor = await world.node()
    for who in (ANN, ANN, BOB):
        await actor.run(DONE, await world.one(who))
    found = (await caller.get("/api/v1/stats")).json
    assert (found["everyone"], found["states"]["succeeded"], found["rates"]["ended"]["count"]) == (True, 3, 3)
    assert (await caller.get("/api/v1/stats?mine=true")).json["states"]["succeeded"] == 2
    bobs = (await caller.get("/api/v1/stats", key=secret("viewer", "bob"))).json
    assert (bobs["everyone"], bobs["states"]["succeeded"]) == (False, 1)
    (queue,) = (await caller.get("/api/v1/stats/queues?since=15m")).json["items"]
    assert (queue["queue"], queue["rates"]["ordered"]["count"]) == ("default", 3)
    history = (await caller.get("/api/v1/stats/history?since=2h&step=15m&task=true")).json
    assert (history["step"], sum(one["succeeded"] for one in history["buckets"])) == (900.0, 3)


async def test_windows_that_make_no_sense(world: World, caller: Caller) -> None:
    for query, what in (
        ("since=never", "since"),
        ("since=0s", "since"),
        ("step=7s", "step"),
        ("since=90d&step=1m", "step"),
    ):
        reply = await caller.get(f"/api/v1/stats/history?{query}")
        assert (reply.status, reply.json["what"]) == (400, what)
    assert (await caller.get("/api/v1/stats?step=1m")).status == 400
