"""Shared tasks: a library declares them without an app, and each app takes in those of the modules that it includes.

A shared task belongs to the module that declares it, which keeps it (under `KEPT_AS`); there is no other registry.
`App(include=["library.tasks"])` takes it in, as a task of that app with the same name and options. A package that is
included gives the shared tasks of all its modules that are imported.

Ordering needs an app: the one open app of this process that includes the module. If there is none, or more than one,
the order is refused; `app.shared(task)` is the task of one app.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rota.errors import InvalidInput
from rota.handles.decorator import TaskDecorator, make_task
from rota.handles.task import Task
from rota.tasks.catalogue import CATALOGUES
from rota.tasks.modules import calling_module

if TYPE_CHECKING:
    from rota.app_core import AppCore

KEPT_AS = "__rota_shared_tasks__"  # the attribute of a module with its shared tasks, by name


class IncludingApp:
    """Stands in for the app of a shared task, until an order needs one."""

    def __init__(self, module: str, task: Task[..., Any]) -> None:
        self.module, self._task = module, task

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for by tools that look at any object
            raise AttributeError(name)
        return getattr(self._find(), name)

    def _find(self) -> AppCore:
        apps = self._including()
        if len(apps) > 1:
            apps.clear()
            gc.collect()  # an app that was dropped may be in a cycle with its tasks
            apps = self._including()
        what = f"shared task {self._task.name!r}"
        if not apps:
            raise InvalidInput(what, "without an app", f"an app in this process with App(include=[{self.module!r}])")
        if len(apps) > 1:
            names = ", ".join(sorted(app.name or repr(app) for app in apps))
            raise InvalidInput(what, f"of several apps: {names}", "app.shared(task), which is the task of one app")
        apps[0].shared(self._task)  # it may not have been loaded yet
        return apps[0]

    def _including(self) -> list[AppCore]:
        owners = cast("list[AppCore]", [one.owner for one in list(CATALOGUES) if one.owner is not None])
        return [app for app in owners if app.is_open and includes(app.include, self.module)]


def _share(function: Callable[..., Any], given: Mapping[str, Any]) -> Task[..., Any]:
    module = calling_module()
    if module not in sys.modules:
        raise InvalidInput("shared task", function, "a function in a module, so that apps can include it")
    task = make_task(cast("AppCore", None), function, given)
    task._app = cast("AppCore", IncludingApp(module, task))
    kept: dict[str, Task[..., Any]] = vars(sys.modules[module]).setdefault(KEPT_AS, {})
    kept[task.name] = task  # a module that is reloaded declares it again
    return task


shared_task = TaskDecorator(_share)


def includes(included: Sequence[str], module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in included)


def shared_tasks(included: Sequence[str]) -> Iterator[Task[..., Any]]:
    """The shared tasks of the included modules that are imported."""
    for name, module in list(sys.modules.items()):
        if includes(included, name):
            yield from getattr(module, KEPT_AS, {}).values()


def module_of(task: object) -> str | None:
    """The module of a shared task; None for other tasks."""
    owner: object = task._app if isinstance(task, Task) else None
    return owner.module if isinstance(owner, IncludingApp) else None
