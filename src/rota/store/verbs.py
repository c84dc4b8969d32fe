"""Declarations of store verbs: who may call one, and which calls are answered without asking the store.

The contract (`store.base` and its parts) declares each verb once, by `@verb` on an abstract method. A store carries a
verb out by a method of its own, or by a function that its class body names: `claim = writes(work.claim)`. `Verbs` puts
the declared checks in front of either when the class is made. So the rule of who may call is the same in every store,
and no store can forget it.

A write that people may ask for declares its audit row too (`store.deeds`). The row is written by the function that
carries the verb out, in its transaction: `writes` sees to it, and `audited` where a method of a store calls such a
function itself. The same way `once` recognises a repeat of such a write, and keeps the answer of a first try.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import wraps
from inspect import getmembers, iscoroutinefunction, signature
from operator import attrgetter
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, overload

from rota.errors import IdempotencyKeyReused, NotAllowed, RepeatInFlight
from rota.model.principal import Principal
from rota.model.repeats import Repeat
from rota.store.deeds import AuditRow, Deed

Method = TypeVar("Method", bound=Callable[..., Any])
T = TypeVar("T")
P = ParamSpec("P")
APPEND_AUDIT, HOLD_REPEAT, KEEP_REPEAT = "append_audit", "hold_repeat", "keep_repeat"  # the queries
Carried = Callable[Concatenate["Verbs", Principal, P], Coroutine[Any, Any, T]]


class Access(Enum):
    READ = "read"
    WRITE = "write"


class Caller(StrEnum):
    """Who may call a verb; the value words the refusal of everyone else."""

    ANYONE = ""  # sees and changes only the rows that the principal may see
    OPERATOR = "{}, which concerns everyone's jobs: it is for operators"
    ADMIN = "{}: it is for admins"
    NODE = "{} jobs or nodes"  # rota's own services


class Undeclared(Enum):
    """The default of `verb(audit=...)`: None is a value of its own there."""

    UNDECLARED = 0


READ, WRITE = Access
UNDECLARED = Undeclared.UNDECLARED
ANYONE, OPERATOR, ADMIN, NODE = Caller


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
    deed: Deed | None = None  # how it is audited; None: it is not
    repeatable: bool = False

    def audit(self, who: Principal, args: Sequence[Any], named: Mapping[str, Any], answer: Any) -> AuditRow | None:
        """The row about this call, if it changed anything."""
        assert self.deed is not None
        given = dict(zip(self.deed.parameters, args, strict=False)) | dict(named)
        return self.deed.row(who, self.name, given, answer)


def verb(
    access: Access,
    by: Caller = ANYONE,
    deed: str = "",
    *,
    stale_ok: bool = False,
    batch: str = "",
    owner: str = "",
    nothing: Callable[[], object] = list,
    audit: Deed | Undeclared | None = UNDECLARED,
    repeatable: bool = False,
) -> Callable[[Method], Method]:
    """Declares a verb. `deed` is its name in the refusal of a caller; the default is the name of the method.
    `stale_ok`: the answer may come from a replica or cache that lags a little. `batch` and `owner` name parameters: a
    call with an empty batch, or about an owner whose rows the principal may not see, is answered with `nothing()`.
    `audit`: every write that is not for nodes alone must say how it is audited; None: it is no deed of a person.
    `repeatable`: a repeat does no harm by itself, so servers keep no record of the call."""
    if audit is UNDECLARED and access is WRITE and by is not NODE:
        raise TypeError("a write that people may ask for must declare `audit`")

    def declare(method: Method) -> Method:
        parameters = list(signature(method).parameters)[2:]  # without store and principal

        def parameter(name: str) -> Parameter | None:
            return Parameter(name, parameters.index(name)) if name else None

        name = method.__name__
        refusal = by.format(deed or name.replace("_", " "))
        kept = None if audit is UNDECLARED or audit is None else audit.of(parameters)
        declared = Verb(
            name, access, by, refusal, stale_ok, parameter(batch), parameter(owner), nothing, kept, repeatable
        )
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


_ALLOWED = {
    ANYONE: None,
    OPERATOR: attrgetter("operates"),
    ADMIN: attrgetter("administers"),
    NODE: attrgetter("system"),
}


def _checked(contract: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    declared: Verb = contract.verb
    allowed = _ALLOWED[declared.by]
    batch, owner = declared.batch, declared.owner
    if declared.access is WRITE and declared.by is not NODE and hasattr(method, "carrier"):
        method = writes(once(method.carrier if declared.deed is None else audited(declared, method.carrier)))

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
        takes_principal = _takes_principal(carrier)

        def method(store: Verbs, who: Principal, /, *args: Any, **named: Any) -> Any:
            return run(store)(carrier, who, *args, **named) if takes_principal else run(store)(carrier, *args, **named)

        method.carrier, method.access = carrier, access  # type: ignore[attr-defined]
        return method

    return carry


def _takes_principal(carrier: Callable[..., Any]) -> bool:
    return list(signature(carrier, follow_wrapped=False).parameters)[1:2] == ["who"]


def _given_principal(carrier: Callable[..., Any]) -> Callable[..., Any]:
    """The carrier as one that is always given the principal."""
    return carrier if _takes_principal(carrier) else lambda unit, who, /, *args, **named: carrier(unit, *args, **named)


def audited(declared: Verb, carrier: Callable[..., Any]) -> Callable[..., Any]:
    """The carrier of a verb, which also writes the audit row of each call, in the same transaction."""
    deed, carried = declared.deed, _given_principal(carrier)
    assert deed is not None
    if not iscoroutinefunction(carrier):

        @wraps(carrier)
        def carry_out_at_once(unit: Any, who: Principal, /, *args: Any, **named: Any) -> Any:
            answer = carried(unit, who, *args, **named)
            if deed.concerns(who) and (row := declared.audit(who, args, named, answer)):
                unit.run(APPEND_AUDIT, now=unit.now(), **row._asdict())
            return answer

        return carry_out_at_once

    @wraps(carrier)
    async def carry_out(unit: Any, who: Principal, /, *args: Any, **named: Any) -> Any:
        if not deed.concerns(who):
            return await carried(unit, who, *args, **named)
        await unit.begin()
        answer = await carried(unit, who, *args, **named)
        if row := declared.audit(who, args, named, answer):
            await unit.run(APPEND_AUDIT, now=unit.now, **row._asdict())
        return answer

    return carry_out


def once(carrier: Callable[..., Any]) -> Callable[..., Any]:
    """The carrier of a write, which is carried out once for each `Principal.repeat`: its first statement looks for the
    row of an earlier try, its last one keeps the answer, in the same transaction. A write that fails keeps nothing."""
    carried = _given_principal(carrier)
    if not iscoroutinefunction(carrier):

        @wraps(carrier)
        def carry_out_at_once(unit: Any, who: Principal, /, *args: Any, **named: Any) -> Any:
            if (repeat := who.repeat) is None:
                return carried(unit, who, *args, **named)
            now = unit.now()
            if kept := _kept(repeat, unit.rows(HOLD_REPEAT, now=now, **_place(who, repeat))):
                return repeat.recall(kept.content)
            answer = carried(unit, who, *args, **named)
            unit.run(KEEP_REPEAT, now=now, **_place(who, repeat), **_content(repeat, answer))
            return answer

        return carry_out_at_once

    @wraps(carrier)
    async def carry_out(unit: Any, who: Principal, /, *args: Any, **named: Any) -> Any:
        if (repeat := who.repeat) is None:
            return await carried(unit, who, *args, **named)
        await unit.begin()
        if kept := _kept(repeat, await unit.rows(HOLD_REPEAT, now=unit.now, **_place(who, repeat))):
            return repeat.recall(kept.content)
        answer = await carried(unit, who, *args, **named)
        await unit.run(KEEP_REPEAT, now=unit.now, **_place(who, repeat), **_content(repeat, answer))
        return answer

    return carry_out


class _Kept(NamedTuple):
    content: bytes | None


def _place(who: Principal, repeat: Repeat) -> dict[str, Any]:
    return {"owner": who.user, "key": repeat.key, "step": repeat.step}


def _content(repeat: Repeat, answer: Any) -> dict[str, Any]:
    kept = {"route": repeat.route, "digest": repeat.digest, "life": repeat.life}
    return kept | {"content": repeat.keep(answer)}


def _kept(repeat: Repeat, rows: Sequence[Any]) -> _Kept | None:
    """What an earlier try has left; None: there was none. A row says whether the key is free, that is, whether no
    other transaction uses it now."""
    for free, route, digest, content in rows:
        if not free:
            raise RepeatInFlight
        if (route, digest) != (repeat.route, repeat.digest):
            raise IdempotencyKeyReused
        return _Kept(content)
    return None


reads, writes = _carried_out(READ), _carried_out(WRITE)


def verbs(store: type[Verbs]) -> dict[str, Verb]:
    """The verbs of a contract or store by name."""
    return {name: member.verb for name, member in getmembers(store) if hasattr(member, "verb")}
