"""Whether the tables are still what the migrations made them: what they should be is asked of a schema made anew and
rolled back, so there is no second description of it that could be wrong."""

from __future__ import annotations

import asyncpg

from rota.store.postgres import migrate
from rota.store.postgres.database import Unit, in_schema

_SHAPE = """
SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
       || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = $1::text::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
  AND c.relname !~ '_[0-9]{8}$'
UNION ALL
SELECT 'index ' || replace(pg_get_indexdef(i.indexrelid), $1, $2)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = $1::text::regnamespace AND i.indisvalid AND c.relname !~ '_[0-9]{8}$'
UNION ALL
SELECT 'function ' || p.proname || '(' || replace(pg_get_function_identity_arguments(p.oid), $1, $2) || ') '
       || md5(replace(p.prosrc, $1, $2))
FROM pg_proc p WHERE p.pronamespace = $1::text::regnamespace
"""


class _Enough(Exception):
    pass


async def changes(unit: Unit) -> list[str] | None:
    """None: this user may not look."""
    schema = unit.database.schema
    probe = f"rota_probe_{unit.connection.get_server_pid()}"
    found = await _shape(unit, schema, schema)
    version, _ = await migrate.versions(unit)
    expected: set[str] = set()
    try:
        async with unit.attempt():
            await unit.connection.execute(f"CREATE SCHEMA {probe}")
            for number, text in migrate.known():
                if number <= version:
                    await unit.connection.execute(in_schema(text, probe))
            expected = await _shape(unit, probe, schema)
            raise _Enough
    except _Enough:
        pass
    except (asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError):
        return None
    return [f"missing {one}" for one in sorted(expected - found)] + [
        f"changed or added {one}" for one in sorted(found - expected) if "schema_versions" not in one
    ]


async def _shape(unit: Unit, schema: str, shown: str) -> set[str]:
    return {text for (text,) in await unit.connection.fetch(_SHAPE, schema, shown)}
