"""The whole table: every state with every event that a verb of the store can cause.

Where the table has a step, the store takes exactly that step; where it has none, the store changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from rota.model.job import Ref, Verdict
from rota.model.lifecycle import STEPS, Event, State
from rota.model.outcome import CrashRule, Ending, Settlement
from rota.model.principal import LOCAL, SYSTEM
from tests.contracts.shelves import DUE_IN, EXPIRES_IN, stand
from tests.contracts.world import Actor, World

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


def finish(event: Event, ending: Ending) -> Cause:
    async def cause(world: World, actor: Actor, ref: Ref) -> None:
        await world.store.start(SYSTEM, [ref])
        await world.store.finish(SYSTEM, [Settlement(ref.job_id, ref.fence, event, ending)])

    return cause


CAUSES: dict[Event, Cause] = {
    Event.PROMOTE: promote,
    Event.EXPIRE: expire,
    Event.CLAIM: claim,
    Event.HAND_BACK: hand_back,
    Event.RECOVER: recover,
    Event.BACK_OFF: back_off,
    Event.QUARANTINE: quarantine,
    Event.CANCEL: cancel,
    Event.REPLAY: replay,
    Event.SUCCEED: finish(Event.SUCCEED, Ending.SUCCEEDED),
    Event.RETRY: finish(Event.RETRY, Ending.FAILED),
    Event.SNOOZE: finish(Event.SNOOZE, Ending.SNOOZED),
    Event.FAIL: finish(Event.FAIL, Ending.FAILED),
    Event.INTERRUPT: finish(Event.INTERRUPT, Ending.INTERRUPTED),
    Event.SET_ASIDE: finish(Event.SET_ASIDE, Ending.SET_ASIDE),
}
# Verbs for these come with workflows, gates and limits.
NO_VERB_YET = {Event.RELEASE, Event.DEFER, Event.HOLD, Event.ADMIT, Event.SKIP, Event.DROP, Event.REOPEN}
# A verb may set a waiting row aside when it turns out to be broken: that needs a broken row, which no verb makes.
BY_CLAIM_ALONE = {(state, Event.SET_ASIDE) for state in (State.BLOCKED, State.SCHEDULED, State.HELD, State.READY)}


def test_every_event_has_its_cause_or_its_excuse() -> None:
    assert set(CAUSES) | NO_VERB_YET == set(Event)
    assert not set(CAUSES) & NO_VERB_YET


@pytest.mark.parametrize("event", sorted(CAUSES))
@pytest.mark.parametrize("state", list(State))
async def test_the_store_takes_the_steps_of_the_table_and_no_others(world: World, state: State, event: Event) -> None:
    actor = await world.node()
    ref = await stand(world, actor, state)
    before = await world.info(ref.job_id)
    assert before.state is state
    await CAUSES[event](world, actor, ref)
    after = await world.info(ref.job_id)
    if (state, event) in STEPS and (state, event) not in BY_CLAIM_ALONE:
        assert after.state is STEPS[state, event]
        assert after.ended == (after.finished_at is not None)
    else:
        assert after == before


@pytest.mark.parametrize("event", sorted(CAUSES))
async def test_a_job_that_does_not_exist_stays_that_way(world: World, event: Event) -> None:
    actor = await world.node()
    await CAUSES[event](world, actor, Ref("00000000-0000-7000-8000-000000000000", 1))
    assert await world.all() == {}
