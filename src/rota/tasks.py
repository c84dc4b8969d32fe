"""`Task`: a function that can be called as ever, and ordered as a job."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rota.errors import InvalidInput
from rota.job import Job
from rota.options import NAMES, Options, read_options
from rota.work.catalogue import TaskDef

if TYPE_CHECKING:
    from rota.app import App


class Task:
    """What `@app.task` makes of a function. Options of an order (`at`, `delay`, `priority`, `queue`, `key`, `retry`,
    `timeout`, `expires`) are given beside the function's own arguments; where a parameter has the same name as an
    option, the function gets it, and the option is given with `.options(...)`."""

    def __init__(self, app: App, definition: TaskDef, options: Options) -> None:
        self._app, self._definition, self._options = app, definition, options
        self._option_names = frozenset(NAMES) - set(definition.info.parameters)
        functools.update_wrapper(self, definition.function)

    @property
    def name(self) -> str:
        return self._definition.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._definition.function(*args, **kwargs)

    def options(self, **options: Any) -> Task:
        """The same task with other options for its orders."""
        return Task(self._app, self._definition, read_options(self._options, options))

    async def submit(self, *args: Any, **kwargs: Any) -> Job:
        given = {name: kwargs.pop(name) for name in self._option_names & kwargs.keys()}
        body = self._definition.encode(args, kwargs, self._app.settings.max_args)
        return (await self._order([body], given))[0]

    async def submit_many(self, arguments: Iterable[Mapping[str, Any]], **options: Any) -> list[Job]:
        """Orders one job per set of arguments. All are checked before the first is written."""
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
        return await self._order(bodies, options)

    async def _order(self, bodies: list[str], options: Mapping[str, Any]) -> list[Job]:
        chosen = read_options(self._options, options) if options else self._options
        return await self._app.submit_orders(self._definition.spec, self.name, bodies, chosen)

    def submit_sync(self, *args: Any, **kwargs: Any) -> Job:
        return self._app.sync(self.submit(*args, **kwargs))

    def submit_many_sync(self, arguments: Iterable[Mapping[str, Any]], **options: Any) -> list[Job]:
        return self._app.sync(self.submit_many(arguments, **options))
