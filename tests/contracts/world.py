"""Short ways to say what the contracts need: orders, nodes and what nodes do with jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rota.clock import Chance, ManualClock
from rota.model import outcome
from rota.model.graph import Edge, Need
from rota.model.job import DEFAULT_QUEUE, Claimed, JobInfo, Kind, NewJob, Ref, Spec, Verdict
from rota.model.lifecycle import State
from rota.model.node import NewNode, News, NodeInfo
from rota.model.outcome import CrashRule, Outcome, Problem, Settlement
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.retry import Retry
from rota.model.task import TaskInfo
from rota.model.times import SECOND
from rota.store.base import Answer, Chunk, JobFilter, Store
from rota.store.graph import Settled
from tests.store.backends import Backend

ALICE = Principal("alice")
BOB = Principal("bob")
OLGA = Principal("olga", operator=True)
BOTH = (Kind.FUNCTION, Kind.COMMAND)
PLENTY = 10_000
LEASE = 10 * SECOND

DONE = outcome.Succeeded()
BOOM = outcome.Failed(Problem("builtins.ValueError", "boom", "Traceback: boom"), ("builtins.ValueError",), exit_code=1)
FATAL = outcome.Failed(Problem("rota.Fatal", "hopeless"), fatal=True)
NAP = outcome.Snoozed(30 * SECOND, "not yet")
STOPPED = outcome.Interrupted("its node stopped")
GIVEN_UP = outcome.Cancelled("the task gave up")
BROKEN = outcome.SetAside(Problem("rota.UnknownTask", "no task of that name"))


def offer(*names: str) -> list[TaskInfo]:
    return [TaskInfo(name) for name in names]


def names_of(tasks: Sequence[TaskInfo]) -> list[str]:
    return [task.name for task in tasks]


# What a node offers unless the test says otherwise. (`true` is the task of all jobs that have no other name.)
OFFERED = offer("true", "f", "task", "t")


def command(*argv: str) -> Spec:
    return Spec.command(argv or ("true",))


def ids(answer: Answer) -> list[str]:
    assert isinstance(answer, list), answer
    return [submitted.id for submitted in answer]


@dataclass
class World:
    store: Store
    backend: Backend
    clock: ManualClock
    chance: Chance

    # -- orders ------------------------------------------------------------------------------------------------------
    def job(self, **changes: Any) -> NewJob:
        given = {"id": self.chance.job_id(self.clock.now()), "task": "true", "spec": command(), **changes}
        return NewJob(**given)

    def child(self, *parents: str, need: Need = Need.SUCCESS, **changes: Any) -> NewJob:
        """To be run after these; `after=` for edges that differ."""
        return self.job(**{"after": tuple(Edge(parent, need) for parent in sorted(parents)), **changes})

    async def submit(self, *jobs: NewJob, who: Principal = LOCAL) -> list[str]:
        """One order, which must be accepted."""
        (answer,) = await self.store.submit(who, [jobs])
        return ids(answer)

    async def one(self, who: Principal = LOCAL, **changes: Any) -> str:
        return (await self.submit(self.job(**changes), who=who))[0]

    async def several(self, count: int, who: Principal = LOCAL, **changes: Any) -> list[str]:
        return await self.submit(*(self.job(**changes) for _ in range(count)), who=who)

    # -- nodes -------------------------------------------------------------------------------------------------------
    async def node(self, name: str = "", tasks: Sequence[TaskInfo] = OFFERED, store: Store | None = None) -> Actor:
        incarnation = self.chance.token()
        actor = Actor(self, name or f"node-{incarnation}", incarnation, store or self.store)
        await actor.store.register(SYSTEM, actor.node, tasks)
        return actor

    # -- looking -----------------------------------------------------------------------------------------------------
    async def info(self, job_id: str) -> JobInfo:
        found = await self.store.get(SYSTEM, job_id)
        assert found is not None, f"no job {job_id}"
        return found

    async def state(self, job_id: str) -> State:
        return (await self.info(job_id)).state

    async def states(self, *jobs: str) -> list[State]:
        return [await self.state(job) for job in jobs]

    async def all(self) -> dict[str, JobInfo]:
        return {info.id: info for info in await self.store.find(SYSTEM, JobFilter(limit=PLENTY))}

    async def promote(self) -> int:
        return (await self.store.promote(SYSTEM, PLENTY))[0]

    async def settle(self, limit: int = PLENTY) -> Settled:
        return await self.store.settle(SYSTEM, limit)

    @asynccontextmanager
    async def unchanged(self) -> AsyncIterator[None]:
        """Whatever happens inside leaves no trace in the store, not in a single row."""
        before = self.backend.contents()
        yield
        assert self.backend.contents() == before


@dataclass
class Actor:
    """A node, and what it does with jobs."""

    world: World
    name: str
    incarnation: str
    store: Store
    queues: dict[str, int] = field(default_factory=lambda: {DEFAULT_QUEUE: 4})

    @property
    def node(self) -> NewNode:
        return NewNode(self.name, self.incarnation, ("worker",), self.queues, "1.0", LEASE)

    async def claim(
        self,
        count: int = PLENTY,
        queue: str = DEFAULT_QUEUE,
        kinds: Sequence[Kind] = BOTH,
        start: int = PLENTY,
        wants: Mapping[str, int] | None = None,
    ) -> list[Claimed]:
        chosen = wants or {queue: count}
        return await self.store.claim(SYSTEM, self.incarnation, chosen, kinds, dict.fromkeys(chosen, start))

    async def take(self, job_id: str | None = None, start: bool = True) -> Claimed:
        """Claims the one job that is first in line, and starts it."""
        (claimed,) = await self.claim(1, start=int(start))
        assert job_id in (None, claimed.job_id)
        return claimed

    async def ahead(self, job_id: str | None = None) -> Claimed:
        """Claims the one job that is first in line, and leaves it unstarted."""
        return await self.take(job_id, start=False)

    async def run(self, result: Outcome = DONE, job_id: str | None = None) -> Claimed:
        """Claims, starts and finishes the job that is first in line."""
        claimed = await self.take(job_id)
        assert await self.finish(claimed, result) is Verdict.APPLIED
        return claimed

    async def finish(self, claimed: Claimed, result: Outcome = DONE) -> Verdict:
        (verdict,) = await self.store.finish(SYSTEM, [settled(claimed, result)])
        return verdict

    async def hand_back(self, *refs: Ref) -> list[Verdict]:
        return await self.store.hand_back(SYSTEM, refs)

    async def say(self, ref: Ref, number: int, body: bytes = b"hello\n", stream: str = "stdout") -> Verdict:
        (verdict,) = await self.store.append_output(SYSTEM, [self.chunk(ref, number, body, stream)])
        return verdict

    def chunk(self, ref: Ref, number: int, body: bytes = b"hello\n", stream: str = "stdout") -> Chunk:
        return Chunk(ref.job_id, ref.fence, number, self.world.clock.now(), stream, body)

    async def renew(self, stopping: bool = False) -> News:
        return await self.store.renew(SYSTEM, self.incarnation, stopping)

    async def leave(self) -> None:
        await self.store.leave(SYSTEM, self.incarnation)

    async def seen(self) -> NodeInfo:
        return next(n for n in await self.store.nodes(SYSTEM, past=True) if n.incarnation == self.incarnation)

    async def die(self, rule: CrashRule | None = None) -> list[str]:
        """Falls silent and is taken over."""
        beats = (await self.seen()).beats
        moved = await self.world.store.take_over(SYSTEM, self.incarnation, beats, rule or CrashRule())
        assert moved is not None
        return moved


def settled(claimed: Claimed, result: Outcome) -> Settlement:
    policy = msgspec.json.decode(claimed.retry, type=Retry)
    return outcome.settle(claimed.job_id, claimed.fence, policy, claimed.failures, result, 0.0)
