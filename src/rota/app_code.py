"""The code of an app: its name, the modules that it includes, its tasks and hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rota.config import Settings
from rota.errors import InvalidInput
from rota.handles import shared_task
from rota.handles.decorator import AnyTask, TaskDecorator, make_task
from rota.handles.stub import OpenStub, make_stub
from rota.handles.task import Task
from rota.orders import HttpCall
from rota.tasks.catalogue import Catalogue, TaskDef
from rota.tasks.modules import calling_module, import_named, known_as, module_names

if TYPE_CHECKING:
    from rota.app import App

F = TypeVar("F", bound=Callable[..., Any])


class AppCode:
    """The part of an app that needs no store."""

    settings: Settings

    def __init__(self, include: Sequence[str]) -> None:
        self.home = calling_module()
        self.include = module_names(include, "include")
        self.catalogue = Catalogue(self)
        self._loaded = False
        self._taken: dict[str, TaskDef] = {}  # shared tasks

    def adopt(self, settings: Settings) -> None:
        """Takes over the settings of a node, in a process that runs functions for it."""
        self.settings = settings

    @property
    def name(self) -> str:
        """The name that declared schedules belong to: the setting, or the module that made the app. Empty where there
        is no module, as in a notebook."""
        return self.settings.name or known_as(self.home) or ""

    def load(self) -> None:
        """Imports the modules that the app includes, once, and takes in their shared tasks. Nodes, the test harness and
        rota's verbs call it. Raises ImportFailed."""
        if not self._loaded:
            for module in self.include:
                import_named(module, "include")
            for task in shared_task.shared_tasks(self.include):
                self.shared(task)
            self._loaded = True

    async def load_async(self) -> None:
        """Like `load`, without a running loop around the imports: modules may call `..._sync` methods."""
        if not self._loaded and self.include:
            await asyncio.to_thread(self.load)

    @property
    def task(self) -> TaskDecorator:
        """Makes a function a task: `@app.task` or `@app.task(queue="mail", ...)`. It is named like the function."""
        return TaskDecorator(self._add)

    def _add(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Task[..., Any]:
        task = self.make(function, given)
        self.catalogue.add(task.definition)
        return task

    def make(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Task[..., Any]:
        """A task of a function with these options, not yet in the catalogue."""
        return make_task(cast("App", self), function, given)

    def stub(self, name: str, /) -> OpenStub:
        """A task of other code, to be ordered by its name. `@app.stub("mail.welcome")` above a signature is typed."""
        return make_stub(cast("App", self), name)

    def on(self, event: str) -> Callable[[F], F]:
        """Registers a hook: `@app.on("attempt.before")`, a sync or async function (docs/hooks.md)."""
        return self.catalogue.hooks.on(event)

    def around(self, what: str) -> Callable[[F], F]:
        """Registers a middleware around orders or attempts: `@app.around("attempt")`, a generator function with one
        `yield` (docs/hooks.md)."""
        return self.catalogue.hooks.around(what)

    def own(self, task: AnyTask) -> AnyTask:
        """A task of this app; a shared one as this app has it. Raises InvalidInput for any other value, and for a task
        of another app: that may have another store, and no node of this app offers it."""
        if not isinstance(task, Task):
            raise InvalidInput("task", task, "a task of this app: a function below @app.task, or app.stub(name)")
        if shared_task.module_of(task):
            return self.shared(task)
        if task.app is not self:
            raise InvalidInput("task", task, f"a task of {self!r}; this one is of {task.app!r}")
        return task

    def own_work(self, given: Any, what: str) -> Any:
        """A task of this app, an HTTP call or a command. `what` names the argument that it was given as."""
        if isinstance(given, Task):
            return self.own(given)
        if isinstance(given, str) or not isinstance(given, HttpCall | Sequence):
            raise InvalidInput(what, given, "a task, a command as a list of arguments, or app.http(...)")
        return given

    def shared(self, task: AnyTask) -> AnyTask:
        """The task of this app for a shared task of a module that it includes."""
        module = shared_task.module_of(task)
        if module is None or not shared_task.includes(self.include, module):
            known = ", ".join(self.include) or "none"
            raise InvalidInput("task", task, f"a shared task of a module that this app includes ({known})")
        if task.name not in self._taken:
            own = task.definition.with_origin(self.home)
            self.catalogue.add(own)
            self._taken[task.name] = own
        return task.bound(cast("App", self), self._taken[task.name])
