"""`ForwardingStore`: a store in front of another, which passes every call on unchanged.

What is passed on is read from the contract, so a new verb needs no line here. A subclass overrides the verbs that it
answers itself, and calls `self.inner` for the rest. The inner store checks who may call and recognises repeats; the
verbs that a subclass overrides are checked before it, too.

`find` and `get` are made of other verbs. They are not passed on, so they see what a subclass makes of those.
"""

from __future__ import annotations

from abc import update_abstractmethods
from collections.abc import Callable
from functools import wraps
from inspect import getmembers, isfunction
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rota.store.base import Store

MADE_OF_VERBS = frozenset({"find", "get"})
S = TypeVar("S", bound="type[ForwardingStore]")


def passed_on() -> dict[str, Callable[..., Any]]:
    """The verbs and other methods of the contract, each as a method that calls that of `self.inner`."""
    members = {name: member for name, member in getmembers(Store, isfunction) if not name.startswith("_")}
    return {name: _passed_on(name, member) for name, member in members.items() if name not in MADE_OF_VERBS}


def _passed_on(name: str, contract: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(contract)
    def call(self: ForwardingStore, /, *args: Any, **named: Any) -> Any:
        return getattr(self.inner, name)(*args, **named)

    for mark in ("__isabstractmethod__", "method"):  # of the declaration, and of its checks
        vars(call).pop(mark, None)
    return call


def _forwarding(kind: S) -> S:
    """Adds the methods after the class is made, so that no checks are put in front of them."""
    for name, method in passed_on().items():
        if name not in vars(kind):
            setattr(kind, name, method)
    update_abstractmethods(kind)
    return kind


@_forwarding
class ForwardingStore(Store):
    """Made by `around`: type checkers don't see the methods that the contract brings."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @classmethod
    def around(cls, inner: Store, *more: Any, **named: Any) -> Self:
        """An instance of this class; `more` and `named` are what a subclass takes besides."""
        return cls(inner, *more, **named)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What only some stores have: the principal of a server's key, the path of a file."""
            if name.startswith("_") or name == "inner":
                raise AttributeError(name)
            return getattr(self.inner, name)


def innermost(store: Store) -> Store:
    """The store behind all that pass calls on: the one to ask for its class."""
    while isinstance(store, ForwardingStore):
        store = store.inner
    return store
