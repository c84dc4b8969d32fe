"""Machines, and the node processes that live and die on them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from rota.clock import Chance
from rota.errors import RotaError
from rota.node import Node, StuckNode
from rota.store.base import Store
from rota.telemetry.events import AttemptStuck, Bus, Event, LeaseLost, ServiceFailed
from tests.sim.jobs import APART
from tests.sim.loop import PROCESS, Process, SkewedClock
from tests.sim.network import Link
from tests.sim.runtime import SimRuntime

if TYPE_CHECKING:
    from tests.sim.world import World


class Life:
    """One run of a node's process, with everything it has started."""

    def __init__(self, machine: Machine, world: World, name: str) -> None:
        self.machine, self.world, self.name = machine, world, name
        self.process = world.loop.process(name)
        self.runtimes: list[SimRuntime] = []
        self.leaks = False  # a function did not stop when told: its slot is lost until the process ends
        self.wire, store = world.way(name, machine.link, machine.clock, self.process)
        bus = Bus()
        bus.subscribe(self._heard)
        settings = world.plan.settings(machine.name)
        chance = Chance(Random(f"{world.plan.seed}/{name}").getrandbits(64))
        tasks = world.catalogue(machine.name).infos()
        self.store: Store = store
        self.node = Node(store, machine.clock, chance, bus, settings, tasks, lambda g: SimRuntime(world, self, g))
        world.loop.create_task(self._main(), context=self.process.context)

    async def _main(self) -> None:
        why = "exit"
        try:
            if self.world.must_be_opened:
                await self.store.open()
            await self.node.run()
        except RotaError as error:
            why = f"exit: {error}"
            if self.node.started.is_set() and not isinstance(error, StuckNode):
                self.world.witness.note(self.name, "broken", error=repr(error))
        self.end(why)

    def _heard(self, event: Event) -> None:
        self.world.witness.note(self.name, "said", event=repr(event))
        if isinstance(event, LeaseLost):
            self.world.witness.note(self.name, "unleased", why=event.why)
        if isinstance(event, AttemptStuck):
            self.world.witness.note(self.name, "stuck", event.job_id)
        if isinstance(event, ServiceFailed) and "simulated" not in event.error:  # also in the server's address
            self.world.witness.note(self.name, "broken", error=event.error)

    @property
    def leads(self) -> bool:
        """As far as it knows itself."""
        session = self.node._session
        heartbeat = getattr(session, "_heartbeat", None)
        return not self.process.dead and heartbeat is not None and heartbeat.term is not None

    @property
    def up(self) -> bool:
        return not self.process.dead and self.node._session is not None

    @property
    def gone(self) -> bool:
        """Nothing of it is left: what a free lock says."""
        return self.process.dead and all(runtime.keeper.dead for runtime in self.runtimes)

    def processes(self, whole: bool) -> list[Process]:
        """Those that stop with the node; with `whole` those that stop with the machine."""
        works = [work for runtime in self.runtimes for work in runtime.works if whole or work.kind not in APART]
        keepers = [runtime.keeper for runtime in self.runtimes] if whole else []
        return [self.process, *keepers, *(work.process for work in works)]

    def end(self, why: str) -> None:
        if not self.process.dead:
            self.process.dead = True
            self.world.witness.note(self.name, "died", why=why)
            for runtime in self.runtimes:
                runtime.orphan()
            self.machine.ended()


class Machine:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self._lives = 0
        self._asleep: list[Process] = []
        self.link = Link(world, name)
        self.clock = SkewedClock(world.loop, world.rng.uniform(-60, 60)) if world.server else world.clock
        self.down = False  # for good: the simulation is over
        self.boot()

    def boot(self) -> None:
        if self.down:
            return
        self._lives += 1
        self._asleep = []
        name = f"{self.name}.{self._lives}"
        self.life = self.world.lives[name] = Life(self, self.world, name)

    def ended(self) -> None:
        if not self.down:
            self.world.later(self.world.rng.uniform(0.1, 1 if self.world.healed else 5), self.boot)

    # -- faults ------------------------------------------------------------------------------------------------------
    @property
    def well(self) -> bool:
        return not self._asleep and not self.life.process.dead

    def crash(self, why: str = "kill -9") -> None:
        if self.well:
            self.life.end(why)

    def pause(self, seconds: float, whole: bool) -> None:
        if self.well:
            self.world.witness.note(self.life.name, "paused", seconds=seconds, whole=whole)
            self._asleep = self.life.processes(whole)
            for process in self._asleep:
                process.paused = True
            self.world.later(seconds, self.resume, self.life)

    def resume(self, life: Life) -> None:
        if self._asleep and self.life is life:
            self.world.witness.note(life.name, "resumed", dead=life.process.dead)
            self.world.rng.shuffle(self._asleep)
            for process in self._asleep:
                self.world.loop.resume(process)
            self._asleep = []

    def stop(self) -> None:
        """SIGTERM."""
        if self.well:
            self.world.witness.note(self.life.name, "sigterm")
            self.world.loop.call_soon(self.life.node.stop, context=self.life.process.context)

    def heal(self) -> None:
        self.resume(self.life)
        self.life.wire.heal()
        if self.life.leaks:
            self.crash("restarted by hand: it has lost slots to functions that don't stop")


class SimLocks:
    """In the place of node_locks.NodeLocks: a lock is free when nothing of the life that held it is left."""

    def __init__(self, lives: dict[str, Life]) -> None:
        self._lives = lives
        self._held: dict[str, str] = {}
        self._incarnations: list[str] = []

    def hold(self, incarnation: str) -> None:
        process = PROCESS.get()
        assert process is not None
        self._held[incarnation] = process.name
        self._incarnations.append(incarnation)

    def descriptors(self, incarnation: str) -> list[int]:
        return [self._incarnations.index(incarnation)]

    def incarnation(self, descriptor: int) -> str:
        return self._incarnations[descriptor]

    def drop(self, incarnation: str) -> None:
        self._held.pop(incarnation, None)

    def gone(self, incarnation: str) -> bool:
        return incarnation in self._held and self._lives[self._held[incarnation]].gone

    def forget(self, incarnation: str) -> None:
        self._held.pop(incarnation, None)
