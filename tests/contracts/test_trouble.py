"""Jobs that wait for trouble, or for all being fine: what is behind a skipped parent decides."""

from __future__ import annotations

import asyncio

import pytest

from rota.model.graph import NOTHING_FAILED, Edge, EdgeState
from rota.model.job import Membership
from rota.model.lifecycle import State
from rota.model.outcome import Outcome, Succeeded
from rota.model.principal import LOCAL
from rota.model.times import aware
from rota.store.graph import WorkflowFilter
from tests.contracts.graphs import FAILURE, FINE, FINISH, SUCCESS, TROUBLE, all_settled
from tests.contracts.world import DONE, FATAL, World


async def test_a_failure_reaches_the_alarm_through_jobs_that_were_skipped_for_it(world: World) -> None:
    actor = await world.node()
    jobs = [world.job()]
    for _ in range(5):
        jobs.append(world.child(jobs[-1].id))
    alarm = world.child(jobs[-1].id, need=TROUBLE)
    deaf = world.child(jobs[-1].id, need=FAILURE)
    report = world.child(jobs[-1].id, need=FINE)
    await world.submit(*jobs, alarm, deaf, report)
    await actor.run(FATAL, jobs[0].id)
    assert await world.states(*(job.id for job in jobs[1:])) == [State.SKIPPED] * 5
    assert await world.states(alarm.id, deaf.id, report.id) == [State.READY, State.SKIPPED, State.SKIPPED]


async def test_the_alarm_waits_for_all_and_one_failure_is_enough(world: World) -> None:
    actor = await world.node()
    parents = await world.several(3)
    (alarm,) = await world.submit(world.child(*parents, need=TROUBLE))
    results: list[Outcome] = [DONE, FATAL, DONE]
    for parent, result in zip(parents, results, strict=True):
        assert await world.state(alarm) is State.BLOCKED
        await actor.run(result, parent)
    assert await world.state(alarm) is State.READY
    assert [one.edge for one in await world.store.parents(LOCAL, alarm)] == ["clear", "met", "clear"]


async def test_an_alarm_without_trouble_is_skipped_and_those_after_it_were_not_needed_either(world: World) -> None:
    actor = await world.node()
    first, second = await world.several(2)
    alarm = world.child(first, second, need=TROUBLE)
    escalate = world.child(alarm.id)
    report = world.child(first, second, alarm.id, escalate.id, need=FINE)
    wanted = world.child(first, second, alarm.id)
    later = world.child(wanted.id, need=TROUBLE)
    await world.submit(alarm, escalate, report, wanted, later)
    await actor.run(DONE, first)
    await actor.run(DONE, second)
    info = await world.info(alarm.id)
    assert (info.state, info.reason, info.attempts) == (State.SKIPPED, NOTHING_FAILED, [])
    assert await world.states(escalate.id, report.id) == [State.SKIPPED, State.READY]
    assert (await world.info(wanted.id)).reason == f"its parent {alarm.id} (true) was skipped"
    assert await world.state(later.id) is State.SKIPPED


async def test_a_cancelled_job_is_no_failure(world: World) -> None:
    parent = await world.one()
    child = world.child(parent)
    alarm, report = world.child(parent, child.id, need=TROUBLE), world.child(parent, child.id, need=FINE)
    await world.submit(child, alarm, report)
    await world.store.cancel(LOCAL, [parent], "not needed")
    assert await world.states(child.id, alarm.id, report.id) == [State.SKIPPED] * 3
    assert (await world.info(alarm.id)).reason == NOTHING_FAILED


async def test_other_needs_count_beside_it(world: World) -> None:
    actor = await world.node()
    works, breaks, whatever = await world.several(3)
    trouble = Edge(breaks, TROUBLE)
    runs = world.job(after=(Edge(works), trouble, Edge(whatever, FINISH)))
    never = world.job(after=(Edge(works, FAILURE), trouble))
    await world.submit(runs, never)
    await actor.run(DONE, works)
    assert await world.states(runs.id, never.id) == [State.BLOCKED, State.SKIPPED]
    await actor.run(FATAL, breaks)
    assert await world.state(runs.id) is State.BLOCKED
    await actor.run(FATAL, whatever)
    assert await world.state(runs.id) is State.READY


