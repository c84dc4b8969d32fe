"""Stubs: tasks of other code, ordered by name.

A program that only orders need not import the code of the worker. A stub has the name of a task, and no code. The store
knows the task, because a node has offered it or a client has registered it: its parameters, which arguments are checked
against, and its options, which orders get unless the stub has others. `@app.stub(name)` above a signature adds types:
arguments are checked against it when they are given, and results are read by its return annotation.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, overload

import msgspec

from rota.errors import InvalidInput, UnknownTask
from rota.handles.job import Job
from rota.handles.task import Task, check_given
from rota.model.job import shared
from rota.model.options import NAMED_ORDER, Options, read_options, task_name
from rota.model.task import TaskInfo
from rota.model.times import MINUTE, Duration, Instant
from rota.orders import check_arguments
from rota.tasks.catalogue import TaskDef
from rota.tasks.results import Fills, argument_names

if TYPE_CHECKING:
    from typing import Self, Unpack

    from rota.app_core import AppCore
    from rota.clients.jobs import JobsClient
    from rota.handles.keywords import OrderKeywords

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
FRESH: Duration = MINUTE  # a deploy may change a task; its description is read again after this


class StubDef(TaskDef):
    """The signature of a stub, and the task as the store describes it."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        super().__init__(function, lambda **signature: TaskInfo(**signature), name)
        self.known: TaskInfo | None = None
        self._read_at: Instant = 0
        self._client: weakref.ref[JobsClient] | None = None  # the one that read it

    def encode(self, positional: Sequence[Any], named: Mapping[str, Any], limit: int) -> str:
        body = super().encode(positional, named, limit)
        check_arguments(self.described, msgspec.json.decode(body))
        return body

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Before the task is known, the signature of the stub is what arguments are checked against."""
        if self.known is None:
            super().encode((), arguments, sys.maxsize)
        else:
            super().check(arguments)

    def encode_order(self, positional: Sequence[Any], named: Mapping[str, Any], limit: int) -> tuple[str, Fills]:
        body, fills = super().encode_order(positional, named, limit)
        if fills:
            check_arguments(self.described, msgspec.json.decode(body), argument_names(fills))
        return body, fills

    def takes(self, name: str) -> bool:
        # Without a signature of its own, the stub takes what the task takes.
        return (self.described if self.info.open else self.info).takes(name)

    @property
    def described(self) -> TaskInfo:
        if self.known is None:
            raise InvalidInput("stub", self.name, "one that is loaded: await its load() before, outside of the block")
        return self.known

    async def load(self, app: AppCore) -> None:
        client = await app.client()
        same = self._client is not None and self._client() is client
        if self.known is not None and same and app.clock.now() - self._read_at < FRESH:
            return
        await client.make_known(app.catalogue)
        found = {info.name: info for info in await client.store.tasks(app.who)}
        if self.name not in found:
            raise UnknownTask(self.name, "no node has offered it: start one with `rota up --app MODULE:APP`")
        self.known, self._read_at, self._client = found[self.name], app.clock.now(), weakref.ref(client)


class Stub(Task[P, R_co]):
    """A task of other code. It is ordered like any task; it can't be called, and no node offers it."""

    _definition: StubDef

    def __init__(self, app: AppCore, definition: StubDef, given: Mapping[str, Any], within: Any = None) -> None:
        super().__init__(app, definition, Options(), within)
        self._given = given

    def __repr__(self) -> str:
        return f"<Stub of task {self.name!r}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        raise InvalidInput(f"stub of task {self.name!r}", "called", "submit(...): its code is elsewhere")

    def options(self, **options: Unpack[OrderKeywords]) -> Self:
        given = {**self._given, **options}
        read_options(Options(), given, NAMED_ORDER)  # refused where they are given
        return type(self)(self._app, self._definition, given, self._within)

    def within(self, connection: Any) -> Self:
        return type(self)(self._app, self._definition, self._given, check_given(connection))

    async def load(self) -> Self:
        """Reads from the store what is known of the task, as `submit` does; before it is added to a workflow."""
        await self._definition.load(self._app)
        return self

    def load_sync(self) -> Self:
        return self._app.sync(self.load())

    def _defaults(self) -> Options:
        return read_options(Options(**shared(self._definition.described, Options)), self._given, NAMED_ORDER)

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        return await super(Stub, await self.load()).submit(*args, **kwargs)

    async def submit_many(
        self, arguments: Iterable[Mapping[str, Any]], **options: Unpack[OrderKeywords]
    ) -> list[Job[R_co]]:
        return await super(Stub, await self.load()).submit_many(arguments, **options)

    def submit_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        return super(Stub, self.load_sync()).submit_sync(*args, **kwargs)

    def submit_many_sync(
        self, arguments: Iterable[Mapping[str, Any]], **options: Unpack[OrderKeywords]
    ) -> list[Job[R_co]]:
        return super(Stub, self.load_sync()).submit_many_sync(arguments, **options)


class OpenStub(Stub[..., Any]):
    """A stub without a signature: it takes any arguments, and its results are plain data. Above a function, it is a
    stub with the signature of the function, which is never run."""

    @overload  # type: ignore[override]
    def __call__(self, signature: Callable[P, Coroutine[Any, Any, R]], /) -> Stub[P, R]: ...

    @overload
    def __call__(self, signature: Callable[P, R], /) -> Stub[P, R]: ...

    def __call__(self, signature: Any, /) -> Any:
        if isinstance(signature, Task | type) or not callable(signature):
            raise InvalidInput(f"stub of task {self.name!r}", signature, "a function below it, or submit(...)")
        return Stub(self._app, StubDef(signature, self.name), self._given, self._within)


def _anything(**arguments: Any) -> Any:
    """The signature of a stub that has none."""


def make_stub(app: AppCore, name: str) -> OpenStub:
    return OpenStub(app, StubDef(_anything, task_name(name)), {})
