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


def nested(depth: int) -> Any:
    found: Any = {"type": "all", "of": []}
    for _ in range(depth):
        found = {"type": "not", "of": found}
    return found


def term(field: str, how: str, value: Any, **more: Any) -> Any:
    return {"type": "term", "field": field, "how": how, "value": value, **more}


# Searches that no client of rota's own makes, and a word of what each is answered.
WRONG_SEARCHES: list[tuple[dict[str, Any], str]] = [
    ({"where": term("owner", "is", "bob")}, 'there is no field \\"owner\\"'),
    ({"where": term("j.owner = 'bob' OR 1", "is", 1)}, "there is no field"),
    ({"where": term("stream", "is", "stdout")}, "it is one of lines"),
    ({"where": term("task", "below", "a")}, "can't be compared by"),
    ({"where": term("priority", "is", "high")}, "does not fit it"),
    ({"where": term("priority", "is", 1 << 63)}, "64 bits"),
    ({"where": term("state", "is", "lost")}, "no state is"),
    ({"where": term("task", "is", "a", path=["b"])}, "has no parts"),
    ({"where": term("args", "is", 1)}, "needs the name of a value"),
    ({"where": term("args", "is", 1, path=["a"] * 11)}, "at most 10 parts"),
    ({"where": term("task", "is", "a\0b")}, "NUL"),
    ({"where": term("task", "is", "x" * 1_001)}, "too long"),
    ({"where": {"type": "text", "seek": "regex", "text": "("}}, "the regular expression is not valid"),
    ({"where": {"type": "text", "seek": "word", "text": "a b"}}, "a word has letters"),
    ({"where": {"type": "any", "of": [term("task", "is", "a")] * 201}}, "too many conditions"),
    ({"where": nested(41)}, "nested too deeply"),
    ({"where": {"type": "sql", "text": "1"}}, "where"),
    ({"sort": {"field": "args"}}, "sort"),
    ({"sort": {"field": "id DESC; --"}}, "sort"),
    ({"limit": -1}, "limit"),
    ({"limit": 10_001}, "limit"),
]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("query", "said"), WRONG_SEARCHES, ids=[said[:20] for _, said in WRONG_SEARCHES])
@pytest.mark.parametrize("verb", ["page", "count", "counted", "facets", "error_groups"])
async def test_of_a_search_that_comes_over_the_wire_nothing_is_believed(
    world: World, verb: str, query: dict[str, Any], said: str
) -> None:
    reply = await Caller(world).post(f"/api/v1/calls/{verb}", {"query": query})
    assert reply.status == 400, reply
    assert said.encode() in reply.body.replace(b"\\u0000", b""), reply.body


async def test_groups_over_the_wire_take_conditions_on_fields_only(world: World) -> None:
    where = {"type": "not", "of": {"type": "text", "seek": "word", "text": "refused"}}
    reply = await Caller(world).post("/api/v1/calls/error_groups", {"query": {"where": where}})
    assert (reply.status, reply.json["code"]) == (400, "invalid_query")


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ({"after": {"id": "x", "value": "text"}, "sort": {"field": "took"}}, "cursor"),
        ({"after": {"id": "\0"}}, "query.after.id"),
        ({"after": {"id": "x", "ended_at": 1 << 63}}, "query.after.ended_at"),
    ],
)
async def test_a_place_that_is_none_is_refused(world: World, query: dict[str, Any], what: str) -> None:
    node = await world.node()
    await world.one(Principal("ann"))
    await node.run()
    reply = await Caller(world).post("/api/v1/calls/page", {"query": query})
    assert (reply.status, reply.json["what"]) == (400, what), reply


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"field": "args", "prefix": "", "limit": 5}, "field"),
        ({"field": "owner", "prefix": "", "limit": 5}, "field"),
        ({"field": "task", "prefix": "", "limit": -1}, "limit"),
        ({"field": "task", "prefix": "", "limit": 10_001}, "limit"),
        ({"field": "task", "prefix": "\0", "limit": 5}, "prefix"),
        ({"field": "task", "prefix": "x" * 2_000, "limit": 5}, "query"),
    ],
)
async def test_wrong_completions_are_named(world: World, given: dict[str, Any], what: str) -> None:
    reply = await Caller(world).post("/api/v1/calls/values", given)
    assert (reply.status, reply.json["what"]) == (400, what), reply
