"""Workflows: jobs that were ordered together are found together, by their owner, until they are gone."""

from __future__ import annotations

import pytest

from rota.errors import KeyConflict, NotFound
from rota.model.graph import Edge, Need
from rota.model.job import Membership, NewJob
from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY, HOUR, instant
from rota.store.graph import WorkflowFilter
from rota.store.values import Retention
from tests.contracts.world import ALICE, DONE, FATAL, PLENTY, World

NOBODY = "00000000-0000-7000-8000-000000000000"


def membership(world: World, name: str = "", **changes: bool) -> Membership:
    return Membership(world.chance.job_id(world.clock.now()), name, **changes)


def diamond(world: World, flow: Membership | None, keys: bool = False) -> list[NewJob]:
    def key(name: str) -> str | None:
        return name if keys else None

    top = world.job(task="top", workflow=flow, key=key("top"))
    left = world.child(top.id, task="left", workflow=flow, key=key("left"))
    right = world.child(top.id, task="right", workflow=flow, need=Need.FINISH, key=key("right"))
    return [top, left, right, world.child(left.id, right.id, task="bottom", workflow=flow, key=key("bottom"))]


async def test_its_jobs_in_the_order_in_which_they_were_ordered(world: World) -> None:
    actor = await world.node()
    flow = membership(world, "nightly")
    top, left, right, bottom = diamond(world, flow)
    await world.submit(bottom, right, left, top)
    world.clock.advance(1)
    (late,) = await world.submit(world.child(bottom.id, task="late", workflow=Membership(flow.id, new=False)))
    await actor.run(FATAL, top.id)
    found = await world.store.workflow(LOCAL, flow.id)
    assert [job.task for job in found] == ["bottom", "right", "left", "top", "late"]
    seen = {job.task: job for job in found}
    assert seen["right"].parents == (Edge(top.id, Need.FINISH),)
    assert seen["bottom"].parents == (Edge(left.id), Edge(right.id))
    assert (seen["top"].parents, seen["late"].id) == ((), late)
    assert (seen["top"].state, instant(seen["top"].started_at), instant(seen["top"].finished_at)) == (
        State.FAILED, world.clock.now(), world.clock.now(),
    )  # fmt: skip
    assert (seen["left"].state, seen["left"].reason) == (State.SKIPPED, f"its parent {top.id} (top) failed")
    assert (seen["right"].state, seen["right"].started_at) == (State.READY, None)
    assert {(await world.info(job.id)).workflow for job in found} == {flow.id}
    assert (await world.info(await world.one())).workflow is None


async def test_it_is_counted_by_states(world: World) -> None:
    actor = await world.node()
    flow, empty = membership(world, "a"), membership(world, "b")
    await world.submit(*diamond(world, flow))
    assert (await world.store.workflows(LOCAL, WorkflowFilter()))[0].counts == {State.READY: 1, State.BLOCKED: 3}
    await actor.run(DONE)
    await actor.take()
    await world.submit(world.job(workflow=empty, delay=HOUR))
    (info,) = await world.store.workflows(LOCAL, WorkflowFilter(name="a"))
    assert info.counts == {State.SUCCEEDED: 1, State.RUNNING: 1, State.READY: 1, State.BLOCKED: 1}
    assert (info.id, info.owner, info.name, instant(info.created_at)) == (flow.id, "local", "a", world.clock.now())


async def test_the_newest_come_first_and_filters_hold_together(world: World) -> None:
    flows = []
    for number in range(5):
        flows.append(membership(world, f"name{number % 2}"))
        await world.submit(world.job(workflow=flows[-1]))
        world.clock.advance(1)
    ids = [flow.id for flow in reversed(flows)]

    async def found(**query: object) -> list[str]:
        return [info.id for info in await world.store.workflows(LOCAL, WorkflowFilter(**query))]  # type: ignore[arg-type]

    assert await found() == ids
    assert await found(limit=2) == ids[:2]
    assert await found(name="name1") == [ids[1], ids[3]]
    assert await found(ids=(ids[3], ids[0], NOBODY, "nonsense")) == [ids[0], ids[3]]
    assert await found(ids=(ids[0], ids[1]), name="name1") == [ids[1]]
    assert await found(ids=()) == []
    assert await found(name="") == []


async def test_others_see_nothing_of_it(world: World) -> None:
    flow = membership(world, "mine")
    (top, *_) = await world.submit(*diamond(world, flow))
    assert await world.store.workflows(ALICE, WorkflowFilter()) == []
    assert await world.store.workflow(ALICE, flow.id) == []
    assert await world.store.resolve_workflow(ALICE, flow.id) == []
    assert await world.store.resolve_workflow(ALICE, "mine") == []
    assert [info.id for info in await world.store.workflows(SYSTEM, WorkflowFilter())] == [flow.id]
    async with world.unchanged():
        (answer,) = await world.store.submit(ALICE, [[world.job(workflow=Membership(flow.id, new=False))]])
        assert isinstance(answer, NotFound)
    assert top


