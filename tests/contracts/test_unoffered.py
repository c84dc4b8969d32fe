"""Functions that no node has ever offered: they wait for a grace, since a client may be deployed first, and then are
set aside."""

from __future__ import annotations

import pytest

from rota.errors import NotAllowed
from rota.model.graph import Need
from rota.model.job import Spec
from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.task import TaskInfo
from rota.model.times import HOUR, MINUTE, SECOND
from rota.store.offers import Unoffered
from tests.contracts.admission import why
from tests.contracts.test_offers import functions
from tests.contracts.world import ALICE, World, names_of, offer

GRACE = HOUR
WHY = "no node has offered task 'new' within 1h"


async def set_aside(world: World, limit: int = 1_000) -> dict[str, int]:
    return await world.store.set_aside_unoffered(SYSTEM, GRACE, limit)


async def test_a_new_task_waits_for_the_first_node_that_offers_it(world: World) -> None:
    old = await world.node(tasks=offer("mail"))
    jobs = await functions(world, "new", 3)
    async with world.unchanged():
        assert await old.claim() == []
        world.clock.advance(59 * 60)
        assert await set_aside(world) == {}
    new = await world.node(tasks=offer("mail", "new"))
    world.clock.advance(HOUR // SECOND)
    assert await set_aside(world) == {}
    assert [one.job_id for one in await new.claim()] == jobs


async def test_after_the_grace_it_goes_to_the_dead_letters(world: World) -> None:
    await world.node(tasks=offer("mail"))
    first = await functions(world, "new", 2)
    world.clock.advance(30 * 60)
    later = await functions(world, "new", 1)
    others = [*await functions(world, "mail", 1), await world.one(task="new")]
    world.clock.advance(30 * 60)
    assert await set_aside(world) == {"new": 2}
    assert await set_aside(world) == {}
    infos = [await world.info(job) for job in first]
    assert [(one.state, one.reason, one.attempts) for one in infos] == [(State.FAILED, WHY, [])] * 2
    assert set(await world.states(*later, *others)) == {State.READY}
    told = [one for one in await world.store.events(SYSTEM, 0, 100) if one.kind == "job.failed"]
    assert [(one.subject, one.owner, one.data["reason"]) for one in told] == [(job, "local", WHY) for job in first]


async def test_it_can_be_run_again_once_a_node_offers_it(world: World) -> None:
    (job,) = await functions(world, "new", 1)
    world.clock.advance(HOUR // SECOND)
    await set_aside(world)
    actor = await world.node(tasks=offer("new"))
    assert await world.store.replay(LOCAL, [job]) == [True]
    await world.promote()
    assert (await actor.take()).job_id == job


async def test_a_task_that_was_offered_once_waits_for_as_long_as_it_takes(world: World) -> None:
    away = await world.node(tasks=offer("shop"))
    await away.leave()
    await functions(world, "shop", 1)
    world.clock.advance(1_000 * HOUR // SECOND)
    assert await set_aside(world) == {}
    assert await world.store.unoffered(SYSTEM) == []


async def test_children_hear_of_it(world: World) -> None:
    (parent,) = await functions(world, "new", 1)
    needs_it, rest = await world.submit(world.child(parent), world.child(parent, need=Need.FAILURE))
    world.clock.advance(HOUR // SECOND)
    assert await set_aside(world) == {"new": 1}
    await world.settle()
    assert await world.states(needs_it, rest) == [State.SKIPPED, State.READY]


async def test_it_is_done_in_pieces(world: World) -> None:
    for task in ("a", "b"):
        await functions(world, task, 25)
    world.clock.advance(HOUR // SECOND)
    steps = []
    while gone := await set_aside(world, 10):
        steps.append(sum(gone.values()))
    assert sum(steps) == 50
    assert max(steps) <= 20


async def test_what_is_waited_for_is_told_by_queue_and_task(world: World) -> None:
    await world.node(tasks=offer("mail"))
    since = world.clock.now()
    await functions(world, "new", 3)
    world.clock.advance(1)
    await functions(world, "new", 2)
    await functions(world, "a", 1, ALICE, queue="other")
    await functions(world, "mail", 1)
    await functions(world, "later", 1, delay=HOUR)
    await world.one(task="command")
    told = [Unoffered("default", "new", since), Unoffered("other", "a", since + SECOND)]
    assert await world.store.unoffered(SYSTEM) == told
    (finding,) = [one for one in await world.store.examine() if one.name == "tasks"]
    assert not finding.ok
    assert "no node has ever offered: new (queue default, since " in finding.text


async def test_queues_tell_what_is_waited_for_to_whom_it_concerns(world: World) -> None:
    await world.node(tasks=offer("mail"))
    await functions(world, "new", 2)
    await functions(world, "hers", 1, ALICE)
    await functions(world, "mail", 1)
    seen = {who: await world.store.queues(who) for who in (LOCAL, ALICE, SYSTEM)}
    found = {who: [one.unoffered for one in queues if one.name == "default"] for who, queues in seen.items()}
    assert found == {LOCAL: [("new",)], ALICE: [("hers",)], SYSTEM: [("hers", "new")]}


async def test_nothing_is_waited_for(world: World) -> None:
    (finding,) = [one for one in await world.store.examine() if one.name == "tasks"]
    assert finding.ok


async def test_only_nodes_may(world: World) -> None:
    for deed in (world.store.unoffered(LOCAL), world.store.set_aside_unoffered(LOCAL, 0, 1)):
        with pytest.raises(NotAllowed):
            await deed


async def test_why(world: World) -> None:
    (new,) = await functions(world, "new", 1)
    waiting = await why(world, new)
    assert (waiting.offered, waiting.known) == (False, False)
    actor = await world.node(tasks=offer("new"))
    waiting = await why(world, new)
    assert (waiting.offered, waiting.known) == (True, True)
    await actor.leave()
    waiting = await why(world, new)
    assert (waiting.offered, waiting.known) == (False, True)
    waiting = await why(world, await world.one())
    assert waiting.known, "a command needs no offer"


# -- what clients know ------------------------------------------------------------------------------------------------


async def test_a_client_makes_its_tasks_known(world: World) -> None:
    await world.store.make_known(ALICE, offer("b", "a"))
    assert names_of(await world.store.tasks(LOCAL)) == ["a", "b"]
    async with world.unchanged():
        await world.store.make_known(LOCAL, offer("a", "b"))


async def test_what_a_node_says_of_a_task_counts(world: World) -> None:
    said = [TaskInfo("a", queue="mail", priority=1, timeout=MINUTE)]
    await world.store.make_known(LOCAL, offer("a"))
    await world.node(tasks=said)
    await world.store.make_known(LOCAL, offer("a"))
    assert await world.store.tasks(LOCAL) == said


async def test_a_task_that_only_clients_know_is_not_offered(world: World) -> None:
    await world.store.make_known(LOCAL, offer("new"))
    await world.one(task="new", spec=Spec.function("new"))
    world.clock.advance(HOUR // SECOND)
    assert await set_aside(world) == {"new": 1}
