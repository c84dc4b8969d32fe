"""Functions that nodes offer: on PostgreSQL, a unit that ends jobs also settles their children."""

from __future__ import annotations

from rota.model.times import Duration
from rota.store.carriers.offers import end_overdue, make_known, unoffered
from rota.store.offers import Unoffered
from rota.store.postgres import graph
from rota.store.postgres.database import Unit

__all__ = ["make_known", "set_aside", "unoffered"]


async def set_aside(unit: Unit, one: Unoffered, grace: Duration, limit: int) -> int:
    gone = await end_overdue(unit, one, grace, limit)
    if tied := [job for job, _, _, ties in gone if ties]:
        await graph.settle(unit, tied)
    return len(gone)
