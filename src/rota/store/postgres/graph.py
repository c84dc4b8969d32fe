"""Jobs that wait for others. The database function `settle` decides which children go on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rota.store.graph import Settled
from rota.store.postgres.database import AT_ONCE, Unit
from rota.store.postgres.encoding import ids_only
from rota.store.values import Topic

# Edges of jobs to be deleted that one write settles.
PIECE = 2_000
COUNTED = 10 * PIECE


async def settle(unit: Unit, only: Collection[str] | None, most: int = AT_ONCE) -> Settled:
    """`only`: settles these jobs and jobs that are skipped because of them."""
    moved, unsettled = await unit.settle(only, most)
    waiting = only is None and bool(await unit.value("anyone_waits"))
    return Settled(moved, unsettled, waiting)


async def settle_any(unit: Unit, limit: int) -> Settled:
    return await settle(unit, None, limit)


async def reopen(unit: Unit, ids: Sequence[str]) -> list[str]:
    """Reopens ended jobs, whose rows the caller has locked, and jobs that were skipped because of them; returns the
    latter."""
    skipped = list({job for (job,) in await unit.rows("skipped_below", ids=ids)} - set(ids))
    if skipped:  # another transaction may have reopened some meanwhile
        skipped = [job for job, *_ in await unit.rows("lock_history", ids=sorted(skipped), sees=None)]
    every = sorted({*ids, *skipped})
    await unit.run("reopen_jobs", ids=every, replayed=ids, now=unit.now, step=unit.database.ageing_step)
    await unit.run("reopen_replayed", ids=every)
    if (await settle(unit, None)).unsettled:
        unit.topics.add(Topic.TIES)
    return skipped


async def settled(unit: Unit, ids: Sequence[str]) -> list[str]:
    """The settled jobs among these ended ones: only they may be deleted. Children of an unsettled job still need its
    state."""
    if not await unit.rows("unsettled_of", ids=ids):
        return list(ids)
    await settle(unit, ids, PIECE)
    left = {job for (job,) in await unit.rows("unsettled_of", ids=ids)}
    return [job for job in ids if job not in left]


async def settle_piece(unit: Unit, ids: Sequence[str]) -> bool:
    """Settles a piece of the edges of jobs to be deleted. True if more are left and this call made progress: other
    transactions may hold the rest."""
    wanted = ids_only(ids)
    if not await unit.rows("unsettled_of", ids=wanted):
        return False
    await unit.begin()
    before = await unit.value("open_edges_of", ids=wanted, most=COUNTED)
    await settle(unit, wanted, PIECE)
    after = await unit.value("open_edges_of", ids=wanted, most=COUNTED)
    return bool(after) and (after < before or after == COUNTED)
