"""The application: checks in their order, and what callers learn who have no key."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from rota.api.answers import Answer, Stream
from rota.api.requests import Request
from rota.api.routes import PUBLIC, Routes
from rota.errors import StoreUnavailable
from rota.model.access import Permission
from rota.telemetry.events import RequestFailed
from tests.api.caller import Caller, secret
from tests.contracts.world import World

TEST = Routes("test")


class Parcel(msgspec.Struct, forbid_unknown_fields=True):
    weight: int
    contents: list[dict[str, object]] = []


class Search(msgspec.Struct, forbid_unknown_fields=True):
    limit: int = 10
    state: list[str] = []


@TEST.post("/api/v1/parcels/{name}", Permission.ORDER, "Sends a parcel")
async def send_parcel(request: Request[Parcel, Search]) -> Answer[Parcel]:
    assert request.principal.user == request.grant.user
    return Answer(request.body, headers={"x-name": request.path["name"], "x-limit": str(request.query.limit)})


@TEST.delete("/api/v1/parcels/{name}", Permission.ORDER, "Takes it back")
async def take_back(request: Request[None, None]) -> None:
    if request.path["name"] == "lost":
        raise StoreUnavailable("postgresql://secret@10.0.0.1 does not answer")
    if request.path["name"] == "broken":
        raise KeyError("a secret")


@TEST.get("/api/v1/parcels", PUBLIC, "A stream")
async def watch(request: Request[None, None]) -> Stream:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    return Stream(pieces())


@pytest.fixture
def caller(world: World) -> Caller:
    return Caller(world, TEST)


# -- who may know what ------------------------------------------------------------------------------------------------
async def test_without_a_key_every_path_but_public_ones_looks_the_same(caller: Caller) -> None:
    paths = ["/api/v1/parcels/a", "/api/v1/nothing", "/", "/api/v1/parcels/a/", "//api/v1/parcels", "/API/v1/parcels"]
    replies = [await caller.call(method, path, key=None) for path in paths for method in ("GET", "DELETE", "BREW")]
    replies.append(await caller.call("POST", "/api/v1/parcels", key=None))
    assert {reply.status for reply in replies} == {401}
    assert len({(reply.body, tuple(reply.headers.items())) for reply in replies}) == 1
    assert (await caller.get("/api/v1/parcels", key=None)).body == b"one two"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/parcels/",
        "/api/v1/parcels/a/",
        "/api/v1//parcels/a",
        "/api/v1/parcels//a",
        "/api/v1/PARCELS/a",
        "/api/v1/%70arcels/a",
        "/api/v1/parcels%2Fa",
        "/api/v1/parcels/%2e%2e",
        "/api/v1/parcels/..",
        "/api/v1/parcels/.",
        "/api/v1/parcels/%61",
        "/api/v1/parcels/%6",
        "/api/v1/parcels/%ff",
        "/api/v1/parcels/a%00",
        "/api/v1/parcels/a;x=1/..",
        "/api/v1/parcels/a.json/x",
        "/api/v1",
        "/api/v2/parcels/a",
    ],
)
async def test_paths_are_exact(caller: Caller, path: str) -> None:
    reply = await caller.call("DELETE", path)
    assert (reply.status, reply.json["code"]) == (404, "no_such_route")


async def test_a_name_may_contain_what_paths_must_encode(caller: Caller) -> None:
    reply = await caller.post("/api/v1/parcels/a%2Fb%20%25", {"weight": 1})
    assert reply.headers["x-name"] == "a/b %"


async def test_methods_are_told_to_those_with_a_key(caller: Caller) -> None:
    reply = await caller.get("/api/v1/parcels/a")
    assert (reply.status, reply.headers["allow"]) == (405, "DELETE, OPTIONS, POST")
    assert (await caller.call("HEAD", "/api/v1/parcels/a")).status == 405  # there is no GET


async def test_a_role_without_the_permission_is_refused_before_its_body_is_read(caller: Caller) -> None:
    reply = await caller.post("/api/v1/parcels/a", key=secret("viewer"), body=b"{")
    assert (reply.status, reply.json["code"], reply.json["user"]) == (403, "not_allowed", "ann")


# -- bodies and queries -----------------------------------------------------------------------------------------------
async def test_bodies_and_queries_arrive_as_their_types(caller: Caller) -> None:
    reply = await caller.post("/api/v1/parcels/a?limit=3&state=x&state=y", {"weight": 2})
    assert (reply.status, reply.headers["x-limit"], reply.json["weight"]) == (200, "3", 2)
    assert (await caller.call("DELETE", "/api/v1/parcels/a")).status == 204


@pytest.mark.parametrize(
    ("json", "what"),
    [
        ({"weight": "2"}, "weight"),
        ({}, "weight"),
        ({"weight": 2, "wieght": 2}, "wieght"),
        ({"weight": 2, "contents": [{"a": 1}, 5]}, "contents[1]"),
        ([], "body"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_with_the_field(caller: Caller, json: object, what: str) -> None:
    reply = await caller.post("/api/v1/parcels/a", json)
    assert (reply.status, reply.json["code"], reply.json["what"]) == (400, "invalid_input", what)
    assert reply.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("query", "what"),
    [("limit=x", "limit"), ("limit=1&limit=2", "limit"), ("lmit=1", "query parameter"), ("%ff=1", "query")],
)
async def test_a_query_that_does_not_fit_is_refused_with_the_parameter(caller: Caller, query: str, what: str) -> None:
    reply = await caller.post(f"/api/v1/parcels/a?{query}", {"weight": 2})
    assert (reply.status, reply.json["what"]) == (400, what)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"weight": 1} x', b"[" * 5000, b'{"weight": 1e999}'])
async def test_a_body_that_is_no_json_is_refused(caller: Caller, body: bytes) -> None:
    reply = await caller.post("/api/v1/parcels/a", body=body, headers={"content-type": "application/json"})
    assert (reply.status, reply.json["code"]) == (400, "invalid_input")


@pytest.mark.parametrize("media", [None, "text/plain", "application/x-www-form-urlencoded", "application/json; a=b"])
async def test_a_body_of_another_type_is_refused(caller: Caller, media: str | None) -> None:
    reply = await caller.post("/api/v1/parcels/a", body=b'{"weight": 1}', headers={"content-type": media})
    assert reply.status == 415


async def test_a_body_that_is_too_large_is_not_read_to_its_end(caller: Caller) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield b" " * 10_000

    for body in (b" " * 100_001, endless()):
        reply = await caller.post("/api/v1/parcels/a", body=body, headers={"content-type": "application/json"})
        assert (reply.status, reply.json["code"], reply.json["limit"]) == (413, "too_large", 100_000)
    assert read == 11


async def test_a_route_without_a_body_takes_none(caller: Caller) -> None:
    reply = await caller.call("DELETE", "/api/v1/parcels/a", body=b"{}")
    assert (reply.status, reply.json["what"]) == (400, "body")


# -- errors -----------------------------------------------------------------------------------------------------------
async def test_a_store_that_is_away_is_no_fault_of_the_caller(caller: Caller) -> None:
    reply = await caller.call("DELETE", "/api/v1/parcels/lost")
    assert (reply.status, reply.json["code"], reply.headers["retry-after"]) == (503, "store_unavailable", "1")
    assert b"secret" not in reply.body


async def test_an_unexpected_error_has_an_incident_and_its_trace_stays_in_the_log(caller: Caller) -> None:
    reply = await caller.call("DELETE", "/api/v1/parcels/broken")
    assert (reply.status, reply.json["code"]) == (500, "internal_error")
    assert b"secret" not in reply.body
    (told,) = caller.told
    assert isinstance(told, RequestFailed)
    assert told.incident == reply.json["incident"]
    assert "KeyError: 'a secret'" in told.trace


async def test_answers_are_not_kept_by_caches_nor_guessed_at(caller: Caller) -> None:
    for key in (None, secret("admin")):
        reply = await caller.call("DELETE", "/api/v1/parcels/a", key=key)
        assert (reply.headers["cache-control"], reply.headers["x-content-type-options"]) == ("no-store", "nosniff")
