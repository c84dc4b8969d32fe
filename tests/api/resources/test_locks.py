"""Locks over HTTP."""

from __future__ import annotations

from rota.model.principal import SYSTEM
from rota.model.times import SECOND, iso
from rota.store.people import AuditFilter
from tests.api.caller import Caller, secret
from tests.api.resources.conftest import ANN
from tests.contracts.world import World

TTL = 30 * SECOND


async def test_locks_are_listed_and_freed(world: World, caller: Caller) -> None:
    now = world.clock.now()
    for name in ("free", "report"):
        await world.store.acquire_lock(ANN, name, "holder", TTL)
    await world.store.release_lock(ANN, "free", "holder")
    held, free = (await caller.get("/api/v1/locks")).json["items"]
    assert held == {
        "name": "report", "held": True, "fence": now, "taken_at": iso(now), "expires_at": iso(now + TTL),
    }  # fmt: skip
    assert (free["name"], free["held"]) == ("free", False)
    assert (await caller.delete("/api/v1/locks/report", key=secret("viewer"))).status == 403
    assert (await caller.delete("/api/v1/locks/report")).status == 204
    assert not any(one["held"] for one in (await caller.get("/api/v1/locks")).json["items"])
    for name in ("report", "free", "never"):
        reply = await caller.delete(f"/api/v1/locks/{name}")
        assert (reply.status, reply.json["detail"]) == (404, f"no held lock '{name}'")
    (row,) = await world.store.audit(SYSTEM, AuditFilter())
    assert (row.user, row.deed, row.subjects) == ("ann", "free_lock", ("report",))


async def test_nobody_sees_or_frees_the_locks_of_another(world: World, caller: Caller) -> None:
    await world.store.acquire_lock(ANN, "report", "holder", TTL)
    assert (await caller.get("/api/v1/locks", key=secret("admin", "bob"))).json["items"] == []
    assert (await caller.delete("/api/v1/locks/report", key=secret("admin", "bob"))).status == 404
    assert [one["held"] for one in (await caller.get("/api/v1/locks")).json["items"]] == [True]


async def test_calls_about_locks_are_checked_and_leave_no_record_of_repeats(world: World, caller: Caller) -> None:
    call = {"name": "report", "holder": "one", "ttl": TTL}
    for wrong in ({"name": ""}, {"name": "a\n"}, {"holder": ""}, {"holder": "x" * 65}, {"ttl": 0}, {"ttl": 1 << 62}):
        reply = await caller.post("/api/v1/calls/acquire_lock", call | wrong)
        assert (reply.status, reply.json["code"]) == (400, "invalid_input"), wrong
    before = world.backend.contents("repeats")
    taken = await caller.with_json("POST", "/api/v1/calls/acquire_lock", call, headers={"Idempotency-Key": "k"})
    assert taken.json["mine"]
    assert world.backend.contents("repeats") == before
    assert (await caller.post("/api/v1/calls/acquire_lock", call, key=secret("viewer"))).status == 403
