"""Every route reaches a success with things that are there, on both stores, and answers as the document says."""

from __future__ import annotations

from rota.api.examples import EXAMPLES
from rota.api.routes import Route
from rota.model.access import Permission, Role
from tests.api.caller import Caller, Reply, secret
from tests.api.described import check_described
from tests.api.samples import CALLS, PEOPLE, WORKERS, Sample, example, samples
from tests.api.seeds import Things, seed
from tests.api.walking import ROUTES, named, on_both_stores, send_to
from tests.contracts.world import World

pytest_generate_tests = on_both_stores


def test_every_route_has_samples() -> None:
    assert {route.name for route in ROUTES} == {*PEOPLE, *WORKERS, *(f"call_{verb}" for verb in CALLS)}


def role_for(route: Route) -> Role:
    return Role.WORKER if route.permission is Permission.WORK else Role.ADMIN


def changes(route: Route) -> bool:
    return route.method != "GET" and route.permission is not Permission.READ


async def ask(caller: Caller, route: Route, sample: Sample, key: str) -> Reply:
    return await send_to(caller, route.method, sample.target(route), key, sample.body)


async def test_every_route_succeeds_with_things_that_are_there(world: World) -> None:
    caller = Caller(world)
    things: Things | None = None
    for number, route in enumerate(ROUTES):
        things = things or await seed(world, caller, "ann", number)
        for place, sample in enumerate(samples(route, things)):
            reply = await ask(caller, route, sample, secret(role_for(route)))
            assert reply.status < 300 if place == 0 else reply.status < 500, (named(route), sample, reply)
            check_described(route, reply)
        things = None if changes(route) else things


async def test_every_example_of_the_document_can_be_sent(world: World) -> None:
    """It may name things that are not there, but no value is wrong."""
    caller = Caller(world)
    for number, route in enumerate(route for route in ROUTES if route.name in EXAMPLES):
        things = await seed(world, caller, "ann", number)
        sample = example(route.name, samples(route, things)[0].path)
        reply = await ask(caller, route, sample, secret(role_for(route)))
        assert reply.status < 300 or reply.status == 404, (named(route), sample, reply)
