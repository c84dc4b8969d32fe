"""The backends `hot-sqlite` and `hot-postgres` of the contract suite: a hot tier in front of each store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rota.clock import Chance, Clock
from rota.hot.lane import Lane
from rota.hot.local import LocalLane, LocalServer
from rota.hot.redis import RedisLane
from rota.hot.refiller import refill
from rota.hot.store import HotStore
from rota.model.job import NewJob, Verdict
from rota.model.principal import Principal
from rota.model.times import Duration, Instant
from rota.store.base import Store
from rota.store.forwarding import innermost
from rota.store.values import Answer, Note
from tests.hot.lanes import PATIENT, empty
from tests.store.postgres.backends import Postgres
from tests.store.sqlite.backends import SqliteFile

PATIENCE = 20.0
LEFT_OUT = {"test_a_store_brings_no_services_of_its_own": "a hot tier brings the refiller"}


class FilledStore(HotStore):
    """A hot tier that works from the start, as that of a node that listens."""

    def __init__(self, inner: Store, make_lanes: Callable[[], Sequence[Lane]], clock: Clock, chance: Chance) -> None:
        super().__init__(inner, make_lanes, clock, chance)
        self._token = chance.token()

    async def open(self) -> None:
        await super().open()
        side = self.side()
        side.listen()
        await side.reached(PATIENCE)
        await refill(self.inner, side.heap, self._token)

    async def submit(self, who: Principal, /, orders: Sequence[Sequence[NewJob]]) -> list[Answer]:
        """Answers when the heap knows of the jobs, so that its wake-ups are those of the submit."""
        answers = await super().submit(who, orders)
        while (adding := self.side()._adding) is not None:
            await asyncio.wait([adding])
        return answers

    async def note(self, who: Principal, /, notes: Sequence[Note]) -> list[Verdict]:
        """Not behind the answer, which would be a guess (`tests/hot/test_behind.py`)."""
        return await self.inner.note(who, notes)

    async def promote(self, who: Principal, /, limit: int, late: Duration = 0) -> tuple[int, Instant | None]:
        """By the heap; then what only a sweep would find, at once, and what the store would say of the next instant."""
        due = self.side().due
        due._swept_at = self._clock.monotonic()
        moved, _ = await due.promote(limit, late)
        rest, upcoming = await self.inner.promote(who, limit - moved, late)
        return moved + rest, upcoming


class HotSqlite(SqliteFile):
    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.server = LocalServer(self.clock)

    def store(self, chance: Chance) -> Store:  # type: ignore[override]
        return FilledStore.around(super().store(chance), lambda: [LocalLane(self.server)], self.clock, chance)

    async def prepare(self, store: Store) -> None:
        await super().prepare(innermost(store))


class HotPostgres(Postgres):
    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.url_of_tier = empty("valkey").url()

    def store(self, chance: Chance) -> Store:  # type: ignore[override]
        return FilledStore.around(
            super().store(chance), lambda: [RedisLane(self.url_of_tier, PATIENT)], self.clock, chance
        )

    async def prepare(self, store: Store) -> None:
        await super().prepare(innermost(store))
