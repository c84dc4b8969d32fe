"""Nodes that joined through a server: the store keeps their access key and the line that they renew with."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.errors import InvalidInput
from rota.model.node import FarAccess, NewNode, NodeState
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import SECOND
from rota.store.base import Store
from tests.contracts.world import ALICE, World

KEY = FarAccess("k1", "anna")
FAR = NewNode("far", "inc-far", ("worker",), {"default": 4}, "1.0", 10 * SECOND, KEY)


async def test_a_far_node_is_shown_with_its_access_key_and_its_line(world: World) -> None:
    await world.store.register(SYSTEM, FAR, [])
    (node,) = await world.store.nodes(SYSTEM)
    assert (node.access, node.line) == (KEY, None)
    await world.store.renew(SYSTEM, FAR.incarnation, line="line-1")
    assert (await world.store.nodes(SYSTEM))[0].line == "line-1"
    await world.store.renew(SYSTEM, FAR.incarnation)
    assert (await world.store.nodes(SYSTEM))[0].line is None


async def test_whose_key_a_worker_has_is_for_operators(world: World) -> None:
    await world.store.register(SYSTEM, FAR, [])
    await world.store.renew(SYSTEM, FAR.incarnation, line="line-1")
    for who, access, line in ((ALICE, None, None), (LOCAL, KEY, "line-1")):
        (node,) = await world.store.nodes(who)
        assert (node.access, node.line) == (access, line)


async def test_a_far_node_leaves_no_lock_that_others_could_find_free(world: World, another: Store) -> None:
    """The process that registered it is another one: its end says nothing about the far node."""
    await another.register(SYSTEM, FAR, [])
    assert list(another.guards(FAR.incarnation)) == []
    await another.close()
    (node,) = await world.store.nodes(SYSTEM)
    assert (node.gone, node.fading, node.state) == (False, None, NodeState.LIVE)
    assert await world.store.take_over(SYSTEM, FAR.incarnation, None, CrashRule()) is None


async def test_a_repeated_registration_is_the_same_node(world: World) -> None:
    await world.store.register(SYSTEM, FAR, [])
    await world.store.register(SYSTEM, FAR, [])
    assert [node.id for node in await world.store.nodes(SYSTEM)] == ["far"]


@pytest.mark.parametrize("access", [FarAccess("k2", "anna"), None])
async def test_an_incarnation_of_another_key_is_not_taken_over_by_registering(
    world: World, access: FarAccess | None
) -> None:
    await world.store.register(SYSTEM, FAR, [])
    before = await world.store.nodes(SYSTEM)
    with pytest.raises(InvalidInput, match="inc-far"):
        await world.store.register(SYSTEM, replace(FAR, id="thief", access=access), [])
    assert await world.store.nodes(SYSTEM) == before


async def test_a_far_node_does_not_take_the_place_of_a_near_one(world: World) -> None:
    actor = await world.node("near")
    async with world.unchanged():
        with pytest.raises(InvalidInput, match="incarnation"):
            await world.store.register(SYSTEM, replace(FAR, incarnation=actor.incarnation), [])


async def test_a_secret_is_made_once_and_shared(world: World) -> None:
    first = await world.store.secret(SYSTEM, "tickets")
    assert len(first) >= 32
    assert await world.store.secret(SYSTEM, "tickets") == first
    assert await world.store.secret(SYSTEM, "other") != first
