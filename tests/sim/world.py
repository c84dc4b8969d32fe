"""One run of the simulation: builds everything from a seed, lets it happen, lets it heal, and looks at what is left."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast
from unittest import mock

from rota import service
from rota.clock import Chance
from rota.control import admission, resolver
from rota.control.promoter import FOLLOWERS_WAIT
from rota.lease import BEAT
from rota.model.job import NO_RETRY
from rota.model.task import TaskInfo
from rota.model.times import SECOND
from rota.store.base import Store
from rota.store.postgres import nodes
from rota.store.sqlite import SqliteStore, graph, limits
from rota.tasks.catalogue import Catalogue, TaskDef
from tests.sim import checker, mutants
from tests.sim.customer import Customer
from tests.sim.driver import SimStore, renew
from tests.sim.faults import Faults
from tests.sim.hot_tier import HotTier
from tests.sim.hot_ways import LEADERLESS
from tests.sim.jobs import Stage
from tests.sim.loop import Process, SimClock, SimLoop, Stalled
from tests.sim.machine import Life, Machine, SimLocks
from tests.sim.network import Link, Port
from tests.sim.plan import Plan
from tests.sim.planner import Planner
from tests.sim.rules import Violation
from tests.sim.server import Server
from tests.sim.steward import Steward
from tests.sim.wire import Wire
from tests.sim.witness import COLUMNS, Note, Row, Witness

# Seconds after the faults in which every job must have ended, and after which a node that was told to stop must have.
SETTLING = 300
STOPPING = 60
LONGEST_CALL = 35
# Longer than any simulated job takes, unless it hangs: then its timeout ends it.
QUIET = 30
# When all is well, what is due becomes ready within this.
PROMPT = 0.25
# Then the leader is stopped for so long.
ASLEEP = 3


@dataclass
class Report:
    plan: Plan
    violations: list[Violation]
    notes: list[Note]
    digest: str
    seconds: float  # of virtual time
    jobs: int
    faults: dict[str, int] = field(default_factory=dict)


class World:
    def __init__(self, plan: Plan, mutant: str | None) -> None:
        self.plan, self.mutant = plan, mutant
        self.loop = SimLoop()
        self.clock = SimClock(self.loop)
        self.rng = Random(f"{plan.seed}/world")
        self.witness = Witness(self.clock)
        self.store = SqliteStore(":memory:", self.clock, Chance(plan.seed), inline=True)
        self.healed = False
        self.faults = Faults(self)
        self.hot = HotTier(self) if plan.hot else None
        self.server = Server(self, self.store) if plan.server else None
        self.lives: dict[str, Life] = {}
        self.witness.gone = lambda life: life in self.lives and self.lives[life].gone
        self.locks = SimLocks(self.lives)
        self.store.node_locks = self.server or self.locks  # type: ignore[assignment]
        self.stage = Stage()
        self._catalogues = {old: _catalogue(self.stage, old) for old in (False, True)}
        self.customer = Customer(self)
        self.planner = Planner(self) if plan.schedules else None
        self.steward = Steward(self) if plan.decrees else None
        self.machines: list[Machine] = []

    def way(self, name: str, link: Link, clock: SimClock, process: Process | None) -> tuple[Wire | Port, Store]:
        """To the store: what may go wrong on it, and what stands at its end."""
        way, store = self._way(name, link, clock, process)
        return way, self.hot.around(store, name, clock) if self.hot else store

    def _way(self, name: str, link: Link, clock: SimClock, process: Process | None) -> tuple[Wire | Port, Store]:
        if self.server:
            port = Port(self, name, link, process)
            return port, SimStore(self, port, clock, Chance(Random(f"{self.plan.seed}/store/{name}").getrandbits(64)))
        wire = Wire(name, self.store, self.loop, self.plan, self.witness, process)
        wire.healed = self.healed
        return wire, cast(Store, wire)

    @property
    def must_be_opened(self) -> bool:
        """The store of a process, before it is used."""
        return self.server is not None or self.hot is not None

    @property
    def customer_links(self) -> list[Link]:
        return [one.link for one in (self.customer, self.planner, self.steward) if one]

    def later(self, seconds: float, act: Callable[..., Any], *args: Any) -> None:
        """By nobody's hand: it happens whatever becomes of the process that asked for it."""
        self.loop.call_later(seconds, act, *args, context=contextvars.Context())

    # -- the run -----------------------------------------------------------------------------------------------------
    def catalogue(self, machine: str) -> Catalogue:
        """The tasks of a node."""
        return self._catalogues[self.plan.behind and machine == "n1"]

    def run(self) -> Report:
        try:
            self._let_happen()
            return self._report()
        finally:
            self.loop.wind_up()

    def _let_happen(self) -> None:
        try:
            self.loop.run_until_complete(self._happen())
        except Stalled as error:
            self.witness.note("loop", "stalled", error=str(error))

    def _report(self) -> Report:
        rows, output = self._contents()
        return Report(
            plan=self.plan,
            violations=checker.check(self.witness.notes, rows, output, self.loop.crashed),
            notes=list(self.witness.notes),
            digest=self.witness.digest(),
            seconds=self.loop.time(),
            jobs=len(rows),
            faults=self.faults.counts,
        )

    async def _happen(self) -> None:
        await self.store.migrate()
        db = self.store._write_side()
        mutants.spoil(db, self.mutant)
        self.witness.watch(db)
        if self.server:
            self.server.listen()
        self.machines += [Machine(self, f"n{number}") for number in range(1, self.plan.nodes + 1)]
        customer = asyncio.create_task(self.customer.run())
        plans = asyncio.create_task(self.planner.run()) if self.planner else None
        decrees = asyncio.create_task(self.steward.run()) if self.steward else None
        faults = [asyncio.create_task(one.run()) for one in (self.faults, self.hot) if one]
        await asyncio.sleep(self.plan.length)
        for task in faults:
            task.cancel()
        self._heal()
        await customer
        if self.steward and decrees:
            await decrees
            await self.steward.finish()
        if self.planner and plans:
            await plans
            await self.planner.finish()
        await self._settle()
        await self._finale()
        await self._stop()

    def _heal(self) -> None:
        self.healed = True
        self.witness.note("faults", "healed")
        if self.server:
            self.server.start()
        self.customer.wire.heal()
        if self.planner:
            self.planner.wire.heal()
        if self.steward:
            self.steward.wire.heal()
        if self.hot:
            self.hot.heal()
        for machine in self.machines:
            machine.heal()

    async def _settle(self) -> None:
        """Until every job has ended. A mutant may have lost one; where nothing moves any more, nothing ever will."""
        coming = "state = 'running' OR (state = 'scheduled' AND run_at > ?)"
        live = f"SELECT count(*), max({coming}) FROM jobs WHERE finished_at IS NULL"
        quiet = 0
        for _ in range(SETTLING if self.mutant is None else SETTLING // 2):
            before = self.witness.moved
            left, coming = self.store._write_side().connection.execute(live, (self.store.now(),)).get
            if not left or (quiet > QUIET and self.mutant):
                return
            await asyncio.sleep(1)
            quiet = 0 if coming or self.witness.moved != before else quiet + 1

    async def _finale(self) -> None:
        """All is well: there is one leader. Then it sleeps for a while, and the others must do without."""
        await asyncio.sleep(max(0.0, self.plan.length + self.plan.lease + 8 - self.loop.time()))
        await self._all_up()
        leaders = [machine for machine in self.machines if machine.life.leads]
        self.witness.note("world", "leaders", names=[machine.life.name for machine in leaders])
        alone = len(self.machines) == 1
        sleep = ASLEEP if leaders and not alone and (self.hot is None or self.plan.lying in LEADERLESS) else 0
        bound = PROMPT + (FOLLOWERS_WAIT / SECOND + BEAT if sleep else 0)
        if self.planner:
            await self.planner.begin_finale()
        slack, ahead = self.hot.slack(sleep) if self.hot else (0.0, 0.0)
        self.witness.note("world", "finale", bound=bound, wall=self.store.now(), slack=slack, ahead=ahead)
        if sleep:
            self.later(1, leaders[0].pause, sleep, False)
        if self.hot:
            self.hot.begin_finale()
        await self.customer.order_timers()
        if self.steward:
            await self.steward.finale()
        await asyncio.sleep(5)
        if self.planner:
            await self.planner.end_finale()
        await self._settle()

    async def _all_up(self) -> None:
        """A node that was about to register when all healed may wait for an answer that never comes."""
        for _ in range(LONGEST_CALL):
            if all(machine.life.up for machine in self.machines):
                return
            await asyncio.sleep(1)

    async def _stop(self) -> None:
        for machine in self.machines:
            machine.down = True
            machine.stop()
        for _ in range(STOPPING):
            await asyncio.sleep(1)
            if all(machine.life.process.dead for machine in self.machines):
                return
        self.witness.note("world", "broken", error=f"a node was told to stop and still runs {STOPPING} s later")

    def _contents(self) -> tuple[dict[str, Row], dict[tuple[str, int], str]]:
        db = self.store._write_side()
        found: list[Any] = db.connection.execute(f"SELECT id, {', '.join(COLUMNS)} FROM jobs").fetchall()
        said: list[Any] = db.connection.execute(
            "SELECT id, o.fence, CAST(body AS TEXT) FROM output o JOIN jobs ON seq = job ORDER BY o.fence, o.number"
        ).fetchall()
        output: dict[tuple[str, int], str] = {}
        for job, fence, text in said:
            output[job, fence] = output.get((job, fence), "") + text
        return {job: dict(zip(COLUMNS, values, strict=True)) for job, *values in found}, output


def _catalogue(stage: Stage, old: bool) -> Catalogue:
    def info(**signature: Any) -> TaskInfo:
        return TaskInfo(retry=NO_RETRY, **signature)

    catalogue = Catalogue()
    for name in ("play",) if old else ("play", "grind"):
        catalogue.add(TaskDef(getattr(stage, name), info, name))
    return catalogue


def run(plan: Plan, mutant: str | None = None) -> Report:
    # Of PostgresStore's statements this one alone is not handed to `SimDatabase.call`.
    plan = mutants.stress(plan, mutant)
    # What hangs has to be seen before the finale, in which all is well.
    limit = mock.patch.object(service, "LIMIT", 3.0) if plan.stuck else nullcontext()
    with _in_pieces(plan.piece), limit, mutants.patched(mutant), mock.patch.object(nodes, "renew", renew):
        return World(plan, mutant).run()


@contextmanager
def _in_pieces(most: int) -> Iterator[None]:
    """What one write does for others is bounded. There are few jobs here, so the bounds are low."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(graph.settle, "__defaults__", (most,)))
        stack.enter_context(mock.patch.object(limits.hand_on, "__defaults__", (False, most)))
        stack.enter_context(mock.patch.object(limits, "LINES_AT_ONCE", most))
        stack.enter_context(mock.patch.object(resolver, "EDGES", most))
        stack.enter_context(mock.patch.object(admission, "BATCH", most))
        yield
