"""Users, keys, locks, audit rows and repeats of requests, for tests that compare whole stores."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rota.model.access import Role
from rota.model.access_keys import NewKey
from rota.model.principal import LOCAL, SYSTEM
from rota.model.quotas import quotas
from rota.model.times import DAY, HOUR
from rota.store.base import Store
from rota.store.people import AuditFilter
from rota.store.repeats import KeptStep


async def add_people(store: Store, name: str) -> None:
    """`name`: of the key."""
    await store.put_user(LOCAL, "ann", quotas("waiting=7"), new=True)
    await store.add_key(LOCAL, NewKey(id="k", hash="h", user="ann", role=Role.VIEWER, queues=("a*",), name=name))
    for step in (KeptStep(0, "PUT /x", "digest", b"\0\xff answer"), KeptStep(1, "PUT /x", "digest", None)):
        await store.seal_repeat(SYSTEM, "ann", "hash", step, DAY)
    for lock in ("free", "held"):
        await store.acquire_lock(LOCAL, lock, "a holder", HOUR)
    await store.release_lock(LOCAL, "free", "a holder")


async def people_of(store: Store) -> list[Any]:
    """All that can be seen of them. The numbers of audit rows differ."""
    audit = [replace(row, seq=0) for row in await store.audit(SYSTEM, AuditFilter(limit=1_000))]
    repeats, locks = await store.repeat_steps(SYSTEM, "ann", "hash"), await store.locks(LOCAL)
    return [await store.users(SYSTEM), await store.keys(SYSTEM), audit, repeats, locks]
