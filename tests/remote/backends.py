"""The backend `server` of the contract suite: a SQLite store behind an API.

What people may call goes through a `ServerStore` with a key of the principal; the verbs of nodes, and what the system
calls, go to the store itself. The contracts give values that no client makes, and that a server refuses
(`api.call_checks`). These checks have tests of their own and are left out here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from rota.api import calls, wakes
from rota.clock import Chance
from rota.errors import StoreError
from rota.model.access import Role
from rota.model.principal import Principal
from rota.remote.store import ServerStore
from rota.store.base import Store
from rota.store.forwarding import passed_on
from rota.store.verbs import NODE, verbs
from tests.remote.in_process import api_on, connected
from tests.store.backends import Contents
from tests.store.sqlite.backends import SqliteFile

OF_REPEATS = ("repeats", "secrets")  # tables


def _by_key(name: str) -> Callable[..., Any]:
    async def call(self: Any, who: Principal, /, *args: Any, **named: Any) -> Any:
        # On a server the audit is a permission of its own, also for one's own deeds.
        inside = who.system or (name == "audit" and not who.audits)
        store = self.inner if inside else self.remote(who)
        return await getattr(store, name)(who, *args, **named)

    return call


def _inside(name: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(getattr(Store, name)):

        async def call(self: Any, /, *args: Any, **named: Any) -> Any:
            return await getattr(self.inner, name)(*args, **named)

        return call

    def ask(self: Any, /, *args: Any, **named: Any) -> Any:
        return getattr(self.inner, name)(*args, **named)

    return ask


def served(inner: Store, clock: Any) -> Store:
    api = api_on(inner, clock, [*wakes.ROUTES, *calls.routes(check=lambda verb, given, sender: None, steps=None)])
    remotes: dict[Principal, ServerStore] = {}

    def remote(self: Any, who: Principal) -> ServerStore:
        if who not in remotes:
            role = Role.ADMIN if who.admin else Role.OPERATOR if who.operator else Role.SUBMITTER
            remotes[who], _ = connected(api, clock, who.user, role, who.key, auditor=who.auditor)
        return remotes[who]

    declared = verbs(Store)
    called = {name: _by_key(name) for name, verb in declared.items() if verb.by is not NODE}
    rest = passed_on().keys() - called.keys()
    methods = {**called, **{name: _inside(name) for name in rest}}
    made: Store = type("ServedStore", (Store,), {"inner": inner, "remote": remote, **methods})()
    return made


class Server(SqliteFile):
    def store(self, chance: Chance) -> Store:  # type: ignore[override]
        return served(super().store(chance), self.clock)

    def contents(self, *only: str) -> Contents:
        """Without what a server keeps of each write to recognise a repeat, also of one that changed nothing."""
        return {name: rows for name, rows in super().contents(*only).items() if name in only or name not in OF_REPEATS}

    async def prepare(self, store: Store) -> None:
        await super().prepare(store.inner)  # type: ignore[attr-defined]

    def raises(self, fault: type[Exception]) -> AbstractContextManager[Any]:
        """The error itself stays in the log of the server."""
        return pytest.raises(StoreError, match="an error that rota did not expect; the log of the node has it under")
