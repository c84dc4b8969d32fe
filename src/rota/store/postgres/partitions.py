"""History by days: partitions made ahead, and dropped whole when their time is over.

Jobs that ended, attempts, output and its segments lie in one partition per day and table. Dropping a day costs next to
nothing and leaves no dead rows behind. Rows that must outlive their day are moved aside first: output and attempts of
jobs that still live, that ended later, or that are dead letters, and segments with output of such jobs. Rows of a day
without a partition go to the default partition, and are deleted from there row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import asyncpg

from rota.model.times import DAY, Duration, Instant
from rota.store import columns
from rota.store.postgres.database import UNHURRIED, Unit
from rota.store.postgres.session import lock_number

TABLES = {"history": "finished_at", "attempts": "finished_at", "output": "kept_at", "segments": "kept_at"}
AHEAD = 3  # days
# With a retention of at least this long, days are dropped whole (so rows are kept up to a day longer). With a shorter
# one, rows are deleted one by one.
WORTH_WAITING: Duration = 2 * DAY
LOCK_LIMIT = "150ms"
# The columns of rows that must outlive their day.
_LASTING_COLUMNS = {table: columns.expand("postgres", f"{{{table}.kept}}") for table in ("attempts", "output")}
_SEGMENT = columns.expand("postgres", "{segments.kept}")
_LASTING_SEGMENT = columns.expand("postgres", "{segments.kept; lasting = true}")


def name(table: str, day: Instant) -> str:
    return f"{table}_{datetime.fromtimestamp(day // 1_000_000, UTC):%Y%m%d}"


def _is_day(table: str, partition: str) -> bool:
    return partition[len(table) + 1 :].isdigit()


def days(now: Instant) -> Iterator[Instant]:
    """Today and the days ahead; yesterday too, for clocks that disagree around midnight."""
    today = now // DAY * DAY
    return (today + offset * DAY for offset in range(-1, AHEAD + 1))


async def existing(unit: Unit) -> dict[str, set[str]]:
    """The partitions of each table."""
    found: dict[str, set[str]] = {table: set() for table in TABLES}
    for parent, child in await unit.rows("partitions"):
        found[parent.removesuffix("_dated")].add(child)
    return found


def missing(found: dict[str, set[str]], now: Instant) -> list[tuple[str, Instant]]:
    return [(table, day) for table in TABLES for day in days(now) if name(table, day) not in found[table]]


async def make(unit: Unit, now: Instant) -> int:
    """Makes missing partitions; returns how many. Waits for locks only briefly: tomorrow's partition can wait a
    minute."""
    wanted = missing(await existing(unit), now)
    if not wanted:
        return 0
    await unit.begin()
    if not await _alone(unit):
        return 0
    wanted = missing(await existing(unit), now)
    made = 0
    for table, day in wanted:
        made += await _make_one(unit, table, day)
    return made


async def _make_one(unit: Unit, table: str, day: Instant) -> int:
    schema = unit.database.schema
    try:
        async with unit.attempt():
            await unit.connection.execute(
                f"CREATE TABLE IF NOT EXISTS {schema}.{name(table, day)} PARTITION OF {schema}.{table}_dated "
                f"FOR VALUES FROM ({day}) TO ({day + DAY})"
            )
        return 1
    except asyncpg.CheckViolationError:
        return 0  # the default partition already holds rows of this day; they are deleted one by one


def old(found: dict[str, set[str]], now: Instant, keep: Duration) -> list[tuple[str, str]]:
    """The (table, partition) pairs that are wholly older than `keep`."""
    if keep < WORTH_WAITING:
        return []
    last = name("", now - keep - DAY)  # names of days sort like days
    return [
        (table, one)
        for table in TABLES  # history first: rows of the other tables are kept if their job is still in it
        for one in sorted(found[table])
        if _is_day(table, one) and one[len(table) :] <= last
    ]


async def needs(unit: Unit, now: Instant, keep: Duration) -> tuple[bool, list[tuple[str, str]]]:
    """Whether partitions are missing, and the old ones to drop."""
    found = await existing(unit)
    return bool(missing(found, now)), old(found, now, keep)


async def drop(unit: Unit, table: str, partition: str) -> int:
    """Drops one day of one table, with a brief lock on the whole table. Returns 1 if it was dropped, else 0."""
    schema, connection = unit.database.schema, unit.connection
    await unit.begin()
    if not await _alone(unit) or not await connection.fetchval("SELECT to_regclass($1)::text", f"{schema}.{partition}"):
        return 0
    # Locks out writers such as replays: a row that is not copied now would be lost.
    await connection.execute(f"LOCK TABLE {schema}.{partition} IN SHARE ROW EXCLUSIVE MODE")
    if kept := _LASTING_COLUMNS.get(table):
        await connection.execute(
            f"INSERT INTO {schema}.{table} ({kept}, lasting) "  # noqa: S608
            f"SELECT {kept}, true FROM {schema}.{partition} p "
            f"WHERE p.job IN (SELECT id FROM {schema}.jobs UNION ALL SELECT id FROM {schema}.history)"
        )
    elif table == "segments":  # some are looked at again as lasting ones: carriers.log_retention
        await connection.execute(
            f"INSERT INTO {schema}.segments ({_SEGMENT}) SELECT {_LASTING_SEGMENT} FROM {schema}.{partition} p "  # noqa: S608
            "WHERE EXISTS (SELECT FROM generate_series(0, octet_length(p.jobs) / 16 - 1) AS place "
            "CROSS JOIN LATERAL (SELECT encode(substring(p.jobs FROM place * 16 + 1 FOR 16), 'hex')::uuid AS id) job "
            f"WHERE EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = job.id) "
            f"OR EXISTS (SELECT FROM {schema}.history h WHERE h.id = job.id))"
        )
    else:
        lasting = [f"{other}_{where}" for other in _LASTING_COLUMNS for where in ("lasting", "other")]
        for other in (*lasting, "progress", "checkpoints"):
            await connection.execute(  # rows that outlived their day go with their job
                f"DELETE FROM {schema}.{other} o USING {schema}.{partition} p WHERE p.id = o.job"  # noqa: S608
            )
    await connection.execute(f"DROP TABLE {schema}.{partition}")
    return 1


async def index(unit: Unit) -> int:
    """Gives one part of the history its index for searches, if a part has none: it was too large for the step that made
    the others (0010). Its writers go on meanwhile. Returns 1 if there was such a part. Not behind a pooler, where all
    is one transaction: there the index is made by hand."""
    parts = [] if unit.in_transaction else await unit.rows("search_tables")
    if not (lacking := [name for name, indexed in parts if not indexed]):
        return 0
    connection, number = unit.connection, lock_number(unit.database.schema, "search")
    if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", number):
        return 0
    try:
        await _make_index(unit, lacking[0])
    finally:
        await connection.execute("RESET statement_timeout; RESET lock_timeout")
        await connection.execute("SELECT pg_advisory_unlock($1)", number)
    return 1


async def _make_index(unit: Unit, table: str) -> None:
    schema, connection = unit.database.schema, unit.connection
    await connection.execute(f"SET statement_timeout = '{UNHURRIED:.0f}s'")
    # Left over from a try that was broken off, it is not valid.
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema}.{table}_as")
    make = f"CREATE INDEX CONCURRENTLY {table}_as ON {schema}.{table} (owner, state, queue, task, id)"
    await connection.execute(make, timeout=UNHURRIED)
    parent = "history_as" if table == "history_lasting" else "history_dated_as"
    await connection.execute(f"SET lock_timeout = '{LOCK_LIMIT}'")
    await connection.execute(f"ALTER INDEX {schema}.{parent} ATTACH PARTITION {schema}.{table}_as")


async def _alone(unit: Unit) -> bool:
    """Serialises the sweeps of several nodes, and bounds the wait for the lock on a whole table: all other transactions
    queue behind that wait. A sweep without the lock is tried again next time."""
    await unit.connection.execute(f"SET LOCAL lock_timeout = '{LOCK_LIMIT}'")
    number = lock_number(unit.database.schema, "partitions")
    return bool(await unit.connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", number))
