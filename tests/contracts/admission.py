"""Short ways to say what the contracts of admission need: gates, keys, and jobs that want to be alone."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota.model.gates import Effect, Gate, match, scope
from rota.model.job import Claimed, Verdict
from rota.model.lifecycle import State
from rota.model.limits import Key, Limit, Policy, Rate, slack
from rota.model.outcome import CrashRule, Outcome
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.requirements import Alone, Requirements
from rota.model.retry import Retry
from rota.model.times import SECOND, Duration, Instant
from rota.store.admission import Admitted, LimitInfo, NewGate, QueueInfo, Waiting
from rota.store.values import Cancelling
from tests.contracts.world import BOOM, BROKEN, DONE, FATAL, GIVEN_UP, NAP, PLENTY, STOPPED, Actor, World, settled

PAUSE, DROP = Effect.PAUSE, Effect.DROP
HELD, READY, RUNNING, DROPPED = State.HELD, State.READY, State.RUNNING, State.DROPPED
WHY = "a deploy"


def names(claimed: Iterable[Claimed]) -> list[str]:
    return [one.job_id for one in claimed]


# -- what jobs bring along --------------------------------------------------------------------------------------------
def labelled(*labels: str) -> Requirements:
    return Requirements(labels=tuple(sorted(labels)))


def needs(*keys: Key) -> Requirements:
    return Requirements(keys=tuple(sorted(keys, key=lambda key: key.name)))


def mutex(*keys: str, policy: Policy = Policy.WAIT) -> Requirements:
    return needs(*(Key(key, 1, None, policy) for key in keys))


def rated(count: int, window: Duration, key: str = "r") -> Requirements:
    return needs(Key(key, None, Rate(count, window)))


def lone(where: str = "queue:default", drain: Duration = 5 * SECOND, cancel: bool = False) -> Requirements:
    fits = scope(where)
    return Requirements(alone=Alone(fits, fits.like, drain, cancel))


def comes_back(at: Instant, window: Duration) -> Instant:
    """When a token that was taken then may be taken again."""
    return at + window + slack(window)


# -- gates ------------------------------------------------------------------------------------------------------------
async def close(
    world: World,
    effect: Effect = PAUSE,
    who: Principal = LOCAL,
    reason: str = WHY,
    until: Instant | None = None,
    **fits: Any,
) -> Gate:
    gate_id = world.chance.job_id(world.clock.now())
    return await world.store.close_gate(who, NewGate(gate_id, match(**fits), effect, reason, until))


async def open_again(world: World, gate: Gate, who: Principal = LOCAL) -> None:
    assert await world.store.open_gate(who, gate.id)
    await admitted(world)


async def gate_info(world: World, gate: Gate, who: Principal = LOCAL) -> Gate:
    (found,) = (one for one in await world.store.gates(who) if one.id == gate.id)
    return found


async def admitted(world: World, limit: int = PLENTY) -> Admitted:
    """Until there is nothing left to do at this instant."""
    for _ in range(200):
        answer = await world.store.admit(SYSTEM, limit)
        if not answer.more:
            return answer
    raise AssertionError("it never ends")


async def all_settled(world: World) -> None:
    """What ended has let its children go on or be skipped."""
    for _ in range(200):
        if not (await world.settle()).unsettled:
            return
    raise AssertionError("it never ends")


# -- limits -----------------------------------------------------------------------------------------------------------
async def limit(
    world: World, key: str, concurrency: int | None = None, rate: Rate | None = None, who: Principal = LOCAL
) -> None:
    await world.store.set_limit(who, Limit(key, concurrency, rate))


async def key_info(world: World, key: str, who: Principal = LOCAL) -> LimitInfo:
    (found,) = await world.store.limits(who, [key])
    return found


async def holders(world: World, key: str, who: Principal = LOCAL) -> list[str]:
    return [holder.job for info in await world.store.limits(who, [key]) for holder in info.holders]


# -- queues -----------------------------------------------------------------------------------------------------------
async def queue_info(world: World, name: str = "default", who: Principal = LOCAL) -> QueueInfo:
    (found,) = (one for one in await world.store.queues(who) if one.name == name)
    return found


async def why(world: World, job_id: str, who: Principal = LOCAL) -> Waiting:
    found = await world.store.waiting(who, job_id)
    assert found is not None
    return found


async def finish_all(actor: Actor, claimed: Iterable[Claimed]) -> None:
    await actor.store.finish(SYSTEM, [settled(one, DONE) for one in claimed])


async def drain(world: World, actor: Actor, most: int = 1_000) -> list[str]:
    """Runs one job after the other until none is left that may run; in the order in which they went."""
    order: list[str] = []
    while len(order) < most:
        batch = await actor.claim(1)
        if not batch:
            await admitted(world)
            if not (batch := await actor.claim(1)):
                return order
        order += names(batch)
        await finish_all(actor, batch)
    raise AssertionError("it never ends")


# -- whatever ends an attempt -----------------------------------------------------------------------------------------
End = Callable[[World, Actor, Claimed], Awaitable[None]]


def finishing(result: Outcome) -> End:
    async def end(world: World, actor: Actor, claimed: Claimed) -> None:
        assert await actor.finish(claimed, result) is Verdict.APPLIED

    return end


async def cancelled(world: World, actor: Actor, claimed: Claimed) -> None:
    assert await world.store.cancel(LOCAL, [claimed.job_id], "enough") == [Cancelling.REQUESTED]
    assert await world.state(claimed.job_id) is RUNNING
    assert await actor.finish(claimed, BOOM) is Verdict.APPLIED


async def crashed(world: World, actor: Actor, claimed: Claimed) -> None:
    assert await actor.die(CrashRule()) == [claimed.job_id]


async def quarantined(world: World, actor: Actor, claimed: Claimed) -> None:
    assert await actor.die(CrashRule(limit=1)) == [claimed.job_id]
    assert await world.state(claimed.job_id) is State.FAILED


async def left(world: World, actor: Actor, claimed: Claimed) -> None:
    await actor.leave()


async def rescued(world: World, actor: Actor, claimed: Claimed) -> None:
    world.backend.bury_node(actor.incarnation)
    assert await world.store.rescue(SYSTEM, CrashRule(limit=1)) == [claimed.job_id]


ENDS: dict[str, tuple[End, bool]] = {  # and whether it is ready again at once
    "success": (finishing(DONE), False),
    "failure": (finishing(FATAL), False),
    "retry": (finishing(BOOM), False),
    "snooze": (finishing(NAP), False),
    "set aside": (finishing(BROKEN), False),
    "gave up": (finishing(GIVEN_UP), False),
    "interrupted": (finishing(STOPPED), True),
    "cancel": (cancelled, False),
    "crash": (crashed, True),
    "quarantine": (quarantined, False),
    "leave": (left, True),
    "rescue": (rescued, False),
}


# -- at random --------------------------------------------------------------------------------------------------------
def most_within(starts: Sequence[Instant], window: Duration) -> int:
    """The most starts in any window of that length."""
    return max(sum(first <= at < first + window for at in starts) for first in starts)


@dataclass
class Walk:
    """Nodes that claim, end and die over jobs that need keys, and a person who changes the bounds; the model of it is
    who runs, and with which keys."""

    world: World
    dice: random.Random
    nodes: list[Actor]
    bounds: dict[str, int] = field(default_factory=lambda: {"a": 1, "b": 2, "c": 3})
    wanted: dict[str, frozenset[str]] = field(default_factory=dict)  # of each job that has not ended: its keys
    running: dict[str, tuple[Actor, Claimed]] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)  # how many held each key at the last look

    @classmethod
    async def begin(cls, world: World, seed: int) -> Walk:
        return cls(world, random.Random(seed), [await world.node() for _ in range(3)])

    async def step(self) -> None:
        deeds = [self.submit, self.claim, self.finish, self.die, self.set_bound, self.pass_time]
        (deed,) = self.dice.choices(deeds, [6, 6, 6, 1, 1, 2])
        await deed()

    async def submit(self) -> None:
        chosen = frozenset(self.dice.sample("abc", self.dice.randint(0, 3)))
        requirements = needs(*(Key(key, "?abc".index(key)) for key in chosen))
        job = await self.world.one(requirements=requirements, priority=self.dice.randrange(10), retry=Retry(retries=0))
        self.wanted[job] = chosen

    async def claim(self) -> None:
        actor = self.dice.choice(self.nodes)
        for one in await actor.claim(self.dice.randint(1, 6)):
            assert one.job_id in self.wanted.keys() - self.running.keys()
            self.running[one.job_id] = (actor, one)

    async def finish(self) -> None:
        if self.running:
            actor, claimed = self.running.pop(self.dice.choice(sorted(self.running)))
            endings: list[Outcome] = [DONE, FATAL, BROKEN, STOPPED]
            result = self.dice.choice(endings)
            await actor.finish(claimed, result)
            if result is not STOPPED:
                self.wanted.pop(claimed.job_id)

    async def die(self) -> None:
        place = self.dice.randrange(len(self.nodes))
        dead, self.nodes[place] = self.nodes[place], await self.world.node()
        await dead.die(CrashRule(limit=1_000, delay=0))
        self.running = {job: one for job, one in self.running.items() if one[0] is not dead}

    async def set_bound(self) -> None:
        key = self.dice.choice("abc")
        self.bounds[key] = self.dice.randint(1, 4)
        await limit(self.world, key, self.bounds[key])

    async def pass_time(self) -> None:
        self.world.clock.advance(1)
        await self.world.promote()
        await self.world.store.admit(SYSTEM, 50)

    async def check(self) -> None:
        for key, bound in self.bounds.items():
            mine = sorted(job for job in self.running if key in self.wanted[job])
            assert sorted(await holders(self.world, key)) == mine
            assert len(mine) <= max(bound, self.before.get(key, 0)), "after it was lowered, fewer and fewer"
            self.before[key] = len(mine)

    async def end(self) -> None:
        """All that are left can run."""
        for actor, claimed in self.running.values():
            await actor.finish(claimed)
            self.wanted.pop(claimed.job_id)
        self.world.clock.advance(60)
        await self.world.promote()
        assert sorted(await drain(self.world, self.nodes[0])) == sorted(self.wanted)
