"""A backend of one's own, in its simplest form: a store that passes every call on to another.

`pytest tests/contracts --store tests.contracts.forwarding:Forwarding` runs the contracts on it. It shows that they ask
for nothing but the contract, and is a pattern for other backends.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rota.clock import Chance
from rota.store.base import Store
from tests.store.sqlite.backends import SqliteFile


def _passed_on(name: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(getattr(Store, name)):

        async def call(self: Any, /, *args: Any, **named: Any) -> Any:
            return await getattr(self.inner, name)(*args, **named)

        return call

    def ask(self: Any, /, *args: Any, **named: Any) -> Any:
        return getattr(self.inner, name)(*args, **named)

    return ask


def forwarding(inner: Store) -> Store:
    passed_on = {name: _passed_on(name) for name in {*Store.__abstractmethods__, "doubt", "exposed"}}
    made: Store = type("ForwardingStore", (Store,), {"inner": inner, **passed_on})()
    return made


class Forwarding(SqliteFile):
    """It has the tables of SQLite, and the suite must not know that."""

    def store(self, chance: Chance) -> Store:  # type: ignore[override]
        return forwarding(super().store(chance))

    async def prepare(self, store: Store) -> None:
        await store.migrate()
