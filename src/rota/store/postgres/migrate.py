"""Bringing a database to the schema this code knows, while others work on it.

Versions and the oldest code that can work with each stand in a table of the schema. A migration says in its first
line with which code it works (`-- works with: 1`); without such a line, with its own version and newer. So nodes of
the version before go on working beside new ones as long as a migration only adds: that is what makes a rolling
upgrade possible.

A change to a table needs a lock on all of it, and whoever waits for such a lock has everyone else wait behind: a single
long read would stop the renewals of all nodes. So the lock is waited for but a moment, then all is rolled back and
tried again a little later, and whoever migrates is told for whom it waits.
"""

from __future__ import annotations

import asyncio
import re

from rota import errors
from rota.clock import Chance
from rota.errors import StoreUnavailable
from rota.model.times import Instant
from rota.store import sql_files
from rota.store.postgres import partitions
from rota.store.postgres.database import Blocked, Database, LockedUp, Unit, in_schema
from rota.store.postgres.locks import Onlooker, Tell
from rota.store.postgres.session import lock_number

# For each lock on a table: renewals wait behind it, and have 3 s.
LOCK_LIMIT = "250ms"
# Between two tries others have all the time they need; and one that has waited this long needs someone to look at it.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
LONGEST_WAIT = 300.0
_WORKS_WITH = re.compile(r"^-- works with: (\d+)$", re.MULTILINE)
Migrations = list[tuple[int, str]]


def known() -> Migrations:
    return sql_files.migrations("postgres")


async def versions(unit: Unit) -> tuple[int, int]:
    """The version of the schema, and the oldest code that works with it; (0, 0) if there is none."""
    schema = unit.database.schema
    # Asked first: behind a pooler everything is a transaction, and a statement that fails would end it.
    if await unit.connection.fetchval("SELECT to_regclass($1) IS NULL", f"{schema}.schema_versions"):
        return 0, 0
    row = await unit.connection.fetchrow(
        f"SELECT coalesce(max(version), 0), coalesce(max(works_with), 0) FROM {schema}.schema_versions"  # noqa: S608
    )
    return row[0], row[1]


async def check(unit: Unit) -> None:
    found, works_with = await versions(unit)
    newest = known()[-1][0]
    if found > newest and works_with > newest:
        raise errors.SchemaTooNew(found, newest)
    if found < newest:
        raise errors.SchemaMissing(found, newest)


async def migrate(database: Database, steps: Migrations, now: Instant, chance: Chance, tell: Tell) -> tuple[int, int]:
    """Applies what is missing, all or nothing; whoever comes second waits, and finds nothing left to do."""
    onlooker = Onlooker(database, tell)
    end, pause = database.clock.monotonic() + LONGEST_WAIT, FIRST_PAUSE
    while True:
        try:
            async with database.unhurried() as unit:
                if (answer := await _nothing_to_do(unit, steps)) is not None:
                    return answer
                process = await unit.connection.fetchval("SELECT pg_backend_pid()")
                async with onlooker.watching(process):
                    return await _migrate(unit, steps, now)
        except (Blocked, LockedUp):
            if database.clock.monotonic() + pause > end:
                raise StoreUnavailable(
                    f"{database.place}: the schema stays as it was: for {LONGEST_WAIT:.0f} s the migration "
                    f"{onlooker.last}; run `rota migrate` again when that has ended"
                ) from None
        await asyncio.sleep(pause * (0.5 + chance.random() / 2))
        pause = min(2 * pause, LONGEST_PAUSE)


async def _nothing_to_do(unit: Unit, steps: Migrations) -> tuple[int, int] | None:
    found, works_with = await versions(unit)
    newest = steps[-1][0]
    if found > newest and works_with > newest:
        raise errors.SchemaTooNew(found, newest)
    return (found, found) if found >= newest else None


async def _migrate(unit: Unit, steps: Migrations, now: Instant) -> tuple[int, int]:
    # Two who migrate wait for each other, and nobody behind them: so that may take its time.
    await unit.connection.execute(f"SET LOCAL lock_timeout = '{LONGEST_WAIT:.0f}s'")
    await unit.connection.execute("SELECT pg_advisory_xact_lock($1)", lock_number(unit.database.schema, "migrate"))
    await unit.connection.execute(f"SET LOCAL lock_timeout = '{LOCK_LIMIT}'")
    newest = steps[-1][0]
    before, works_with = await versions_in_transaction(unit)
    if before > newest and works_with > newest:
        raise errors.SchemaTooNew(before, newest)
    for number, text in steps:
        if number > before:
            await _apply(unit, number, text)
    await partitions.make(unit, now)
    return before, max(before, newest)


async def versions_in_transaction(unit: Unit) -> tuple[int, int]:
    """A failing statement would end the transaction, so the table is made first."""
    schema = unit.database.schema
    exists = await unit.connection.fetchval("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema)
    if not exists:  # asked first: IF NOT EXISTS too needs the right to create schemas
        await unit.connection.execute(f"CREATE SCHEMA {schema}")
    await unit.connection.execute(
        f"CREATE TABLE IF NOT EXISTS {schema}.schema_versions "
        "(version integer PRIMARY KEY, works_with integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
    )
    return await versions(unit)


async def _apply(unit: Unit, number: int, text: str) -> None:
    works_with = _WORKS_WITH.search(text)
    await unit.connection.execute(in_schema(text, unit.database.schema))
    await unit.connection.execute(
        f"INSERT INTO {unit.database.schema}.schema_versions (version, works_with) VALUES ($1, $2)",  # noqa: S608
        number,
        int(works_with[1]) if works_with else number,
    )
