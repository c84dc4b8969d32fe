"""`App`: a user's tasks, the client that orders them, and the one place where concrete parts are put together."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rota import config, declared_schedules, opening, orders
from rota.app_code import AppCode
from rota.callers import CallerClients
from rota.clients.jobs import JobsClient
from rota.clients.limits import LimitsClient
from rota.clients.schedules import SchedulesClient
from rota.clock import Chance, Clock, SystemClock
from rota.connections import AppConnections
from rota.errors import InvalidInput
from rota.handles import schedule_builder
from rota.handles.decorator import TaskDecorator
from rota.handles.handle import id_of
from rota.handles.job import Job
from rota.handles.jobs import DEAD, DeadConditions, JobConditions, JobQuery
from rota.handles.schedule import Schedule
from rota.handles.stub import Stub
from rota.handles.task import Task
from rota.handles.workflow import Workflow
from rota.handles.workflow_builder import WorkflowBuilder
from rota.model.job import Kind, Spec
from rota.model.options import Options
from rota.model.principal import Principal, with_address
from rota.model.trigger.records import ScheduleInfo
from rota.orders import HttpCall, JobOrder
from rota.store.base import Store
from rota.store.carriers.at_once import run_at_once
from rota.store.values import JobFilter
from rota.tasks.context import Context
from rota.telemetry.events import Bus, MigrationWaits

if TYPE_CHECKING:
    from typing import Unpack

    from rota.handles.keywords import (
        CallKeywords,
        CallOrderKeywords,
        CommandOrderKeywords,
        DeclaredKeywords,
        ScheduleKeywords,
    )
    from rota.handles.workflow_builder import LastWork
    from rota.node import Node
    from rota.work.runtime import MakeRuntime

T = TypeVar("T")
R = TypeVar("R")


class App(AppCode):
    """`App()` reads ROTA_STORE and the other settings; arguments win over them. Nothing is opened before it is
    needed."""

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
        """`include`: names of modules with tasks, schedules and hooks, imported when they are needed (`load`)."""
        super().__init__(include)
        self._closed = False
        self._given = {"store": store, **settings}
        self.settings = config.load(self._given)
        self.clock: Clock = clock or SystemClock()
        self.chance = chance or Chance()
        self.bus = Bus()
        self._inline = inline
        self._declared = declared_schedules.Declarations(self)
        self._opened = AppConnections()
        self._opened.when_unused(self)
        self._callers = CallerClients(self._opened, inline)

    def __repr__(self) -> str:
        return f"<App {self.name!r} on {self.settings.place}, {len(self.catalogue)} tasks>"

    @property
    def this(self) -> App:
        """Itself; for a shared task, the app that it stands for."""
        return self

    def same_store(self, other: App) -> bool:
        """Whether both have the same store and user. A store in memory is of one app."""
        if self is other:
            return True
        mine, theirs = self.settings, other.settings
        return (mine.store, mine.user) == (theirs.store, theirs.user) and not opening.in_memory(mine)

    @property
    def who(self) -> Principal:
        """The user of this process. It has the store's address, so it is operator and admin."""
        return with_address(self.settings.user)

    def configure(self, **settings: Any) -> None:
        """Changes settings of the app (None: not given); those of the store only before it is opened."""
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
    async def submit_command(
        self, argv: Sequence[str], *, within: Any = None, **options: Unpack[CommandOrderKeywords]
    ) -> Job[Any]:
        """Orders a command: a list of arguments, never a shell line (docs/execution.md). `within`: in the caller's own
        transaction on this connection, as `Task.within` does."""
        return (await self.submit_orders(*self.command_order(argv, options), within=within))[0]

    def submit_command_sync(
        self, argv: Sequence[str], *, within: Any = None, **options: Unpack[CommandOrderKeywords]
    ) -> Job[Any]:
        return self.submit_orders_sync(*self.command_order(argv, options), within=within)[0]

    def command_order(self, argv: Sequence[str], given: Mapping[str, Any]) -> tuple[Spec, str, list[str], Options]:
        """The order of a command, from the options of the command and the job, as `submit_orders` takes it."""
        return orders.command_order(self.settings.max_args, argv, given)

    def command(self, argv: Sequence[str], *, name: str | None = None, **about: Any) -> tuple[Spec, str]:
        """The spec of a command and the name of its task. `about`: the options of `Spec.command`."""
        return orders.command(self.settings.max_args, argv, name, about)

    async def submit_http(
        self, method: str, url: str, *, within: Any = None, **options: Unpack[CallOrderKeywords]
    ) -> Job[Any]:
        """Orders an HTTP call, with the options of `http` and of orders. `within` as for commands."""
        order = orders.call_order(self.settings.max_args, method, url, options)
        return (await self.submit_orders(*order, within=within))[0]

    def submit_http_sync(
        self, method: str, url: str, *, within: Any = None, **options: Unpack[CallOrderKeywords]
    ) -> Job[Any]:
        order = orders.call_order(self.settings.max_args, method, url, options)
        return self.submit_orders_sync(*order, within=within)[0]

    def http(self, method: str, url: str, **options: Unpack[CallKeywords]) -> HttpCall:
        """An HTTP call to schedule, or to add to a workflow. `expect`: the statuses that are success (2xx);
        `redirects`: how many to follow at most (5); `name`: of its task (the host)."""
        return orders.http(self.settings.max_args, method, url, options)

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

    async def client_within(self, connection: Any, waits: bool) -> JobsClient:
        """A client in the caller's own transaction on this connection. `waits`: the caller awaits its calls."""
        return await self._callers.jobs(self, connection, waits)

    async def wake(self) -> None:
        """Wakes the nodes: after the commit of a transaction of your own with orders, if `notify_within` is false."""
        await (await self.client()).store.tell()

    def wake_sync(self) -> None:
        self.sync(self.wake())

    def workflow(
        self, name: str = "", *, of: Workflow | Job[Any] | Context | str | None = None, within: Any = None,
        on_failure: LastWork | None = None, on_success: LastWork | None = None,
    ) -> WorkflowBuilder:  # fmt: skip
        """Jobs that are ordered together: `async with app.workflow() as flow: flow.add(...)`. `of`: adds to a workflow
        that is there, as a task of it may do with `of=ctx`. `within`: ordered in the caller's own transaction on this
        connection, as `Task.within` does. `on_failure`, `on_success`: a task, a command, a call, or (task, arguments)
        to run when all jobs have ended. `rota.Workflow(app, id)` is a handle for one."""
        return WorkflowBuilder(self, name, of, within, on_failure, on_success)

    @overload
    async def job(self, job_id: str) -> Job[Any]: ...

    @overload
    async def job(self, job_id: str, *, task: Task[..., R]) -> Job[R]: ...

    async def job(self, job_id: str, *, task: Task[..., Any] | None = None) -> Job[Any]:
        """A handle for a job by its id (or a beginning of it that fits no other). With its `task`, the result is read
        as the task is annotated; without it, the result is plain data."""
        own = None if task is None else self.own(task)
        found = await (await self.client()).resolve(id_of(job_id, "job id"))
        return Job(self, found) if own is None else own.handle(found)

    @overload
    def job_sync(self, job_id: str) -> Job[Any]: ...

    @overload
    def job_sync(self, job_id: str, *, task: Task[..., R]) -> Job[R]: ...

    def job_sync(self, job_id: str, *, task: Task[..., Any] | None = None) -> Job[Any]:
        return self.sync(self.job(job_id) if task is None else self.job(job_id, task=task))

    def jobs(self, query: JobFilter | None = None, /, **conditions: Unpack[JobConditions]) -> JobQuery:
        """Jobs of this user: `async for info in app.jobs(state="failed", task="mail.*")`, `.count()`, `.cancel()` and
        more (docs/reading.md)."""
        return JobQuery(self, query, conditions)

    def dead(self, **conditions: Unpack[DeadConditions]) -> JobQuery:
        """The dead letters: jobs that failed for good, latest first."""
        return JobQuery(self, DEAD, conditions)

    # -- schedules ---------------------------------------------------------------------------------------------------
    async def schedule(
        self,
        name: str,
        task: Task[..., Any] | HttpCall | Sequence[str],
        *,
        args: Mapping[str, Any] | None = None,
        within: Any = None,
        **options: Unpack[ScheduleKeywords],
    ) -> Schedule:
        """Keeps a schedule under a name: `cron=`, `every=`, `rrule=` or `at=` says when; `tz`, `overlap` and
        so on say how (docs/schedules.md). One of the same name is replaced; the same again changes nothing. `within`:
        in the caller's own transaction on this connection, as `Task.within` does."""
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

    def schedule_sync(
        self,
        name: str,
        task: Task[..., Any] | HttpCall | Sequence[str],
        *,
        args: Mapping[str, Any] | None = None,
        within: Any = None,
        **options: Unpack[ScheduleKeywords],
    ) -> Schedule:
        if within is None:
            return self.sync(self.schedule(name, task, args=args, **options))
        if isinstance(task, Stub):
            task.load_sync()
        work = self.own_work(task, "task")
        return run_at_once(self._callers.schedule(self, within, False, (name, work, args, options)))

    async def schedules(self) -> list[ScheduleInfo]:
        """The schedules of this user, by name. `rota.Schedule(app, name)` is a handle for one."""
        return [info async for info in (await self.planning()).all()]

    def schedules_sync(self) -> list[ScheduleInfo]:
        return self.sync(self.schedules())

    def cron(
        self,
        expression: str,
        *,
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        **options: Unpack[DeclaredKeywords],
    ) -> TaskDecorator:
        """Declares a schedule for a task, or for a function that it makes one. It is kept when a node of this app
        starts, and removed when its module no longer declares it."""
        if not isinstance(expression, str):
            raise InvalidInput("cron", expression, """an expression, as in @app.cron("0 3 * * *")""")
        return self._declared.declaring(name, args, {"cron": expression, **options})

    def every(
        self,
        period: str | float | timedelta,
        *,
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        **options: Unpack[DeclaredKeywords],
    ) -> TaskDecorator:
        """Like `cron`, each time a period has passed: `@app.every("90s")`."""
        if callable(period):
            raise InvalidInput("every", period, """a period, as in @app.every("90s")""")
        return self._declared.declaring(name, args, {"every": period, **options})

    async def declare(self) -> None:
        """Keeps the schedules that are declared in code, and removes those of this app that no longer are
        (`rota.declared_schedules`)."""
        if self.name:
            for event in await self._declared.reconcile(await self.planning(), self.who):
                self.bus.emit(event)

    async def planning(self) -> SchedulesClient:
        """The client for schedules, with its store open."""
        return SchedulesClient((await self.client()).store, self.who, self.chance)

    async def admissions(self) -> LimitsClient:
        """The client for gates, limits and queues, with its store open."""
        return LimitsClient((await self.client()).store, self.who, self.chance)

    # -- parts -------------------------------------------------------------------------------------------------------
    def make_store(self) -> Store:
        return opening.make_store(self.settings, self.clock, self.chance, self._inline)

    async def client(self) -> JobsClient:
        """The client, with its store open."""
        return await self._opened.open(self._new_client)

    async def _new_client(self) -> JobsClient:
        self._closed = False
        self._declared.open()
        store = self.make_store()
        try:
            await self._open(store)
        except BaseException:
            await store.close()
            raise
        return JobsClient(store, self.who, self.chance)

    async def _open(self, store: Store) -> None:
        await opening.open_or_create(store)

    async def migrate(self) -> tuple[int, int]:
        """Brings the store to the schema of this rota; returns the versions before and after."""
        store = self.make_store()
        try:
            return await store.migrate(lambda line: self.bus.emit(MigrationWaits(line)))
        finally:
            await store.close()

    async def node(self, make_runtime: MakeRuntime | None = None) -> Node:
        """This app as a node, ready to `run()`."""
        from rota.node import Node  # a third of all imports, and most clients run no node
        from rota.work.runtime import ProcessRuntime

        await self.load_async()
        store = (await self.client()).store
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
        )

    @property
    def is_open(self) -> bool:
        """Whether it can be meant by a shared task: True until it is closed, and again when it is used."""
        return not self._closed

    async def close(self) -> None:
        self._closed = True
        self._declared.close()
        await self._opened.close_async()

    def close_sync(self) -> None:
        self._closed = True
        self._declared.close()
        self._opened.close()

    async def __aenter__(self) -> App:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    # -- the sync face -----------------------------------------------------------------------------------------------
    def sync(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine of this app to its end from ordinary code, on a loop in a thread of its own."""
        return self._opened.run(work)
