"""`AppCore`: the parts of an app, put together. Handles, the command line and `rota.testing` use it.

`rota.App` is the face of it for users, with documented names only. What rota's own modules need of an app is here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rota import config, declared_schedules, opening, orders
from rota.app_code import AppCode
from rota.callers import CallerClients
from rota.clients.jobs import JobsClient
from rota.clients.limits import LimitsClient
from rota.clients.locks import LocksClient
from rota.clients.schedules import SchedulesClient
from rota.clock import Chance, Clock, SystemClock
from rota.connections import AppConnections
from rota.errors import InvalidInput
from rota.handles import schedule_builder
from rota.handles.job import Job
from rota.handles.schedule import Schedule
from rota.handles.stub import Stub
from rota.handles.task import Task
from rota.model.job import Kind, Spec
from rota.model.options import Options
from rota.model.principal import Principal, with_address
from rota.orders import HttpCall, JobOrder
from rota.store.base import Store
from rota.store.carriers.at_once import run_at_once
from rota.telemetry.events import Bus, MigrationWaits

if TYPE_CHECKING:
    from rota.node import Node
    from rota.work.runtime import MakeRuntime

T = TypeVar("T")


class AppCore(AppCode):
    """Nothing is opened before it is needed."""

    def __init__(
        self,
        store: str | None = None,
        *,
        include: Sequence[str] = (),
        clock: Clock | None = None,
        chance: Chance | None = None,
        inline: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(include)
        self._closed = False
        self._given = {"store": store, **settings}
        self.settings = config.load(self._given)
        self.clock: Clock = clock or SystemClock()
        self.chance = chance or Chance()
        self.bus = Bus()
        self._inline = inline
        self.declared = declared_schedules.Declarations(self)
        self._opened = AppConnections()
        self._opened.when_unused(self)
        self._callers = CallerClients(self._opened, inline)

    def __repr__(self) -> str:
        return f"<App {self.name!r} on {self.settings.place}, {len(self.catalogue)} tasks>"

    @property
    def this(self) -> AppCore:
        """Itself; for a shared task, the app that it stands for."""
        return self

    def same_store(self, other: AppCore) -> bool:
        """Whether both have the same store and user. A store in memory is of one app."""
        if self is other:
            return True
        mine, theirs = self.settings, other.settings
        same = all(getattr(mine, name) == getattr(theirs, name) for name in ("store", "server", "key", "user"))
        return same and not opening.in_memory(mine)

    @property
    def who(self) -> Principal:
        """The user of this process, who has the store's address and so is operator and admin. On a server the user of
        the key, from when it was first asked."""
        return self._opened.client.who if self._opened.client else with_address(self.settings.user)

    def configure(self, **settings: Any) -> None:
        given = self._given | {name: value for name, value in settings.items() if value is not None}
        changed = config.load(given)
        late = [name for name in opening.SETTINGS if getattr(changed, name) != getattr(self.settings, name)]
        if self._opened.client is not None and late:
            raise InvalidInput("configure", ", ".join(late), "a call before the store was opened by the first order")
        self._given, self.settings = given, changed

    @contextmanager
    def borrowed(
        self, opened: AppConnections, callers: CallerClients, clock: Clock, chance: Chance, **settings: Any
    ) -> Iterator[None]:
        """For tests: replaces clock, store and settings for a while, with the same tasks. See `rota.testing`."""
        saved = self.__dict__.copy()
        self.clock, self.chance, self.bus, self._inline = clock, chance, Bus(), True
        self._opened, self._callers = opened, callers
        self._given = {}
        self.settings = config.load({"name": self.settings.name or None, **settings}, environment={})
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(saved)

    # -- orders ------------------------------------------------------------------------------------------------------
    def command_order(self, argv: Sequence[str], given: Mapping[str, Any]) -> tuple[Spec, str, list[str], Options]:
        """The order of a command, from the options of the command and the job, as `submit_orders` takes it."""
        return orders.command_order(self.settings.max_args, argv, given)

    def command(self, argv: Sequence[str], *, name: str | None = None, **about: Any) -> tuple[Spec, str]:
        """The spec of a command and the name of its task. `about`: the options of `Spec.command`."""
        return orders.command(self.settings.max_args, argv, name, about)

    def call_order(self, method: str, url: str, given: Mapping[str, Any]) -> tuple[Spec, str, list[str], Options]:
        """The order of an HTTP call, from the options of the call and the job."""
        return orders.call_order(self.settings.max_args, method, url, given)

    def http(self, method: str, url: str, **given: Any) -> HttpCall:
        return orders.http(self.settings.max_args, method, url, given)

    async def submit_orders(
        self, spec: Spec, task: str, bodies: Sequence[str], options: Options, within: Any = None
    ) -> list[Job[Any]]:
        """Orders a job per body (arguments as JSON). `within`: all together, in the caller's transaction on this
        connection."""
        orders.check_single(options)
        order = JobOrder(spec, task, bodies, options)
        return await self.catalogue.hooks.submit_async(
            [task] * len(bodies), lambda meta: self._place(order, meta, within, waits=True)
        )

    def submit_orders_sync(
        self, spec: Spec, task: str, bodies: Sequence[str], options: Options, within: Any = None
    ) -> list[Job[Any]]:
        orders.check_single(options)
        order, run = JobOrder(spec, task, bodies, options), self.sync if within is None else run_at_once
        return self.catalogue.hooks.submit_sync(
            [task] * len(bodies), lambda meta: run(self._place(order, meta, within, waits=False)), self.sync
        )

    async def _place(self, order: JobOrder, meta: str | None, within: Any, waits: bool) -> list[Job[Any]]:
        """Writes an order. `meta`: JSON of hooks, kept with its jobs; `waits`: the caller awaits."""
        if within is not None:
            return await self._callers.submit(self, within, waits, order, meta)
        if self._opened.client is None:  # invalid orders must not create a store
            order.check()
        client = await self.client()
        if order.spec.kind is Kind.FUNCTION:
            await client.make_known(self.catalogue)
        jobs = order.jobs(client.job_ids(len(order.bodies)), meta)
        return [Job(self, answer.id) for answer in await client.submit(jobs)]

    # -- schedules ---------------------------------------------------------------------------------------------------
    async def save_schedule(
        self, name: str, task: Any, args: Mapping[str, Any] | None, options: Mapping[str, Any], within: Any = None
    ) -> Schedule:
        work = self.own_work(task, "task")
        if isinstance(task, Stub):
            await task.load()
        if within is not None:
            return await self._callers.schedule(self, within, True, (name, work, args, options))
        planning = await self.planning()
        built = schedule_builder.build(self, name, work, args, options)
        if isinstance(task, Task):
            await (await self.client()).make_known(self.catalogue)
        await planning.save(*built)
        return Schedule(self, name)

    def save_schedule_sync(
        self, name: str, task: Any, args: Mapping[str, Any] | None, options: Mapping[str, Any], within: Any = None
    ) -> Schedule:
        if within is None:
            return self.sync(self.save_schedule(name, task, args, options))
        if isinstance(task, Stub):
            task.load_sync()
        work = self.own_work(task, "task")
        return run_at_once(self._callers.schedule(self, within, False, (name, work, args, options)))

    async def declare(self) -> None:
        """Keeps the schedules that are declared in code, and removes those of this app that no longer are
        (`rota.declared_schedules`)."""
        if self.name:
            for event in await self.declared.reconcile(await self.planning(), self.who):
                self.bus.emit(event)

    # -- clients and store -------------------------------------------------------------------------------------------
    async def client(self) -> JobsClient:
        """The client, with its store open."""
        return await self._opened.open(self._new_client)

    async def client_within(self, connection: Any, waits: bool) -> JobsClient:
        """A client in the caller's own transaction on this connection. `waits`: the caller awaits its calls."""
        return await self._callers.jobs(self, connection, waits)

    async def planning(self) -> SchedulesClient:
        """The client for schedules, with its store open."""
        return SchedulesClient((await self.client()).store, self.who, self.chance)

    async def admissions(self) -> LimitsClient:
        return LimitsClient((await self.client()).store, self.who, self.chance)

    async def locks(self) -> LocksClient:
        return LocksClient((await self.client()).store, self.who, self.chance)

    def make_store(self) -> Store:
        return opening.make_store(self.settings, self.clock, self.chance, self._inline)

    async def _new_client(self) -> JobsClient:
        self._closed = False
        self.declared.open()
        store = self.make_store()
        try:
            await self._open(store)
        except BaseException:
            await store.close()
            raise
        return JobsClient(store, opening.principal(store, self.settings), self.chance)

    async def _open(self, store: Store) -> None:
        await opening.open_or_create(store)

    async def migrate(self) -> tuple[int, int]:
        """Brings the store to the schema of this rota; returns the versions before and after."""
        store = self.make_store()
        try:
            return await store.migrate(lambda line: self.bus.emit(MigrationWaits(line)))
        finally:
            await store.close()

    async def node(self, make_runtime: MakeRuntime | None = None, api: bool = False) -> Node:
        from rota.node import Node  # a third of all imports, and most clients run no node
        from rota.work.runtime import ProcessRuntime

        opening.check_roles(self.settings)
        await self.load_async()
        store = (await self.client()).store
        if not self.settings.server:  # a worker's key may not change schedules
            await self.declare()
        runtime = make_runtime or (lambda guards: ProcessRuntime(self.catalogue, self.settings, guards, self.bus))
        return Node(
            store,
            self.clock,
            self.chance,
            self.bus,
            self.settings,
            self.catalogue.infos(),
            runtime,
            self.catalogue.hooks,
            opening.api_socket(self.settings, self.bus, asked=api),
        )

    # -- the end -----------------------------------------------------------------------------------------------------
    @property
    def is_open(self) -> bool:
        """Whether it can be meant by a shared task: True until it is closed, and again when it is used."""
        return not self._closed

    async def close(self) -> None:
        self._closed = True
        self.declared.close()
        await self._opened.close_async()

    def close_sync(self) -> None:
        self._closed = True
        self.declared.close()
        self._opened.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def sync(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine of this app to its end from ordinary code, on a loop in a thread of its own."""
        return self._opened.run(work)
