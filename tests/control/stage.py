"""Services ticked by hand, on a store in memory, while the time passes as the test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from rota.clients.schedules import SchedulesClient
from rota.clock import ManualClock
from rota.control.scheduler import Scheduler
from rota.errors import StoreError, StoreUnavailable
from rota.model.principal import LOCAL
from rota.model.times import SECOND
from rota.service import Service
from rota.store.base import Store
from rota.telemetry.events import Bus, Event
from tests.contracts.timetables import ORDER, minutely
from tests.contracts.world import World

MOST_TICKS = 1_000  # at one instant: more is a loop without end


class Company:
    """Schedulers of several nodes, and what they tell."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.told: list[Event] = []
        self._bus = Bus()
        self._bus.subscribe(self.told.append)

    def scheduler(self, leads: bool = True, store: Store | None = None) -> Scheduler:
        return Scheduler(store or self.world.store, self._bus, lambda: leads)


async def let_pass(clock: ManualClock, seconds: float, *services: Service) -> None:
    """Ticks each service when it wants to, and the last time at the very end."""
    end = clock.now() + round(seconds * SECOND)
    wants = dict.fromkeys(range(len(services)), clock.now())
    ticks = 0
    while wants and (first := min(wants.values())) <= end:
        ticks = 0 if first > clock.now() else ticks + 1
        assert ticks < MOST_TICKS * len(services), "it never rests"
        clock.advance(max(0, first - clock.now()) / SECOND)
        for place, service in enumerate(services):
            if wants[place] <= clock.now():
                wants[place] = clock.now() + round(await service.tick() * SECOND)
    clock.advance(max(0, end - clock.now()) / SECOND)


async def save(world: World, name: str = "s", **changes: Any) -> None:
    await SchedulesClient(world.store, LOCAL, world.chance).save(minutely(name, **changes), ORDER)


class Troubled:
    """A store of which single calls fail, or are watched, as the test says."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: list[str] = []
        self.fails: dict[str, int] = {}  # verb: so many times from now on
        self.fails_after: dict[str, int] = {}  # done, and the answer is lost
        self.error: StoreError | None = None  # what is raised then; else the connection was lost
        self.after: dict[str, Callable[[], None]] = {}

    @property
    def face(self) -> Store:
        return cast("Store", self)

    def __getattr__(self, verb: str) -> Any:
        real = getattr(self._store, verb)
        if verb in ("now", "listen"):
            return real

        async def call(*args: Any, **named: Any) -> Any:
            self.calls.append(verb)
            self._perhaps(self.fails, verb)
            answer = await real(*args, **named)
            self._perhaps(self.fails_after, verb)
            self.after.get(verb, lambda: None)()
            return answer

        return call

    def _perhaps(self, fails: dict[str, int], verb: str) -> None:
        if fails.get(verb):
            fails[verb] -= 1
            raise self.error or StoreUnavailable(f"{verb}: the connection was lost")
