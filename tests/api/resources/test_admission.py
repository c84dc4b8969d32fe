"""Gates, limits, queues, flows, nodes and tasks over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from rota.model.task import TaskInfo
from tests.api.caller import Caller, secret
from tests.api.resources.conftest import ANN
from tests.contracts.world import World


async def test_a_gate_is_closed_and_opened(world: World, caller: Caller) -> None:
    await world.one(ANN, queue="mail")
    closed = await caller.post("/api/v1/gates", {"queue": "mail", "reason": "server is down", "for": "1h"})
    assert (closed.status, closed.json["effect"], closed.json["matches"]) == (201, "pause", "queue mail")
    gate = closed.json["id"]
    assert [one["id"] for one in (await caller.get("/api/v1/gates")).json["items"]] == [gate]
    assert (await caller.get("/api/v1/gates", key=secret("viewer", "bob"))).json["items"] == []
    assert (await caller.post(f"/api/v1/gates/{gate}/open", key=secret("admin", "bob"))).status == 404
    assert (await caller.get(f"/api/v1/gates/{gate}")).json["reason"] == "server is down"
    assert (await caller.post(f"/api/v1/gates/{gate}/open")).json["id"] == gate
    assert (await caller.post(f"/api/v1/gates/{gate}/open")).status == 404
    drop = await caller.post("/api/v1/gates", {"effect": "drop", "all": True, "reason": "over"})
    assert (drop.json["effect"], drop.json["matches"]) == ("drop", "everything")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"reason": "x"}, "task, queue, user and label"),
        ({"queue": "mail"}, "reason"),
        ({"queue": "mail", "reason": ""}, "reason"),
        ({"queue": "mail", "reason": "x", "all": True}, "all"),
        ({"queue": "mail", "reason": "x", "until": "then"}, "until"),
        ({"queue": "mail", "reason": "x", "until": "2020-01-01T00:00:00Z"}, "until"),
        ({"queue": "mail", "reason": "x", "until": "2090-01-01T00:00:00Z", "for": "1h"}, "until and for"),
        ({"queue": "mail", "reason": "x", "for": "0s"}, "for"),
        ({"user": "bob", "reason": "x"}, "user"),
        ({"queue": "mail", "reason": "x", "effect": "burn"}, "effect"),
    ],
)
async def test_wrong_gates(world: World, caller: Caller, body: Any, what: str) -> None:
    async with world.unchanged():
        reply = await caller.post("/api/v1/gates", body)
    assert (reply.status, reply.json["what"]) == (400, what)


async def test_limits_by_version(caller: Caller) -> None:
    path = "/api/v1/limits/db%3Aeu%2F1"
    assert (await caller.get(path)).status == 404
    made = await caller.put(path, {"concurrency": 5}, headers={"if-none-match": "*"})
    assert made.json == {"key": "db:eu/1", "concurrency": 5, "rate": None}
    etag = made.headers["etag"]
    assert (await caller.get(path)).headers["etag"] == etag
    assert (await caller.get(path, headers={"if-none-match": etag})).status == 304
    changed = await caller.put(path, {"rate": "60/1m"}, headers={"if-match": etag})
    assert changed.json == {"key": "db:eu/1", "concurrency": None, "rate": "60/1m"}
    assert (await caller.put(path, {"concurrency": 1}, headers={"if-match": etag})).status == 412
    assert [one["key"] for one in (await caller.get("/api/v1/limits?key=db:eu/1&key=x")).json["items"]] == ["db:eu/1"]
    assert (await caller.get("/api/v1/limits", key=secret("viewer", "bob"))).json["items"] == []
    assert (await caller.delete(path, headers={"if-match": etag})).status == 412
    assert (await caller.delete(path)).status == 204
    assert (await caller.delete(path)).status == 404


@pytest.mark.parametrize(
    ("body", "what"),
    [({}, "concurrency and rate"), ({"concurrency": 0}, "concurrency"), ({"rate": "fast"}, "rate"), ({"n": 1}, "n")],
)
async def test_wrong_limits(caller: Caller, body: Any, what: str) -> None:
    reply = await caller.put("/api/v1/limits/db", body)
    assert (reply.status, reply.json["what"]) == (400, what)


async def test_queues_are_for_operators(world: World, caller: Caller) -> None:
    await world.one(ANN, queue="mail")
    path, operator = "/api/v1/queues/mail", secret("operator")
    before = await caller.get(path, key=secret("viewer"))
    assert (before.json["ready"], before.json["paused_at"]) == (1, None)
    etag = before.headers["etag"]
    await world.one(ANN, queue="mail")
    assert (await caller.get(path, headers={"if-none-match": etag})).status == 304  # jobs are no edit
    assert (await caller.post(f"{path}/pause", {"note": "x"}, key=secret("submitter"))).status == 403
    assert (await caller.post(f"{path}/pause", {"note": "x"}, key=operator)).json["note"] == "x"
    assert (await caller.post(f"{path}/pause", key=operator)).json["note"] == "x"
    assert (await caller.post(f"{path}/resume", key=operator)).json["paused_at"] is None
    changed = await caller.patch(path, {"step": "5m", "feedback": {"levels": 3}}, headers={"if-match": etag})
    assert (changed.json["step"], changed.json["feedback"]["levels"]) == ("5m", 3)
    assert (await caller.patch(path, {"step": "default"}, headers={"if-match": etag})).status == 412
    off = await caller.patch(path, {"feedback": None})
    assert (off.json["step"], off.json["feedback"]) == ("5m", None)
    assert "mail" in [one["name"] for one in (await caller.get("/api/v1/queues")).json["items"]]
    assert (await caller.get("/api/v1/flows")).json == {"items": [], "next": None}


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({}, "step and feedback"),
        ({"step": "soon"}, "step"),
        ({"step": None}, "step"),
        ({"feedback": {"levels": 0}}, "levels"),
        ({"feedback": {"level": 2}}, "feedback.level"),
    ],
)
async def test_wrong_settings_of_queues(caller: Caller, body: Any, what: str) -> None:
    reply = await caller.patch("/api/v1/queues/mail", body)
    assert (reply.status, reply.json["what"]) == (400, what)


async def test_nodes_and_tasks(world: World, caller: Caller) -> None:
    task = TaskInfo("mail.send", ("to",), ("to",), types={"to": ("string",)})
    node = await world.node("one", tasks=[task])
    (shown,) = (await caller.get("/api/v1/nodes", key=secret("viewer"))).json["items"]
    assert (shown["id"], shown["state"], shown["slots"]) == ("one", "live", 4)
    (listed,) = (await caller.get("/api/v1/tasks")).json["items"]
    assert listed["parameters"] == [{"name": "to", "types": ["string"], "required": True}]
    found = (await caller.get("/api/v1/tasks/mail.send")).json
    assert (found["nodes"], found["jobs"]) == (["one"], {"live": 0, "dead": 0})
    assert (await caller.get("/api/v1/tasks/mail.sent")).json["code"] == "not_found"
    await node.store.leave(ANN.__class__("rota", system=True), node.incarnation)
    assert (await caller.get("/api/v1/nodes")).json["items"] == []
    assert len((await caller.get("/api/v1/nodes?past=true")).json["items"]) == 1
