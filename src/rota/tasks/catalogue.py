"""The functions an app offers: what they are called, what they take, and how to call them with arguments from JSON.

Parameters are read from the signature once. Their annotations decide what JSON is accepted and what it becomes
(`tasks.annotations`).
"""

from __future__ import annotations

import copy
import inspect
import sys
import typing
import weakref
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec

from rota.config import Settings
from rota.errors import InvalidArguments, InvalidInput, NotSerialisable, ResultMismatch, UnknownTask
from rota.model.job import Spec
from rota.model.task import TaskInfo
from rota.tasks.annotations import decoder, json_types, readable, unreadable
from rota.tasks.checks import arguments_json, problem
from rota.tasks.hooks import Hooks
from rota.tasks.modules import calling_module, defined_at, typed_again
from rota.tasks.results import Fills, argument_names, beside, shown, split
from rota.tasks.signature import faces, read_signature


class Isolation(StrEnum):
    """What a function runs in."""

    INLINE = "inline"  # a loop that it shares with other async functions
    THREAD = "thread"
    PROCESS = "process"


class Code(NamedTuple):
    """How the code of a task is to be run, and how another process can come by it."""

    isolation: Isolation | None = None  # None: nobody has asked for one
    origin: str = ""  # the module that made it a task

    @classmethod
    def read(cls, isolation: Any) -> Code:
        try:
            chosen = None if isolation is None else Isolation(isolation)
        except ValueError:
            raise InvalidInput("isolation", isolation, f"one of {', '.join(Isolation)}") from None
        return cls(chosen, calling_module())


