"""The checks of `rota doctor` on a PostgreSQL database."""

from __future__ import annotations

from rota import errors
from rota.clock import Clock
from rota.model.times import DAY, SECOND, short
from rota.store.carriers import doctor
from rota.store.postgres import drift, migrate, partitions
from rota.store.postgres.database import Unit
from rota.store.postgres.session import LockSession
from rota.store.values import Finding

# Dead rows in the table of live jobs above which vacuum is behind.
MANY_DEAD = 100_000
# A transaction that is open for longer keeps vacuum from removing all rows deleted since, in seconds.
LONG = 60
# A smaller difference of clocks is not reported; rota uses the server's clock in any case.
SKEW = SECOND
OLDEST = 150_000


async def examine(unit: Unit, known: migrate.KnownSchema, session: LockSession, clock: Clock) -> list[Finding]:
    findings = [await _server(unit), await _schema(unit, known)]
    if findings[-1].ok:
        findings += [
            await _functions(unit, known),
            await _drift(unit, known),
            await _partitions(unit),
            *await doctor.examine(unit, unit.database.now()),
            await _bloat(unit),
        ]
    return [*findings, await _transactions(unit), await _clock(unit, clock), _session(unit, session)]


async def _server(unit: Unit) -> Finding:
    number = int(await unit.connection.fetchval("SHOW server_version_num"))
    text = await unit.connection.fetchval("SHOW server_version")
    reading = await unit.connection.fetchval("SELECT pg_is_in_recovery()")
    good = number >= OLDEST and not reading
    hint = "; it only reads: a standby" if reading else "" if number >= OLDEST else "; rota needs 15 or newer"
    return Finding("server", good, f"PostgreSQL {text}{hint}")


async def _schema(unit: Unit, known: migrate.KnownSchema) -> Finding:
    try:
        await migrate.check(unit, known)
    except errors.StoreError as error:
        return Finding("schema", False, str(error))
    found = await migrate.find(unit)
    return Finding("schema", True, f"version {found.version} in {unit.database.schema}")


async def _functions(unit: Unit, known: migrate.KnownSchema) -> Finding:
    found = await migrate.find(unit)
    if found.functions == known.digest:
        return Finding("functions", True, "those of this rota")
    text = f"those of another rota ({found.code or 'unknown'})"
    if found.lacks(known):
        return Finding("functions", False, f"{text}; run `rota migrate`")
    return Finding("functions", True, f"{text}, which is newer")


async def _drift(unit: Unit, known: migrate.KnownSchema) -> Finding:
    if (await migrate.find(unit)).version > known.newest:
        return Finding("schema drift", True, "can't be looked at by this rota: a newer one made the schema")
    changes = await drift.changes(unit, known)
    if changes is None:
        return Finding("schema drift", True, "can't be looked at without the right to create schemas")
    text = "; ".join(changes[:5]) + (f" and {len(changes) - 5} more" if len(changes) > 5 else "")
    return Finding("schema drift", not changes, text or "tables, indexes, triggers and functions are as they were made")


async def _partitions(unit: Unit) -> Finding:
    schema, now = unit.database.schema, unit.database.now()
    lacking = partitions.missing(await partitions.existing(unit), now)
    tomorrow = [partitions.name(table, day) for table, day in lacking if day <= now // DAY * DAY]
    strays = await unit.connection.fetchval(
        " OR ".join(f"EXISTS (SELECT FROM {schema}.{table}_other)" for table in partitions.TABLES).join(("SELECT ", ""))
    )
    if tomorrow:
        return Finding("partitions", False, f"missing: {', '.join(tomorrow)}; a node with the role control makes them")
    text = f"made for {partitions.AHEAD} days ahead" if not lacking else f"{len(lacking)} of the days ahead are missing"
    return Finding("partitions", True, text + ("; some rows lie outside of all days" if strays else ""))


async def _bloat(unit: Unit) -> Finding:
    row = await unit.connection.fetchrow(
        "SELECT n_live_tup, n_dead_tup, pg_total_relation_size(relid), coalesce(last_autovacuum, last_vacuum)::text "
        "FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'jobs'",
        unit.database.schema,
    )
    live, dead, size, vacuumed = row or (0, 0, 0, None)
    text = (
        f"{live:,} live and {dead:,} dead rows of jobs in {size >> 20} MiB, last vacuumed {(vacuumed or 'never')[:19]}"
    )
    return Finding("bloat", dead < MANY_DEAD or dead < live, text)


async def _transactions(unit: Unit) -> Finding:
    rows = await unit.connection.fetch(
        "SELECT pid, coalesce(application_name, ''), extract(epoch FROM clock_timestamp() - xact_start)::bigint "
        "FROM pg_stat_activity WHERE xact_start < clock_timestamp() - make_interval(secs => $1) "
        "AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend' "
        "ORDER BY xact_start",
        LONG,
    )
    slots = await unit.connection.fetch(
        "SELECT slot_name FROM pg_replication_slots WHERE NOT active AND (xmin IS NOT NULL OR catalog_xmin IS NOT NULL)"
    )
    bad = [f"process {pid}{f' ({name})' if name else ''} has one open for {age} s" for pid, name, age in rows]
    bad += [f"replication slot {name} is not used and holds one open" for (name,) in slots]
    hint = "; what was deleted meanwhile can't be cleared away"
    return Finding("long transactions", not bad, "; ".join(bad) + hint if bad else "none")


async def _clock(unit: Unit, clock: Clock) -> Finding:
    if not unit.database.server_time:
        return Finding("clock", True, "given from outside")
    offset = clock.now() - unit.database.server_clock.now()
    ahead = "ahead of" if offset > 0 else "behind"
    text = f"this machine is {short(abs(offset) // 1000 * 1000)} {ahead} the server; rota goes by the server's clock"
    return Finding("clock", abs(offset) < SKEW, text)


def _session(unit: Unit, session: LockSession) -> Finding:
    if unit.database.pooled:
        return Finding(
            "sessions", False,
            "a pooler stands before the server: no wake-ups, and death is noticed by silence alone; connect directly",
        )  # fmt: skip
    return Finding("sessions", session.listening, "listening" if session.listening else "no connection for wake-ups")
