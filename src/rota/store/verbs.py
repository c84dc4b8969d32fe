"""Declarations of store verbs: who may call one, and which calls are answered without asking the store.

The contract (`store.base` and its parts) declares each verb once, by `@verb` on an abstract method. A store carries a
verb out by a method of its own, or by a function that its class body names: `claim = writes(work.claim)`. `Verbs` puts
the declared checks in front of either when the class is made. So the rule of who may call is the same in every store,
and no store can forget it.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import wraps
from inspect import getmembers, signature
from operator import attrgetter
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, overload

from rota.errors import NotAllowed
from rota.model.principal import Principal

Method = TypeVar("Method", bound=Callable[..., Any])
T = TypeVar("T")
P = ParamSpec("P")
Carried = Callable[Concatenate["Verbs", Principal, P], Coroutine[Any, Any, T]]


class Access(Enum):
    READ = "read"
    WRITE = "write"


class Caller(StrEnum):
    """Who may call a verb; the value words the refusal of everyone else."""

    ANYONE = ""  # sees and changes only the rows that the principal may see
    OPERATOR = "{}, which concerns everyone's jobs: it is for operators"
    NODE = "{} jobs or nodes"  # rota's own services


READ, WRITE = Access
ANYONE, OPERATOR, NODE = Caller


class Parameter(NamedTuple):
    name: str
    position: int  # after the principal

    def of(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        return args[self.position] if len(args) > self.position else named[self.name]


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    access: Access
    by: Caller
    refusal: str
    stale_ok: bool
    batch: Parameter | None
    owner: Parameter | None
    nothing: Callable[[], object]


def verb(
    access: Access,
    by: Caller = ANYONE,
    deed: str = "",
    *,
    stale_ok: bool = False,
    batch: str = "",
    owner: str = "",
    nothing: Callable[[], object] = list,
) -> Callable[[Method], Method]:
    """Declares a verb. `deed` is its name in the refusal of a caller; the default is the name of the method.
    `stale_ok`: the answer may come from a replica or cache that lags a little. `batch` and `owner` name parameters: a
    call with an empty batch, or about an owner whose rows the principal may not see, is answered with `nothing()`."""

    def declare(method: Method) -> Method:
        parameters = list(signature(method).parameters)[2:]  # without store and principal

        def parameter(name: str) -> Parameter | None:
            return Parameter(name, parameters.index(name)) if name else None

        name = method.__name__
        refusal = by.format(deed or name.replace("_", " "))
        declared = Verb(name, access, by, refusal, stale_ok, parameter(batch), parameter(owner), nothing)
        method.verb = declared  # type: ignore[attr-defined]
        return method

    return declare


class Verbs(ABC):  # noqa: B024
    """Base of the contract and so of every store: checks each call of a verb before the store carries it out."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            contract: Any = method if hasattr(method, "verb") else getattr(super(cls, cls), name, None)
            if hasattr(contract, "verb") and not getattr(method, "__isabstractmethod__", False):
                setattr(cls, name, _checked(contract, method))


def _checked(contract: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    declared: Verb = contract.verb
    allowed = {ANYONE: None, OPERATOR: attrgetter("operates"), NODE: attrgetter("system")}[declared.by]
    batch, owner = declared.batch, declared.owner

    @wraps(contract)
    async def call(store: Verbs, who: Principal, /, *args: Any, **named: Any) -> Any:
        if allowed is not None and not allowed(who):
            raise NotAllowed(who.user, declared.refusal)
        if batch is not None and not batch.of(args, named):
            return declared.nothing()
        if owner is not None and who.sees not in (None, owner.of(args, named)):
            return declared.nothing()
        return await method(store, who, *args, **named)

    vars(call).pop("__isabstractmethod__", None)
    call.method = method  # type: ignore[attr-defined]
    return call


class Carry(Protocol):
    """Makes a verb of the function that carries it out: a coroutine over a unit of work, or on SQLite also a plain
    function over the database. It gets the principal if its second parameter is `who`."""

    @overload
    def __call__(self, carrier: Callable[Concatenate[Any, Principal, P], Coroutine[Any, Any, T]]) -> Carried[P, T]: ...
    @overload
    def __call__(self, carrier: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Carried[P, T]: ...
    @overload
    def __call__(self, carrier: Callable[Concatenate[Any, Principal, P], T]) -> Carried[P, T]: ...
    @overload
    def __call__(self, carrier: Callable[Concatenate[Any, P], T]) -> Carried[P, T]: ...


def _carried_out(access: Access) -> Carry:
    run = attrgetter(f"_{access.value}")  # `_read` or `_write` of the store

    def carry(carrier: Callable[..., Any]) -> Callable[..., Any]:
        takes_principal = list(signature(carrier).parameters)[1:2] == ["who"]

        def method(store: Verbs, who: Principal, /, *args: Any, **named: Any) -> Any:
            return run(store)(carrier, who, *args, **named) if takes_principal else run(store)(carrier, *args, **named)

        method.carrier, method.access = carrier, access  # type: ignore[attr-defined]
        return method

    return carry


reads, writes = _carried_out(READ), _carried_out(WRITE)


def verbs(store: type[Verbs]) -> dict[str, Verb]:
    """The verbs of a contract or store by name."""
    return {name: member.verb for name, member in getmembers(store) if hasattr(member, "verb")}
