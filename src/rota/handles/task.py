"""`Task`: a function that can be called as before, and ordered as a job."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rota.errors import InvalidInput
from rota.handles.job import Job
from rota.model.job import Spec
from rota.model.option_table import ORDER_NAMES
from rota.model.options import Options, read_options
from rota.tasks.catalogue import TaskDef
from rota.tasks.encoding import to_json

if TYPE_CHECKING:
    from rota.app import App


class Task:
    """A function that `@app.task` has made a task. Options of an order (docs/options.md) are given beside the
    function's own arguments. Where a parameter has the same name as an option, the function gets it, and the option is
    given with `.options(...)`."""

    def __init__(self, app: App, definition: TaskDef, options: Options, within: Any = None) -> None:
        self._app, self._definition, self._options, self._within = app, definition, options, within
        self._option_names = frozenset(ORDER_NAMES) - set(definition.info.parameters)
        functools.update_wrapper(self, definition.function)

    @property
    def name(self) -> str:
        return self._definition.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._definition.function(*args, **kwargs)

    def options(self, **options: Any) -> Task:
        """The same task with other options for its orders."""
        return Task(self._app, self._definition, read_options(self._options, options), self._within)

    def within(self, connection: Any) -> Task:
        """The same task, ordered in the caller's own transaction on this connection to the store's PostgreSQL: a job
        exists if and when that commits. Of asyncpg, psycopg 3 or SQLAlchemy, with `submit` for async ones and
        `submit_sync` for the others."""
        return Task(self._app, self._definition, self._options, connection)

    def encode(self, arguments: Mapping[str, Any], limit: int) -> str:
        """Arguments as JSON; raises InvalidInput if the function would not take them."""
        return self._definition.encode((), arguments, limit)

    def order(self, arguments: Mapping[str, Any], limit: int) -> tuple[Spec, str, Options]:
        """Spec, body and options of an order. The signature does not check the arguments: see `encode`."""
        body = to_json(arguments, limit, f"arguments of task {self.name!r}")
        return self._definition.spec, body, self._options

    async def submit(self, *args: Any, **kwargs: Any) -> Job:
        spec, body, options = self.read(args, kwargs)
        return (await self._app.submit_orders(spec, self.name, [body], options, self._within))[0]

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Spec, str, Options]:
        """Spec, body and options of an order, from the arguments of `submit`."""
        given = {name: kwargs.pop(name) for name in self._option_names & kwargs.keys()}
        body = self._definition.encode(args, kwargs, self._app.settings.max_args)
        return self._definition.spec, body, read_options(self._options, given) if given else self._options

    async def submit_many(self, arguments: Iterable[Mapping[str, Any]], **options: Any) -> list[Job]:
        """Orders one job per set of arguments. All are checked before the first is written."""
        return await self._app.submit_orders(*self._read_many(arguments, options), within=self._within)

    def _read_many(
        self, arguments: Iterable[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> tuple[Spec, str, list[str], Options]:
        limit, encode = self._app.settings.max_args, self._definition.encode
        if not isinstance(arguments, Iterable):
            raise InvalidInput("arguments", arguments, "a list with a mapping of names to values for each job")
        bodies = []
        for one in arguments:
            if not isinstance(one, Mapping):
                raise InvalidInput("arguments", one, "a mapping of names to values for each job")
            bodies.append(encode((), one, limit))
        if options.get("key") is not None and len(bodies) > 1:
            raise InvalidInput("key", options["key"], "a key per job; submit them one by one")
        return self._definition.spec, self.name, bodies, read_options(self._options, options)

    def submit_sync(self, *args: Any, **kwargs: Any) -> Job:
        spec, body, options = self.read(args, kwargs)
        return self._app.submit_orders_sync(spec, self.name, [body], options, self._within)[0]

    def submit_many_sync(self, arguments: Iterable[Mapping[str, Any]], **options: Any) -> list[Job]:
        return self._app.submit_orders_sync(*self._read_many(arguments, options), within=self._within)
