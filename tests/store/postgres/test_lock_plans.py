"""What locks cost: a row and its index entries, however many locks their user has; and lists, which sort them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from rota.model.locks import KEPT_FREE
from rota.model.times import DAY, SECOND
from rota.store.carriers import locks
from rota.store.postgres import PostgresStore
from rota.store.postgres.database import Unit
from rota.store.values import Retention
from tests.contracts.world import ALICE, World
from tests.store import queries
from tests.store.postgres.backends import Postgres
from tests.store.postgres.plans import Seen, observe, pruned

LOCKS, OLD, PIECE = 20_000, 500, 20
TTL = 30 * SECOND
FILL = """
INSERT INTO locks (owner, name, holder, fence, taken_at, expires_at, released)
SELECT 'alice', 'lock ' || i, 'holder', 1, %(now)s - CASE WHEN i <= %(old)s THEN %(age)s ELSE 0 END - i,
       CASE WHEN i <= %(old)s THEN %(now)s - %(age)s - i ELSE %(now)s + 1000000000 END, i <= %(old)s
FROM generate_series(1, %(most)s) AS i
"""
HELD, FREE = f"lock {LOCKS}", f"lock {OLD}"
KEEP = Retention(DAY, DAY, DAY, DAY)
Act = Callable[[Unit], Awaitable[object]]
ACTS: dict[str, tuple[Act, set[str], int]] = {
    "take_lock": (lambda unit: locks.acquire(unit, ALICE, FREE, "two", TTL), {"locks_pkey"}, 2),
    "lock_rows_named": (lambda unit: locks.acquire(unit, ALICE, HELD, "two", TTL), {"locks_pkey"}, 2),
    "renew_lock": (lambda unit: locks.renew(unit, ALICE, HELD, "holder", 1, TTL), {"locks_pkey"}, 2),
    "release_lock": (lambda unit: locks.release(unit, ALICE, HELD, "holder", 1), {"locks_pkey"}, 2),
    "lock_was_released": (lambda unit: locks.release(unit, ALICE, FREE, "holder", 1), {"locks_pkey"}, 2),
    "free_lock": (lambda unit: locks.free(unit, ALICE, HELD), {"locks_pkey"}, 2),
    "lock_rows": (lambda unit: locks.locks(unit, ALICE), {"locks_pkey"}, LOCKS + 2),
    "delete_free_locks": (lambda unit: pruned(unit, KEEP, PIECE), {"locks_pkey", "locks_taken"}, 3 * PIECE),
}


@pytest.mark.parametrize("analysed", [True, False])
async def test_each_goes_by_its_index(world: World, store: PostgresStore, backend: Postgres, analysed: bool) -> None:
    with backend.connection() as db:
        values = {"now": world.clock.now(), "old": OLD, "age": KEPT_FREE + 1, "most": LOCKS}
        db.execute(FILL, values)
        db.execute("ANALYZE locks" if analysed else "SELECT 1")
    for name, (act, indexes, most) in ACTS.items():
        (seen,) = [one for one in await observed(store, act) if one.name == name]
        assert (seen.indexes or {"locks_pkey"}) <= indexes, str(seen)
        assert seen.visited <= most, str(seen)


def test_renewals_write_no_index(store: PostgresStore, backend: Postgres) -> None:
    """An update of a row with room on its page writes no index if no column of one changes."""
    with backend.connection() as db:
        (row,) = db.execute("SELECT reloptions FROM pg_class WHERE oid = 'locks'::regclass").fetchall()
        columns = db.execute(
            "SELECT DISTINCT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
            "AND a.attnum = ANY (i.indkey) WHERE i.indrelid = 'locks'::regclass ORDER BY 1"
        ).fetchall()
    assert row == (["fillfactor=50"],)
    assert [name for (name,) in columns] == ["name", "owner", "taken_at"]


def test_every_query_is_looked_at() -> None:
    assert set(ACTS) == queries.names("postgres", "locks")


async def observed(store: PostgresStore, deed: Act) -> list[Seen]:
    database = store._database
    return await observe(database, database.pools().work, deed, {})
