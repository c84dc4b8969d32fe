"""Status and write-behind on a hot tier that lies: it forgets, brings back what was there before, loses writes and does
not answer. Whatever happens in whatever order, people see the truth or what was true two seconds ago."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from rota.clock import ManualClock
from rota.hot.kept_jobs import LAG
from rota.hot.lane import Report
from rota.hot.local import LocalLane, LocalServer
from rota.hot.store import HotStore
from rota.model.job import Claimed, JobInfo, Ref
from rota.model.lifecycle import State
from rota.model.outcome import Outcome
from rota.model.principal import SYSTEM
from rota.model.progress import Progress
from rota.model.retry import Retry
from rota.model.times import Instant
from tests.contracts.world import ALICE, BOB, BOOM, DONE, NAP, settled
from tests.hot.hot_world import PATIENCE, HotWorld, hot_world

STEPS = 200
ENDS: list[Outcome] = [BOOM, BOOM, NAP, DONE]


class Liar(LocalServer):
    """A server with moods."""

    def __init__(self, clock: ManualClock, chance: random.Random) -> None:
        super().__init__(clock)
        self.dice = chance
        self.lying = True
        self.past: list[Any] = []

    def change_mood(self) -> None:
        match self.dice.randrange(6):
            case 0:
                self.flush()
            case 1 | 2 if self.past:
                self.restore(self.dice.choice(self.past))
            case 3:
                self.mute = not self.mute
            case _:
                self.past.append(self.snapshot())

    def calm(self) -> None:
        self.lying = self.mute = False


class LyingLane(LocalLane):
    _server: Liar

    async def report(self, reports: Sequence[Report], life: float, most: int) -> None:
        kept = [one for one in reports if not self._server.lying or self._server.dice.random() < 0.8]
        await super().report(kept, life * (1000 if self._server.lying else 1), most)

    async def reports(self, jobs: Sequence[str]) -> list[Report | None]:
        found = await super().reports(jobs)
        return [one if not self._server.lying or self._server.dice.random() < 0.8 else None for one in found]


class Truth(NamedTuple):
    since: Instant
    info: JobInfo


class Play:
    def __init__(self, world: HotWorld, stores: list[HotStore], dice: random.Random) -> None:
        self.world, self.stores, self.dice = world, stores, dice
        self.history: dict[str, list[Truth]] = {}
        self.running: dict[str, Claimed] = {}
        self.over: list[Claimed] = []  # attempts whose nodes don't know that yet
        self.told: dict[str, dict[tuple[int, int], Progress]] = {}
        self.numbers: dict[Ref, int] = {}
        self.shown: dict[tuple[int, str], tuple[int, bool]] = {}

    async def begin(self) -> None:
        self.actor = await self.world.node()
        for who in (ALICE, BOB):
            self.told[await self.world.one(who, retry=Retry(1000, "1ms", 0))] = {}
        await self.record()

    async def record(self) -> None:
        for info in await self.world.watched.inner.get_many(SYSTEM, [*self.told]):
            assert info is not None
            bare = replace(info, progress=None)
            states = self.history.setdefault(info.id, [])
            if not states or states[-1].info != bare:
                states.append(Truth(self.world.clock.now(), bare))

    # -- what happens ------------------------------------------------------------------------------------------------
    async def claim(self) -> None:
        self.world.clock.advance(0.002)
        await self.world.promote()
        for claimed in await self.actor.claim(1):
            self.running[claimed.job_id] = claimed

    async def note(self) -> None:
        if attempts := [*self.running.values(), *self.over[-2:]]:
            claimed = self.dice.choice(attempts)
            number = self.numbers[claimed.ref] = self.numbers.get(claimed.ref, 0) + 1
            store = self.dice.choice(self.stores)
            progress = Progress.told(self.dice.random(), str(number), self.world.clock.now())
            self.told[claimed.job_id][claimed.fence, number] = progress
            await self.world.told_as(claimed, number, progress, store, self.dice.random() < 0.2)

    async def end(self) -> None:
        if self.running:
            claimed = self.running.pop(self.dice.choice([*self.running]))
            store = self.dice.choice([*self.stores, self.world.watched])
            await store.finish(SYSTEM, [settled(claimed, self.dice.choice(ENDS))])
            self.over.append(claimed)

    async def cancel(self) -> None:
        if self.running and self.dice.random() < 0.3:
            await self.dice.choice(self.stores).cancel(SYSTEM, [self.dice.choice([*self.running])], "enough")

    async def replay(self) -> None:
        for who in (ALICE, BOB):
            await self.stores[0].replay(who, [*self.told], again=True)

    async def die(self) -> None:
        if self.dice.random() < 0.2:
            await self.actor.die()
            self.over += self.running.values()
            self.running, self.actor = {}, await self.world.node()

    async def flush(self) -> None:
        await self.dice.choice(self.stores).side().behind.flush()

    async def pass_time(self) -> None:
        self.world.clock.advance(self.dice.choice([0.0001, 0.1, 0.7, 1.9, 1.9, 40]))

    async def lie(self) -> None:
        self.world.server.change_mood()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE):
            while not self.world.server.mute and not all(store.side().members[0].healthy for store in self.stores):
                await asyncio.gather(*(store.side().members[0]._lane.open(store._name) for store in self.stores))
                for store in self.stores:
                    store.side().members[0].problem = None

    # -- what people see ---------------------------------------------------------------------------------------------
    async def look(self) -> None:
        place, job = self.dice.randrange(len(self.stores)), self.dice.choice([*self.told])
        who = self.dice.choice([ALICE, BOB, SYSTEM])
        (info,) = await self.stores[place].glance(who, [job])
        self.judge(place, job, who.sees, info)
        if info is not None:
            state = (info.fence, info.state is not State.RUNNING)
            assert state >= self.shown.get((place, job), (0, False)), "older than what this process has shown"
            self.shown[place, job] = state

    async def look_beside_another_deed(self) -> None:
        """The look has read the store, or the hot tier, before the deed, and says so after it."""
        watched, place, job = self.world.watched, self.dice.randrange(len(self.stores)), self.dice.choice([*self.told])
        watched.go_on.clear()
        look = asyncio.create_task(self.stores[place].glance(SYSTEM, [job]))
        for _ in range(self.dice.randrange(30)):
            await asyncio.sleep(0)
        deed = asyncio.create_task(self.dice.choice([self.end, self.claim, self.cancel])())
        for _ in range(30):
            await asyncio.sleep(0)
        watched.go_on.set()
        await deed
        await self.record()
        self.judge(place, job, None, (await look)[0])

    def judge(self, place: int, job: str, sees: str | None, info: JobInfo | None) -> None:
        truths = self.history[job]
        if sees not in (None, truths[0].info.owner):
            assert info is None, "of another user"
            return
        assert info is not None
        now = self.world.clock.now()
        ends = [*(one.since for one in truths[1:]), now]
        recent = [one.info for one, end in zip(truths, ends, strict=True) if end >= now - LAG]
        assert replace(info, progress=None) in recent
        if info.progress is not None:
            fences = [fence for (fence, _), progress in self.told[job].items() if progress == info.progress]
            assert fences
            assert max(fences) <= info.fence

    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.look] * 12 + [self.claim] * 4 + [self.note] * 3 + [self.lie] * 2 + [self.end]
        rare = [self.flush, self.cancel, self.replay, self.replay, self.die, self.look_beside_another_deed]
        return [*often, *rare, self.pass_time]


@pytest.mark.parametrize("block", range(4))
async def test_people_see_the_truth_or_what_was_true_two_seconds_ago(tmp_path: Path, block: int) -> None:
    hits = [await played(seed, tmp_path) for seed in range(8 * block, 8 * block + 8)]
    assert sum(hits) > 50, "the liar was believed now and then"


async def played(seed: int, folder: Path) -> int:
    """How often the hot tier was believed."""
    dice, clock = random.Random(seed), ManualClock()
    liar = Liar(clock, dice)
    async with hot_world(clock, folder, server=liar, lanes=lambda: [LyingLane(liar)]) as world:
        stores = [world.store, await world.process(), await world.process()]
        play = Play(world, stores, dice)
        await play.begin()
        for _ in range(STEPS):
            await dice.choice(play.steps())()
            if dice.random() < 0.7:
                await asyncio.gather(*(store.side().status.settled() for store in stores))
            await play.record()
        for store in stores[1:]:
            await store.side().close()
        return sum(store.hot_counts.status_hits for store in stores)
