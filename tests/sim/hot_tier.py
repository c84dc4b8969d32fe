"""The hot tier of a simulated cluster: one server or three, and what goes wrong with them (`hot_ways`)."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from rota.clock import Chance
from rota.hot import due
from rota.hot.connection import LIMIT
from rota.hot.due import SWEEP
from rota.hot.local import LocalServer, _Memory
from rota.hot.store import HotStore
from rota.model.times import SECOND
from rota.store.base import Store
from tests.sim.hot_ways import CLOSED, CUT, DEAF, FLUSHED, FORGETFUL, GONE, LIAR, STUBBORN
from tests.sim.loop import SimClock
from tests.sim.lying_lane import LyingLane

if TYPE_CHECKING:
    from tests.sim.world import World

# How often a liar lies, each time that it could.
LIES = 0.1
# A job that was ordered so long before it is due is not late, whatever becomes of its entry.
AHEAD = due.AHEAD / SECOND
CUSTOMERS = ("customer", "planner", "steward")


class HotServer:
    def __init__(self, world: World, number: int) -> None:
        self.world, self.place = world, f"hot-{number}"
        self.local = LocalServer(world.clock)
        self.snapshots: list[_Memory] = []
        self.known: list[str] = []  # jobs that it was told of
        self.lanes: list[LyingLane] = []
        self.gone = False  # for ever
        self.asleep_until = 0.0
        self.deaf: set[str] = set()  # machines that hear nothing of it, for ever
        self._cut: dict[str, float] = {}  # machine or customer -> until when

    # -- what lanes ask ----------------------------------------------------------------------------------------------
    def hears(self, who: str) -> bool:
        return not self.cut(who) and _machine(who) not in self.deaf

    def cut(self, who: str) -> bool:
        return self.world.loop.time() < self._cut.get(_machine(who), 0.0)

    def way_there(self, who: str, rng: Random) -> tuple[float, bool]:
        """When a call gets there; or it never does."""
        now = self.world.loop.time()
        slow = not self.world.healed and rng.random() < self.world.plan.slow_rate
        return max(now, self.asleep_until) + (rng.uniform(0.05, 1.5) if slow else rng.uniform(0.0001, 0.0005)), (
            self.cut(who)
        )

    def lies(self, what: str, who: str, rng: Random) -> bool:
        lying = self.world.plan.lying
        if lying == FORGETFUL:
            lie = what == "adds lost" and _machine(who) in CUSTOMERS
        elif lying == CLOSED:
            lie = what == "adds lost"
        else:
            lie = lying == LIAR and rng.random() < LIES
        if lie:
            self.world.faults.counts[f"lie: {what}"] += 1
        return lie

    # -- what happens to it ------------------------------------------------------------------------------------------
    def flush(self) -> None:
        self.local.flush()

    def restore(self, rng: Random) -> None:
        if self.snapshots:
            self.local.restore(rng.choice(self.snapshots))

    def keep_copy(self) -> None:
        self.snapshots = [*self.snapshots[-4:], self.local.snapshot()]

    def restart(self, seconds: float) -> None:
        """Its connections end, and perhaps it comes back empty, or with what it had saved last."""
        self.local.away = True
        self.world.later(seconds, self.back)

    def back(self) -> None:
        self.local.away = self.gone

    def switch(self, name: str, seconds: float) -> None:
        setattr(self.local, name, True)
        self.world.later(seconds, setattr, self.local, name, False)

    def cut_off(self, who: str, seconds: float) -> None:
        self._cut[who] = self.world.loop.time() + seconds

    def heal(self) -> None:
        self.back()
        self.local.full = self.local.mute = False
        self.asleep_until = 0.0
        self._cut.clear()
        for lane in self.lanes:
            lane.deaf_until = 0.0


class HotTier:
    def __init__(self, world: World) -> None:
        self._world = world
        self.servers = [HotServer(world, number) for number in range(1, world.plan.hot + 1)]
        self._rng = Random(f"{world.plan.seed}/hot")
        self._counts: Counter[str] = world.faults.counts

    def around(self, store: Store, name: str, clock: SimClock) -> HotStore:
        chance = Chance(Random(f"{self._world.plan.seed}/hot/{name}").getrandbits(64))

        def make_lanes() -> list[LyingLane]:
            made = [LyingLane(server, name) for server in self.servers]
            for server, lane in zip(self.servers, made, strict=True):
                server.lanes.append(lane)
            return made

        return HotStore.around(store, make_lanes, clock, chance)

    async def run(self) -> None:
        """One fault after the other, until all is healed; and no end of those that liars need no fault for."""
        kinds = {self._flush: 3, self._restore: 3, self._restart: 3, self._sleep: 2, self._full: 1, self._mute: 1,
                 self._cut: 3, self._deafen: 2}  # fmt: skip
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / self._world.plan.fault_every))
            server = self._rng.choice(self.servers)
            if self._rng.random() < 0.7:
                server.keep_copy()
            kind = self._rng.choices(list(kinds), list(kinds.values()))[0]
            self._world.witness.note(server.place, "hot", kind=kind.__name__.strip("_"))
            self._counts[f"hot {kind.__name__.strip('_')}"] += 1
            kind(server)

    def slack(self, sleep: float) -> tuple[float, float]:
        """How much later a job may become ready than without it while the leader sleeps for so long, and how soon a job
        must be due to have that excuse: an earlier one is read from the store in time."""
        if self._world.plan.lying in (LIAR, STUBBORN):
            return SWEEP + sleep, float("inf")
        excuses = {
            FORGETFUL: (SWEEP, AHEAD),
            CLOSED: (SWEEP, float("inf")),
            CUT: (LIMIT, LIMIT),
        }  # who is cut off learns it after a while
        return excuses.get(self._world.plan.lying, (0.0, 0.0))

    def heal(self) -> None:
        """What the way in which it goes wrong leaves."""
        for server in self.servers:
            server.heal()
        lying, names = self._world.plan.lying, [machine.name for machine in self._world.machines]
        if lying == GONE:
            self.servers[0].gone = self.servers[0].local.away = True
        for server in self.servers:
            if lying == DEAF:
                server.deaf = set(self._rng.sample(names, self._rng.randint(1, len(names))))
            if lying == CUT:
                for name in CUSTOMERS:
                    server.cut_off(name, float("inf"))

    def begin_finale(self) -> None:
        if self._world.plan.lying == FLUSHED:
            for server in self.servers:
                self._world.later(1.2, server.flush)

    def _flush(self, server: HotServer) -> None:
        server.flush()

    def _restore(self, server: HotServer) -> None:
        server.restore(self._rng)

    def _restart(self, server: HotServer) -> None:
        server.restart(self._seconds())
        comes_back = self._rng.choice(("whole", "empty", "old"))
        if comes_back == "empty":
            server.flush()
        elif comes_back == "old":
            server.restore(self._rng)

    def _sleep(self, server: HotServer) -> None:
        server.asleep_until = self._world.loop.time() + self._seconds()

    def _full(self, server: HotServer) -> None:
        server.switch("full", self._seconds())

    def _mute(self, server: HotServer) -> None:
        server.switch("mute", self._seconds())

    def _cut(self, server: HotServer) -> None:
        """Of one machine or customer."""
        names = [*(machine.name for machine in self._world.machines), *CUSTOMERS[:1]]
        server.cut_off(self._rng.choice(names), self._seconds())

    def _deafen(self, server: HotServer) -> None:
        if server.lanes:
            lane = self._rng.choice(server.lanes[-5:])
            lane.deaf_until = self._world.loop.time() + self._seconds()

    def _seconds(self) -> float:
        return self._rng.choice([self._rng.uniform(0, 2), self._rng.uniform(2, 15)])


def _machine(who: str) -> str:
    return who.partition(".")[0]