class TaskDef:
    """One function as a task."""

    def __init__(
        self,
        function: Callable[..., Any],
        info: Callable[..., TaskInfo],
        name: str,
        code: Code = Code(),  # noqa: B008 - a value
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.function, self.name, self.code, self.aliases = function, name, code, aliases
        self.hooks = Hooks()  # of its app, once it is in a catalogue
        self.is_async = _is_async(function)
        _check_isolation(name, self.is_async, code.isolation)
        self.spec = Spec.function(name)
        signature = read_signature(function, name)
        named, given = signature.named, signature.hints.found
        self.context, self._open = signature.context, signature.rest is not None
        self._names = [p.name for p in named]
        self._optional = any(p.default is not p.empty for p in named)
        required = tuple(p.name for p in named if p.default is p.empty)
        hints = {one.name: _checked(name, one.name, given.get(one.name, Any)) for one in named}
        self._rest = None if signature.rest is None else _rest_decoder(name, signature.rest.name, given)
        self._named, self._hints = named, hints
        self._decoders: dict[frozenset[str], msgspec.json.Decoder[Any]] = {}  # by parameters that are not checked
        self._decoder = self._decoder_for(())
        self.returns = ResultReader(name, given.get("return", Any))
        self.returns.check()
        types = {name: kinds for name, hint in hints.items() if (kinds := json_types(hint))}
        parameters_ = tuple(self._names)
        self.info = info(name=name, parameters=parameters_, required=required, open=self._open, types=types)

    def with_origin(self, origin: str) -> TaskDef:
        """The same task, made by another module."""
        other = copy.copy(self)
        other.code = self.code._replace(origin=origin)
        return other

    def encode(self, positional: Sequence[Any], named: Mapping[str, Any], limit: int) -> str:
        """Arguments as JSON, refused here if the function would not take them."""
        given = self.bind(positional, named) if positional else named
        body = arguments_json(given, limit, self.name)
        self._read(body)
        return body

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raises InvalidInput if the function would not take these arguments."""
        self.encode((), arguments, sys.maxsize)

    def encode_order(self, positional: Sequence[Any], named: Mapping[str, Any], limit: int) -> tuple[str, Fills]:
        """Like `encode`, and a job stands for its result: also returns the places of results. Arguments with such
        places are checked when these are filled."""
        given = self.bind(positional, named) if positional else named
        try:
            return self.encode((), given, limit), {}
        except NotSerialisable:
            plain, fills = split(given, f"arguments of task {self.name!r}")
            if not fills:
                raise
        body = arguments_json(plain, limit, self.name)
        self._read(body, argument_names(fills))
        self._check_beside(msgspec.json.decode(body), fills)
        return body, fills

    def _check_beside(self, arguments: dict[str, Any], fills: Fills) -> None:
        """Checks the values that stand beside a job, such as the texts in `[job, "a", "b"]`."""
        paths = [path for places in fills.values() for path in places]
        for name in argument_names(fills):
            places = [path[1:] for path in paths if path[0] == name]
            for path, hint, value in beside(self._hints.get(name, Any), arguments[name], places, (name,)):
                self._check_value(shown(path), hint, value)

    def _check_value(self, place: str, hint: Any, value: Any) -> None:
        body = msgspec.json.encode(value)
        try:
            decoder(hint).decode(body)
        except Exception as error:  # types of the task's own may raise anything
            raise InvalidArguments(self.name, problem(str(error), body, place), self._names) from None

    def _decoder_for(self, unchecked: Collection[str]) -> msgspec.json.Decoder[Any]:
        free = frozenset(self._hints.keys() & unchecked)
        if free not in self._decoders:
            hints = {name: Any if name in free else hint for name, hint in self._hints.items()}
            self._decoders[free] = decoder(_arguments_type(hints, self._named, self._open))
        return self._decoders[free]

    def takes(self, name: str) -> bool:
        """Whether an order's argument of this name is for the function, also if an option has that name."""
        return self.info.takes(name)

    def bind(self, positional: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by their names."""
        if len(positional) > len(self._names):
            expected = f"at most {len(self._names)} arguments ({', '.join(self._names)})"
            raise InvalidInput(f"arguments of task {self.name!r}", list(positional), expected)
        bound = dict(zip(self._names, positional, strict=False))
        if twice := bound.keys() & given.keys():
            raise InvalidInput(f"arguments of task {self.name!r}", sorted(twice), "each argument once")
        return {**bound, **given}

    def _read(self, body: str | bytes, unchecked: Collection[str] = ()) -> dict[str, Any]:
        try:
            by = self._decoder_for(unchecked) if unchecked else self._decoder
            named = msgspec.structs.asdict(by.decode(body))
            return named if self._rest is None else {**self._read_rest(self._rest, body, unchecked), **named}
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidArguments(self.name, problem(str(error), body), self._names) from None
        except Exception as error:  # of a type of the task's own, which checks its values
            raise InvalidArguments(self.name, f"{type(error).__name__}: {error}", self._names) from None

    def _read_rest(self, by: msgspec.json.Decoder[Any], body: str | bytes, unchecked: Collection[str]) -> Any:
        known = self._hints.keys() | set(unchecked)
        others = {name: value for name, value in msgspec.json.decode(body).items() if name not in known}
        return by.decode(msgspec.json.encode(others))

    def decode(self, body: str | bytes) -> dict[str, Any]:
        """The keyword arguments for the call. Raises InvalidInput if they don't fit the signature."""
        given = self._read(body)
        if self._optional:
            given = {name: value for name, value in given.items() if value is not msgspec.UNSET}
        return given


class ResultReader:
    """Reads results of a task as its return annotation says."""

    def __init__(self, task: str, hint: Any) -> None:
        self.task, self._hint = task, hint

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any] | None:
        hint = readable(_awaited(self._hint))
        return None if hint is Any else decoder(hint)

    def check(self) -> None:
        """Raises InvalidInput if no result could be read."""
        _check_readable(f"task {self.task!r}, annotation of its result", readable(_awaited(self._hint)))

    def read(self, job_id: str, result: Any) -> Any:
        """`result` as it came from JSON. Raises ResultMismatch if it does not fit."""
        if self._decoder is None:
            return result
        try:
            return self._decoder.decode(msgspec.json.encode(result))
        except Exception as error:  # types of the task's own may raise anything
            raise ResultMismatch(self.task, job_id, f"{error}" or type(error).__name__) from error


def _checked(task: str, parameter: str, hint: Any) -> Any:
    found = readable(hint)
    _check_readable(f"task {task!r}, annotation of {parameter}", found)
    return found


def _check_readable(what: str, hint: Any) -> None:
    if (kind := unreadable(hint)) is not None:
        expected = "a type that JSON is read into, such as a dataclass (docs/sdk.md); Any passes plain data on"
        raise InvalidInput(what, kind, expected)


def _rest_decoder(task: str, parameter: str, given: Mapping[str, Any]) -> msgspec.json.Decoder[Any]:
    """Reads what `**rest` takes: values of one type, or a TypedDict in `Unpack[...]`."""
    hint = given.get(parameter, Any)
    whole = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Unpack else dict[str, hint]  # type: ignore[valid-type]
    return decoder(_checked(task, parameter, whole))


def _awaited(hint: Any) -> Any:
    """The result of a function that is annotated to return a coroutine."""
    if typing.get_origin(hint) in (Awaitable, Coroutine):
        return typing.get_args(hint)[-1]
    return hint


class Owner(Protocol):
    """The app of a catalogue, for the parts that run its tasks."""

    home: str  # the module that made it
    include: tuple[str, ...]

    @property
    def name(self) -> str: ...

    def load(self) -> None:
        """Imports the modules that the app includes."""

    def adopt(self, settings: Settings) -> None:
        """Takes over the settings of a node, in a process that runs functions for it."""


class Catalogue:
    """All tasks of one app."""

    def __init__(self, owner: Owner | None = None) -> None:
        self._tasks: dict[str, TaskDef] = {}
        self._aliases: dict[str, TaskDef] = {}  # former names, under which jobs may still wait
        # Weak, so that an app that is dropped goes at once.
        self._owner = (lambda: None) if owner is None else weakref.ref(owner)
        self.hooks = Hooks()
        self.revision = 0  # grows with each task
        CATALOGUES.add(self)

    @property
    def owner(self) -> Owner | None:
        return self._owner()

    def add(self, task: TaskDef) -> None:
        replaced: list[TaskDef] = []
        for name in (task.name, *task.aliases):
            other = self._tasks.get(name) or self._aliases.get(name)
            if other is not None and not typed_again(other.function, task.function):
                what = "task" if name == task.name else "alias"
                expected = f"a name that no other task of this app has; {defined_at(other.function)} has it"
                raise InvalidInput(what, name, expected)
            if other is not None:
                replaced.append(other)
        for old in replaced:
            self._tasks.pop(old.name, None)
            self._aliases = {alias: one for alias, one in self._aliases.items() if one is not old}
        self.revision += 1
        task.hooks = self.hooks
        self._tasks[task.name] = task
        self._aliases |= dict.fromkeys(task.aliases, task)

    def get(self, name: str) -> TaskDef:
        found = self._tasks.get(name) or self._aliases.get(name)
        if found is None:
            raise UnknownTask(name, f"this app has {', '.join(sorted(self._tasks)) or 'no tasks'}")
        return found

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[TaskDef]:
        return iter(self._tasks.values())

    def infos(self) -> list[TaskInfo]:
        """The descriptions of all tasks, by their names and by their aliases."""
        own = [task.info for task in self._tasks.values()]
        return own + [msgspec.structs.replace(task.info, name=alias) for alias, task in self._aliases.items()]


# All that live in this process. Code that was imported by the name of its module is found again through them.
CATALOGUES: weakref.WeakSet[Catalogue] = weakref.WeakSet()


def _is_async(function: Callable[..., Any]) -> bool:
    return any(inspect.iscoroutinefunction(one) for one in faces(function))


def _check_isolation(name: str, is_async: bool, isolation: Isolation | None) -> None:
    kind, fitting = "a sync function", (Isolation.THREAD, Isolation.PROCESS)
    if is_async:
        kind, fitting = "an async function", (Isolation.INLINE, Isolation.PROCESS)
    if isolation is not None and isolation not in fitting:
        raise InvalidInput("isolation", str(isolation), f"{' or '.join(fitting)} for {kind} ({name})")


def _arguments_type(hints: dict[str, Any], named: list[inspect.Parameter], open_: bool) -> type:
    fields: list[Any] = []
    for parameter in named:
        hint = hints[parameter.name]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, _or_unset(hint), msgspec.UNSET))
    return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=not open_)


def _or_unset(hint: Any) -> Any:
    return Any if hint is Any else readable(hint | msgspec.UnsetType)
