"""What happens to machines: one fault after the other, at random, until all is healed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tests.sim.machine import Machine

if TYPE_CHECKING:
    from tests.sim.world import World

# A fault strikes so many callbacks of its process later, at most: in the middle of something. Or it waits until the
# process is in the middle of one of these calls, some of which are more worth waiting for than others.
LONGEST_FUSE = 60
AIMS = {"finish": 6, "claim": 3, "renew": 2, "append_output": 1, "start": 1, "hand_back": 1, "take_over": 1, "leave": 1}


class Faults:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = Random(f"{world.plan.seed}/faults")
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        kinds = [self._crash, self._pause, self._outage, self._stop, self._jump]
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / self._world.plan.fault_every))
            if well := [machine for machine in self._world.machines[: self._world.plan.fragile] if machine.well]:
                self._rng.choices(kinds, [4, 7, 2, 2, 1])[0](self._rng.choice(well))

    def _crash(self, machine: Machine) -> None:
        self._strike(machine, "crash", machine.crash, self._aim())

    def _pause(self, machine: Machine) -> None:
        lease, rng = self._world.plan.lease, self._rng
        whole, past_lease = rng.random() < self._world.plan.whole_rate, rng.random() < 0.6
        seconds = (
            lease + rng.choice([1, 2, 6]) * rng.random() if past_lease else rng.choice([0.5, lease]) * rng.random()
        )
        # The worst moment to fall asleep: the work is done, and the news of it has not yet left.
        aim = ("finish", "sent") if whole and past_lease and rng.random() < 0.6 else self._aim()
        self._strike(machine, "pause", lambda: machine.pause(seconds, whole), aim)

    def _stop(self, machine: Machine) -> None:
        """SIGTERM, perhaps by somebody impatient."""
        for number in range(self._rng.randint(1, 3)):
            self._world.later(number * self._rng.uniform(0, 3), machine.stop)
        self.counts["stop"] += 1

    def _outage(self, machine: Machine) -> None:
        """The store can't be reached: by this machine alone, or by nobody."""
        until = self._world.loop.time() + self._rng.choice([self._rng.uniform(0, 3), self._rng.uniform(3, 20)])
        hit = self._world.machines if self._rng.random() < 0.3 else [machine]
        for one in hit:
            one.life.wire.down_until = until
        self._world.witness.note("faults", "outage", until=until, of=[one.name for one in hit])
        self.counts["outage"] += 1

    def _jump(self, machine: Machine) -> None:
        seconds = self._rng.uniform(-30, 30)
        self._world.clock.jump(seconds)
        self._world.witness.note("faults", "jump", seconds=seconds)
        self.counts["jump"] += 1

    def _aim(self) -> tuple[str, str] | None:
        if self._rng.random() < 0.5:
            return None
        (verb,) = self._rng.choices(list(AIMS), list(AIMS.values()))
        return verb, self._rng.choice(("sent", "applied"))

    def _strike(self, machine: Machine, kind: str, act: Callable[[], None], aim: tuple[str, str] | None) -> None:
        life = machine.life

        def burnt() -> None:
            if machine.life is life and machine.well and not self._world.healed:
                self.counts[kind] += 1
                act()

        if aim is None:
            life.process.light(self._rng.randint(1, LONGEST_FUSE), burnt)
        else:
            life.wire.set_trap(*aim, lambda: life.process.light(1, burnt))
