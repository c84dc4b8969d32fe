"""The tasks that can be ordered, as the store describes them. They are read again after a while: a deploy may change a
task; and at once, though not all the time, when a name is wanted that is not among them."""

from __future__ import annotations

from collections.abc import Collection

from rota.clock import Clock
from rota.model.principal import SYSTEM
from rota.store.base import Store
from rota.wire_orders.offered import OfferedTasks

FRESH = 10.0  # seconds
FRESH_WITHOUT = 0.5  # seconds between two looks for a name that is not there


class KnownTasks:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._known, self._read_at = OfferedTasks({}), float("-inf")

    async def with_(self, names: Collection[str]) -> OfferedTasks:
        """Tasks that have these names, if there are such. Nothing is read for none."""
        if names:
            age = self._clock.monotonic() - self._read_at
            missing = not self._known.infos.keys() >= set(names)
            if age > (FRESH_WITHOUT if missing else FRESH):
                read_at = self._clock.monotonic()
                self._known = OfferedTasks.of(await self._store.tasks(SYSTEM))
                self._read_at = read_at
        return self._known
