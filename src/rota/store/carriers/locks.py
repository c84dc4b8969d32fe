"""Locks: taken, renewed and released by their holders, freed and listed by people."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.job import Verdict
from rota.model.locks import Acquisition, LockInfo
from rota.model.principal import Principal
from rota.model.times import Duration, aware
from rota.store.carriers.unit import Row, Unit
from rota.store.values import Topic


async def acquire(unit: Unit, who: Principal, name: str, holder: str, ttl: Duration) -> Acquisition:
    await unit.begin()
    taken = await unit.rows("take_lock", owner=who.user, name=name, holder=holder, ttl=ttl, now=unit.now)
    found = [_info(row) for row in taken] or await locks(unit, who, [name])
    return Acquisition(bool(taken), found[0])


async def renew(unit: Unit, who: Principal, name: str, holder: str, fence: int, ttl: Duration) -> Verdict:
    renewed = await unit.run("renew_lock", owner=who.user, name=name, holder=holder, fence=fence, ttl=ttl, now=unit.now)
    return Verdict.APPLIED if renewed else Verdict.STALE


async def release(unit: Unit, who: Principal, name: str, holder: str, fence: int | None = None) -> Verdict:
    await unit.begin()
    own = {"owner": who.user, "name": name, "holder": holder, "fence": fence}
    if await unit.run("release_lock", **own, now=unit.now):
        unit.topics.add(Topic.LOCK)
        return Verdict.APPLIED
    return Verdict.ALREADY if await unit.value("lock_was_released", **own) else Verdict.STALE


async def free(unit: Unit, who: Principal, name: str) -> bool:
    if not await unit.run("free_lock", owner=who.user, name=name, now=unit.now):
        return False
    unit.topics.add(Topic.LOCK)
    return True


async def locks(unit: Unit, who: Principal, names: Sequence[str] | None = None) -> list[LockInfo]:
    if names is None:
        return [_info(row) for row in await unit.rows("lock_rows", owner=who.user, now=unit.now)]
    rows = await unit.rows("lock_rows_named", owner=who.user, names=list(names), now=unit.now)
    return [_info(row) for row in rows]


def _info(row: Row) -> LockInfo:
    name, held, fence, taken_at, expires_at = row
    return LockInfo(name, bool(held), fence, aware(taken_at), aware(expires_at))
