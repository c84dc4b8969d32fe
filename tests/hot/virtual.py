"""A hot tier in virtual time: a store in memory behind lanes in process, on the loop of the simulation."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, cast

from rota.clock import Chance, ManualClock
from rota.control.promoter import Promoter
from rota.hot.due import DueJobs
from rota.hot.heap import DueHeap
from rota.hot.lane import Due, Lane
from rota.hot.local import LocalLane, LocalServer
from rota.hot.refiller import refill
from rota.hot.side import HotSide
from rota.hot.store import HotStore
from rota.model.job import NewJob
from rota.model.lifecycle import State
from rota.model.principal import Principal
from rota.model.times import SECOND, Duration, Instant
from rota.service import Loop
from rota.store.base import Store
from rota.store.forwarding import ForwardingStore, innermost
from rota.store.hints import ScheduledJob
from rota.store.values import OF_ORDERS, Answer, Topic
from tests.contracts.world import World
from tests.sim.loop import SimClock, SimLoop
from tests.store.sqlite.backends import SqliteMemory

P = ParamSpec("P")


class VirtualLoop(SimLoop):
    """Errors of tasks that somebody waits for are expected."""

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._pending.discard(task)


def virtual(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Runs a test in virtual time. Errors of tasks that nobody waits for fail it too."""

    @wraps(test)
    def run(*args: P.args, **named: P.kwargs) -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(test(*args, **named))
            gc.collect(1)  # complains of errors that nobody has seen
        finally:
            loop.wind_up()
        assert loop.crashed == []

    return run


def sim_clock() -> SimClock:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return SimClock(loop)


class PlacedLane(LocalLane):
    """One of several members."""

    def __init__(self, server: LocalServer, place: str) -> None:
        super().__init__(server)
        self.place = place


