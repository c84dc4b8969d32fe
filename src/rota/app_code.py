"""The code of an app: its name, the modules that it includes, its tasks and hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rota.config import Settings
from rota.errors import InvalidInput
from rota.handles import shared_task
from rota.handles.decorator import AnyTask, make_task
from rota.handles.task import Task
from rota.orders import HttpCall
from rota.tasks.catalogue import Catalogue, TaskDef
from rota.tasks.modules import calling_module, import_named, known_as, module_names

if TYPE_CHECKING:
    from rota.app_core import AppCore


class AppCode:
    """The part of an app core that needs no store."""

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
        return self.settings.name or known_as(self.home) or ""

    def load(self) -> None:
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

    def add(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Task[..., Any]:
        """Makes a function a task of the app."""
        task = self.make(function, given)
        self.catalogue.add(task._definition)
        return task

    def make(self, function: Callable[..., Any], given: Mapping[str, Any]) -> Task[..., Any]:
        """A task of a function with these options, not yet in the catalogue."""
        return make_task(cast("AppCore", self), function, given)

    def own(self, task: AnyTask) -> AnyTask:
        """A task of this app; a shared one as this app has it. Raises InvalidInput for any other value, and for a task
        of another app: that may have another store, and no node of this app offers it."""
        if not isinstance(task, Task):
            raise InvalidInput("task", task, "a task of this app: a function below @app.task, or app.stub(name)")
        if shared_task.module_of(task):
            return self.shared(task)
        if task._app is not self:
            raise InvalidInput("task", task, f"a task of {self!r}; this one is of {task._app!r}")
        return task

    def own_work(self, given: Any, what: str) -> Any:
        """A task of this app, an HTTP call or a command. `what` names the argument that it was given as."""
        if isinstance(given, Task):
            return self.own(given)
        if isinstance(given, str) or not isinstance(given, HttpCall | Sequence):
            raise InvalidInput(what, given, "a task, a command as a list of arguments, or app.http(...)")
        return given

    def shared(self, task: AnyTask) -> AnyTask:
        module = shared_task.module_of(task)
        if module is None or not shared_task.includes(self.include, module):
            known = ", ".join(self.include) or "none"
            raise InvalidInput("task", task, f"a shared task of a module that this app includes ({known})")
        if task.name not in self._taken:
            own = task._definition.with_origin(self.home)
            self.catalogue.add(own)
            self._taken[task.name] = own
        return task._bound(cast("AppCore", self), self._taken[task.name])
