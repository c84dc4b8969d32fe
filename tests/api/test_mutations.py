"""Requests that succeed, with one place changed at a time: another type, a number or text beyond all bounds, an unknown
field, a field that is missing. Each is answered as the document says, never by a 500, and a refusal names the field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from rota.api.routes import Route
from rota.model.access import Role
from rota.model.principal import SYSTEM
from tests.api.caller import Caller, secret
from tests.api.described import check_described
from tests.api.samples import Sample, samples
from tests.api.seeds import Things, seed
from tests.api.test_success import ask, role_for
from tests.api.walking import ROUTES, named, on_both_stores
from tests.contracts.world import World

pytestmark = pytest.mark.slow
pytest_generate_tests = on_both_stores
HOSTILE: Sequence[Any] = (
    None, True, -1, 1 << 63, 1 << 64, 10**400, -1e308, 0.5, "", "\0", "x" * 1_100, "' OR 1=1; --", "%_*?[",
    "\u202e\ud7ff", "99999999999999999999d", "9999-99-99", [], {}, [None], {"": None},
)  # fmt: skip
IN_QUERIES = ("", "\0", "-1", "1e999", "9" * 400, "' OR 1=1; --", "%_*?[", "x" * 1_100, "\u202e", "null")
NAMES = ("x", "nobody's", "%", "' OR 1=1; --", "x" * 1_100, "é/ü", "-")
FEW_SEEDS = 25  # routes that share the things of a seed


def mutations(value: Any) -> Iterator[Any]:
    """Values that differ in one place."""
    yield from HOSTILE
    if isinstance(value, Mapping):
        yield {**value, "unknown": 1}
        for name, part in value.items():
            yield {other: kept for other, kept in value.items() if other != name}
            yield from ({**value, name: changed} for changed in mutations(part))
    elif isinstance(value, list):
        yield [*value, *value]
        for place, part in enumerate(value[:1]):
            yield from ([*value[:place], changed, *value[place + 1 :]] for changed in mutations(part))


def changed(route: Route, sample: Sample) -> Iterator[Sample]:
    if route.body is not None:
        yield from (replace(sample, body=body) for body in mutations(sample.body) if body is not None)
    for name in sample.query:
        yield from (replace(sample, query={**sample.query, name: value}) for value in IN_QUERIES)
    if route.query is not None:
        yield replace(sample, query={**sample.query, "unknown": "1"})


def names_the_field(body: Any) -> bool:
    """Errors of rota that are about a value say which."""
    return body["code"] not in ("invalid_input", "invalid_arguments", "too_large", "unknown_task") or bool(body["what"])


@pytest.mark.parametrize("part", range(3))
async def test_a_request_with_one_wrong_place_is_refused_by_name(world: World, part: int) -> None:
    caller = Caller(world)
    things: Things | None = None
    for number, route in enumerate(ROUTES[part::3]):
        if things is None or number % FEW_SEEDS == 0:
            for gate in await world.store.gates(SYSTEM):  # some mutants closed it for all jobs
                await world.store.open_gate(SYSTEM, gate.id)
            things = await seed(world, caller, "ann", number)
        for sample in samples(route, things)[:2]:
            for mutant in changed(route, sample):
                reply = await ask(caller, route, mutant, secret(role_for(route)))
                assert reply.status < 500, (named(route), mutant, caller.told)
                check_described(route, reply)
                assert reply.status != 400 or names_the_field(reply.json), (named(route), mutant, reply)


@pytest.mark.parametrize("role", Role)
async def test_names_that_nothing_has_are_refused(world: World, role: Role) -> None:
    caller = Caller(world)
    things = await seed(world, caller, "ann")
    for route in ROUTES:
        if route.parts:
            for name in NAMES:
                mutant = replace(samples(route, things)[0], path=quote(name, safe="-._~"))
                reply = await ask(caller, route, mutant, secret(role))
                assert reply.status < 500, (named(route), mutant, caller.told)
                check_described(route, reply)
