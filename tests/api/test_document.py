"""Schemathesis calls every operation of the document as each role on both stores, on things that are there and things
that are not, with values that fit and values that don't: never a 500, and each answer is one that the document
describes. (`test_success.py` has a success of every route, `test_mutations.py` changes those in one place.)"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlencode

import hypothesis
import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis.strategies import booleans, sampled_from
from schemathesis.checks import not_a_server_error
from schemathesis.core import NotSet
from schemathesis.core.transport import Response
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rota.api.app import table
from rota.api.openapi import document
from rota.clock import Chance, ManualClock
from rota.model.access import Role
from tests.api.caller import Caller, Reply, secret
from tests.api.described import check_described
from tests.api.samples import samples
from tests.api.seeds import Things, seed
from tests.api.walking import ROUTES, allows
from tests.contracts.world import World
from tests.store.postgres.backends import Postgres
from tests.store.sqlite.backends import SqliteMemory

pytestmark = pytest.mark.slow
EXAMPLES = int(os.environ.get("ROTA_EXAMPLES", "10"))
DOCUMENT = msgspec.json.decode(msgspec.json.encode(document(table())))
STREAMS = {route.name for route in table() if route.media is not None}
WAITS = {"wait_for_job", "wait_for_workflow"}  # for long, unless told otherwise
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
ALL: list[Any] = [cast(Any, result).ok() for result in SCHEMA.get_all_operations()]
BY_NAME = {route.name: route for route in ROUTES}
FEW = hypothesis.settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


class Served(NamedTuple):
    loop: asyncio.AbstractEventLoop
    caller: Caller
    things: Things  # which are there


@pytest.fixture(params=[SqliteMemory, Postgres], ids=["sqlite", "postgres"], scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    loop = asyncio.new_event_loop()
    clock = ManualClock()
    backend = request.param(tmp_path_factory.mktemp("api"), clock)
    store = backend.store(Chance(2))
    world = World(store, backend, clock, Chance(1))

    async def begin() -> Served:
        await backend.prepare(store)
        await store.open()
        caller = Caller(world)
        return Served(loop, caller, await seed(world, caller, "ann"))

    made = loop.run_until_complete(begin())
    yield made
    loop.run_until_complete(end_tasks())  # waits that clients share
    loop.run_until_complete(store.close())
    backend.close()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def end_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@pytest.mark.parametrize("operation", ALL, ids=lambda one: f"{one.method.upper()} {one.path}")
def test_every_answer_is_one_that_the_document_describes(served: Served, operation: Any) -> None:
    route = BY_NAME[operation.definition.raw["operationId"]]
    if route.name in STREAMS:
        pytest.skip("streams have no end: tests/api/test_walk.py calls them")
    # The walk shows that others are refused.
    roles = [role for role in Role if allows(role, route)]
    for mode in GenerationMode:
        strategy = operation.as_strategy(generation_mode=mode)

        @FEW
        @hypothesis.given(case=strategy, role=sampled_from(roles), there=booleans())
        def run(case: Any, role: Role, there: bool) -> None:
            if there:
                path = samples(route, served.things)[0].path
                case.path_parameters = dict.fromkeys(case.path_parameters or {}, path)
            if route.name in WAITS:
                case.query = {"timeout": "0s", **(case.query or {})}
            reply = served.loop.run_until_complete(send(served.caller, case, secret(role)))
            case.validate_response(response(case, reply), checks=CHECKS)
            check_described(route, reply)

        try:
            run()
        except hypothesis.errors.Unsatisfiable:
            continue  # nothing is wrong for an operation without parameters


async def send(caller: Caller, case: Any, key: str) -> Reply:
    path = case.operation.path
    for name, value in (case.path_parameters or {}).items():
        path = path.replace(f"{{{name}}}", quote(str(value), safe="-._~"))
    query = urlencode([(name, part) for name, value in (case.query or {}).items() for part in _each(value)])
    headers = {name.lower(): str(value) for name, value in (case.headers or {}).items()}
    headers = {name: value for name, value in headers.items() if value.isascii() and value.isprintable()}
    headers.pop("authorization", None)
    body = b"" if isinstance(case.body, NotSet) else encoded(case.body)
    if body:
        headers["content-type"] = "application/json"
    return await caller.call(case.method, f"{path}?{query}", key=key, body=body, headers=headers)


def _each(value: Any) -> list[str]:
    return [str(part) for part in value] if isinstance(value, list) else [str(value)]


def encoded(value: Any) -> bytes:
    try:
        return value if isinstance(value, bytes) else msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError, OverflowError):
        return b"{"


def response(case: Any, reply: Reply) -> Response:
    request = requests.Request(case.method, "http://localhost:8787/").prepare()
    headers = {name: [value] for name, value in reply.headers.items()}
    return Response(reply.status, headers, reply.body, request, 0.0, False)
