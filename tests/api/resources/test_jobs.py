"""Jobs over HTTP: lists, single jobs, their output, and changes of one or many."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from rota.api.pages import cursor_of
from rota.model.principal import SYSTEM, Principal
from rota.store.values import Chunk
from tests.api.caller import Caller, secret
from tests.api.resources.conftest import ANN
from tests.contracts.world import FATAL, World

ABSENT = "00000000-0000-7000-8000-000000000000"


async def test_a_job_is_shown_to_its_owner_alone(world: World, caller: Caller) -> None:
    job = await world.one(ANN)
    reply = await caller.get(f"/api/v1/jobs/{job}")
    assert (reply.status, reply.json["id"], reply.json["state"]) == (200, job, "ready")
    for key in (secret("admin", "bob"), secret("viewer", "bob")):
        for path in ("", "/attempts", "/explain", "/relations"):
            other, absent = [await caller.get(f"/api/v1/jobs/{one}{path}", key=key) for one in (job, ABSENT)]
            assert (other.status, other.json["code"]) == (404, "not_found")
            assert other.body.replace(job.encode(), b"") == absent.body.replace(ABSENT.encode(), b"")


async def test_the_truth_about_a_job_can_be_asked_for(
    world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await world.one(ANN)
    path, verbs = f"/api/v1/jobs/{job}", list[str]()
    for name in ("get_many", "glance"):
        monkeypatch.setattr(world.store, name, noting(verbs, name, getattr(world.store, name)))
    for query in ("", "?fresh=0", "?fresh=false", "?fresh=1", "?fresh=true"):
        verbs.clear()
        reply = await caller.get(path + query)
        assert (reply.status, reply.json["id"]) == (200, job)
        assert verbs[0] == ("get_many" if query in ("?fresh=1", "?fresh=true") else "glance")
    for query in ("?fresh=", "?fresh=2", "?fresh=yes", "?fresh", "?fresh=1&fresh=0", "?fersh=1"):
        reply = await caller.get(path + query)
        assert reply.status == 400, query
        assert "fresh" in reply.json["detail"] or "fersh" in reply.json["detail"]


def noting(verbs: list[str], name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any) -> Any:
        verbs.append(name)
        return call(*args)

    return noted


# -- lists -----------------------------------------------------------------------------------------------------------
async def listed(caller: Caller, path: str, **more: Any) -> list[str]:
    """The ids of all pages."""
    found, cursor = [], ""
    while True:
        reply = await caller.get(f"{path}{'&' if '?' in path else '?'}limit=2{cursor}", **more)
        assert reply.status == 200, reply
        found += [one["id"] for one in reply.json["items"]]
        if reply.json["next"] is None:
            return found
        cursor = f"&cursor={reply.json['next']}"


async def test_pages_have_each_job_once(world: World, caller: Caller) -> None:
    jobs = await world.several(5, ANN)
    await world.several(2, Principal("bob"))
    assert await listed(caller, "/api/v1/jobs") == sorted(jobs, reverse=True)


async def test_filters(world: World, caller: Caller) -> None:
    mail = await world.one(ANN, queue="mail", task="mail.send")
    later = await world.one(ANN, delay=90_000_000)
    assert await listed(caller, "/api/v1/jobs?queue=mail") == [mail]
    assert await listed(caller, "/api/v1/jobs?task=mail.*") == [mail]
    assert await listed(caller, "/api/v1/jobs?state=scheduled&state=running") == [later]
    assert await listed(caller, "/api/v1/jobs?created_after=2090-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("state=lost", "state[0]"),
        ("limit=0", "limit"),
        ("limit=ten", "limit"),
        ("limit=1001", "limit"),
        ("order=id", "query parameter"),
        ("queue=", "queue"),
        ("queue=a&queue=b", "queue"),
        ("error=%00", "error"),
        ("older_than=soon", "older_than"),
        ("older_than=1s&ended_before=2027-01-01T00:00:00Z", "older_than"),
        ("created_after=yesterday", "created_after"),
        ("cursor=x", "cursor"),
        ("cursor=", "cursor"),
        (f"cursor={cursor_of(['x', None], {})}", "cursor"),
        (f"cursor={cursor_of([ABSENT, 7], {})}", "cursor"),
        (f"cursor={cursor_of([ABSENT, None], {'queue': 'mail'})}", "cursor"),
        (f"state=failed&cursor={cursor_of([ABSENT, None], {'state': ['failed']})}", "cursor"),
    ],
)
async def test_wrong_parameters_are_named(caller: Caller, query: str, what: str) -> None:
    reply = await caller.get(f"/api/v1/jobs?{query}")
    assert (reply.status, reply.json["what"]) == (400, what)


async def test_conditions_are_values_never_sql(world: World, caller: Caller) -> None:
    await world.one(ANN)
    for text in ("' OR 1=1 --", "%25", "_", "a;b", "\\"):
        for name in ("queue", "label", "error", "schedule"):
            reply = await caller.get(f"/api/v1/jobs?{name}={text.replace(' ', '%20').replace(';', '%3B')}")
            assert (reply.status, reply.json["items"]) == (200, [])


# -- parts of a job --------------------------------------------------------------------------------------------------
async def test_output_in_pages_as_text_and_bytes(world: World, caller: Caller) -> None:
    job = await world.one(ANN)
    node = await world.node()
    (claimed,) = await node.claim()
    bodies = [b"one\n", b"\xff\x00two", b"three"]
    streams = ["stdout", "stderr", "stdout"]
    chunks = [
        Chunk(job, claimed.fence, n, world.clock.now(), stream, body)
        for n, (stream, body) in enumerate(zip(streams, bodies, strict=True))
    ]
    await world.store.append_output(SYSTEM, chunks)
    first = (await caller.get(f"/api/v1/jobs/{job}/output?limit=2")).json
    assert [one["text"] for one in first["items"]] == ["one\n", "\ufffd\0two"]
    assert base64.b64decode(first["items"][1]["base64"]) == bodies[1]
    assert (first["items"][0]["attempt"], first["items"][0]["base64"], first["complete"]) == (1, None, False)
    rest = (await caller.get(f"/api/v1/jobs/{job}/output?cursor={first['next']}")).json
    assert ([one["text"] for one in rest["items"]], rest["complete"]) == (["three"], False)
    await node.finish(claimed, FATAL)
    done = (await caller.get(f"/api/v1/jobs/{job}/output?cursor={rest['next']}")).json
    assert (done["items"], done["complete"]) == ([], True)
    assert [one["text"] for one in (await caller.get(f"/api/v1/jobs/{job}/output?stream=stderr")).json["items"]]
    assert (await caller.get(f"/api/v1/jobs/{job}/output?attempt=7")).status == 404
    assert (await caller.get(f"/api/v1/jobs/{job}/output", key=secret("viewer"))).status == 403
    assert (await caller.get(f"/api/v1/jobs/{job}/output", key=secret("admin", "bob"))).status == 404


async def test_attempts_explanation_and_relations(world: World, caller: Caller) -> None:
    parent = await world.one(ANN)
    (child,) = await world.submit(world.child(parent), who=ANN)
    reasons = (await caller.get(f"/api/v1/jobs/{child}/explain")).json["reasons"]
    assert reasons[0]["kind"] == "parent"
    related = (await caller.get(f"/api/v1/jobs/{child}/relations")).json
    assert [one["id"] for one in related["parents"]] == [parent]
    node = await world.node()
    (claimed,) = await node.claim()
    await node.finish(claimed, FATAL)
    attempts = (await caller.get(f"/api/v1/jobs/{parent}/attempts")).json["items"]
    assert [(one["number"], one["outcome"]) for one in attempts] == [(1, "failed")]


# -- changes ---------------------------------------------------------------------------------------------------------
async def test_one_job_is_cancelled_and_retried(world: World, caller: Caller) -> None:
    job = await world.one(ANN)
    reply = await caller.post(f"/api/v1/jobs/{job}/priority", {"priority": 1})
    assert reply.json == {"id": job, "done": True, "answer": "changed"}
    assert (await caller.post(f"/api/v1/jobs/{job}/cancel", {"reason": "no"})).json["answer"] == "cancelled"
    assert (await world.info(job)).reason == "no"
    again = await caller.post(f"/api/v1/jobs/{job}/cancel")
    assert (again.status, again.json["code"], again.json["state"]) == (409, "illegal_event", "cancelled")
    assert (await caller.post(f"/api/v1/jobs/{job}/retry")).json["answer"] == "retried"
    await world.promote()
    await (await world.node()).claim()
    assert (await caller.post(f"/api/v1/jobs/{job}/retry")).json["state"] == "running"
    assert (await caller.post(f"/api/v1/jobs/{job}/priority", {"priority": 11})).json["what"] == "priority"


@pytest.mark.parametrize("verb", ["jobs/{}/cancel", "jobs/{}/retry", "dead/{}/replay", "dead/{}/purge"])
async def test_a_job_of_another_is_changed_by_nobody(world: World, caller: Caller, verb: str) -> None:
    job = await world.one(Principal("bob"))
    async with world.unchanged():
        other, absent = [await caller.post(f"/api/v1/{verb.format(one)}") for one in (job, ABSENT)]
    assert other.status == absent.status == 404
    assert other.body.replace(job.encode(), b"") == absent.body.replace(ABSENT.encode(), b"")


async def test_many_jobs_are_changed_by_conditions(world: World, caller: Caller) -> None:
    mail = await world.several(3, ANN, queue="mail")
    other = await world.one(ANN)
    await world.one(Principal("bob"), queue="mail")
    preview = (await caller.post("/api/v1/jobs/cancel", {"queue": "mail", "dry_run": True})).json
    assert (preview["matched"], preview["changed"], len(preview["jobs"])) == (3, 0, 3)
    reply = await caller.post("/api/v1/jobs/priority", {"ids": [other], "priority": 1})
    assert (reply.json["matched"], reply.json["changed"]) == (1, 1)
    done = (await caller.post("/api/v1/jobs/cancel", {"queue": "mail", "reason": "over"})).json
    assert (done["matched"], done["changed"], done["more"], done["dry_run"]) == (3, 3, False, False)
    assert {(await world.info(job)).reason for job in mail} == {"over"}
    assert (await caller.post("/api/v1/jobs/retry", {"state": ["cancelled"]})).json["changed"] == 3


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({}, "cancel many jobs"),
        ({"ids": ["x"]}, "ids[0]"),
        ({"ids": [ABSENT] * 1_001}, "ids"),
        ({"queue": "a", "limit": 0}, "limit"),
        ({"queue": "a", "owner": "bob"}, "owner"),
        ({"queue": "a", "reason": 7}, "reason"),
    ],
)
async def test_wrong_changes_are_named(caller: Caller, body: dict[str, Any], what: str) -> None:
    reply = await caller.post("/api/v1/jobs/cancel", body)
    assert (reply.status, reply.json["what"]) == (400, what)
