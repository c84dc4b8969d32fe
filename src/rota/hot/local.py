"""A lane in this process, for tests and simulation: on a server that keeps the contract, or lies when it is told to."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

from rota.clock import Clock
from rota.hot.batches import latest, weight
from rota.hot.lane import Added, Due, HotAway, HotRefused, Lane, LaneState, Look, Report
from rota.hot.problems import FULL, check_owner
from rota.model.times import Instant

Entry = tuple[Instant, str]  # as the heap is ordered
PLACE = "local"


class _Kept(NamedTuple):
    report: Report
    until: float


@dataclass
class _Memory:
    """All that the server knows."""

    owner: str = ""
    epoch: str = ""
    times: dict[str, Instant] = field(default_factory=dict)
    order: list[Entry] = field(default_factory=list)
    reports: dict[str, _Kept] = field(default_factory=dict)  # the least recently written first


class LocalServer:
    """What all lanes share. `full`: it takes nothing new. `mute`: it carries calls out and does not answer."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.memory = _Memory()
        self.full = self.mute = False
        self.starts = 0  # lanes that were opened before the last one must be opened again
        self.listeners: list[LocalLane] = []
        self._away = False

    @property
    def away(self) -> bool:
        return self._away

    @away.setter
    def away(self, away: bool) -> None:
        """Its connections end when it goes, and its memory stays."""
        self._away = away
        if away:
            self.starts += 1
            for lane in [*self.listeners]:
                lane.end_subscription()

    def flush(self) -> None:
        self.memory = _Memory()

    def snapshot(self) -> _Memory:
        return deepcopy(self.memory)

    def restore(self, snapshot: _Memory) -> None:
        self.memory = deepcopy(snapshot)

    def kept(self) -> dict[str, _Kept]:
        """The reports whose life is not over."""
        now, reports = self.clock.monotonic(), self.memory.reports
        for job in [job for job, kept in reports.items() if kept.until <= now]:
            del reports[job]
        return reports


class LocalLane(Lane):
    place = PLACE

    def __init__(self, server: LocalServer) -> None:
        self._server = server
        self._opened: int | None = None  # the start of the server
        self._store = ""
        self._hear: Callable[[str], None] | None = None
        self._lost: Callable[[], None] | None = None

    async def open(self, store: str) -> None:
        await self.close()
        if self._server.away:
            raise HotAway(f"{PLACE}: it is away")
        self._take_over(store)
        self._opened, self._store = self._server.starts, store
        self._memory(writes=False)

    # -- the heap of due jobs ----------------------------------------------------------------------------------------
    async def add_due(self, entries: Sequence[Due]) -> Added:
        memory = self._memory(writes=True)
        before = memory.order[0][0] if memory.order else None
        added = latest(entries)
        for job, at in added:
            _take_out(memory, job)
            memory.times[job] = at
            insort(memory.order, (at, job))
        self._answer()
        return Added(bool(added) and (before is None or added[0].at < before), memory.epoch)

    async def look(self, until: Instant, limit: int) -> Look:
        memory = self._memory(writes=False)
        count = min(max(limit, 0), bisect_right(memory.order, until, key=lambda entry: entry[0]))
        upcoming = memory.order[count][0] if count < len(memory.order) else None
        self._answer()
        return Look(memory.epoch, [Due(job, at) for at, job in memory.order[:count]], upcoming)

    async def drop_due(self, entries: Sequence[Due]) -> None:
        memory = self._memory(writes=False)
        for job, at in entries:
            if memory.times.get(job) == at:
                _take_out(memory, job)
        self._answer()

    async def begin_epoch(self, epoch: str) -> None:
        memory = self._memory(writes=True)
        self._take_over(self._store)
        memory.epoch = epoch
        self._answer()

    async def page_due(self, after: Due, limit: int) -> list[Due]:
        memory = self._memory(writes=False)
        first = bisect_right(memory.order, (after.at, after.job))
        self._answer()
        return [Due(job, at) for at, job in memory.order[first : first + max(limit, 0)]]

    # -- the latest news of running jobs -----------------------------------------------------------------------------
    async def report(self, reports: Sequence[Report], life: float, most: int) -> None:
        self._memory(writes=True)
        kept = self._server.kept()
        until = self._server.clock.monotonic() + life
        for one in reports:
            former = kept.get(one.job)
            if former is None or one.version > former.report.version:
                kept.pop(one.job, None)
                if weight(one) <= most:
                    kept[one.job] = _Kept(one, until)
        total = sum(weight(one.report) for one in kept.values())
        for job in [*kept]:
            if total <= most:
                break
            total -= weight(kept.pop(job).report)
        self._answer()

    async def reports(self, jobs: Sequence[str]) -> list[Report | None]:
        self._memory(writes=False)
        kept = self._server.kept()
        self._answer()
        return [kept[job].report if job in kept else None for job in jobs]

    # -- wake-ups ----------------------------------------------------------------------------------------------------
    async def publish(self, text: str) -> None:
        self._memory(writes=False)
        for lane in self._server.listeners:
            lane.tell(self._store, text)
        self._answer()

    async def subscribe(self, hear: Callable[[str], None], lost: Callable[[], None]) -> None:
        self._memory(writes=False)
        self._answer()
        self._hear, self._lost = hear, lost
        if self not in self._server.listeners:
            self._server.listeners.append(self)

    def tell(self, store: str, text: str) -> None:
        if store == self._store and (hear := self._hear) is not None:
            asyncio.get_running_loop().call_soon(lambda: hear(text) if self._hear is hear else None)

    def end_subscription(self) -> None:
        if self in self._server.listeners:
            self._server.listeners.remove(self)
        lost, self._hear, self._lost = self._lost, None, None
        if lost is not None:
            asyncio.get_running_loop().call_soon(lost)

    # -- life --------------------------------------------------------------------------------------------------------
    async def state(self) -> LaneState:
        memory = self._memory(writes=False)
        self._answer()
        return LaneState("in process", memory.epoch, len(memory.order), len(self._server.kept()), None, None)

    async def close(self) -> None:
        self._opened = None
        self.end_subscription()

    def drop(self) -> None:
        self._opened = self._hear = self._lost = None

    def descriptors(self) -> Iterable[int]:
        return ()

    # -- inner life --------------------------------------------------------------------------------------------------
    def _memory(self, writes: bool) -> _Memory:
        if self._opened != self._server.starts or self._server.away:
            raise HotAway(f"{PLACE}: it is not open")
        if writes and self._server.full:
            raise HotRefused(f"{PLACE}: {FULL}")
        return self._server.memory

    def _take_over(self, store: str) -> None:
        check_owner(PLACE, self._server.memory.owner.encode() or None, store)
        self._server.memory.owner = store

    def _answer(self) -> None:
        if self._server.mute:
            raise HotAway(f"{PLACE}: no answer")


def _take_out(memory: _Memory, job: str) -> None:
    if (at := memory.times.pop(job, None)) is not None:
        del memory.order[bisect_left(memory.order, (at, job))]
