"""Users, access keys, the audit and the caller over HTTP."""

from __future__ import annotations

from rota.model.access_keys import key_hash, key_id
from rota.model.principal import SYSTEM
from tests.api.caller import Caller, secret
from tests.contracts.world import World

USED = ("submissions", "waiting", "schedules", "running", "output")


async def test_users_are_added_changed_and_removed(caller: Caller) -> None:
    made = await caller.post("/api/v1/users", {"name": "bea", "quotas": {"submissions": "5/1s", "waiting": 7}})
    assert made.status == 201
    assert made.json["quotas"] == {
        "submissions": "5/1s",
        "waiting": 7,
        "schedules": None,
        "running": None,
        "output": None,
    }
    assert made.json["created_by"] == "ann"
    assert (await caller.post("/api/v1/users", {"name": "bea"})).json["code"] == "invalid_input"
    changed = await caller.patch("/api/v1/users/bea", {"quotas": {"waiting": None, "running": 2, "output": "2GB"}})
    bounds = {"submissions": "5/1s", "waiting": None, "schedules": None, "running": 2, "output": 2_000_000_000}
    assert changed.json["quotas"] == bounds
    for wrong in ({"running": 0}, {"running": -1}, {"running": "x"}, {"output": "1ZB"}, {"output": -1}):
        refused = await caller.patch("/api/v1/users/bea", {"quotas": wrong})
        assert refused.status == 400, wrong
    assert (await caller.get("/api/v1/users/bea")).json["quotas"] == bounds
    assert [user["name"] for user in (await caller.get("/api/v1/users")).json["items"]] == ["bea"]
    assert (await caller.delete("/api/v1/users/bea")).status == 204
    assert (await caller.get("/api/v1/users/bea")).status == 404
    assert (await caller.patch("/api/v1/users/bea", {"quotas": {"waiting": -1}})).status in (400, 404)


async def test_the_secret_of_a_key_is_in_one_answer_only(world: World, caller: Caller) -> None:
    await caller.post("/api/v1/users", {"name": "bea"})
    body = {"user": "bea", "role": "submitter", "queues": ["q*"], "allow": ["commands"], "expires": "90d", "name": "ci"}
    made = await caller.post("/api/v1/keys", body)
    assert made.status == 201
    text, shown = made.json["secret"], made.json["key"]
    assert (shown["id"], shown["role"], shown["allow"]) == (key_id(text), "submitter", ["commands"])
    grant = await world.store.grant_of(SYSTEM, key_hash(text))
    assert grant is not None
    assert (grant.user, grant.queues) == ("bea", ("q*",))
    listed = await caller.get("/api/v1/keys?user=bea")
    assert listed.json["items"] == [shown]
    assert text.encode() not in listed.body
    rotated = await caller.post(f"/api/v1/keys/{shown['id']}/rotate", {"overlap": "1h"})
    assert rotated.json["key"]["replaces"] == shown["id"]
    assert (await caller.delete(f"/api/v1/keys/{shown['id']}")).status == 204
    assert (await caller.delete(f"/api/v1/keys/{shown['id']}")).status == 404
    assert [key["state"] for key in (await caller.get("/api/v1/keys?past=true")).json["items"]] == ["revoked", "live"]
    wrong = await caller.post("/api/v1/keys", {**body, "role": "boss"})
    assert (wrong.status, wrong.json["what"]) == (400, "role")


async def test_others_rotate_no_key_but_their_own(caller: Caller) -> None:
    refused = await caller.post("/api/v1/keys/0123456789ab/rotate", {}, key=secret("viewer"))
    assert (refused.status, refused.json["code"]) == (403, "not_allowed")


async def test_the_audit_comes_in_pages(caller: Caller) -> None:
    for name in ("one", "two", "three"):
        await caller.put(f"/api/v1/limits/{name}", {"concurrency": 1})
    first = (await caller.get("/api/v1/audit?limit=2")).json
    assert [row["subjects"] for row in first["items"]] == [["three"], ["two"]]
    assert {(row["user"], row["key"], row["deed"]) for row in first["items"]} == {("ann", "ann-admin", "set_limit")}
    rest = (await caller.get(f"/api/v1/audit?limit=2&cursor={first['next']}")).json
    assert ([row["subjects"] for row in rest["items"]], rest["next"]) == ([["one"]], None)
    assert (await caller.get("/api/v1/audit?deed=cancel&user=ann")).json["items"] == []
    assert (await caller.get(f"/api/v1/audit?deed=cancel&cursor={first['next']}")).json["what"] == "cursor"
    assert (await caller.get("/api/v1/audit?since=yesterday")).json["what"] == "since"
    assert (await caller.get("/api/v1/audit", key=secret("operator"))).status == 403


async def test_who_am_i(caller: Caller) -> None:
    await caller.post("/api/v1/users", {"name": "bob", "quotas": {"waiting": 7}})
    me = (await caller.get("/api/v1/me", key=secret("submitter", "bob"))).json
    assert (me["user"], me["role"], me["permissions"]) == ("bob", "submitter", ["order", "output", "read"])
    assert (me["quotas"]["waiting"], me["used"]) == (7, dict.fromkeys(USED, 0))
    worker = (await caller.get("/api/v1/me", key=secret("worker"))).json
    assert worker["permissions"] == ["work"]


async def test_a_used_up_quota_is_a_429_that_says_which(caller: Caller) -> None:
    await caller.post("/api/v1/users", {"name": "ann", "quotas": {"waiting": 0}})
    refused = await caller.post("/api/v1/jobs", {"command": ["true"]})
    assert (refused.status, refused.json["code"]) == (429, "quota_exceeded")
    assert (refused.json["quota"], refused.json["used"], refused.json["allowed"]) == ("waiting", 0, "0")


async def test_a_refusal_says_when_the_order_fits(caller: Caller) -> None:
    await caller.post("/api/v1/users", {"name": "ann", "quotas": {"submissions": "1/1m"}})
    order = {"command": ["true"]}
    assert (await caller.post("/api/v1/jobs", order)).status == 201
    refused = await caller.post("/api/v1/jobs", order)
    assert (refused.status, refused.json["quota"]) == (429, "submissions")
    assert 0 < refused.json["retry_after"] <= 60
    assert refused.headers["retry-after"] == str(refused.json["retry_after"])


async def test_times_in_the_audit_are_times(caller: Caller) -> None:
    await caller.post("/api/v1/users", {"name": "bea", "quotas": {"submissions": "5/1s"}})
    made = await caller.post("/api/v1/keys", {"user": "bea", "role": "viewer", "expires": "90d"})
    added, user = (await caller.get("/api/v1/audit")).json["items"]
    assert added["data"]["expires_at"] == made.json["key"]["expires_at"]
    assert user["data"] == {"quotas": {"submissions": "5/1s"}}


async def test_the_key_of_the_quota_for_running_jobs_is_nobodys(caller: Caller) -> None:
    await caller.post("/api/v1/users", {"name": "ann", "quotas": {"running": 1}})
    for answer in (
        await caller.put("/api/v1/limits/%20running", {"concurrency": 9}),
        await caller.delete("/api/v1/limits/%20running"),
        await caller.post("/api/v1/jobs", {"command": ["true"], "limits": {" running": 9}}),
        await caller.post("/api/v1/jobs", {"command": ["true"], "exclusive": " running"}),
    ):
        assert (answer.status, answer.json["what"]) == (400, "key"), answer.json
    assert (await caller.get("/api/v1/limits")).json["items"] == []