async def test_its_own_time_counts_and_its_rank_begins_with_the_last_end(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    at_once = world.child(parent, need=TROUBLE)
    later = world.child(parent, need=TROUBLE, at=world.clock.now() + 3_600_000_000)
    await world.submit(at_once, later)
    world.clock.advance(60)
    await actor.run(FATAL, parent)
    assert await world.states(at_once.id, later.id) == [State.READY, State.SCHEDULED]
    assert (await world.info(at_once.id)).run_at == aware(world.clock.now())


async def test_what_is_behind_a_skip_is_known_when_that_is_long_gone(world: World) -> None:
    actor = await world.node()
    first = await world.one()
    (second,) = await world.submit(world.child(first))
    await actor.run(FATAL, first)
    assert await world.store.purge(LOCAL, [first]) == [True]
    (alarm,) = await world.submit(world.child(second, need=TROUBLE))
    await all_settled(world)
    assert await world.state(alarm) is State.READY


@pytest.mark.parametrize(("second", "ends"), [(FATAL, State.READY), (DONE, State.SKIPPED)])
async def test_an_alarm_that_was_skipped_waits_again_with_a_job_that_runs_again(
    world: World, second: Outcome, ends: State
) -> None:
    actor = await world.node()
    cancelled, done = await world.several(2)
    (alarm,) = await world.submit(world.child(cancelled, done, need=TROUBLE))
    await world.store.cancel(LOCAL, [cancelled], "a mistake")
    await actor.run(DONE, done)
    assert await world.state(alarm) is State.SKIPPED
    await world.store.replay(LOCAL, [cancelled])
    assert await world.state(alarm) is State.BLOCKED
    await world.promote()
    await actor.run(second, cancelled)
    await all_settled(world)
    assert await world.state(alarm) is ends
    assert [one.edge for one in await world.store.parents(LOCAL, alarm)] == [
        EdgeState.MET if second is FATAL else EdgeState.CLEAR,
        EdgeState.CLEAR,
    ]


async def test_a_cause_is_forgotten_when_the_job_runs_again(world: World) -> None:
    actor = await world.node()
    first = await world.one()
    (second,) = await world.submit(world.child(first))
    await actor.run(FATAL, first)
    await world.store.replay(LOCAL, [first])
    await world.promote()
    await actor.run(DONE, first)
    await world.store.cancel(LOCAL, [second], "no")
    (alarm,) = await world.submit(world.child(second, need=TROUBLE))
    await all_settled(world)
    assert await world.state(alarm) is State.SKIPPED


@pytest.mark.parametrize("results", [(DONE, DONE), (FATAL, DONE), (FATAL, FATAL)])
async def test_parents_that_end_in_the_same_moment_on_two_nodes(world: World, results: tuple[Outcome, Outcome]) -> None:
    one, two = await world.node(), await world.node()
    for _ in range(10):
        parents = await world.several(2)
        alarm, report = world.child(*parents, need=TROUBLE), world.child(*parents, need=FINE)
        await world.submit(alarm, report)
        taken = [await one.take(parents[0]), await two.take(parents[1])]
        await asyncio.gather(one.finish(taken[0], results[0]), two.finish(taken[1], results[1]))
        await all_settled(world)
        good = results == (DONE, DONE)
        wanted = [State.SKIPPED, State.READY] if good else [State.READY, State.SKIPPED]
        assert await world.states(alarm.id, report.id) == wanted
        await one.run(DONE, report.id if good else alarm.id)


async def test_a_workflow_has_succeeded_although_its_alarm_was_skipped(world: World) -> None:
    actor = await world.node()
    flow = Membership(world.chance.job_id(world.clock.now()), "nightly")
    work = world.job(workflow=flow, job_name="the work")
    alarm = world.child(work.id, need=TROUBLE, workflow=flow)
    clean = world.child(work.id, alarm.id, need=FINISH, workflow=flow)
    await world.submit(work, alarm, clean)

    async def found() -> tuple[str, bool, int]:
        (info,) = await world.store.workflows(LOCAL, WorkflowFilter(ids=(flow.id,)))
        return info.state, info.succeeded, info.unneeded

    assert await found() == ("waiting", False, 0)
    await actor.run(DONE, work.id)
    await actor.run(DONE, clean.id)
    assert await found() == ("succeeded", True, 1)
    await world.store.replay(LOCAL, [work.id, alarm.id, clean.id], again=True)
    await world.promote()
    await actor.run(FATAL, work.id)
    await actor.run(DONE, alarm.id)
    await actor.run(DONE, clean.id)
    assert await found() == ("failed", False, 0)


async def test_names_and_arguments_of_jobs_in_their_workflow(world: World) -> None:
    actor = await world.node()
    flow = Membership(world.chance.job_id(world.clock.now()))
    first = world.job(workflow=flow, job_name="the first", args='{"n":1}')
    second = world.job(
        after=(Edge(first.id, SUCCESS, (("rows",), ("more", 0))),), workflow=flow, args='{"rows":null,"more":[null]}'
    )
    large = world.job(workflow=flow, args='{"text":"' + "x" * 2000 + '"}')
    await world.submit(first, second, large)
    shown = await world.store.workflow(LOCAL, flow.id)
    assert [(job.name, job.args) for job in shown] == [("the first", first.args), ("", second.args), ("", "")]
    assert shown[1].parents == second.after
    await actor.run(Succeeded("[7]"), first.id)
    (parent,) = await world.store.parents(LOCAL, second.id)
    assert (parent.name, parent.fills, parent.result) == ("the first", (("rows",), ("more", 0)), [7])
    assert [(await world.info(job.id)).name for job in (first, second)] == ["the first", ""]
