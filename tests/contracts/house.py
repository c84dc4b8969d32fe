"""A world in which Alice has one job in every state, and secrets that nobody else may learn."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from rota.model.gates import Effect, match
from rota.model.graph import Edge
from rota.model.job import Claimed, Membership
from rota.model.lifecycle import State
from rota.model.limits import Key, Limit
from rota.model.principal import SYSTEM
from rota.model.requirements import Requirements
from rota.model.times import DAY
from rota.store.admission import NewGate
from rota.store.log_store import Run
from rota.store.values import Position
from tests.contracts.world import ALICE, DONE, FATAL, GIVEN_UP, PLENTY, Actor, World

WORKFLOW = "01900000-0000-7000-8000-000000000001"
PAUSING, DROPPING, HIS = (f"01900000-0000-7000-8000-00000000000{n}" for n in (2, 3, 4))


@dataclass
class House:
    """One job of Alice's in every state that verbs lead to, and the node that holds two of them."""

    world: World
    actor: Actor
    jobs: dict[State, str]
    running: Claimed
    ahead: Claimed

    @property
    def ids(self) -> list[str]:
        return [*self.jobs.values(), self.ahead.job_id]

    @property
    def run(self) -> Run:
        ref, now = self.running.ref, self.world.clock.now()
        return Run(ref.job_id, ref.fence, 0, 0, 1, 6, now, "alice", self.running.task, False)


async def filled(world: World) -> House:
    actor = await world.node("box")
    jobs: dict[State, str] = {}
    for state, result in ((State.SUCCEEDED, DONE), (State.FAILED, FATAL), (State.CANCELLED, GIVEN_UP)):
        jobs[state] = await world.one(ALICE)
        await actor.run(result)
    jobs[State.RUNNING] = await world.one(ALICE)
    running = await actor.take()
    await actor.say(running.ref, 0, b"secret")
    await world.store.cancel(ALICE, [running.job_id], "her secret reason")
    await world.one(ALICE)
    ahead = await actor.ahead()
    jobs[State.SCHEDULED] = await world.one(ALICE, delay=1, expires=DAY)
    jobs[State.READY] = await world.one(ALICE, key="k")
    family = Membership(WORKFLOW, "her secret plan")
    after = (Edge(running.job_id),)
    jobs[State.BLOCKED] = await world.one(ALICE, after=after, workflow=family)
    jobs[State.SKIPPED] = await world.one(ALICE, after=(Edge(jobs[State.FAILED]),))
    for state, gate, effect in (
        (State.HELD, PAUSING, Effect.PAUSE),
        (State.DROPPED, DROPPING, Effect.DROP),
    ):
        await world.store.close_gate(ALICE, NewGate(gate, match(label=state.value), effect, "her secret reason"))
        jobs[state] = await world.one(
            ALICE, requirements=Requirements(labels=(state.value,), keys=(Key("her secret key", 1),))
        )
    await world.store.set_limit(ALICE, Limit("her secret key", 7))
    await world.store.acquire_lock(ALICE, "her lock", "holder", DAY)
    await world.store.admit(SYSTEM, PLENTY)
    assert [await world.state(job) for job in jobs.values()] == list(jobs)
    return House(world, actor, jobs, running, ahead)


async def hers(house: House) -> dict[str, object]:
    """All that there is to see of Alice's jobs."""
    world = house.world
    found: dict[str, object] = {job: await world.info(job) for job in house.ids}
    found |= {f"{job} waits": await world.store.parents(SYSTEM, job) for job in house.ids}
    found["workflow"] = await world.store.workflow(SYSTEM, WORKFLOW)
    found["gates"] = [gate for gate in await world.store.gates(SYSTEM) if gate.author == "alice"]
    found["limits"] = [limit for limit in await world.store.limits(SYSTEM) if limit.owner == "alice"]
    found["locks"] = await world.store.locks(ALICE)
    for job in house.ids:
        waiting = await world.store.waiting(SYSTEM, job)
        # (Others may stand before it, and in the same queue.)
        found[f"why {job}"] = None if waiting is None else replace(waiting, queue=None, ahead=0)
    found |= {f"{job} said": await world.store.output(SYSTEM, job, Position(), PLENTY) for job in house.ids}
    return found
