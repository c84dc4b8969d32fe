"""Those who plan: they keep schedules, change them, pause them, fire them by hand, and note what they are told.

Several of them are at it at once, on a few names, so that their changes meet each other as well as the schedulers.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any

from rota.clients.jobs import JobsClient
from rota.clients.schedules import SchedulesClient
from rota.clock import Chance
from rota.errors import InvalidInput, NotFound, StoreError
from rota.model.job import Spec
from rota.model.principal import LOCAL
from rota.model.retry import Retry
from rota.model.times import SECOND
from rota.model.trigger.policies import CatchUp, Missed, Overlap
from rota.model.trigger.rules import Cron, Every, Rule
from rota.model.trigger.schedule import Timing, to_json
from rota.model.trigger.template import Template
from tests.sim.customer import open_store
from tests.sim.loop import SkewedClock
from tests.sim.network import Link
from tests.sim.plan import CRON
from tests.sim.witness import WISH

if TYPE_CHECKING:
    from tests.sim.world import World

# How often someone comes, for each name and second.
RATE = 0.12
# When all is well, this long everything goes on before the schedules are taken away.
CALM = 4
FINALE = "finale"


class Planner:
    def __init__(self, world: World) -> None:
        self._world, self._note = world, world.witness.note
        self._rng = Random(f"{world.plan.seed}/planner")
        self.link = Link(world, "planner")
        clock = SkewedClock(world.loop, self._rng.uniform(-60, 60)) if world.server else world.clock
        self.wire, self._store = world.way("planner", self.link, clock, None)
        chance = Chance(self._rng.getrandbits(64))
        self._planning, self._client = (
            SchedulesClient(self._store, LOCAL, chance),
            JobsClient(self._store, LOCAL, chance),
        )
        self._names = [f"s{number}" for number in range(1, world.plan.schedules + 1)]
        self._wishes = itertools.count(1)
        self._jobs: list[str] = []
        world.witness.error = self.error

    def error(self) -> float:
        """By how much the time is wrong that it goes by, in seconds."""
        return (self._store.now() - self._world.store.now()) / SECOND

    async def run(self) -> None:
        if self._world.must_be_opened:
            await open_store(self._store)
        plan = self._world.plan
        visits = [asyncio.create_task(self._at(self._rng.uniform(0, 4), self._save, name)) for name in self._names]
        kinds: dict[Callable[[str], Awaitable[object]], int] = {
            self._save: 20, self._add: 4, self._break: 20, self._pause: 6, self._resume: 6, self._remove: 6,
            self._fire: 14, self._backfill: 8, self._cancel: 4, self._replay: 2, self._look: 2,
        }  # fmt: skip
        for _ in range(round(plan.length * RATE * plan.schedules)):
            visit = self._rng.choices(list(kinds), list(kinds.values()))[0]
            when = self._rng.uniform(2, max(3, plan.length - self._world.loop.time()))
            visits.append(asyncio.create_task(self._at(when, visit, self._rng.choice(self._names))))
        for task in visits:
            await task

    async def _at(self, seconds: float, visit: Callable[[str], Awaitable[object]], name: str) -> None:
        await asyncio.sleep(seconds)
        await visit(name)

    # -- the end -----------------------------------------------------------------------------------------------------
    async def finish(self) -> None:
        """Nothing is in the way any more: all schedules end, each in its own way."""
        await asyncio.sleep(CALM)
        for name in self._names:
            ways: list[Callable[[str], Awaitable[str]]] = [self._remove, self._remove, self._pause, self._rarely]
            answer = await self._rng.choice(ways)(name)
            if answer == "unknown":
                self._note("planner", "broken", error=f"all is well, and {name} could not be changed")

    async def _rarely(self, name: str) -> str:
        """Goes on, and has nothing to do for a day."""
        return await self._keep(Timing(name=name, owner=LOCAL.user, rule=Cron("0 0 1 1 *")), self._template())

    async def begin_finale(self) -> None:
        schedule = Timing(name=FINALE, owner=LOCAL.user, rule=Every(SECOND, self._rng.randrange(SECOND)))
        await self._keep(schedule, self._template())

    async def end_finale(self) -> None:
        await self._remove(FINALE)
        self._note("planner", "closed", wall=self._world.store.now())

    # -- wishes ------------------------------------------------------------------------------------------------------
    async def _wish(
        self, what: str, name: str, work: Callable[[], Awaitable[dict[str, Any] | None]], **data: Any
    ) -> str:
        """Notes what is wanted and what became of it: ok, refused, or unknown."""
        number = next(self._wishes)
        mark = WISH.set(number)
        wall = self._world.store.now()
        self._note("planner", "wish", number=number, deed=what, name=name, wall=wall, error=self.error(), **data)
        told: dict[str, Any] | None = None
        try:
            told = await work()
            answer = "ok"
        except NotFound:
            answer = "not found"
        except InvalidInput:
            answer = "refused"
        except StoreError:
            answer = "unknown"
        finally:
            WISH.reset(mark)
        self._note("planner", "granted", number=number, answer=answer, **(told or {}))
        return answer

    async def _keep(self, schedule: Timing, template: Template, replace: bool = True) -> str:
        async def work() -> None:
            await self._planning.save(schedule, template, replace=replace)

        return await self._wish("save", schedule.name, work, timing=to_json(schedule), replace=replace)

    async def _save(self, name: str) -> str:
        return await self._keep(self._schedule(name), self._template())

    async def _add(self, name: str) -> str:
        return await self._keep(self._schedule(name), self._template(), replace=False)

    async def _break(self, name: str) -> None:
        """A pause that ends soon."""
        await self._pause(name)
        await asyncio.sleep(self._rng.choice([self._rng.uniform(0, 1), self._rng.uniform(1, 6)]))
        await self._resume(name)

    async def _pause(self, name: str) -> str:
        async def work() -> None:
            await self._planning.pause(name, "simulated")

        return await self._wish("pause", name, work)

    async def _resume(self, name: str) -> str:
        async def work() -> None:
            await self._planning.resume(name)

        return await self._wish("resume", name, work)

    async def _remove(self, name: str) -> str:
        async def work() -> None:
            await self._planning.remove(name)

        answer = await self._wish("remove", name, work)
        if not self._world.healed and self._rng.random() < 0.7:
            await asyncio.sleep(self._rng.choice([0, self._rng.uniform(0, 3)]))
            await self._save(name)
        return answer

    async def _fire(self, name: str) -> str:
        async def work() -> dict[str, Any]:
            fate, job = await self._planning.fire(name)
            self._jobs.append(job)
            return {"fate": fate.value, "made": job}

        return await self._wish("fire", name, work)

    async def _backfill(self, name: str) -> str:
        end = self._world.store.now() - self._rng.randint(0, 10) * SECOND
        start = end - self._rng.randint(0, 8) * SECOND

        async def work() -> None:
            async for _ in self._planning.backfill(name, start, end):
                pass

        return await self._wish("backfill", name, work, start=start, end=end)

    # -- jobs of theirs ----------------------------------------------------------------------------------------------
    async def _cancel(self, name: str) -> str:
        async def work() -> None:
            if jobs := await self._history(name):
                await self._client.cancel([self._rng.choice(jobs)])

        return await self._wish("cancel", name, work)

    async def _replay(self, name: str) -> str:
        async def work() -> None:
            await self._client.replay(await self._history(name))

        return await self._wish("replay", name, work)

    async def _history(self, name: str) -> list[str]:
        return [one.job_id for one in await self._planning.history(name, 8) if one.job_id]

    async def _look(self, name: str) -> str:
        async def work() -> None:
            await self._planning.upcoming(name, 3)

        return await self._wish("look", name, work)

    # -- what they are about -----------------------------------------------------------------------------------------
    def _schedule(self, name: str) -> Timing:
        rng, rule = self._rng, self._rule()
        jitter = rng.randint(1, SECOND) if rng.random() < 0.2 else 0
        return Timing(
            name=name, owner=LOCAL.user, rule=rule, jitter=jitter, overlap=rng.choice(list(Overlap)),
            limit=rng.randint(2, 15) if rng.random() < 0.2 else None, catch_up=self._catch_up(),
        )  # fmt: skip

    def _rule(self) -> Rule:
        rng = self._rng
        rules: list[Rule] = [
            Every(SECOND, rng.randrange(SECOND)), Every(rng.randint(1_000, 5_000) * 1_000, rng.randrange(SECOND)),
            Cron("* * * * * *"), Cron(f"*/{rng.randint(2, 7)} * * * * *"), Cron("* * * * *"),
            Every(rng.randint(20, 90) * SECOND),
        ]  # fmt: skip
        return rng.choice(rules)

    def _catch_up(self) -> CatchUp:
        rng = self._rng
        return CatchUp(
            missed=rng.choice(list(Missed)), window=rng.choice([None, None, 5 * SECOND, 15 * SECOND]),
            most=rng.choice([1, 3, 100]), grace=rng.choice([SECOND // 2, 2 * SECOND, 60 * SECOND]),
        )  # fmt: skip

    def _template(self) -> Template:
        task = self._rng.choice(("command", "play", "grind"))
        return Template(
            task=task, spec=Spec.command(["sim", "{fire_time}"]) if task == "command" else Spec.function(task),
            queue=CRON, retry=Retry(self._rng.randint(0, 1), backoff="500ms"),
        )  # fmt: skip
