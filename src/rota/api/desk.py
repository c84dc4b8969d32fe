"""What handlers work with: the store, and clients of it for the user of the request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rota.api.again import KeyedJobs
from rota.api.event_feed import EventFeed
from rota.api.far_workers import FarWorkers
from rota.api.known_tasks import KnownTasks
from rota.api.repeats import Repeats
from rota.clients.jobs import JobsClient
from rota.clients.limits import LimitsClient
from rota.clients.locks import LocksClient
from rota.clients.people import PeopleClient
from rota.clients.schedules import SchedulesClient
from rota.clock import Chance, Clock
from rota.config import Settings
from rota.model.access import Grant
from rota.model.principal import Principal
from rota.store.base import Store
from rota.telemetry.events import Bus

if TYPE_CHECKING:
    from rota.api.routes import Table

# Clients that are kept. One that is not has the cost of being made, and its orders share no commits with others.
MOST_CLIENTS = 1_000


class Clients(NamedTuple):
    jobs: JobsClient
    schedules: SchedulesClient
    limits: LimitsClient
    people: PeopleClient
    locks: LocksClient


class Desk:
    """Shared by all requests of a server. `ready` tells whether the services of the node run."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        settings: Settings,
        bus: Bus,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self.store, self.clock, self.chance, self.settings, self.bus = store, clock, chance, settings, bus
        self.ready = ready
        self.tasks = KnownTasks(store, clock)
        self.workers = FarWorkers(store, clock, settings, bus)
        self.table: Table  # of the routes; the application sets it
        self.repeats = Repeats(self)
        self.events = EventFeed(store)
        self._clients: OrderedDict[Principal, Clients] = OrderedDict()

    def clients(self, who: Principal, grant: Grant | None = None) -> Clients:
        """The clients of one principal, with the grant of its access key. They are kept: concurrent orders and waits
        of a client share queries."""
        found = self._clients.get(who)
        if found is None:
            found = self._clients[who] = self.make_clients(who, grant, self.store, self.chance)
            if len(self._clients) > MOST_CLIENTS:
                self._clients.popitem(last=False)
        else:
            self._clients.move_to_end(who)
        return found

    def make_clients(self, who: Principal, grant: Grant | None, store: Store, chance: Chance) -> Clients:
        """Clients of their own, for one request."""
        jobs = JobsClient(store, who, chance) if grant is None else KeyedJobs(store, grant, chance, self.store)
        return Clients(
            jobs, SchedulesClient(store, who, chance), LimitsClient(store, who, chance),
            PeopleClient(store, who, chance), LocksClient(store, who, chance),
        )  # fmt: skip
