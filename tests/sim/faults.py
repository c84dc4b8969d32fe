"""What happens to machines: one fault after the other, at random, until all is healed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tests.sim.machine import Machine

if TYPE_CHECKING:
    from tests.sim.world import World

# A fault strikes so many callbacks of its process later, at most: in the middle of something.
LONGEST_FUSE = 60


class Faults:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = Random(f"{world.plan.seed}/faults")
        self.counts: dict[str, int] = {}

    async def run(self) -> None:
        kinds = [self._crash, self._pause, self._outage, self._stop, self._jump]
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / self._world.plan.fault_every))
            machine = self._rng.choice(self._world.machines)
            self._rng.choices(kinds, [4, 6, 2, 2, 1])[0](machine)

    def _crash(self, machine: Machine) -> None:
        self._strike(machine, "crash", machine.crash)

    def _pause(self, machine: Machine) -> None:
        lease = self._world.plan.lease
        seconds = self._rng.choice(
            [self._rng.uniform(0, 2), self._rng.uniform(2, lease), lease * self._rng.uniform(1, 3)]
        )
        whole = self._rng.random() < self._world.plan.whole_rate
        self._strike(machine, "pause", lambda: machine.pause(seconds, whole))

    def _stop(self, machine: Machine) -> None:
        for number in range(self._rng.randint(1, 3)):
            self._world.later(number * self._rng.uniform(0, 3), machine.stop)
        self._count("stop")

    def _outage(self, machine: Machine) -> None:
        """The store can't be reached: by this machine alone, or by nobody."""
        until = self._world.loop.time() + self._rng.choice([self._rng.uniform(0, 3), self._rng.uniform(3, 20)])
        hit = self._world.machines if self._rng.random() < 0.3 else [machine]
        for one in hit:
            one.life.wire.down_until = until
        self._world.witness.note("faults", "outage", until=until, of=[one.name for one in hit])
        self._count("outage")

    def _jump(self, machine: Machine) -> None:
        seconds = self._rng.uniform(-30, 30)
        self._world.clock.jump(seconds)
        self._world.witness.note("faults", "jump", seconds=seconds)
        self._count("jump")

    def _strike(self, machine: Machine, kind: str, act: Callable[[], None]) -> None:
        life = machine.life

        def burnt() -> None:
            if machine.life is life and not self._world.healed:
                act()

        life.process.light(self._rng.randint(1, LONGEST_FUSE), burnt)
        self._count(kind)

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