class Noted(ForwardingStore):
    """Between the hot tier and the store: notes what the store is asked, and may be told to act otherwise."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.asked: list[str] = []
        self.moved: dict[Instant, int] = {}  # how many jobs when
        self.fast: Duration = 0  # what `now` shows too much
        self.failures: dict[str, list[Exception]] = {}  # of the next calls of a verb
        self.meanwhile: dict[str, Callable[[], Awaitable[object]]] = {}  # once, before the answer to a verb
        self.peers: list[Noted] = [self]  # all processes: they hear what one tells
        self.told: list[tuple[float, frozenset[Topic]]] = []
        self._carry: Callable[[set[Topic]], bool] = lambda topics: False

    def now(self) -> Instant:
        return self.inner.now() + self.fast

    async def _note(self, verb: str) -> None:
        self.asked.append(verb)
        if failures := self.failures.get(verb):
            raise failures.pop(0)
        if act := self.meanwhile.pop(verb, None):
            await act()

    def _moved(self, count: int) -> None:
        if count:
            self.moved[self.inner.now()] = self.moved.get(self.inner.now(), 0) + count

    async def promote(self, who: Principal, /, limit: int, late: Duration = 0) -> tuple[int, Instant | None]:
        await self._note("promote")
        moved, upcoming = await self.inner.promote(who, limit, late)
        self._moved(moved)
        return moved, upcoming

    async def promote_jobs(self, who: Principal, /, ids: Sequence[str]) -> int:
        await self._note("promote_jobs")
        moved = await self.inner.promote_jobs(who, ids)
        self._moved(moved)
        return moved

    async def submit(self, who: Principal, /, orders: Sequence[Sequence[NewJob]]) -> list[Answer]:
        await self._note("submit")
        return await self.inner.submit(who, orders)

    async def scheduled_jobs(
        self, who: Principal, /, after: ScheduledJob, until: Instant, limit: int
    ) -> list[ScheduledJob]:
        await self._note("scheduled_jobs")
        return await self.inner.scheduled_jobs(who, after, until, limit)

    async def secret(self, who: Principal, /, name: str) -> str:
        """The same for all processes: their tables pass for those of one store."""
        return name

    def carry_wakes(self, carry: Callable[[set[Topic]], bool]) -> None:
        self._carry = carry

    async def tell(self, topics: Set[Topic] = OF_ORDERS) -> None:
        await self._note("tell")
        self.told.append((asyncio.get_running_loop().time(), frozenset(topics)))
        for peer in self.peers:
            peer.heard(topics)

    async def announce(self, *topics: Topic) -> bool:
        """As a store that asks who carries its wake-ups does after a commit. True: somebody else does."""
        self.heard(set(topics))
        if carried := self._carry(set(topics)):
            return carried
        await self.tell(set(topics))
        return False


class Tier:
    """A store with a hot tier of so many members; one process."""

    world: World
    noted: Noted
    store: HotStore

    def __init__(self, members: int = 1, beside: Tier | None = None) -> None:
        """`beside`: another process with the same servers, and tables of its own."""
        self.clock = sim_clock()
        self.servers: list[LocalServer] = (
            beside.servers if beside else [LocalServer(self.clock) for _ in range(members)]
        )
        self._beside = beside
        self.places = [f"local-{number}" for number in range(len(self.servers))]
        self.lanes: list[LocalLane] = []

    def make_lanes(self) -> list[Lane]:
        self.lanes = [PlacedLane(server, place) for server, place in zip(self.servers, self.places, strict=True)]
        return [*self.lanes]

    async def open(self, filled: bool = True) -> None:
        clock = cast("ManualClock", self.clock)
        backend = SqliteMemory(Path(), clock)
        inner = backend.store(Chance(2))
        self.noted = Noted.around(inner)
        if self._beside:
            self.noted.peers = self._beside.noted.peers
            self.noted.peers.append(self.noted)
        self.store = HotStore.around(self.noted, self.make_lanes, self.clock, Chance(len(self.noted.peers) + 2))
        await backend.prepare(innermost(self.store))
        await self.store.open()
        self.world = World(self.store, backend, clock, Chance(1))
        await self.side.reached(5)
        if filled:
            await refill(self.noted, self.heap, "first")

    @property
    def server(self) -> LocalServer:
        return self.servers[0]

    @property
    def side(self) -> HotSide:
        return self.store.side()

    @property
    def heap(self) -> DueHeap:
        return self.side.heap

    @property
    def due(self) -> DueJobs:
        return self.side.due

    def entries(self) -> dict[str, Instant]:
        """Of all members."""
        return {job: at for server in self.servers for job, at in server.memory.times.items()}

    def lose(self, *jobs: str) -> None:
        """Without a word, as a server that comes back with old data would."""
        for server in self.servers:
            for job in jobs:
                if (at := server.memory.times.pop(job, None)) is not None:
                    server.memory.order.remove((at, job))

    def forge(self, *entries: Due) -> None:
        for job, at in entries:
            self.lose(job)
            self.server.memory.times[job] = at
            self.server.memory.order.append((at, job))
            self.server.memory.order.sort()

    async def settle(self) -> None:
        """Until the tasks have done what they can do now."""
        await asyncio.sleep(0.000_001)

    async def ready(self, job: str, patience: float = 30) -> Instant:
        """When a job became ready; now, if it is."""
        woken = asyncio.Event()
        stop = self.store.listen(frozenset({Topic.READY}), woken.set)
        async with asyncio.timeout(patience):
            while await self.world.state(job) is not State.READY:
                woken.clear()
                await woken.wait()
        stop()
        return self.clock.now()

    @asynccontextmanager
    async def promoting(self, leads: Callable[[], bool] = lambda: True) -> AsyncIterator[None]:
        """With a promoter, as a node has it."""
        errors: list[Exception] = []
        loop = Loop(Promoter(self.store, leads), Chance(4), lambda name, error: errors.append(error))
        stop = self.store.listen(frozenset({Topic.DUE}), loop.wake)
        task = asyncio.create_task(loop.run())
        yield
        stop()
        loop.stop()
        await task
        assert errors == []


@asynccontextmanager
async def tier(members: int = 1, filled: bool = True) -> AsyncIterator[Tier]:
    made = Tier(members)
    await made.open(filled)
    yield made
    await made.store.close()


def seconds(count: float) -> Duration:
    return round(count * SECOND)
