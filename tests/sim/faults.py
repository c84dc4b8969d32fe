"""What happens to machines: one fault after the other, at random, until all is healed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tests.sim.jobs import APART
from tests.sim.machine import Machine
from tests.sim.wire import Wire

if TYPE_CHECKING:
    from tests.sim.world import World

# A fault strikes so many callbacks of its process later, at most: in the middle of something. Or it waits until the
# process is in the middle of one of these calls, some of which are more worth waiting for than others.
LONGEST_FUSE = 60
AIMS = {
    "finish": 6,
    "claim": 3,
    "renew": 2,
    "append_output": 1,
    "note": 1,
    "start": 1,
    "hand_back": 1,
    "take_over": 1,
    "leave": 1,
}

AIMS_AT_ADMISSION = {"admit": 5, "settle": 5}
AIMS_AT_SCHEDULES = {"advance": 6, "release": 3, "coming_schedules": 2}


class Faults:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = Random(f"{world.plan.seed}/faults")
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        kinds = {self._crash: 4, self._pause: 7, self._outage: 2, self._stop: 2, self._jump: 1, self._executor: 3}
        if self._world.server:
            kinds |= {self._partition: 4, self._cut_session: 3, self._restart: 2, self._behead: 2}
            del kinds[self._outage]
        if self._world.plan.stuck:
            kinds[self._hang] = 6
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / self._world.plan.fault_every))
            if well := [machine for machine in self._world.machines[: self._world.plan.fragile] if machine.well]:
                self._rng.choices(list(kinds), list(kinds.values()))[0](self._rng.choice(well))

    def _crash(self, machine: Machine) -> None:
        self._strike(machine, "crash", machine.crash, self._aim())

    def _executor(self, machine: Machine) -> None:
        """One of the processes that run its jobs is killed; or the keeper, and so all of them."""
        for runtime in machine.life.runtimes:
            if works := [work for work in runtime.works if work.kind in APART]:
                if self._rng.random() < 0.3:
                    runtime.lose_all()
                else:
                    runtime.crash(self._rng.choice(works))
                self.counts["executor"] += 1

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

    def _hang(self, machine: Machine) -> None:
        """The next tick of one of its services never ends by itself."""
        session = machine.life.node._session
        if session is None or not session._loops:
            return
        loop, _ = self._rng.choice(session._loops)
        service: Any = loop.service
        tick = service.tick

        async def hang() -> None:
            service.tick = tick
            self._world.witness.note(machine.life.name, "hangs", service=service.name)
            await asyncio.Event().wait()

        service.tick = hang
        loop.wake()
        self.counts["hang"] += 1

    def _outage(self, machine: Machine) -> None:
        """The file can't be used: by this machine alone, or by nobody."""
        until = self._world.loop.time() + self._rng.choice([self._rng.uniform(0, 3), self._rng.uniform(3, 20)])
        hit = self._world.machines if self._rng.random() < 0.3 else [machine]
        for one in hit:
            assert isinstance(one.life.wire, Wire)
            one.life.wire.down_until = until
        self._world.witness.note("faults", "outage", until=until, of=[one.name for one in hit])
        self.counts["outage"] += 1

    def _jump(self, machine: Machine) -> None:
        """On a server's machine seldom: see `LeaseBook`."""
        seconds = self._rng.uniform(-30, 30)
        clock = self._world.clock if self._rng.random() < 0.2 else machine.clock
        before = self._world.clock.now()
        clock.jump(seconds)
        wall = max(before, self._world.clock.now())
        self._world.witness.note("faults", "jump", seconds=seconds, store=clock is self._world.clock, wall=wall)
        self.counts["jump"] += 1

    # -- of servers --------------------------------------------------------------------------------------------------
    def _partition(self, machine: Machine) -> None:
        """Nothing gets through, in one direction or both, and nobody is told."""
        link = self._rng.choice(self._world.customer_links) if self._rng.random() < 0.1 else machine.link
        up, down = self._rng.choice([(True, False), (False, True), (True, True)])
        link.cut(up, down, self._rng.choice([self._rng.uniform(0, 3), self._rng.uniform(3, 20)]))
        self.counts["partition"] += 1

    def _cut_session(self, machine: Machine) -> None:
        """The session alone ends; or it is the beginning of worse."""
        assert self._world.server is not None
        if lines := self._world.server.sessions(machine.link):
            for line in lines:
                line.end("cut")
            if self._rng.random() < 0.5:
                self._world.later(0.0006, machine.link.cut, True, self._rng.random() < 0.5, self._rng.uniform(1, 6))
            self.counts["session"] += 1

    def _restart(self, machine: Machine) -> None:
        assert self._world.server is not None
        if self._world.server.up:
            seconds = self._rng.uniform(0.5, 3) if self._rng.random() < 0.7 else self._rng.uniform(3, 20)
            self._world.server.restart(seconds)
            self.counts["restart"] += 1

    def _behead(self, machine: Machine) -> None:
        for one in self._world.machines:
            if one.life.leads and one.well:
                self.counts["behead"] += 1
                if self._rng.random() < 0.6:
                    one.crash()
                else:
                    one.pause(self._rng.uniform(0.5, 4), whole=False)

    def _aim(self) -> tuple[str, str] | None:
        if self._rng.random() < 0.5:
            return None
        aims = AIMS | (AIMS_AT_SCHEDULES if self._world.planner else {})
        aims |= AIMS_AT_ADMISSION if self._world.steward else {}
        (verb,) = self._rng.choices(list(aims), list(aims.values()))
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
