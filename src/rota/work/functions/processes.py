"""Which tasks run in processes of the pool, and the pool itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from rota.config import Settings
from rota.errors import InvalidInput
from rota.model.outcome import Failed, Outcome, Problem
from rota.model.times import SECOND
from rota.tasks.catalogue import Catalogue, Isolation, TaskDef
from rota.tasks.modules import MAIN
from rota.telemetry.events import Bus, TasksInThreads
from rota.work.attempt import Attempt
from rota.work.functions.assignment import assign
from rota.work.functions.pool import Pool
from rota.work.functions.wire import Briefing, FunctionPath
from rota.work.keeper.client import KeeperClient
from rota.work.output import Drain
from rota.work.own_programs import packed


class Processes:
    def __init__(self, keeper: KeeperClient, catalogue: Catalogue, settings: Settings, drain: Drain, bus: Bus) -> None:
        self._settings, self._bus = settings, bus
        self._explicit = {task.name for task in catalogue if task.code.isolation is Isolation.PROCESS}
        self._hidden = {task.name: why for task in catalogue if (why := _hidden(task))}
        found = [task for task in catalogue if task.name not in self._hidden]
        self._tasks = {task.name for task in found}
        self._alone = {task.name for task in found if _alone(task)}
        self._pool: Pool | None = None
        if found:
            shared = len(self._alone) < len(found)
            slots = sum(settings.queues.values())
            self._pool = Pool(
                keeper,
                _briefing(found, settings, catalogue),
                drain,
                bus,
                self._tell,
                slots,
                bool(self._alone),
                shared,
                catalogue.hooks.has("process.stop"),
                [_name(hook) for hook in catalogue.hooks.of("process.start")],
            )

    async def start(self) -> None:
        """Raises InvalidInput if a task must run in a process and can't, as far as that is known by then."""
        self._refuse(self._hidden)
        self._tell(self._hidden)
        if self._pool is not None:
            await self._pool.start(self._settings.lease / SECOND / 3)
            self._refuse(self._pool.unable)

    @property
    def able(self) -> bool:
        return self._pool is None or self._pool.able

    def watch(self, more: Callable[[], None]) -> None:
        if self._pool is not None:
            self._pool.when_able = more

    def _refuse(self, unable: Mapping[str, str]) -> None:
        for task, why in unable.items():
            if task in self._explicit:
                expected = f"functions that another process can import; {why}"
                raise InvalidInput(f"isolation of task {task!r}", "process", expected)

    def _tell(self, unable: Mapping[str, str]) -> None:
        unable = {task: why for task, why in unable.items() if task not in self._explicit}  # jobs of those fail instead
        for why in sorted(set(unable.values())):
            self._bus.emit(TasksInThreads(tuple(sorted(task for task in unable if unable[task] == why)), why))

    def takes(self, task: TaskDef) -> bool:
        if self._pool is None or task.name not in self._tasks:
            return False
        return task.name in self._explicit or task.name not in self._pool.unable

    async def run(self, task: TaskDef, attempt: Attempt) -> Outcome:
        assert self._pool is not None
        if why := self._pool.unable.get(task.name):
            return Failed(Problem("rota.NotImportable", why))
        # A job that has crashed before may be the culprit or a neighbour's victim: running alone shows which.
        alone = task.name in self._alone or attempt.claimed.crashes
        grace = self._settings.kill_grace / SECOND
        return await assign(attempt, task, grace, self._pool.add if alone else self._pool.add_shared)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


def _name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__qualname__", None) or repr(hook)


def _alone(task: TaskDef) -> bool:
    return task.code.isolation is Isolation.PROCESS or (task.code.isolation is None and not task.is_async)


def _hidden(task: TaskDef) -> str | None:
    """Why another process can't import it, if it can't."""
    module, name = getattr(task.function, "__module__", None), getattr(task.function, "__qualname__", None)
    if module is None or name is None:
        return "they are no plain functions"
    if MAIN in (module, task.code.origin):
        return "they are defined in the main program; put them into a module of their own"
    if "<locals>" in name or "<lambda>" in name:
        return "they are defined inside of other functions, or have no name"
    return None


def _briefing(tasks: list[TaskDef], settings: Settings, catalogue: Catalogue) -> Briefing:
    """The app's own module and those that it includes come first: they may declare what others need, such as hooks."""
    app = catalogue.owner
    own = [] if app is None else [name for name in (app.home, *app.include) if name != MAIN]
    of_tasks = [name for task in tasks for name in (task.function.__module__, task.code.origin)]
    modules = dict.fromkeys(name for name in (*own, *of_tasks) if name)
    functions = tuple(FunctionPath(one.name, one.function.__module__, one.function.__qualname__) for one in tasks)
    which = ("", "") if app is None else (app.home, app.name)
    return Briefing(
        tuple(sys.path), tuple(modules), functions, settings, packed(), which, catalogue.hooks.has("process.start")
    )
