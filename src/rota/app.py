"""`App`: a user's tasks, and the client that orders them. All of its public names are documented in docs/sdk.md."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from rota.app_core import AppCore
from rota.clients.limits import LimitsClient
from rota.config import Settings
from rota.errors import InvalidInput
from rota.handles.decorator import AnyTask, TaskDecorator
from rota.handles.handle import id_of
from rota.handles.job import Job
from rota.handles.jobs import DEAD, DeadConditions, JobConditions, JobQuery
from rota.handles.lock import Lock, SyncLock
from rota.handles.logs import Logs
from rota.handles.schedule import Schedule
from rota.handles.stub import OpenStub, make_stub
from rota.handles.task import Task
from rota.handles.workflow import Workflow
from rota.handles.workflow_builder import WorkflowBuilder
from rota.model.locks import DEFAULT_TTL, LockInfo
from rota.model.times import Span
from rota.model.trigger.records import ScheduleInfo
from rota.orders import HttpCall
from rota.store.values import JobFilter
from rota.tasks.context import Context

if TYPE_CHECKING:
    from typing import Unpack

    from rota.handles.keywords import (
        AllSettingKeywords,
        CallKeywords,
        CallOrderKeywords,
        CommandOrderKeywords,
        DeclaredKeywords,
        ScheduleKeywords,
        SettingKeywords,
    )
    from rota.handles.workflow_builder import LastWork
    from rota.node import Node
    from rota.work.runtime import MakeRuntime

T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class App:
    """`App()` reads ROTA_STORE and the other settings; arguments win over them. Nothing is opened before it is
    needed."""

    def __init__(
        self,
        store: str | None = None,
        *,
        include: Sequence[str] = (),
        **settings: Unpack[SettingKeywords],
    ) -> None:
        """`include`: names of modules with tasks, schedules and hooks, imported when they are needed (`load`)."""
        self._core = AppCore(store, include=include, **settings)

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def name(self) -> str:
        """The name that declared schedules belong to: the setting, or the module that made the app. Empty where there
        is no module, as in a notebook."""
        return self._core.name

    @property
    def settings(self) -> Settings:
        """The settings in use (docs/settings.md)."""
        return self._core.settings

    @property
    def include(self) -> tuple[str, ...]:
        """The names of the modules that the app includes."""
        return self._core.include

    def configure(self, **settings: Unpack[AllSettingKeywords]) -> None:
        """Changes settings of the app (None: not given); those of the store only before it is opened."""
        self._core.configure(**settings)

    def load(self) -> None:
        """Imports the modules that the app includes, once, and takes in their shared tasks. Nodes, the test harness and
        rota's verbs call it. Raises ImportFailed."""
        self._core.load()

    # -- tasks and hooks ---------------------------------------------------------------------------------------------
    @property
    def task(self) -> TaskDecorator:
        """Makes a function a task: `@app.task` or `@app.task(queue="mail", ...)`. It is named like the function."""
        return TaskDecorator(self._core.add)

    def stub(self, name: str, /) -> OpenStub:
        """A task of other code, to be ordered by its name. `@app.stub("mail.welcome")` above a signature is typed."""
        return make_stub(self._core, name)

    def shared(self, task: AnyTask) -> AnyTask:
        """The task of this app for a shared task of a module that it includes."""
        return self._core.shared(task)

    def on(self, event: str) -> Callable[[F], F]:
        """Registers a hook: `@app.on("attempt.before")`, a sync or async function (docs/hooks.md)."""
        return self._core.catalogue.hooks.on(event)

    def around(self, what: str) -> Callable[[F], F]:
        """Registers a middleware around orders or attempts: `@app.around("attempt")`, a generator function with one
        `yield` (docs/hooks.md)."""
        return self._core.catalogue.hooks.around(what)

    # -- orders ------------------------------------------------------------------------------------------------------
    async def submit_command(
        self, argv: Sequence[str], *, within: Any = None, **options: Unpack[CommandOrderKeywords]
    ) -> Job[Any]:
        """Orders a command: a list of arguments, never a shell line (docs/execution.md). `within`: in the caller's own
        transaction on this connection, as `Task.within` does."""
        core = self._core
        return (await core.submit_orders(*core.command_order(argv, options), within=within))[0]

    def submit_command_sync(
        self, argv: Sequence[str], *, within: Any = None, **options: Unpack[CommandOrderKeywords]
    ) -> Job[Any]:
        return self._core.submit_orders_sync(*self._core.command_order(argv, options), within=within)[0]

    async def submit_http(
        self, method: str, url: str, *, within: Any = None, **options: Unpack[CallOrderKeywords]
    ) -> Job[Any]:
        """Orders an HTTP call, with the options of `http` and of orders. `within` as for commands."""
        return (await self._core.submit_orders(*self._core.call_order(method, url, options), within=within))[0]

    def submit_http_sync(
        self, method: str, url: str, *, within: Any = None, **options: Unpack[CallOrderKeywords]
    ) -> Job[Any]:
        return self._core.submit_orders_sync(*self._core.call_order(method, url, options), within=within)[0]

    def http(self, method: str, url: str, **options: Unpack[CallKeywords]) -> HttpCall:
        """An HTTP call to schedule, or to add to a workflow. `expect`: the statuses that are success (2xx);
        `redirects`: how many to follow at most (5); `name`: of its task (the host)."""
        return self._core.http(method, url, **options)

    async def wake(self) -> None:
        """Wakes the nodes: after the commit of a transaction of your own with orders, if `notify_within` is false."""
        await (await self._core.client()).store.tell()

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
        return WorkflowBuilder(self._core, name, of, within, on_failure, on_success)

    @overload
    async def job(self, job_id: str) -> Job[Any]: ...

    @overload
    async def job(self, job_id: str, *, task: Task[..., R]) -> Job[R]: ...

    async def job(self, job_id: str, *, task: Task[..., Any] | None = None) -> Job[Any]:
        """A handle for a job by its id (or a beginning of it that fits no other). With its `task`, the result is read
        as the task is annotated; without it, the result is plain data."""
        own = None if task is None else self._core.own(task)
        found = await (await self._core.client()).resolve(id_of(job_id, "job id"))
        return Job(self._core, found) if own is None else own._handle(found)

    @overload
    def job_sync(self, job_id: str) -> Job[Any]: ...

    @overload
    def job_sync(self, job_id: str, *, task: Task[..., R]) -> Job[R]: ...

    def job_sync(self, job_id: str, *, task: Task[..., Any] | None = None) -> Job[Any]:
        return self.sync(self.job(job_id) if task is None else self.job(job_id, task=task))

    def jobs(
        self, query: str | JobFilter | None = None, /, *, sort: str | None = None, **conditions: Unpack[JobConditions]
    ) -> JobQuery:
        """Jobs of this user: `async for info in app.jobs("state:failed took>5m", sort="-took")`, by conditions too
        (`task="mail.*"`), `.count()`, `.cancel()` and more (docs/reading.md)."""
        base, text = (query, None) if isinstance(query, JobFilter) else (JobFilter(), query)
        return JobQuery(self._core, base, text, sort, conditions)

    def dead(
        self, query: str | None = None, /, *, sort: str | None = None, **conditions: Unpack[DeadConditions]
    ) -> JobQuery:
        """The dead letters: jobs that failed for good, latest first."""
        return JobQuery(self._core, DEAD, query, sort, conditions)

    @property
    def logs(self) -> Logs:
        """The output of many jobs: `async for line in app.logs.tail("task:mail.* level>=warning")`."""
        return Logs(self._core)

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
        return await self._core.save_schedule(name, task, args, options, within)

    def schedule_sync(
        self,
        name: str,
        task: Task[..., Any] | HttpCall | Sequence[str],
        *,
        args: Mapping[str, Any] | None = None,
        within: Any = None,
        **options: Unpack[ScheduleKeywords],
    ) -> Schedule:
        return self._core.save_schedule_sync(name, task, args, options, within)

    async def schedules(self) -> list[ScheduleInfo]:
        """The schedules of this user, by name. `rota.Schedule(app, name)` is a handle for one."""
        return [schedule.shown() async for schedule in (await self._core.planning()).all()]

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
        return self._core.declared.declaring(name, args, {"cron": expression, **options})

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
        return self._core.declared.declaring(name, args, {"every": period, **options})

    # -- locks -------------------------------------------------------------------------------------------------------
    def lock(self, name: str, ttl: Span = DEFAULT_TTL, wait: Span | None = None) -> Lock:
        """A lock of this user for the whole cluster: `async with app.lock("report") as lock: ... lock.fence`. It lasts
        for `ttl` (1s to 1h) and is renewed meanwhile. `wait`: how long to wait for it; None: for ever; `0s`: one try.
        Raises LockTaken; cancels the body and raises LockLost when it is lost (docs/locks.md)."""
        return Lock(self._core, name, ttl, wait)

    def lock_sync(self, name: str, ttl: Span = DEFAULT_TTL, wait: Span | None = None) -> SyncLock:
        """The twin for `with`. A body can't be stopped: LockLost is raised at its end, and by `lock.check()`."""
        return SyncLock(self._core, name, ttl, wait)

    async def locks(self) -> list[LockInfo]:
        """The locks of this user, up to 1,000; held ones first, by name."""
        return await (await self._core.locks()).locks()

    def locks_sync(self) -> list[LockInfo]:
        return self.sync(self.locks())

    # -- the store and the node --------------------------------------------------------------------------------------
    async def admissions(self) -> LimitsClient:
        """The client for gates, limits and queues (docs/order.md), with its store open."""
        return await self._core.admissions()

    async def node(self, make_runtime: MakeRuntime | None = None, *, api: bool = False) -> Node:
        """This app as a node, ready to `run()`. `api`: with the HTTP API if it has that role; a program that did not
        ask for it opens no port."""
        return await self._core.node(make_runtime, api)

    async def close(self) -> None:
        """Closes the store and its connections. An app that is used again opens them again."""
        await self._core.close()

    def close_sync(self) -> None:
        self._core.close_sync()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    def sync(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine of this app to its end from ordinary code, on a loop in a thread of its own."""
        return self._core.sync(work)