@pytest.mark.parametrize("given", [NOBODY, "01900000-0000-7000-8000-00000000ffff"])
async def test_an_unknown_one_can_t_be_joined(world: World, given: str) -> None:
    async with world.unchanged():
        joins = world.job(workflow=Membership(given, new=False), key="k")
        (answer,) = await world.store.submit(LOCAL, [[world.job(), joins]])
        assert isinstance(answer, NotFound)
        assert str(answer) == f"no workflow {given!r}"
    assert await world.store.workflow(LOCAL, given) == []


async def test_what_is_no_id_is_no_workflow(world: World) -> None:
    for text in ("", "nonsense", "%", "x" * 5_000):
        assert await world.store.workflow(LOCAL, text) == []
        assert await world.store.workflows(LOCAL, WorkflowFilter(ids=(text,))) == []


async def test_a_part_of_an_id_or_the_name_finds_it(world: World) -> None:
    flows = []
    for number in range(4):
        flows.append(membership(world, "same" if number else "alone"))
        await world.submit(world.job(workflow=flows[-1]))
        world.clock.advance(60)
    first = flows[0].id
    for part in (first, first[-6:], "alone"):
        assert await world.store.resolve_workflow(LOCAL, part) == [first], part
    assert await world.store.resolve_workflow(LOCAL, "same") == [flow.id for flow in reversed(flows[1:])]
    assert len(await world.store.resolve_workflow(LOCAL, first[:4])) == 3, "enough to tell one from several"
    for part in ("alon", "lone", "nothing", "%", "_", "zzzz", first + "0"):
        assert await world.store.resolve_workflow(LOCAL, part) == [], part


async def test_the_same_workflow_again_with_keys_is_the_same(world: World) -> None:
    first = membership(world, "nightly")
    jobs = await world.submit(*diamond(world, first, keys=True))
    async with world.unchanged():
        again = membership(world, "nightly")
        (answer,) = await world.store.submit(LOCAL, [diamond(world, again, keys=True)])
        assert isinstance(answer, list)
        assert [(one.id, one.created) for one in answer] == [(job, False) for job in jobs]
        *rest, bottom = diamond(world, again, keys=True)
        other = world.job(task="bottom", workflow=again, key="bottom", after=bottom.after[:1])
        (refused,) = await world.store.submit(LOCAL, [[*rest, other]])
        assert isinstance(refused, KeyConflict)
    assert [info.id for info in await world.store.workflows(LOCAL, WorkflowFilter())] == [first.id]


async def test_all_of_it_runs_again(world: World) -> None:
    actor = await world.node()
    flow = membership(world)
    await world.submit(*diamond(world, flow))
    await actor.run(FATAL)
    await actor.run(DONE)
    jobs = [job.id for job in await world.store.workflow(LOCAL, flow.id)]
    assert await world.store.replay(LOCAL, jobs, again=True) == [True] * 4
    await world.promote()
    for _ in range(4):
        await actor.run(DONE)
    (info,) = await world.store.workflows(LOCAL, WorkflowFilter())
    assert info.counts == {State.SUCCEEDED: 4}


async def test_it_goes_when_its_jobs_have_gone_and_not_before(world: World) -> None:
    actor = await world.node()
    flow, stays = membership(world, "goes"), membership(world, "stays")
    await world.submit(*diamond(world, flow))
    for _ in range(4):
        await actor.run(DONE)
    await world.submit(world.job(workflow=stays, delay=10 * DAY))
    world.clock.advance(2 * HOUR / 1e6)
    short = Retention(HOUR, HOUR, DAY, DAY)
    for _ in range(3):
        await world.store.prune(SYSTEM, short, PLENTY)
    assert [info.name for info in await world.store.workflows(LOCAL, WorkflowFilter())] == ["stays"]
    contents = world.backend.contents()
    assert (contents["edges"], contents["settling"]) == ([], [])
    assert len(contents["workflows"]) == len(contents["members"]) == 1
    assert await world.store.prune(SYSTEM, short, PLENTY) == 0


async def test_a_purged_job_leaves_its_workflow(world: World) -> None:
    actor = await world.node()
    flow = membership(world)
    top, *rest = await world.submit(*diamond(world, flow))
    await actor.run(DONE, top)
    assert await world.store.purge(LOCAL, [top]) == [True]
    found = await world.store.workflow(LOCAL, flow.id)
    assert [job.id for job in found] == rest
    assert found[0].parents == (Edge(top),), "what it was ordered after is not forgotten"
    (info,) = await world.store.workflows(LOCAL, WorkflowFilter())
    assert sum(info.counts.values()) == 3


async def test_a_workflow_of_jobs_without_edges(world: World) -> None:
    flow = membership(world, "batch")
    jobs = await world.submit(*(world.job(workflow=flow) for _ in range(60)))
    assert [job.id for job in await world.store.workflow(LOCAL, flow.id)] == jobs
    actor = await world.node()
    assert len(await actor.claim()) == 60
