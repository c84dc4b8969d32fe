"""What another user owns is answered as what was never there, in every place where a request can name something: paths,
filters, cursors, `after`, bodies, calls of rota's own clients, and attempts of workers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rota.api.routes import Route
from rota.model.access import Role
from tests.api.caller import Caller, Reply, secret
from tests.api.described import check_described
from tests.api.samples import Sample, samples
from tests.api.seeds import Things, absent, seed
from tests.api.test_success import ask
from tests.api.walking import ROUTES, allows, named, on_both_stores
from tests.contracts.world import World

pytest_generate_tests = on_both_stores
# What all users share, so that its name is no secret: queues, tasks and nodes.
SHARED = {"get_queue", "pause_queue", "resume_queue", "set_queue", "call_pause_queue", "call_resume_queue"}
SHARED |= {"call_set_step", "call_set_feedback", "worker_register"}
# Operators see the statistics of all users; admins see all users with their keys and the audit.
OF_OPERATORS = {"get_statistics", "list_queue_statistics", "get_history", "call_statistics", "call_history"}
OF_ADMINS = {
    "get_user", "change_user", "remove_user", "add_user", "list_keys", "add_key", "rotate_key", "revoke_key",
    "list_audit", "call_keys", "call_add_key", "call_rotate_key", "call_revoke_key", "call_remove_user", "call_users",
    "call_audit", "call_put_user",
}  # fmt: skip
# Ids of jobs and events, and revisions of schedules, which are never used twice.
_NEW = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|(?<=\"revision\":)\d+|(?<=\"id\":\")[\d.]+(?=\")"
)


def texts(value: Any) -> Iterator[str]:
    """Of a condition in a query, `label:x`, also what it names."""
    if isinstance(value, str):
        yield from (value, value.rpartition(":")[2].strip('"'))
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts(part)


def blurred(reply: Reply, sample: Sample) -> tuple[int, bytes]:
    """Without the names that the request itself had, and without new ids."""
    body = _NEW.sub(b"...", reply.body)
    for text in sorted({sample.path, *texts(sample.query), *texts(sample.body)}, key=len, reverse=True):
        if len(text) > 2:
            body = body.replace(text.encode(), b"...")
    return reply.status, body


def pairs(route: Route, theirs: Things, nobodys: Things) -> Iterator[tuple[Sample, Sample]]:
    """Requests that name something, for both."""
    both = zip(samples(route, theirs), samples(route, nobodys), strict=True)
    yield from ((one, other) for one, other in both if one != other)


@pytest.mark.parametrize("role", Role)
async def test_what_another_owns_is_answered_as_what_was_never_there(world: World, role: Role) -> None:
    caller = Caller(world)
    bobs = await seed(world, caller, "bob")
    nobodys = absent(replace(bobs, user="nobody"))
    shown = SHARED | (OF_OPERATORS if role in (Role.OPERATOR, Role.ADMIN) else set())
    shown |= OF_ADMINS if role is Role.ADMIN else set()
    for route in ROUTES:
        if not allows(role, route) or route.name in shown:
            continue
        for theirs, never in pairs(route, bobs, nobodys):
            before = world.backend.contents()
            first = await ask(caller, route, theirs, secret(role))
            second = await ask(caller, route, never, secret(role))
            about = (named(route), theirs, blurred(first, theirs), blurred(second, never))
            check_described(route, first)
            assert blurred(first, theirs) == blurred(second, never), about
            if first.status >= 400:
                assert world.backend.contents() == before, about


LISTS = {"list_jobs", "list_dead", "list_workflows", "list_schedules", "list_fires", "get_output", "watch_events"}


async def test_a_cursor_of_another_leads_to_nothing_of_theirs(world: World) -> None:
    caller = Caller(world)
    anns, bobs = await seed(world, caller, "ann"), await seed(world, caller, "bob")
    names = msgspec.structs.asdict(replace(bobs, output="", worker=""))  # nodes are shared
    hidden = [value for value in names.values() if isinstance(value, str) and len(value) > 5]
    for route in ROUTES:
        if route.name not in LISTS:
            continue
        own, name = samples(route, bobs)[0], "after" if route.name == "watch_events" else "cursor"
        page = await ask(caller, route, replace(own, query=own.query | {"limit": 1}), secret("admin", "bob"))
        assert page.json["next"] is not None, named(route)
        mine = samples(route, anns)[0]
        query = mine.query | {name: page.json["next"]}
        reply = await ask(caller, route, replace(mine, query=query), secret("admin"))
        assert reply.status in (200, 400), (named(route), reply)
        assert [text for text in hidden if text.encode() in reply.body] == [], named(route)
