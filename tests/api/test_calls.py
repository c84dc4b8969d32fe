"""Calls of rota's own clients: who may call which verb, and for whom a call acts."""

from __future__ import annotations

from typing import Any

import pytest

from rota.api import calls
from rota.model.access import Permission, Role
from rota.model.job import Spec
from rota.model.principal import Principal
from rota.model.times import MINUTE
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import Advance, NewFire, StoredSchedule
from rota.model.trigger.skipped import Skipped, SkipReason
from rota.remote.versions import HEADER, OURS
from rota.store.base import Store
from rota.store.values import JobFilter
from rota.store.verbs import NODE, verbs
from tests.api.caller import Caller, secret
from tests.contracts.timetables import NAME, keep, standing
from tests.contracts.world import World

ROUTES = {route.path.rpartition("/")[2]: route for route in calls.routes()}


def test_every_verb_of_people_has_a_route_and_no_verb_of_nodes_has() -> None:
    assert ROUTES.keys() == {name for name, verb in verbs(Store).items() if verb.by is not NODE}


def test_permissions_are_those_of_the_declarations() -> None:
    assert ROUTES["get_many"].permission is Permission.READ
    for name in ("output", "find_lines", "segments", "segment_extent", "unsealed"):
        assert ROUTES[name].permission is Permission.OUTPUT, name
    assert ROUTES["submit"].permission is Permission.ORDER
    assert ROUTES["pause_queue"].permission is Permission.OPERATE


@pytest.mark.parametrize("role", Role)
async def test_each_role_may_call_what_it_has_the_permission_for(world: World, role: Role) -> None:
    caller = Caller(world)
    for name, body in (("counts", {}), ("cancel", {"ids": ["x"], "reason": ""}), ("resume_queue", {"name": "mail"})):
        permission = ROUTES[name].permission
        assert isinstance(permission, Permission)
        reply = await caller.post(f"/api/v1/calls/{name}", body, key=secret(role))
        assert reply.status == (200 if caller.keys.grants[secret(role)].allows(permission) else 403), (name, reply)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUBMITTER])
async def test_who_may_not_read_output_may_not_search_it(world: World, role: Role) -> None:
    """A viewer reads jobs, not what they print."""
    caller = Caller(world)
    for name in ("segments", "segment_extent", "unsealed"):
        reply = await caller.post(f"/api/v1/calls/{name}", {"scan": {}}, key=secret(role))
        assert reply.status == (403 if role is Role.VIEWER else 200), (name, reply)
    reply = await caller.post("/api/v1/calls/find_lines", {"query": {}}, key=secret(role))
    assert reply.status == (403 if role is Role.VIEWER else 200), reply


async def test_a_call_acts_for_the_user_of_the_key(world: World) -> None:
    caller = Caller(world)
    await world.store.submit(Principal("bob"), [[world.job()]])
    assert (await caller.post("/api/v1/calls/counts", {}, key=secret("viewer", "ann"))).json == {}
    assert (await caller.post("/api/v1/calls/counts", {}, key=secret("viewer", "bob"))).json == {"ready": 1}
    reply = await caller.post("/api/v1/calls/counts", {"who": {"user": "bob"}}, key=secret("viewer", "ann"))
    assert (reply.status, reply.json["what"]) == (400, "who")


async def test_an_answer_of_nothing_is_null(world: World) -> None:
    reply = await Caller(world).post("/api/v1/calls/get_many", {"ids": ["nothing"]})
    assert (reply.status, reply.body) == (200, b"[null]")


async def test_answers_carry_version_and_time(world: World) -> None:
    reply = await Caller(world).post("/api/v1/calls/counts", {})
    assert (reply.headers[HEADER], reply.headers["rota-time"]) == (OURS, str(world.store.now()))


async def test_a_client_of_another_version_is_refused(world: World) -> None:
    reply = await Caller(world).post("/api/v1/calls/counts", {}, headers={HEADER: "9.9.9"})
    assert reply.status == 426
    assert (reply.json["code"], reply.json["client"], reply.json["server"]) == ("wrong_version", "9.9.9", OURS)


async def test_orders_beyond_the_rights_of_a_key_are_refused_whole(world: World) -> None:
    caller = Caller(world)
    function = world.job(task="mail", spec=Spec.function("mail"))
    body = {"orders": [[function], [world.job()]]}
    reply = await caller.post("/api/v1/calls/submit", body, key=secret("submitter"))
    assert (reply.status, reply.json["code"]) == (403, "not_allowed")
    assert await world.store.counts(Principal("ann")) == {}
    assert (await caller.post("/api/v1/calls/submit", {"orders": [[function]]}, key=secret("submitter"))).status == 200
    assert await world.store.counts(Principal("ann")) == {"ready": 1}


async def test_a_step_of_a_schedule_makes_what_its_rule_says_and_nothing_else(world: World) -> None:
    ann = Principal("ann")
    info = await keep(world, who=ann)
    caller = Caller(world)
    forged = [NewFire(info.handled + place, world.job(task="forged")) for place in range(1, 4)]

    async def advance(info: StoredSchedule) -> Any:
        step = Advance(
            owner="ann", name=NAME, revision=info.revision, before=info.handled, fires=forged,
            skips=[Skipped(5, 4, 1, SkipReason.MISSED)], handled=-1, next_at=-1, limit=0, overlap=Overlap.ALLOW,
        )  # fmt: skip
        reply = await caller.post("/api/v1/calls/advance", {"steps": [step]}, key=secret("submitter"))
        assert reply.status == 200, reply
        return reply.json

    assert await advance(info) == [None], "nothing is due"
    world.clock.advance(61)
    assert await advance(info) == [["made"]]
    assert await advance(info) == [None], "it has moved on"
    assert [job.task for job in (await world.store.page(ann, JobFilter())).jobs] == ["true"]
    after = await standing(world, who=ann)
    assert info.next_at is not None
    assert (after.handled, after.next_at) == (info.next_at, info.next_at + MINUTE)


async def test_a_page_of_no_jobs_is_empty(world: World) -> None:
    reply = await Caller(world).post("/api/v1/calls/page", {"query": {"limit": 0}})
    assert (reply.status, reply.json["jobs"]) == (200, [])
