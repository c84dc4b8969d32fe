"""Functions go to nodes that offer them: others are not in the way of a claim, however many wait and however urgent."""

from __future__ import annotations

import itertools
import random
from typing import Any

from rota.model.feedback import Feedback
from rota.model.job import Kind, Spec
from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.rank import STRICT
from rota.model.times import HOUR, SECOND
from tests.contracts.admission import close, drain, mutex, names
from tests.contracts.world import ALICE, Actor, World, offer

# More than a claim reads in the order of rank on either store.
CROWD = 250


async def functions(world: World, task: str, count: int, who: Principal = LOCAL, **changes: Any) -> list[str]:
    return await world.several(count, who, task=task, spec=Spec.function(task), **changes)


async def crowded(world: World) -> Actor:
    """A node that offers `mail` and `post`, in a queue full of more urgent functions of another app."""
    await world.node(tasks=offer("shop", "store"))
    await functions(world, "shop", CROWD, priority=0)
    await functions(world, "store", CROWD, priority=0)
    return await world.node(tasks=offer("post", "mail", "never ordered"))


async def test_what_others_offer_is_not_in_the_way(world: World) -> None:
    mail = await crowded(world)
    (job,) = await functions(world, "mail", 1, priority=9)
    assert names(await mail.claim(1)) == [job]
    assert await mail.claim() == []


async def test_of_its_own_tasks_the_best_go_first_behind_whatever_crowd(world: World) -> None:
    mail = await crowded(world)
    expected: list[str] = []
    for task in ["mail", "post", "post", "mail", "mail", "post", "mail"] * 5:
        expected += await functions(world, task, 1)
        world.clock.advance(0.001)
    urgent = await functions(world, "post", 2, priority=0)
    plain = await world.one(priority=9)
    taken = [names(await mail.claim(count)) for count in (1, 4, 20)]
    assert [len(one) for one in taken] == [1, 4, 20]
    rest = names(await mail.claim())
    assert [*itertools.chain(*taken), *rest] == [*urgent, *expected, plain]


async def test_its_own_stand_before_among_and_behind_those_of_others(world: World) -> None:
    await world.node(tasks=offer("shop"))
    node = await world.node(tasks=offer("mail", "post"))
    luck = random.Random(7)
    mine: list[str] = []
    for _ in range(40):
        task = luck.choice(["shop", "mail", "post"])
        jobs = await functions(world, task, luck.choice([1, 5, 30]))
        mine += jobs if task != "shop" else []
        world.clock.advance(0.001)
    found: list[str] = []
    while claimed := await node.claim(luck.choice([1, 2, 7, 40])):
        found += names(claimed)
    assert found == mine


async def test_what_has_expired_is_passed_by(world: World) -> None:
    mail = await crowded(world)
    await functions(world, "mail", 5, expires=10 * SECOND)
    (job,) = await functions(world, "mail", 1)
    world.clock.advance(11)
    assert names(await mail.claim(3)) == [job]


async def test_claims_ahead_and_starts_are_counted_behind_a_crowd_too(world: World) -> None:
    mail = await crowded(world)
    jobs = await functions(world, "mail", 5)
    claimed = await mail.claim(4, start=2)
    assert names(claimed) == jobs[:4]
    assert [one.started_at is not None for one in claimed] == [True, True, False, False]


async def test_gates_hold_what_stands_behind_a_crowd(world: World) -> None:
    mail = await crowded(world)
    gated = await functions(world, "mail", 60)
    free = await functions(world, "post", 2)
    await close(world, task="mail")
    found = names(await mail.claim(2)) or names(await mail.claim(2))
    assert found == free
    for _ in range(10):
        assert await mail.claim(10) == []
    assert {await world.state(job) for job in gated} == {State.HELD}


async def test_keys_hold_what_stands_behind_a_crowd(world: World) -> None:
    mail = await crowded(world)
    jobs = await functions(world, "mail", 5, requirements=mutex("db"))
    assert await drain(world, mail) == jobs


async def test_flows_fall_behind_a_crowd(world: World) -> None:
    mail = await crowded(world)
    await world.store.set_feedback(LOCAL, "default", Feedback(SECOND, 5, HOUR))
    flood = await functions(world, "mail", 30)
    world.clock.advance(1)
    short = await functions(world, "post", 3, ALICE)
    await world.store.charge(SYSTEM, {("default", "local/mail"): 20 * SECOND})
    assert names(await mail.claim(5)) == [*short, *flood[:2]]


async def test_a_queue_with_a_step_of_its_own_is_ranked_anew_behind_a_crowd(world: World) -> None:
    mail = await crowded(world)
    later = await functions(world, "mail", 3, priority=9)
    world.clock.advance(1_000)
    urgent = await functions(world, "mail", 3, priority=0)
    await world.store.set_step(LOCAL, "default", STRICT)
    assert names(await mail.claim(6)) == [*urgent, *later]


async def test_two_nodes_share_what_stands_behind_a_crowd(world: World) -> None:
    mail = await crowded(world)
    other = await world.node(tasks=offer("mail"))
    jobs = await functions(world, "mail", 40)
    found: list[str] = []
    while claimed := [*await mail.claim(3), *await other.claim(3)]:
        found += names(claimed)
    assert sorted(found) == sorted(jobs)


async def test_a_task_that_a_node_comes_to_offer_is_found_at_once(world: World) -> None:
    mail = await crowded(world)
    jobs = await functions(world, "new", 3)
    async with world.unchanged():
        assert await mail.claim() == []
    assert names(await (await world.node(tasks=offer("new", "mail"))).claim()) == jobs


async def test_a_node_without_functions_runs_commands(world: World) -> None:
    await crowded(world)
    job = await world.one(priority=9)
    await functions(world, "mail", 1)
    bare = await world.node(tasks=())
    assert names(await bare.claim(5, kinds=[Kind.COMMAND, Kind.FUNCTION])) == [job]


async def test_the_crowd_is_still_there_for_its_own(world: World) -> None:
    await crowded(world)
    shop = await world.node(tasks=offer("shop"))
    claimed = await shop.claim(10)
    assert {one.task for one in claimed} == {"shop"}
    assert len(claimed) == 10
