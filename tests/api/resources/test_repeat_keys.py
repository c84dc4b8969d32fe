"""Idempotency keys: what they belong to, what is kept of their requests, and repeats while the first try runs."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest

from rota.api import trails
from rota.model.access_keys import key_hash
from rota.model.job import Membership
from rota.model.principal import SYSTEM
from rota.model.repeats import key_name
from rota.model.times import DAY
from rota.store.values import JobFilter
from tests.api.caller import Caller, secret
from tests.api.resources.conftest import ANN
from tests.api.resources.repeated import GATE, KEY, SCHEDULE, Asked, ask, audit, same
from tests.api.resources.test_schedules import NIGHTLY
from tests.contracts.world import World


# -- the key for something else ----------------------------------------------------------------------------------------
async def test_the_key_for_another_request_is_refused(world: World, caller: Caller, other: Caller) -> None:
    jobs = await world.several(2, ANN, delay=DAY)
    path = "/api/v1/jobs/{}/cancel"
    assert (await caller.post(path.format(jobs[0]), {"reason": "r"}, headers=KEY)).status == 200
    async with world.unchanged():
        for server in (caller, other):
            for asked in (
                ("POST", path.format(jobs[0]), {"reason": "other"}),
                ("POST", path.format(jobs[1]), {"reason": "r"}),
                ("PUT", "/api/v1/limits/db", {"concurrency": 1}),
            ):
                reply = await ask(server, asked)
                assert (reply.status, reply.json["code"]) == (422, "idempotency_key_reused")
    assert (await caller.post(path.format(jobs[0]), {"reason": "r"}, headers=KEY)).status == 200


async def test_conditions_belong_to_the_request(world: World, caller: Caller) -> None:
    asked: Asked = ("PUT", "/api/v1/limits/db", {"concurrency": 1})
    first = await ask(caller, asked, {"if-none-match": "*"})
    assert same(first, await ask(caller, asked, {"if-none-match": "*"})), "though it is there by now"
    assert (await ask(caller, asked)).status == 422


async def test_keys_belong_to_their_users(world: World, caller: Caller) -> None:
    asked: Asked = ("POST", "/api/v1/gates", GATE)
    replies = [await ask(caller, asked, key=secret("admin", user)) for user in ("ann", "bob")]
    assert len({reply.json["id"] for reply in replies}) == 2


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
async def test_wrong_keys(caller: Caller, key: str) -> None:
    reply = await caller.post("/api/v1/gates", GATE, headers={"idempotency-key": key})
    assert (reply.status, reply.json["what"]) == (400, "Idempotency-Key")


async def test_refusals_and_failures_are_not_kept(world: World, caller: Caller) -> None:
    asked: Asked = ("POST", f"{SCHEDULE}/fire", None)
    assert (await ask(caller, asked)).status == 404
    await caller.put(SCHEDULE, NIGHTLY)
    assert (await ask(caller, asked)).status == 201


async def test_a_repeat_is_forgotten_after_a_day(world: World, caller: Caller) -> None:
    asked: Asked = ("POST", "/api/v1/gates", GATE)
    first = await ask(caller, asked)
    world.clock.advance(24 * 3600 + 1)
    assert (await ask(caller, asked)).json["id"] != first.json["id"]


# -- what is kept ------------------------------------------------------------------------------------------------------
async def test_the_text_of_a_key_is_made_again_and_never_kept(world: World, caller: Caller, other: Caller) -> None:
    await caller.post("/api/v1/users", {"name": "bea"})
    asked: Asked = ("POST", "/api/v1/keys", {"user": "bea", "role": "viewer"})
    first = await ask(caller, asked)
    assert same(first, await ask(other, asked))
    text = first.json["secret"]
    grant = await world.store.grant_of(SYSTEM, key_hash(text))
    assert grant is not None
    assert grant.user == "bea"
    kept = await content(world)
    assert b"bea" in kept
    assert text.encode() not in kept
    assert text.rpartition("_")[2].encode() not in kept
    assert key_hash(text).encode() not in kept
    # Another access key of the same user is not told.
    other.keys.grants[secret("second")] = next(
        grant for grant in other.keys.grants.values() if grant.key == "ann-admin"
    )
    refused = await ask(other, asked, key=secret("second"))
    assert (refused.status, refused.json["code"]) == (409, "answer_not_kept")
    assert len(await world.store.keys(SYSTEM)) == 1
    another = await caller.with_json(*asked, headers={"idempotency-key": "new"})
    assert another.json["secret"] != text


async def test_arguments_of_jobs_are_not_kept(world: World, caller: Caller) -> None:
    await world.one(ANN, delay=DAY, args='{"password": "hunter2"}')
    assert (await ask(caller, ("POST", "/api/v1/jobs/cancel", {"queue": "default"}))).json["changed"] == 1
    kept = await content(world)
    assert b'"page"' in kept
    assert b"hunter2" not in kept


async def test_arguments_of_workflows_are_not_kept(world: World, caller: Caller) -> None:
    flow = Membership("01900000-0000-7000-8000-000000000009", "w", new=True)
    await world.one(ANN, delay=DAY, args='{"password": "hunter2"}', workflow=flow)
    assert (await ask(caller, ("POST", f"/api/v1/workflows/{flow.id}/cancel", None))).json["jobs"] == 1
    kept = await content(world)
    assert b'"workflow"' in kept
    assert b"hunter2" not in kept


async def content(world: World) -> bytes:
    """All that is kept of the request."""
    steps = await world.store.repeat_steps(SYSTEM, "ann", key_name(KEY["idempotency-key"]))
    return b"".join(zlib.decompress(step.content or b"") for step in steps)


async def test_an_answer_that_is_too_large_is_not_kept_but_its_effect_is_one(
    world: World, caller: Caller, other: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trails, "LARGEST", 10)
    asked: Asked = ("POST", "/api/v1/gates", GATE)
    assert (await ask(caller, asked)).status == 201
    async with world.unchanged():
        reply = await ask(other, asked)
    assert (reply.status, reply.json["code"]) == (409, "answer_not_kept")


async def test_a_request_without_a_key_keeps_nothing(world: World, caller: Caller) -> None:
    for _ in range(2):
        assert (await caller.post("/api/v1/gates", GATE)).status == 201
    assert world.backend.contents("repeats") == {"repeats": []}
    assert len(await world.store.gates(ANN)) == 2


# -- in flight ---------------------------------------------------------------------------------------------------------
async def test_on_the_same_server_a_repeat_waits(world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = await world.several(1, ANN, delay=DAY)
    cancel, begun, go_on = world.store.cancel, asyncio.Event(), asyncio.Event()

    async def slow(*args: Any, **named: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await cancel(*args, **named)

    monkeypatch.setattr(world.store, "cancel", slow)
    path = f"/api/v1/jobs/{jobs[0]}/cancel"
    first = asyncio.create_task(caller.post(path, headers=KEY))
    await begun.wait()
    second = asyncio.create_task(caller.post(path, headers=KEY))
    other_body = await caller.post(path, {"reason": "other"}, headers=KEY)
    assert (other_body.status, other_body.json["code"]) == (422, "idempotency_key_reused")
    first.cancel()  # its caller has gone, and the next try gets the answer
    go_on.set()
    assert (await second).status == 200
    assert len(await world.store.find(SYSTEM, JobFilter(ids=tuple(jobs)))) == 1
    assert [row.deed for row in await audit(world)].count("cancel") == 1
