"""A store with a hot tier in one process, on a clock that tests move, and what goes wrong with either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from rota.clock import Chance, ManualClock
from rota.errors import StoreUnavailable
from rota.hot.lane import Lane, Report
from rota.hot.local import LocalLane, LocalServer
from rota.hot.reports import MEMORY
from rota.hot.side import HotSide
from rota.hot.store import HotStore
from rota.model.job import Claimed, JobInfo, Verdict
from rota.model.outcome import Settlement
from rota.model.principal import SYSTEM, Principal
from rota.model.progress import Progress
from rota.store.forwarding import ForwardingStore
from rota.store.sqlite import SqliteStore
from rota.store.values import Note
from tests.contracts.world import World
from tests.store.sqlite.backends import SqliteFile

PATIENCE = 20.0
Lanes = Callable[[], Sequence[Lane]]


class Watched(ForwardingStore):
    """Counts what reaches the store, and fails or stops when it is told to."""

    away = False
    refuses = "none"  # the job whose notes it refuses with `error`
    error: Exception = StoreUnavailable("away")

    def __init__(self, inner: SqliteStore) -> None:
        super().__init__(inner)
        self.notes: list[list[Note]] = []
        self.calls: list[str] = []  # in their order
        self.reads = 0  # jobs that were asked for
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.reached = asyncio.Event()

    async def note(self, who: Principal, /, notes: Sequence[Note]) -> list[Verdict]:
        self.calls.append("note")
        await self._pass()
        if any(one.job_id == self.refuses for one in notes):
            raise self.error
        self.notes.append(list(notes))
        return await self.inner.note(who, notes)

    async def finish(self, who: Principal, /, settlements: Sequence[Settlement]) -> list[Verdict]:
        self.calls.append("finish")
        return await self.inner.finish(who, settlements)

    async def get_many(self, who: Principal, /, ids: Sequence[str]) -> list[JobInfo | None]:
        self.reads += len(ids)
        found = await self.inner.get_many(who, ids)
        await self._pass()
        return found

    async def _pass(self) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.reached.set()
        await self.go_on.wait()


class HotWorld(World):
    """`process()` gives further stores in front of the same tables and the same hot tier."""

    server: LocalServer
    watched: Watched
    store: HotStore
    lanes: Lanes

    @property
    def side(self) -> HotSide:
        return self.store.side()

    async def told(self, claimed: Claimed, number: int, fraction: float, store: HotStore | None = None) -> Progress:
        progress = Progress.told(fraction, f"step {number}", self.clock.now())
        note = Note(claimed.job_id, claimed.fence, number, progress)
        assert await (store or self.store).note(SYSTEM, [note]) == [Verdict.APPLIED]
        return progress

    async def told_as(
        self, claimed: Claimed, number: int, progress: Progress, store: HotStore, saves: bool = False
    ) -> Verdict:
        note = Note(claimed.job_id, claimed.fence, number, progress, '"state"' if saves else None)
        (verdict,) = await store.note(SYSTEM, [note])
        return verdict

    async def shown(self, job: str, who: Principal = SYSTEM, store: HotStore | None = None) -> JobInfo | None:
        """By the next look of a person, when all that was said has arrived."""
        chosen = store or self.store
        (info,) = await chosen.glance(who, [job])
        await chosen.side().status.settled()
        return info

    async def process(self) -> HotStore:
        """Another process. It is closed by the test, or dies."""
        store = hot_store(self.watched, self.lanes, self.clock, self.chance)
        await store._learn_name()
        await store.side().reached(PATIENCE)
        return store

    def after(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def report(self, name: str) -> Report | None:
        kept = self.server.kept().get(name)
        return kept and kept.report


def hot_store(
    inner: ForwardingStore, lanes: Lanes, clock: ManualClock, chance: Chance, memory: int = MEMORY
) -> HotStore:
    return HotStore.around(inner, lanes, clock, chance, memory)


@asynccontextmanager
async def hot_world(
    clock: ManualClock,
    folder: Path,
    memory: int = MEMORY,
    server: LocalServer | None = None,
    lanes: Lanes | None = None,
) -> AsyncIterator[HotWorld]:
    """`lanes`: on another server than a local one."""
    chance, local = Chance(7), server or LocalServer(clock)
    made = lanes or (lambda: [LocalLane(local)])
    watched = Watched.around(SqliteStore(":memory:", clock, chance, inline=True))
    store = hot_store(watched, made, clock, chance, memory)
    await store.migrate()
    await store.open()
    await store.side().reached(PATIENCE)
    world = HotWorld(store, SqliteFile(folder, clock), clock, chance)
    world.server, world.watched, world.lanes = local, watched, made
    try:
        yield world
    finally:
        watched.away = False
        watched.go_on.set()
        await store.close()
