"""Declared schedules: a starting node brings the store up to the declarations in its code.

A declared schedule belongs to an app, by name, and to the module that declares it. A schedule that a node does not
declare may have been deleted from the code. Or the node has not imported the module, because it has another entry point
or an import was forgotten. A schedule that is removed by mistake goes unnoticed; one that stays by mistake is seen. So
a schedule is removed only if

- its module was imported in this process, and no app of that name in the process declares it; and
- nobody has paused it: a pause is a person's decision and must survive until the declaration comes back; and
- its task is one of the app's, if the app is named only by its module: two programs may have a module `jobs`.

All others go on. They are marked (`undeclared_at`) and reported with the command that removes them. So are schedules
whose module is unknown (typed into an interpreter).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from rota.clients.schedules import Saved, SchedulesClient
from rota.errors import InvalidInput
from rota.handles.decorator import TaskDecorator
from rota.handles.schedule_builder import ScheduleOrder, of_task
from rota.handles.task import Task
from rota.model.principal import Principal
from rota.model.trigger.records import StoredSchedule
from rota.model.trigger.schedule import Timing
from rota.model.trigger.template import Template
from rota.tasks.modules import calling_module, imported, known_as, typed_again
from rota.telemetry.events import Event, ScheduleDeclared, SchedulesUndeclared

if TYPE_CHECKING:
    from rota.app_core import AppCore


class Declared(msgspec.Struct, frozen=True):
    schedule: Timing
    template: Template
    module: str | None  # None: not known


class Declarations:
    """The declarations of one app object."""

    def __init__(self, app: AppCore) -> None:
        self._app: AppCore = weakref.proxy(app)  # the app that holds this one
        self._words: dict[str, ScheduleOrder] = {}
        self._name = ""  # of the app, when it last declared one

    def declaring(self, name: str | None, args: Mapping[str, Any] | None, options: Mapping[str, Any]) -> TaskDecorator:
        """A decorator that declares a schedule for a task, or for a function that it makes one."""
        if not self._app.name:
            expected = 'App(name="billing"), where no module can name the app: in a notebook, or in `python -c`'
            raise InvalidInput("app name", self._app.name, expected)
        module = known_as(calling_module())

        def declare(function: Callable[..., Any], _: Mapping[str, Any]) -> Task[..., Any]:
            app = self._app
            task = function if isinstance(function, Task) else app.make(function, {})
            order = ScheduleOrder(task.name if name is None else name, app.own(task), args or {}, options, module)
            self._check(order)
            if task is not function:  # a refused declaration leaves no task behind
                app.catalogue.add(task._definition)
            self._keep(order)
            return task

        return TaskDecorator(declare, {})

    def _check(self, words: ScheduleOrder) -> None:
        self._built(words)  # refused where it is declared
        other = self._words.get(words.name)
        if other is not None and not typed_again(other.task.function, words.task.function):
            expected = f"a name that no other schedule of this app has; {other.module} declares one"
            raise InvalidInput("schedule", words.name, expected)

    def _keep(self, words: ScheduleOrder) -> None:
        self._words[words.name] = words
        self._name = self._app.name
        _open.add(self)

    def _built(self, words: ScheduleOrder) -> tuple[Timing, Template]:
        return of_task(self._app.who.user, words, self._app.settings.max_args, self._app.clock.now())

    def __iter__(self) -> Iterator[ScheduleOrder]:
        return iter(self._words.values())

    async def reconcile(self, planning: SchedulesClient, who: Principal) -> list[Event]:
        """Brings the schedules of this app in the store up to its declarations; returns events to report."""
        app, name = self._app, self._app.name
        wanted = [Declared(*self._built(words), words.module) for words in self]
        tasks = None if app.settings.name else frozenset(task.name for task in app.catalogue)
        return await reconcile(planning, who, LoadedCode(name, imported, self._elsewhere(name), tasks), wanted)

    def _elsewhere(self, app: str) -> set[str]:
        """Schedules that other app objects of this name declare in this process."""
        return {name for one in list(_open) if one is not self and one._name == app for name in one._words}

    def open(self) -> None:
        """Again, if the app was closed and is used anew."""
        if self._words:
            _open.add(self)

    def close(self) -> None:
        _open.discard(self)


# The declarations of all open apps of this process.
_open: weakref.WeakSet[Declarations] = weakref.WeakSet()


class LoadedCode(msgspec.Struct, frozen=True):
    """The modules and declarations of the app that this process has loaded."""

    app: str
    imported: Callable[[str], bool]
    elsewhere: Collection[str] = ()  # schedules that another app object of the same name declares in this process
    tasks: Collection[str] | None = None  # the app's tasks, if it is named by its module; None: by a person

    def removable(self, info: StoredSchedule) -> bool:
        return info.app == self.app and not self.reason_to_stay(info)

    def reason_to_stay(self, info: StoredSchedule) -> str | None:
        """Why an undeclared schedule is kept; None: it may be removed."""
        if info.module is None:
            return "it is not known which module declared them"
        if not self.imported(info.module):
            return f"module {info.module} was not imported"
        if self.tasks is not None and task_of(info.work) not in self.tasks:
            return f"their tasks are not in this app, which has only the name of its module, {self.app}"
        return f"module {info.module} declares them no more, but they are paused" if info.paused else None


class _Work(msgspec.Struct):
    task: str


def task_of(work: str) -> str | None:
    """The task of a stored template; None if it can't be read."""
    try:
        return msgspec.json.decode(work, type=_Work).task
    except msgspec.MsgspecError:
        return None


async def reconcile(
    planning: SchedulesClient, who: Principal, known: LoadedCode, wanted: Sequence[Declared]
) -> list[Event]:
    """Saves declared schedules and removes deleted ones; returns events to report. All are checked before the first is
    saved."""
    for one in wanted:
        await planning.check(one.schedule, one.template, known.app)
    told: list[Event] = []
    for one in wanted:
        saved = await planning.save(one.schedule, one.template, app=known.app, module=one.module)
        if saved.changed:
            told.append(ScheduleDeclared(who.user, one.schedule.name, known.app, one.module, _how(saved)))
    names = {one.schedule.name for one in wanted} | set(known.elsewhere)
    others = [info async for info in planning.all(known.app) if info.name not in names]
    left: list[StoredSchedule] = []
    for info in others:
        removed = known.removable(info) and await planning.withdraw(info.name, known.app, known.removable)
        if removed:
            told.append(ScheduleDeclared(who.user, info.name, known.app, info.module, "removed"))
        elif not known.removable(info):
            left.append(info)
    await planning.undeclare(known.app, left)
    return [*told, *_left(who, known, left)]


def _how(saved: Saved) -> str:
    before, now = saved.before, saved.info
    if before is None:
        return "added"
    if (before.timing, before.work) != (now.timing, now.work) or before.broken is not None:
        return "changed"
    return "moved" if before.module != now.module else "back"


def _left(who: Principal, known: LoadedCode, left: Sequence[StoredSchedule]) -> Iterator[SchedulesUndeclared]:
    reasons = sorted((known.reason_to_stay(info) or "", info.name) for info in left)
    for why, group in groupby(reasons, key=lambda one: one[0]):
        yield SchedulesUndeclared(who.user, known.app, tuple(name for _, name in group), why)
