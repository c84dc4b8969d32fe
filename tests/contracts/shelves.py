"""Brings a job to any state there is: by the verbs where they lead there, else behind the store's back."""

from __future__ import annotations

from typing import Any

from rota.model.job import Ref, Verdict
from rota.model.lifecycle import State
from rota.model.outcome import Outcome
from rota.model.times import HOUR, SECOND
from tests.contracts.world import DONE, FATAL, GIVEN_UP, Actor, World

DUE_IN = 10 * SECOND
EXPIRES_IN = HOUR  # after it is due
ENDED: dict[State, Outcome] = {State.SUCCEEDED: DONE, State.FAILED: FATAL, State.CANCELLED: GIVEN_UP}


async def stand(world: World, actor: Actor, state: State, **changes: Any) -> Ref:
    """A job in this state; if it runs, then claimed ahead by the actor and not started."""
    if state is State.SCHEDULED:
        return Ref(await world.one(delay=DUE_IN, expires=EXPIRES_IN, **changes), 0)
    job_id = await world.one(expires=EXPIRES_IN, **changes)
    if state in ENDED:
        return (await actor.run(ENDED[state], job_id)).ref
    ref = (await actor.ahead(job_id)).ref
    if state is not State.RUNNING:
        assert await actor.hand_back(ref) == [Verdict.APPLIED]
    if state not in (State.RUNNING, State.READY):
        world.backend.put(job_id, state)
    return ref


# What is ready would be claimed by whoever makes the next one: it comes last.
STATES = sorted(State, key=lambda state: state is State.READY)


async def stand_side_by_side(world: World, actor: Actor) -> dict[State, Ref]:
    """One job in each state."""
    return {state: await stand(world, actor, state) for state in STATES}


async def one_of_each(world: World, actor: Actor) -> dict[State, str]:
    return {state: ref.job_id for state, ref in (await stand_side_by_side(world, actor)).items()}
