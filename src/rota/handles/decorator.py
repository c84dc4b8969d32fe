"""`@app.task` and the decorators like it, typed: a task keeps the parameters and the result of its function.

The first overload that fits a function decides, so the order counts. A parameter or result without a type fits any type
that is asked for. `_Unknown` is a type that nothing else fits, so asking for it first finds the functions about which
nothing is known, and they are not checked; else their first parameter would be taken for a context, and their result
for a coroutine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from rota.errors import InvalidInput
from rota.handles.task import AsyncTask, SyncTask, Task
from rota.model.job import shared
from rota.model.option_table import TASK_NAMES
from rota.model.options import Options, read_options, task_name
from rota.model.task import TaskInfo
from rota.orders import check_templates
from rota.tasks.catalogue import Code, TaskDef
from rota.tasks.context import Context

if TYPE_CHECKING:
    from typing import Unpack

    from rota.app_core import AppCore
    from rota.handles.keywords import TaskKeywords

P = ParamSpec("P")
R = TypeVar("R")
AnyTask = TypeVar("AnyTask", bound=Task[..., Any])


def make_task(app: AppCore, function: Callable[..., Any], given: Mapping[str, Any]) -> Task[..., Any]:
    """Makes a task of a function. `given`: the options of `@app.task`. Raises InvalidInput."""
    options = dict(given)
    name, code = options.pop("name", None), Code.read(options.pop("isolation", None))
    aliases = options.pop("aliases", None)
    if isinstance(function, Task):
        raise InvalidInput("task", function.name, "a function; @app.cron and @app.every stand above @app.task")
    if isinstance(function, type) or not callable(function):
        raise InvalidInput("task", function, "a function")
    chosen = task_name(getattr(function, "__name__", "") if name is None else name)
    defaults = read_options(Options(), options, allowed=TASK_NAMES, beside=("name", "aliases", "isolation"))

    def info(**signature: Any) -> TaskInfo:
        return TaskInfo(**shared(defaults, TaskInfo), **signature)

    definition = TaskDef(function, info, chosen, code, _aliases(chosen, aliases))
    check_templates(definition.info)
    kind: type[Task[..., Any]] = AsyncTask if definition.is_async else SyncTask
    return kind(app, definition, defaults)


def _aliases(name: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Collection | None):
        raise InvalidInput("aliases", given, """a list of former names such as ["mail.welcome"]""")
    found = tuple(task_name(one) for one in given or ())
    if name in found or len(set(found)) < len(found):
        raise InvalidInput("aliases", given, f"former names of task {name!r}, each once")
    return found


class _Unknown:
    pass


class TaskDecorator:
    """`make` makes a task of a function, with these options."""

    def __init__(
        self,
        make: Callable[[Callable[..., Any], Mapping[str, Any]], Task[..., Any]],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._make, self._options = make, options

    @overload
    def __call__(self, function: AnyTask, /) -> AnyTask: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, function: Callable[..., _Unknown], /) -> Task[..., Any]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[_Unknown, ...], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[..., R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[_Unknown, ...], R], /) -> SyncTask[..., R]: ...

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> SyncTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...

    @overload
    def __call__(self, /, **options: Unpack[TaskKeywords]) -> TaskDecorator: ...

    def __call__(self, function: Any = None, /, **options: Any) -> Any:
        if function is None and self._options is None:
            return TaskDecorator(self._make, options)
        if options:
            raise InvalidInput("options", sorted(options), "a function alone; options come before it")
        return self._make(function, self._options or {})
