"""Fires of schedules on SQLite."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rota.model.job import NewJob
from rota.store.carriers.fires import Fires
from rota.store.sqlite import orders
from rota.store.sqlite.unit import SqliteUnit


class SqliteFires(Fires[SqliteUnit]):
    async def insert_jobs(self, unit: SqliteUnit, owner: str, jobs: Sequence[NewJob], blocked: Collection[str]) -> None:
        orders.insert(unit.db, owner, jobs, unit.now, blocked)
