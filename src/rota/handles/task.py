"""`Task`: a function that can be called as before, and ordered as a job.

`P` are the parameters that orders give, without the context; `R` is what `await job.result()` returns. A call gives
the same for sync functions and a coroutine for async ones, hence two classes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from rota.errors import InvalidInput
from rota.handles.job import Job
from rota.model.job import Spec
from rota.model.options import NAMED_ORDER, Options, read_options, with_results
from rota.model.trigger.arguments import fill
from rota.tasks.catalogue import TaskDef
from rota.tasks.context import Context
from rota.tasks.direct import direct_context
from rota.tasks.encoding import to_json

if TYPE_CHECKING:
    from typing import Self, Unpack

    from rota.app_core import AppCore
    from rota.handles.keywords import OrderKeywords

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Task(Generic[P, R_co]):
    """A function that `@app.task` has made a task. Options of an order (docs/options.md) are given with
    `.options(...)`. Untyped code may give them beside the function's own arguments; where a parameter has the same name
    as an option, the function gets it, and a function with `**kwargs` gets all."""

    __name__: str

    def __init__(self, app: AppCore, definition: TaskDef, options: Options, within: Any = None) -> None:
        self._app, self._definition, self._options, self._within = app, definition, options, within
        functools.update_wrapper(self, definition.function)

    def __repr__(self) -> str:
        parameters = ", ".join(self._definition.info.parameters)
        return f"<Task {self.name!r} ({parameters})>"

    @property
    def name(self) -> str:
        return self._definition.name

    def _bound(self, app: AppCore, definition: TaskDef) -> Self:
        """The same task, with the same options, of an app."""
        return type(self)(app, definition, self._options, self._within)

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself, with its context parameter if it has one."""
        return self._definition.function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the function. One with a context that is not given gets a context of no job, which prints what is
        logged."""
        context, given = self._definition.context, (*args, *kwargs.values())
        if context is None or any(isinstance(one, Context) for one in given):
            return self._definition.function(*args, **kwargs)
        named = self._definition.bind(args, kwargs)
        return self._definition.function(**named, **{context: direct_context(self.name)})

    def options(self, **options: Unpack[OrderKeywords]) -> Self:
        """The same task with other options for its orders."""
        chosen = read_options(self._options, options, NAMED_ORDER)
        return type(self)(self._app, self._definition, chosen, self._within)

    def within(self, connection: Any) -> Self:
        """The same task, ordered in the caller's own transaction on this connection to the store's PostgreSQL: a job
        exists if and when that commits. Of asyncpg, psycopg, psycopg2, SQLAlchemy or Django, with `submit` for async
        ones and `submit_sync` for the others (docs/postgresql.md)."""
        return type(self)(self._app, self._definition, self._options, check_given(connection))

    def arguments(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The arguments of one order by their names, for `submit_many` and `app.schedule(args=...)`. Raises
        InvalidInput if the function would not take them. Fields for the times of a fire count as such times."""
        given = self._definition.bind(args, kwargs)
        self._definition.check(fill(given, "UTC", 0, 0))
        return given

    def _check_connection(self, connection: Any) -> None:
        """Refuses a task that was bound to another connection than that of its workflow or schedule."""
        if self._within is not None and self._within is not connection:
            raise InvalidInput("within", self._within, "given to app.workflow(...) or app.schedule(...) instead")

    def _encode(self, arguments: Mapping[str, Any], limit: int) -> str:
        """Arguments as JSON; raises InvalidInput if the function would not take them."""
        return self._definition.encode((), arguments, limit)

    def _order(self, arguments: Mapping[str, Any], limit: int) -> tuple[Spec, str, Options]:
        """Spec, body and options of an order. The signature does not check the arguments: see `_encode`."""
        body = to_json(arguments, limit, f"arguments of task {self.name!r}")
        return self._definition.spec, body, self._defaults()

    def _defaults(self) -> Options:
        """The options of an order that gives none."""
        return self._options

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        spec, body, options = self._read(args, kwargs)
        (job,) = await self._app.submit_orders(spec, self.name, [body], options, self._within)
        return self._handle(job.id)

    def _handle(self, job_id: str) -> Job[R_co]:
        """A handle for a job of this task."""
        return Job(self._app, job_id, self._definition.returns)

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Spec, str, Options]:
        """Spec, body and options of an order, from the arguments of `submit`. A job stands for its result."""
        given = {name: kwargs.pop(name) for name in NAMED_ORDER if name in kwargs and not self._definition.takes(name)}
        body, fills = self._definition.encode_order(args, kwargs, self._app.settings.max_args)
        options = read_options(self._defaults(), given, NAMED_ORDER) if given else self._defaults()
        return self._definition.spec, body, with_results(options, fills) if fills else options

    async def submit_many(
        self, arguments: Iterable[Mapping[str, Any]], **options: Unpack[OrderKeywords]
    ) -> list[Job[R_co]]:
        """Orders one job per set of arguments. All are checked before the first is written."""
        jobs = await self._app.submit_orders(*self._read_many(arguments, options), within=self._within)
        return [self._handle(job.id) for job in jobs]

    def _read_many(
        self, arguments: Iterable[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> tuple[Spec, str, list[str], Options]:
        limit, encode = self._app.settings.max_args, self._definition.encode
        if not isinstance(arguments, Iterable):
            raise InvalidInput("arguments", arguments, "a list with a mapping of names to values for each job")
        bodies = []
        for place, one in enumerate(arguments):
            if not isinstance(one, Mapping):
                raise InvalidInput(f"arguments[{place}]", one, "a mapping of names to values for each job")
            try:
                bodies.append(encode((), one, limit))
            except InvalidInput as error:
                error.args = (f"arguments[{place}]: {error}",)
                raise
        chosen = read_options(self._defaults(), options)
        if chosen.key is not None and len(bodies) > 1:
            raise InvalidInput("key", chosen.key, "a key per job; submit them one by one")
        return self._definition.spec, self.name, bodies, chosen

    def submit_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        spec, body, options = self._read(args, kwargs)
        (job,) = self._app.submit_orders_sync(spec, self.name, [body], options, self._within)
        return self._handle(job.id)

    def submit_many_sync(
        self, arguments: Iterable[Mapping[str, Any]], **options: Unpack[OrderKeywords]
    ) -> list[Job[R_co]]:
        jobs = self._app.submit_orders_sync(*self._read_many(arguments, options), within=self._within)
        return [self._handle(job.id) for job in jobs]


def check_given(connection: Any) -> Any:
    """Refuses None, which is more often a forgotten connection than the wish to order outside of the transaction."""
    if connection is None:
        raise InvalidInput("within", None, "a connection; without within(...) a task is ordered outside of it")
    return connection


class SyncTask(Task[P, R_co]):
    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class AsyncTask(Task[P, R_co]):
    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...
