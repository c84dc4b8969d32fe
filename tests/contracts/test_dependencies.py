"""Jobs that wait for others: whatever becomes of a parent, each child goes on once, is skipped once, or waits."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import pytest

from rota.model.graph import NOTHING_FAILED, Edge, EdgeState, Need, ParentEnd, SkipCause, edge_state
from rota.model.job import Membership, Verdict
from rota.model.lifecycle import State
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM
from rota.model.rank import AGEING_STEP
from rota.model.times import HOUR, SECOND, aware, instant
from rota.store.values import Cancelling
from tests.contracts.graphs import FAILURE, FINISH, NOBODY, TROUBLE, all_settled, children
from tests.contracts.world import BOOM, BROKEN, DONE, FATAL, GIVEN_UP, Actor, World, settled

# -- every ending of a parent, every need -----------------------------------------------------------------------------

Deed = Callable[[World, Actor, str], Awaitable[None]]


async def succeed(world: World, actor: Actor, parent: str) -> None:
    await actor.run(DONE, parent)


async def fail(world: World, actor: Actor, parent: str) -> None:
    await actor.run(FATAL, parent)


async def give_up(world: World, actor: Actor, parent: str) -> None:
    await actor.run(GIVEN_UP, parent)


async def cancel_waiting(world: World, actor: Actor, parent: str) -> None:
    assert await world.store.cancel(LOCAL, [parent], "not needed") == [Cancelling.CANCELLED]


async def cancel_running(world: World, actor: Actor, parent: str) -> None:
    claimed = await actor.take(parent)
    assert await world.store.cancel(LOCAL, [parent], "not needed") == [Cancelling.REQUESTED]
    assert await actor.finish(claimed, BOOM) is Verdict.APPLIED


async def cancel_ahead(world: World, actor: Actor, parent: str) -> None:
    claimed = await actor.ahead(parent)
    await world.store.cancel(LOCAL, [parent], "not needed")
    assert await actor.hand_back(claimed.ref) == [Verdict.APPLIED]


async def expire(world: World, actor: Actor, parent: str) -> None:
    world.clock.advance(2 * HOUR / SECOND)
    await world.promote()


async def set_aside(world: World, actor: Actor, parent: str) -> None:
    await actor.run(BROKEN, parent)


async def crash_too_often(world: World, actor: Actor, parent: str) -> None:
    other = await world.node()
    await other.take(parent)
    assert await other.die(CrashRule(limit=1)) == [parent]


async def leave_cancelled(world: World, actor: Actor, parent: str) -> None:
    other = await world.node()
    await other.ahead(parent)
    await world.store.cancel(LOCAL, [parent], "not needed")
    await other.leave()


async def skip(world: World, actor: Actor, parent: str) -> None:
    """The parent waits for one that fails (see `a_parent`)."""
    (grandparent,) = (info.id for info in await world.store.parents(LOCAL, parent))
    await actor.run(FATAL, grandparent)


ENDINGS: dict[str, tuple[Deed, State]] = {
    "succeeded": (succeed, State.SUCCEEDED),
    "failed": (fail, State.FAILED),
    "gave up": (give_up, State.CANCELLED),
    "cancelled while it waited": (cancel_waiting, State.CANCELLED),
    "cancelled while it ran": (cancel_running, State.CANCELLED),
    "cancelled while it was claimed ahead": (cancel_ahead, State.CANCELLED),
    "cancelled, and its node left": (leave_cancelled, State.CANCELLED),
    "expired": (expire, State.CANCELLED),
    "set aside": (set_aside, State.FAILED),
    "crashed too often": (crash_too_often, State.FAILED),
    "skipped": (skip, State.SKIPPED),
}
every_ending = pytest.mark.parametrize("how", ENDINGS)


async def a_parent(world: World, how: str) -> str:
    if how == "skipped":
        return (await world.submit(world.child(await world.one(), task="the parent")))[0]
    return await world.one(task="the parent", expires=HOUR if how == "expired" else None)


def expected(need: Need, parent: State) -> State:
    """A parent that was skipped waited for one that failed."""
    end = ParentEnd(parent, SkipCause.TROUBLE if parent is State.SKIPPED else None)
    return State.READY if edge_state(need, end) is EdgeState.MET else State.SKIPPED


def reason(need: Need, parent: str, state: State) -> str:
    if need is TROUBLE:
        return NOTHING_FAILED
    if need is FAILURE:
        return f"its parent {parent} (the parent) did not fail: it {state}"
    return f"its parent {parent} (the parent) " + (state if state is State.FAILED else f"was {state}")


async def check(world: World, parent: str, ended: State, found: dict[Need, str]) -> None:
    for need, child in found.items():
        info = await world.info(child)
        assert info.state is expected(need, ended), need
        if info.state is State.SKIPPED:
            assert info.reason == reason(need, parent, ended)
            assert (instant(info.finished_at), info.attempts, info.fence) == (world.clock.now(), [], 0)
        else:
            assert (info.reason, info.finished_at, info.run_at) == (None, None, aware(world.clock.now()))


@every_ending
async def test_what_the_end_of_a_parent_means_to_those_that_wait(world: World, how: str) -> None:
    actor = await world.node()
    parent = await a_parent(world, how)
    found = await children(world, parent)
    assert set(await world.states(*found.values())) == {State.BLOCKED}
    world.clock.advance(1)
    deed, ended = ENDINGS[how]
    await deed(world, actor, parent)
    assert await world.state(parent) is ended
    await all_settled(world)
    await check(world, parent, ended, found)


@every_ending
async def test_a_parent_that_has_ended_counts_at_once(world: World, how: str) -> None:
    actor = await world.node()
    parent = await a_parent(world, how)
    deed, ended = ENDINGS[how]
    await deed(world, actor, parent)
    await all_settled(world)
    world.clock.advance(1)
    found = await children(world, parent)
    await check(world, parent, ended, found)
    assert not (await world.settle()).unsettled


@every_ending
async def test_no_verb_but_the_promoter_s_leaves_small_families_to_the_resolver(world: World, how: str) -> None:
    actor = await world.node()
    parent = await a_parent(world, how)
    found = await children(world, parent)
    deed, ended = ENDINGS[how]
    await deed(world, actor, parent)
    if how != "expired":
        await check(world, parent, ended, found)


# What does not end a parent moves no child.
async def test_children_wait_while_their_parent_is_tried_again(world: World) -> None:
    actor = await world.node()
    parent = await world.one(task="the parent")
    found = await children(world, parent)
    await actor.run(BOOM, parent)
    world.clock.advance(60)
    await world.promote()
    other = await world.node()
    await other.take(parent)
    await other.die()
    third = await world.node()
    ahead = await third.ahead(parent)
    await third.hand_back(ahead.ref)
    await third.take(parent)
    await third.leave()
    assert set(await world.states(*found.values())) == {State.BLOCKED}
    await actor.run(DONE, parent)
    await check(world, parent, State.SUCCEEDED, found)


async def test_a_parent_that_runs_when_its_child_is_ordered(world: World) -> None:
    actor = await world.node()
    parent = await world.one(task="the parent")
    claimed = await actor.take(parent)
    found = await children(world, parent)
    assert await actor.finish(claimed) is Verdict.APPLIED
    await check(world, parent, State.SUCCEEDED, found)


async def test_a_batch_of_ends_settles_the_children_of_all(world: World) -> None:
    actor = await world.node()
    parents = await world.several(4)
    alone = [(await world.submit(world.child(parent)))[0] for parent in parents]
    (joint,) = await world.submit(world.child(*parents))
    claimed = await actor.claim()
    results = {parents[0]: FATAL}
    await world.store.finish(SYSTEM, [settled(one, results.get(one.job_id, DONE)) for one in claimed])
    assert await world.states(*alone, joint) == [State.SKIPPED, *[State.READY] * 3, State.SKIPPED]


# -- several parents --------------------------------------------------------------------------------------------------


async def test_the_last_parent_lets_the_child_go(world: World) -> None:
    actor = await world.node()
    parents = await world.several(3)
    (child,) = await world.submit(world.child(*parents))
    for parent in parents:
        assert await world.state(child) is State.BLOCKED
        await actor.run(DONE, parent)
    assert await world.state(child) is State.READY


async def test_the_reason_of_a_skip_has_the_name_in_the_workflow(world: World) -> None:
    actor = await world.node()
    flow = Membership(world.chance.job_id(world.clock.now()))
    (named,) = await world.submit(world.job(workflow=flow, job_name="p1"))
    (plain,) = await world.submit(world.job(workflow=Membership(flow.id, new=False)))
    children = [(await world.submit(world.child(parent)))[0] for parent in (named, plain)]
    await actor.run(FATAL, named)
    await actor.run(FATAL, plain)
    reasons = [(await world.info(child)).reason for child in children]
    assert reasons == [f"its parent {named} (p1) failed", f"its parent {plain} (true) failed"]


async def test_the_first_that_ends_otherwise_is_enough_and_the_rest_changes_nothing(world: World) -> None:
    actor = await world.node()
    first, second, third = await world.several(3)
    (child,) = await world.submit(world.child(first, second, third))
    await actor.run(DONE, first)
    await actor.run(FATAL, second)
    info = await world.info(child)
    assert (info.state, info.reason) == (State.SKIPPED, f"its parent {second} (true) failed")
    await actor.run(DONE, third)
    await all_settled(world)
    assert await world.info(child) == info
    assert [one.edge for one in await world.store.parents(LOCAL, child)] == ["met", "broken", "met"]


async def test_each_edge_has_a_need_of_its_own(world: World) -> None:
    actor = await world.node()
    works, breaks, whatever = await world.several(3)
    after = (Edge(works), Edge(breaks, FAILURE), Edge(whatever, FINISH))
    (child,) = await world.submit(world.job(after=after))
    await actor.run(DONE, works)
    await actor.run(FATAL, breaks)
    await world.store.cancel(LOCAL, [whatever], "no")
    assert await world.state(child) is State.READY


async def test_some_have_ended_some_run_and_some_come_along(world: World) -> None:
    actor = await world.node()
    ended, runs = await world.several(2)
    await actor.run(DONE, ended)
    claimed = await actor.take(runs)
    new = world.job()
    _, child = await world.submit(new, world.child(ended, runs, new.id))
    assert await world.state(child) is State.BLOCKED
    await actor.finish(claimed)
    assert await world.state(child) is State.BLOCKED
    await actor.run(DONE, new.id)
    assert await world.state(child) is State.READY


async def test_a_child_is_let_go_once_and_runs_once(world: World) -> None:
    actor = await world.node()
    parents = await world.several(5)
    (child,) = await world.submit(world.child(*parents))
    claimed = await actor.claim()
    for one in claimed:
        await actor.finish(one)
        await actor.finish(one)  # a repeat after a lost answer
        await world.settle()
    run = await actor.run(DONE, child)
    assert run.parents == 5
    await all_settled(world)
    info = await world.info(child)
    assert (info.state, info.fence, len(info.attempts)) == (State.SUCCEEDED, 1, 1)
    assert await actor.claim() == []


async def test_an_order_may_name_jobs_in_any_order(world: World) -> None:
    actor = await world.node()
    first, second = world.job(), world.job()
    last = world.child(first.id, second.id)
    await world.submit(last, second, first)
    assert {one.job_id for one in await actor.claim(start=0)} == {first.id, second.id}
    assert await world.state(last.id) is State.BLOCKED


async def test_orders_of_one_call_may_build_on_each_other(world: World) -> None:
    first = world.job()
    second, third = world.child(first.id), world.job()
    answers = await world.store.submit(LOCAL, [[first], [second], [world.child(NOBODY)], [third]])
    assert [isinstance(answer, list) for answer in answers] == [True, True, False, True]
    assert await world.states(first.id, second.id, third.id) == [State.READY, State.BLOCKED, State.READY]


# -- when it is due ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("priority", [0, 5, 9])
async def test_it_stands_in_line_from_the_moment_its_parents_are_done(world: World, priority: int) -> None:
    actor = await world.node()
    parent = await world.one()
    (child,) = await world.submit(world.child(parent, priority=priority))
    world.clock.advance(1000)
    now = world.clock.now()
    await actor.run(DONE, parent)
    world.clock.advance(5)
    claimed = await actor.take(child)
    assert claimed.rank == now + priority * AGEING_STEP
    assert (await world.info(child)).run_at == aware(now)


async def test_its_own_time_still_counts(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    at = world.clock.now() + HOUR
    (child,) = await world.submit(world.child(parent, at=at, priority=2))
    await actor.run(DONE, parent)
    info = await world.info(child)
    assert (info.state, instant(info.run_at)) == (State.SCHEDULED, at)
    assert await world.promote() == 0
    world.clock.advance(3600)
    assert await world.promote() == 1
    assert (await actor.take(child)).rank == at + 2 * AGEING_STEP


async def test_a_time_that_passes_while_it_waits_makes_no_difference(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    (child,) = await world.submit(world.child(parent, delay=10 * SECOND))
    world.clock.advance(10)
    assert await world.promote() == 0, "it is blocked, not scheduled"
    assert await world.state(child) is State.BLOCKED
    world.clock.advance(10)
    await actor.run(DONE, parent)
    info = await world.info(child)
    assert (info.state, instant(info.run_at)) == (State.READY, world.clock.now())


async def test_due_at_the_very_instant(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    (child,) = await world.submit(world.child(parent, delay=10 * SECOND))
    world.clock.advance(10)
    await actor.run(DONE, parent)
    assert await world.state(child) is State.READY


# -- skips go on and on -----------------------------------------------------------------------------------------------


async def test_a_skip_goes_down_the_whole_graph_and_says_why_at_each_step(world: World) -> None:
    actor = await world.node()
    jobs = [world.job(task="step0")]
    for n in range(1, 40):
        jobs.append(world.child(jobs[-1].id, task=f"step{n}"))
    after_all = world.child(jobs[-1].id, need=FINISH)
    rescue = world.child(jobs[0].id, need=FAILURE)
    never = world.child(jobs[20].id, need=FAILURE)
    await world.submit(*jobs, after_all, rescue, never)
    world.clock.advance(3)
    await actor.run(FATAL, jobs[0].id)
    for above, job in itertools.pairwise(jobs):
        info = await world.info(job.id)
        assert (info.state, instant(info.finished_at)) == (State.SKIPPED, world.clock.now())
        how = "failed" if above is jobs[0] else "was skipped"
        assert info.reason == f"its parent {above.id} ({above.task}) {how}"
    assert await world.states(after_all.id, rescue.id) == [State.READY, State.READY]
    info = await world.info(never.id)
    assert (info.state, info.reason) == (
        State.SKIPPED,
        f"its parent {jobs[20].id} (step20) did not fail: it skipped",
    )


async def test_a_diamond_is_skipped_once(world: World) -> None:
    actor = await world.node()
    top = world.job()
    left, right = world.child(top.id), world.child(top.id)
    bottom = world.child(left.id, right.id)
    await world.submit(top, left, right, bottom)
    await actor.run(FATAL, top.id)
    assert await world.states(left.id, right.id, bottom.id) == [State.SKIPPED] * 3
    assert (await world.info(bottom.id)).reason == f"its parent {min(left.id, right.id)} (true) was skipped"


async def test_of_two_that_break_it_at_once_the_first_is_told(world: World) -> None:
    actor = await world.node()
    parents = await world.several(4)
    (child,) = await world.submit(world.child(*parents))
    claimed = await actor.claim()
    await world.store.finish(SYSTEM, [settled(one, FATAL) for one in reversed(claimed)])
    assert (await world.info(child)).reason == f"its parent {min(parents)} (true) failed"
