"""The whole table: every state with every event that a verb of the store can cause.

Where the table has a step, the store takes exactly that step; where it has none, the store changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rota.model.gates import Effect, match
from rota.model.job import JobInfo, Ref, Verdict
from rota.model.lifecycle import STEPS, JobEvent, State
from rota.model.outcome import CrashRule, Ending, Settlement
from rota.model.principal import LOCAL, SYSTEM
from rota.model.requirements import Alone, Requirements
from rota.model.times import instant
from rota.store.admission import NewGate
from tests.contracts.shelves import DUE_IN, EXPIRES_IN, stand, stand_side_by_side
from tests.contracts.world import PLENTY, Actor, World

Cause = Callable[[World, Actor, Ref], Awaitable[None]]


async def promote(world: World, actor: Actor, ref: Ref) -> None:
    world.clock.advance(DUE_IN / 1e6)
    await world.promote()


async def expire(world: World, actor: Actor, ref: Ref) -> None:
    world.clock.advance((DUE_IN + EXPIRES_IN) / 1e6)
    await world.promote()


async def claim(world: World, actor: Actor, ref: Ref) -> None:
    await (await world.node()).claim()


async def hand_back(world: World, actor: Actor, ref: Ref) -> None:
    await actor.hand_back(ref)


async def recover(world: World, actor: Actor, ref: Ref) -> None:
    await world.store.start(SYSTEM, [ref])
    await actor.die(CrashRule(limit=2))


async def back_off(world: World, actor: Actor, ref: Ref) -> None:
    """Comes with the second crash only."""
    (start,) = await world.store.start(SYSTEM, [ref])
    if start.verdict is Verdict.APPLIED:
        await actor.die()
        second = await world.node()
        await second.take(ref.job_id)
        await second.die()
    else:
        await actor.die()


async def quarantine(world: World, actor: Actor, ref: Ref) -> None:
    await world.store.start(SYSTEM, [ref])
    await actor.die(CrashRule(limit=1))


async def cancel(world: World, actor: Actor, ref: Ref) -> None:
    """A running job is only asked to stop; it ends when its attempt does, whatever that would have."""
    await world.store.cancel(LOCAL, [ref.job_id], "not needed")
    await actor.hand_back(ref)


async def replay(world: World, actor: Actor, ref: Ref) -> None:
    await world.store.replay(LOCAL, [ref.job_id])


async def rerun(world: World, actor: Actor, ref: Ref) -> None:
    await world.store.replay(LOCAL, [ref.job_id], again=True)


def finish(event: JobEvent, ending: Ending) -> Cause:
    async def cause(world: World, actor: Actor, ref: Ref) -> None:
        await world.store.start(SYSTEM, [ref])
        await world.store.finish(SYSTEM, [Settlement(ref.job_id, ref.fence, event, ending)])

    return cause


CAUSES: dict[JobEvent, Cause] = {
    JobEvent.PROMOTE: promote,
    JobEvent.EXPIRE: expire,
    JobEvent.CLAIM: claim,
    JobEvent.HAND_BACK: hand_back,
    JobEvent.RECOVER: recover,
    JobEvent.BACK_OFF: back_off,
    JobEvent.QUARANTINE: quarantine,
    JobEvent.CANCEL: cancel,
    JobEvent.REPLAY: replay,
    JobEvent.RERUN: rerun,
    JobEvent.SUCCEED: finish(JobEvent.SUCCEED, Ending.SUCCEEDED),
    JobEvent.RETRY: finish(JobEvent.RETRY, Ending.FAILED),
    JobEvent.SNOOZE: finish(JobEvent.SNOOZE, Ending.SNOOZED),
    JobEvent.FAIL: finish(JobEvent.FAIL, Ending.FAILED),
    JobEvent.INTERRUPT: finish(JobEvent.INTERRUPT, Ending.INTERRUPTED),
    JobEvent.SET_ASIDE: finish(JobEvent.SET_ASIDE, Ending.SET_ASIDE),
}
# These need another job or a gate, see below.
BY_PARENTS = {JobEvent.RELEASE, JobEvent.DEFER, JobEvent.SKIP, JobEvent.REOPEN}
BY_GATES = {JobEvent.HOLD, JobEvent.ADMIT, JobEvent.DROP}
# A verb may set a waiting row aside when it turns out to be broken: that needs a broken row, which no verb makes.
BY_CLAIM_ALONE = {(state, JobEvent.SET_ASIDE) for state in (State.BLOCKED, State.SCHEDULED, State.HELD, State.READY)}


def test_every_event_has_its_cause_or_its_excuse() -> None:
    assert set(CAUSES) | BY_GATES | BY_PARENTS == set(JobEvent)
    assert len(CAUSES) + len(BY_GATES) + len(BY_PARENTS) == len(JobEvent)


# What these do, they do to all jobs at once.
TO_ALL = {JobEvent.PROMOTE, JobEvent.EXPIRE, JobEvent.CLAIM}
# These take a node away, or need a line without others: each state by itself.
APART = {JobEvent.RECOVER, JobEvent.BACK_OFF, JobEvent.QUARANTINE}


def check(state: State, event: JobEvent, before: JobInfo, after: JobInfo) -> None:
    if (state, event) in STEPS and (state, event) not in BY_CLAIM_ALONE:
        assert after.state is STEPS[state, event], f"{state} by {event}"
        assert after.ended == (after.finished_at is not None)
    else:
        assert after == before, f"{state} by {event}"


@pytest.mark.parametrize("event", sorted(CAUSES.keys() - TO_ALL - APART))
async def test_the_store_takes_the_steps_of_the_table_and_no_others(world: World, event: JobEvent) -> None:
    """One job in each state, side by side: what happens to one leaves the others as they are."""
    actor = await world.node()
    refs = await stand_side_by_side(world, actor)
    for state, ref in refs.items():
        before, others = await world.info(ref.job_id), await all_but(world, ref)
        assert before.state is state
        await CAUSES[event](world, actor, ref)
        check(state, event, before, await world.info(ref.job_id))
        assert await all_but(world, ref) == others, f"the others when {state} was to {event}"


async def all_but(world: World, ref: Ref) -> dict[str, JobInfo]:
    return {job: info for job, info in (await world.all()).items() if job != ref.job_id}


@pytest.mark.parametrize("event", sorted(TO_ALL))
async def test_what_happens_to_all_takes_the_steps_of_the_table_and_no_others(world: World, event: JobEvent) -> None:
    actor = await world.node()
    refs = await stand_side_by_side(world, actor)
    before = {state: await world.info(ref.job_id) for state, ref in refs.items()}
    await CAUSES[event](world, actor, refs[State.READY])
    for state, ref in refs.items():
        assert before[state].state is state
        check(state, event, before[state], await world.info(ref.job_id))


@pytest.mark.parametrize("event", sorted(APART))
@pytest.mark.parametrize("state", list(State))
async def test_a_crash_takes_the_steps_of_the_table_and_no_others(world: World, state: State, event: JobEvent) -> None:
    actor = await world.node()
    ref = await stand(world, actor, state)
    before = await world.info(ref.job_id)
    assert before.state is state
    await CAUSES[event](world, actor, ref)
    check(state, event, before, await world.info(ref.job_id))


@pytest.mark.parametrize("event", sorted(CAUSES))
async def test_a_job_that_does_not_exist_stays_that_way(world: World, event: JobEvent) -> None:
    actor = await world.node()
    await CAUSES[event](world, actor, Ref("00000000-0000-7000-8000-000000000000", 1))
    assert await world.all() == {}


# -- what parents cause -----------------------------------------------------------------------------------------------


async def waiting(world: World, actor: Actor, state: State, **changes: Any) -> tuple[str, Ref]:
    """A job that runs, and one in this state that was ordered after it."""
    parent = await world.one()
    claimed = await actor.take(parent)
    (child,) = await world.submit(world.child(parent, **changes))
    if state is not State.BLOCKED:
        world.backend.put(child, state)
    return child, claimed.ref


async def end(world: World, ref: Ref, event: JobEvent, ending: Ending) -> None:
    await world.store.finish(SYSTEM, [Settlement(ref.job_id, ref.fence, event, ending)])


# Others than these are on no shelf that a hand can put them on without a claim.
STANDS = sorted(set(State) - {State.RUNNING})


@pytest.mark.parametrize("state", STANDS)
@pytest.mark.parametrize("event", [JobEvent.RELEASE, JobEvent.DEFER, JobEvent.SKIP])
async def test_parents_move_what_is_blocked_and_nothing_else(world: World, state: State, event: JobEvent) -> None:
    child, ref = await waiting(world, await world.node(), state, delay=DUE_IN if event is JobEvent.DEFER else 0)
    before = await world.info(child)
    if event is JobEvent.SKIP:
        await end(world, ref, JobEvent.FAIL, Ending.FAILED)
    else:
        await end(world, ref, JobEvent.SUCCEED, Ending.SUCCEEDED)
    after = await world.info(child)
    if state is State.BLOCKED:
        assert after.state is STEPS[state, event]
    else:
        assert after == before


@pytest.mark.parametrize("state", list(State))
async def test_what_has_ended_reopens_for_its_parents_and_what_lives_does_not(world: World, state: State) -> None:
    actor = await world.node()
    child, ref = await waiting(world, actor, state if state is not State.RUNNING else State.READY)
    if state is State.RUNNING:
        await actor.take(child)
    await end(world, ref, JobEvent.FAIL, Ending.FAILED)
    stands = State.SKIPPED if state is State.BLOCKED else state
    before = await world.info(child)
    assert before.state is stands
    await world.store.replay(LOCAL, [ref.job_id, child], again=True)
    after = await world.info(child)
    if (stands, JobEvent.REOPEN) in STEPS:
        assert after.state is STEPS[stands, JobEvent.REOPEN]
        assert after.finished_at is None
    else:
        assert after == before


# -- what gates cause -------------------------------------------------------------------------------------------------

GATE = "01900000-0000-7000-8000-000000000001"


async def close(world: World, effect: Effect) -> None:
    await world.store.close_gate(LOCAL, NewGate(GATE, match(everything=True), effect, "why"))
    await world.store.admit(SYSTEM, PLENTY)


@pytest.mark.parametrize("state", list(State))
async def test_a_gate_holds_what_is_ready_and_lets_it_go_again(world: World, state: State) -> None:
    """What waits for something else is held when that is over, not before."""
    ref = await stand(world, await world.node(), state)
    before = await world.info(ref.job_id)
    await close(world, Effect.PAUSE)
    after = await world.info(ref.job_id)
    if state is State.READY:
        assert after.state is STEPS[state, JobEvent.HOLD]
        assert after.reason == "why"
    else:
        assert after == before
    assert await world.store.open_gate(LOCAL, GATE)
    await world.store.admit(SYSTEM, PLENTY)
    assert await world.info(ref.job_id) == before
    assert STEPS[State.HELD, JobEvent.ADMIT] is State.READY


@pytest.mark.parametrize("state", list(State))
async def test_a_gate_drops_what_waits_and_nothing_else(world: World, state: State) -> None:
    ref = await stand(world, await world.node(), state)
    before = await world.info(ref.job_id)
    await close(world, Effect.DROP)
    after = await world.info(ref.job_id)
    if (state, JobEvent.DROP) in STEPS:
        assert after.state is STEPS[state, JobEvent.DROP]
        assert (instant(after.finished_at), after.reason) == (world.clock.now(), "why")
    else:
        assert after == before


async def test_a_job_that_is_not_alone_in_time_is_put_off(world: World) -> None:
    actor = await world.node()
    await actor.take(await world.one())
    wish = Alone(match(queue="default"), None, DUE_IN)
    lone = await world.one(requirements=Requirements(alone=wish))
    assert await actor.claim() == []
    assert await world.state(lone) is State.HELD
    await world.store.admit(SYSTEM, PLENTY)
    assert await world.state(lone) is State.HELD
    world.clock.advance(DUE_IN / 1e6)
    await world.store.admit(SYSTEM, PLENTY)
    assert await world.state(lone) is STEPS[State.HELD, JobEvent.DEFER]
