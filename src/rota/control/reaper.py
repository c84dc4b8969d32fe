"""Takes over the jobs of dead nodes, and recovers running jobs that no node holds.

A node is dead when its process is known to be gone, or when it has been silent for a whole lease while this node
itself could renew (see `model.node.Watch`). The take-over names the beat count that was seen, so a node that renews
in the last moment keeps its work.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import Clock
from rota.errors import StoreError
from rota.model.node import NodeInfo, Watch
from rota.model.outcome import CrashRule
from rota.model.principal import SYSTEM
from rota.store.base import Store
from rota.telemetry.events import Bus, JobsRescued, NodeDied, ServiceFailed

# With this period and the renewal of its own lease an idle node makes less than two calls a second. A node whose sign
# of life is lost, or that has long been silent, is looked at again at the exact instant at which it counts as dead.
PERIOD = 1.65
# The period while there is no other node.
ALONE = 3.0
RESCUE_EVERY = 30  # ticks
A_MOMENT = 0.005
# The pause after a take-over that was refused: the node is back, or needs a few more milliseconds to count as dead.
SOON = 0.2


class Reaper:
    name = "reaper"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        bus: Bus,
        incarnation: str,
        healthy_since: Callable[[], float],
        rule: CrashRule,
    ) -> None:
        self._store, self._clock, self._bus = store, clock, bus
        self._incarnation, self._healthy_since, self._rule = incarnation, healthy_since, rule
        self._watch = Watch()
        self._ticks = 0

    async def tick(self) -> float:
        nodes = [node for node in await self._store.nodes(SYSTEM) if node.incarnation != self._incarnation]
        now, healthy = self._clock.monotonic(), self._healthy_since()
        dead = self._watch.dead(nodes, now, healthy)
        left_over = False
        for node in dead:
            try:
                left_over |= not await self._take_over(node)
            except StoreError as error:  # go on with the other nodes
                self._bus.emit(ServiceFailed(self.name, f"taking over {node.id}: {error}"))
        if self._ticks % RESCUE_EVERY == 0:
            await self._rescue()
        self._ticks += 1
        if left_over:
            return SOON
        wait = self._watch.soonest([node for node in nodes if node not in dead], now, healthy)
        return ALONE if wait is None else min(PERIOD, wait + A_MOMENT)

    async def _take_over(self, node: NodeInfo) -> bool:
        """False: it has renewed, or another node was quicker."""
        beats = None if node.gone else node.beats
        moved = await self._store.take_over(SYSTEM, node.incarnation, beats, self._rule)
        if moved is not None:
            why = "its process is gone" if node.gone else "silent for a whole lease"
            self._bus.emit(NodeDied(node.id, why, len(moved)))
        return moved is not None

    async def _rescue(self) -> None:
        if moved := await self._store.rescue(SYSTEM, self._rule):
            self._bus.emit(JobsRescued(len(moved)))
