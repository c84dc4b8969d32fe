"""A backend of one's own, in its simplest form: a store that passes every call on to another.

`pytest tests/contracts --store tests.contracts.forwarding:Forwarding` runs the contracts on it. It shows that they ask
for nothing but the contract, and is a pattern for other backends.
"""

from __future__ import annotations

from rota.clock import Chance
from rota.store.base import Store
from rota.store.forwarding import passed_on
from tests.store.sqlite.backends import SqliteFile


def forwarding(inner: Store) -> Store:
    """Without what a `ForwardingStore` passes on besides the contract."""
    made: Store = type("ForwardingStore", (Store,), {"inner": inner, **passed_on()})()
    return made


class Forwarding(SqliteFile):
    """It has the tables of SQLite, and the suite must not know that."""

    def store(self, chance: Chance) -> Store:  # type: ignore[override]
        return forwarding(super().store(chance))

    async def prepare(self, store: Store) -> None:
        await store.migrate()
