"""HEAD, OPTIONS, methods that are not there, and other spellings of the paths, on all routes and as each role."""

from __future__ import annotations

import pytest

from rota.api.routes import PUBLIC
from rota.model.access import Role
from tests.api.caller import Caller, secret
from tests.api.walking import ABSENT, BY_PATH, ROUTES, allows, anything, call, on_both_stores
from tests.contracts.world import World

pytest_generate_tests = on_both_stores
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "get"}


@pytest.fixture
def caller(world: World) -> Caller:
    return Caller(world)


def allowed(path: str) -> str:
    """The methods that `Allow` names."""
    methods = BY_PATH[path]
    head = {"HEAD"} if "GET" in methods and methods["GET"].media is None else set()
    return ", ".join(sorted({*methods, *head, "OPTIONS"}))


@pytest.mark.parametrize("role", Role)
async def test_options_names_the_methods_to_those_who_may_use_one(caller: Caller, role: Role) -> None:
    for path, methods in BY_PATH.items():
        route = next(iter(methods.values()))
        reply = await call(caller, route, anything(route), secret(role), method="OPTIONS")
        if any(allows(role, one) for one in methods.values()):
            assert (reply.status, reply.headers["allow"], reply.body) == (204, allowed(path), b""), path
        else:
            assert (reply.status, reply.json["code"]) == (403, "not_allowed"), path
        assert not any(name.startswith("access-control-") for name in reply.headers)


async def test_options_of_public_routes_needs_no_key(caller: Caller) -> None:
    for path in sorted(one.path for one in ROUTES if one.permission is PUBLIC):
        reply = await caller.call("OPTIONS", path, key=None)
        assert (reply.status, reply.headers["allow"]) == (204, "GET, HEAD, OPTIONS")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("role", Role)
async def test_head_is_answered_as_get_is(caller: Caller, role: Role) -> None:
    """By the same checks, with the same headers, and without a body."""
    for path, methods in BY_PATH.items():
        route = next(iter(methods.values()))
        head = await call(caller, route, anything(route), secret(role), method="HEAD")
        assert head.body == b"", path
        if "HEAD" not in allowed(path):
            assert (head.status, head.headers["allow"]) == (405, allowed(path)), path
            continue
        get = await call(caller, methods["GET"], anything(route), secret(role))
        assert (head.status, head.headers) == (get.status, get.headers), path


async def test_methods_that_are_not_there_are_refused_with_those_that_are(caller: Caller) -> None:
    for path, methods in BY_PATH.items():
        route = next(iter(methods.values()))
        for method in METHODS - methods.keys():
            reply = await call(caller, route, anything(route), secret("admin"), method=method)
            assert (reply.status, reply.json["code"]) == (405, "method_not_allowed"), (method, path)
            assert reply.headers["allow"] == allowed(path)


def other_spellings(path: str) -> set[str]:
    """What a server that cleans paths up would take for the same path. The last part must be a word."""
    first, _, last = path.rpartition("/")
    return {
        f"/{path}", f"{path}/", f"{path}//", f"{path}/.", f"{path}/..", f"{path}/%2e", f"/.{path}", f"/x/..{path}",
        f"{first}//{last}", f"{first}/./{last}", f"{path}.json", f"{path};x=1", f"{path}%20", f"{path}%00",
        f"{path}%2f", f"{first}%2f{last}", f"{first}\\{last}", f"{first}/%{ord(last[0]):02x}{last[1:]}",
        f"{first}/%25{ord(last[0]):02x}{last[1:]}", f"{first}/{last.upper()}", path.replace("/api", "/Api"),
    } - {path}  # fmt: skip


async def test_a_path_has_one_spelling(caller: Caller) -> None:
    """Another one is no route, or names a thing that is not there: a part that is a name may be any text."""
    for path, methods in BY_PATH.items():
        words, _, name = path.rpartition("/{") if path.endswith("}") else (path, "", "")
        for spelling in other_spellings(words.replace("{id}", ABSENT).replace("{name}", ABSENT)):
            whole = f"{spelling}/{ABSENT}" if name else spelling
            reply = await caller.call(next(iter(methods)), whole, key=secret("admin"))
            taken = caller.api.table.find(whole) is not None
            assert reply.status in ((404, 405) if taken else (404,)), (whole, reply)
            assert taken or reply.json["code"] == "no_such_route", (whole, reply)
