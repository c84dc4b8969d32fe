"""Those who order workflows and decide who may run: parents and children, keys, gates, queues, jobs that run alone.

What they close they open again, by a wish of their own or by the time they named. What they were told is noted, and
what they decided is noted where it is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec

from rota.app_core import AppCore
from rota.clients.jobs import JobsClient
from rota.clients.limits import LimitsClient
from rota.clock import Chance
from rota.errors import InvalidInput, KeyConflict, NotFound, StoreError
from rota.handles.workflow import Workflow
from rota.model.gates import Match
from rota.model.graph import Edge, Need
from rota.model.job import Membership, NewJob, Spec
from rota.model.limits import Key, Policy, Rate
from rota.model.principal import LOCAL
from rota.model.requirements import NO_REQUIREMENTS, Alone, Requirements
from rota.model.retry import Retry
from rota.model.times import SECOND, iso
from tests.sim.customer import open_store
from tests.sim.loop import SkewedClock
from tests.sim.network import Link
from tests.sim.plan import CRON

if TYPE_CHECKING:
    from tests.sim.world import World

# Keys as jobs bring them along: the same name always with the same bounds.
KEYS = {
    "mutex": Key("mutex", 1),
    "pair": Key("pair", 2),
    "slow": Key("slow", None, Rate(2, 2 * SECOND)),
    "both": Key("both", 2, Rate(3, SECOND)),
    "open": Key("open"),
    "once": Key("once", 1, None, Policy.SKIP),
    "latest": Key("latest", 1, None, Policy.REPLACE),
}
LABELS = ("red", "blue")
NEEDS = (Need.SUCCESS, Need.SUCCESS, Need.SUCCESS, Need.FINISH, Need.FAILURE, Need.FINE, Need.TROUBLE, Need.TROUBLE)
# How often the last wishes, when all is well, are tried.
TRIES = 20
PATIENCE = 0.5


class _App:
    """As much of an app as a `Workflow` needs."""

    def __init__(self, client: JobsClient) -> None:
        self._client = client
        self.this = self

    async def client(self) -> JobsClient:
        return self._client


class Steward:
    def __init__(self, world: World) -> None:
        self._world, self._note = world, world.witness.note
        self._rng = Random(f"{world.plan.seed}/steward")
        self.link = Link(world, "steward")
        clock = SkewedClock(world.loop, self._rng.uniform(-60, 60)) if world.server else world.clock
        self.wire, self._store = world.way("steward", self.link, clock, None)
        chance = Chance(self._rng.getrandbits(64))
        self._client, self._admissions = (
            JobsClient(self._store, LOCAL, chance),
            LimitsClient(self._store, LOCAL, chance),
        )
        self._app = cast(AppCore, _App(self._client))
        self._jobs: list[str] = []
        self._workflows: list[str] = []
        self._orders = 0

    async def run(self) -> None:
        if self._world.must_be_opened:
            await open_store(self._store)
        plan, rng = self._world.plan, self._rng
        kinds: dict[Callable[[], Awaitable[object]], int] = {
            self._order_workflow: 22, self._order_keyed: 26, self._order_child: 8, self._order_labelled: 8,
            self._order_alone: 7, self._close: 9, self._pause_queue: 5, self._limit: 6, self._feedback: 4,
            self._step: 1, self._retry: 6, self._again: 5, self._cancel: 4, self._hurry_one: 2,
        }  # fmt: skip
        visits = [
            asyncio.create_task(
                self._at(rng.uniform(0, plan.length), rng.choices(list(kinds), list(kinds.values()))[0])
            )
            for _ in range(plan.decrees)
        ]
        for task in visits:
            await task

    async def _at(self, seconds: float, visit: Callable[[], Awaitable[object]]) -> None:
        await asyncio.sleep(seconds)
        await self._try(visit)

    async def _try(self, visit: Callable[[], Awaitable[object]]) -> bool:
        """False if the answer leaves it in doubt."""
        try:
            await visit()
        except StoreError:
            return False
        except (NotFound, InvalidInput):
            pass
        return True

    # -- the end -----------------------------------------------------------------------------------------------------
    async def finish(self) -> None:
        """Nothing is in the way any more: all gates open, all queues go on."""
        for _ in range(TRIES):
            if await self._try(self._open_all):
                return
            await asyncio.sleep(PATIENCE)
        self._note("steward", "broken", error="all is well, and the gates could not be opened")

    async def _open_all(self) -> None:
        for gate in await self._admissions.gates():
            if gate.job is None:
                await self._store.open_gate(LOCAL, gate.id)
        for name in ("default", "mail", CRON):
            await self._admissions.resume_queue(name)

    async def finale(self) -> None:
        """Some of everything, while all is well: whoever waits must not wait for longer than he has to."""
        parents = [self._make() for _ in range(3)]
        child = self._make(after=tuple(Edge(parent.id, Need.FINISH) for parent in parents))
        await self._submit([*parents, child])
        for name in ("mutex", "mutex", "mutex", "slow", "slow", "slow", "both"):
            await self._submit([self._make(keys=[name])])
        await self._submit([self._make(alone=Match(label="red"))])
        gate = await self._admissions.pause(reason="finale", label="blue")
        await self._submit([self._make(labels=("blue",)), self._make(labels=("red",))])
        await asyncio.sleep(1)
        await self._store.open_gate(LOCAL, gate.id)

    # -- orders ------------------------------------------------------------------------------------------------------
    def _make(
        self, keys: list[str] | None = None, labels: tuple[str, ...] = (), alone: Match | None = None, **rest: Any
    ) -> NewJob:
        rng = self._rng
        task = rng.choice(("command", "play", "grind"))
        wish = None
        if alone is not None:
            wish = Alone(alone, alone.like, rng.choice([1, 3, 8]) * SECOND, rng.random() < 0.3)
        brought = tuple(KEYS[name] for name in sorted(keys or ()))
        return NewJob(
            id=self._client.job_ids(1)[0],
            task=task,
            spec=Spec.command(["sim"]) if task == "command" else Spec.function(task),
            queue=rng.choice(("default", "default", "mail")),
            priority=rng.randint(0, 9),
            delay=rng.randint(1, 4_000_000) if rng.random() < 0.2 else 0,
            retry=Retry(rng.randint(0, 2), backoff="500ms..1s"),
            timeout=rng.randint(2, 5) * SECOND if rng.random() < 0.2 else None,
            expires=rng.randint(3, 12) * SECOND if rng.random() < 0.05 else None,
            requirements=Requirements(labels, brought, wish) if labels or brought or wish else NO_REQUIREMENTS,
            **rest,
        )

    async def _order_workflow(self) -> None:
        rng, jobs = self._rng, list[NewJob]()
        workflow = Membership(self._client.job_ids(1)[0], "w")
        for place in range(rng.randint(2, 7)):
            parents = rng.sample(jobs, min(len(jobs), rng.choice((1, 1, 2, 3)))) if place else []
            if parents and self._jobs and rng.random() < 0.05:
                parents = parents[1:]
            after = tuple(Edge(one.id, rng.choice(NEEDS)) for one in sorted(parents, key=lambda one: one.id))
            keys = [rng.choice(("mutex", "pair", "slow"))] if rng.random() < 0.15 else None
            labels = (rng.choice(LABELS),) if rng.random() < 0.15 else ()
            jobs.append(self._make(keys, labels, after=after, workflow=workflow, key=self._key(not after)))
        rng.shuffle(jobs)
        for _ in range(3):
            answer = await self._submit(jobs)
            if answer == "ok":
                self._workflows.append(workflow.id)
            if answer != "unknown" or not any(job.key for job in jobs):
                return
            await asyncio.sleep(rng.uniform(0.1, 2))
            jobs, workflow = self._once_more(jobs)

    def _key(self, allowed: bool) -> str | None:
        """Only those without parents have keys: the content of the others names ids, which are others each time."""
        self._orders += 1
        return f"root-{self._orders}" if allowed and self._rng.random() < 0.4 else None

    def _once_more(self, jobs: list[NewJob]) -> tuple[list[NewJob], Membership]:
        """The same order, as after a crash: its ids are others, its keys are the same."""
        ids = {job.id: new for job, new in zip(jobs, self._client.job_ids(len(jobs)), strict=True)}
        workflow = Membership(self._client.job_ids(1)[0], "w")
        return [
            msgspec.structs.replace(
                job,
                id=ids[job.id],
                workflow=workflow,
                after=tuple(sorted((Edge(ids[edge.parent], edge.need) for edge in job.after), key=lambda e: e.parent)),
            )
            for job in jobs
        ], workflow

    async def _order_child(self) -> None:
        if self._jobs:
            parents = self._rng.sample(self._jobs[-8:], min(len(self._jobs[-8:]), self._rng.randint(1, 3)))
            await self._submit([self._make(after=tuple(Edge(one, self._rng.choice(NEEDS)) for one in sorted(parents)))])

    async def _order_keyed(self) -> None:
        rng = self._rng
        single = rng.choices(list(KEYS), (5, 4, 4, 3, 2, 2, 2))
        names = ["mutex", "pair"] if rng.random() < 0.12 else single
        await self._submit([self._make(names, (rng.choice(LABELS),)) for _ in range(rng.randint(1, 4))])

    async def _order_labelled(self) -> None:
        await self._submit([self._make(labels=(self._rng.choice(LABELS),)) for _ in range(self._rng.randint(1, 3))])

    async def _order_alone(self) -> None:
        await self._submit([self._make(alone=self._scope(), keys=["mutex"] if self._rng.random() < 0.2 else None)])

    def _scope(self) -> Match:
        kinds: list[Match] = [
            Match(label="red"),
            Match(queue="mail"),
            Match(task="play"),
            Match(queue="default"),
            Match(),
        ]
        return self._rng.choices(kinds, (4, 3, 2, 2, 1))[0]

    async def _submit(self, jobs: list[NewJob]) -> str:
        for job in jobs:
            self._note("steward", "asked", job.id, order=job)
        try:
            answers = await self._client.submit_whole(jobs)
        except (StoreError, KeyConflict, NotFound) as error:
            answer = "unknown" if isinstance(error, StoreError) else "refused"
            for job in jobs:
                self._note("steward", "told", job.id, answer=answer)
            return answer
        for job, given in zip(jobs, answers, strict=True):
            self._note("steward", "told", job.id, answer="ok", id=given.id, created=given.created)
            self._jobs.append(given.id)
        return "ok"

    # -- second thoughts ---------------------------------------------------------------------------------------------
    def _workflow(self) -> Workflow:
        if not self._workflows:
            raise NotFound("workflow", "any")
        return Workflow(self._app, self._rng.choice(self._workflows[-4:]))

    async def _retry(self) -> None:
        await self._workflow().retry()

    async def _again(self) -> None:
        """All of it, or all from one job on."""
        workflow = self._workflow()
        jobs = await workflow.jobs()
        await workflow.replay(self._rng.choice([None, self._rng.choice(jobs).id]) if jobs else None)

    async def _cancel(self) -> None:
        if self._rng.random() < 0.5:
            await self._workflow().cancel()
        elif self._jobs:
            await self._client.cancel([self._rng.choice(self._jobs[-6:])])

    async def _hurry_one(self) -> None:
        if self._jobs:
            await self._client.retry([self._rng.choice(self._jobs)])
            await self._client.reprioritise([self._rng.choice(self._jobs)], self._rng.randint(0, 9))

    # -- who may run -------------------------------------------------------------------------------------------------
    async def _close(self) -> None:
        rng, which = self._rng, {}
        match = self._scope()
        which = {kind: value for kind in ("task", "queue", "label") if (value := getattr(match, kind)) is not None}
        which = which or ({"queue": CRON} if self._world.planner else {"everything": True})
        until = iso(self._store.now() + rng.randint(1, 6) * SECOND) if rng.random() < 0.4 else None
        close = self._admissions.drop if rng.random() < 0.2 else self._admissions.pause
        await close(reason="simulated", until=until, **which)
        await asyncio.sleep(rng.uniform(0.2, 7))
        for _ in range(rng.randint(1, 3)):
            if gates := [gate for gate in await self._admissions.gates() if gate.job is None]:
                await self._store.open_gate(LOCAL, rng.choice(gates).id)

    async def _pause_queue(self) -> None:
        name = self._rng.choice(("default", "mail", CRON))
        await self._admissions.pause_queue(name, "simulated")
        await asyncio.sleep(self._rng.uniform(0.2, 6))
        await self._admissions.resume_queue(name)

    async def _limit(self) -> None:
        rng = self._rng
        name = rng.choice(("mutex", "pair", "slow", "both", "open"))
        at_once = rng.choice((None, 1, 2, 3))
        starts = rng.choice(("1/1s", "2/1s", "3/4s")) if at_once is None or rng.random() < 0.3 else None
        await self._admissions.set_limit(name, at_once=at_once, starts=starts)
        await asyncio.sleep(rng.uniform(1, 10))
        if rng.random() < 0.7:
            await self._admissions.remove_limit(name)

    async def _feedback(self) -> None:
        name = self._rng.choice(("default", "mail"))
        await self._admissions.set_feedback(name, quantum=self._rng.choice(("10ms", "500ms", "2s")), boost="3s")
        await asyncio.sleep(self._rng.uniform(1, 10))
        await self._admissions.set_feedback(name, on=False)

    async def _step(self) -> None:
        await self._admissions.set_step("default", self._rng.choice(("0s", "1s", "strict", "default")))
