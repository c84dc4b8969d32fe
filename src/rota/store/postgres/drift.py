"""Compares the tables, triggers and functions of a database with the ones that this code makes.

The latter are read from a schema that is made anew and rolled back, so there is no second description to go stale.
"""

from __future__ import annotations

import asyncpg

from rota.store.postgres import migrate
from rota.store.postgres.database import Unit

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
SELECT 'trigger ' || replace(pg_get_triggerdef(t.oid), $1, $2)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = $1::text::regnamespace AND NOT t.tgisinternal
UNION ALL
SELECT 'function ' || p.proname || '(' || replace(pg_get_function_identity_arguments(p.oid), $1, $2) || ') '
       || md5(replace(p.prosrc, $1, $2))
FROM pg_proc p WHERE p.pronamespace = $1::text::regnamespace
"""


class _Enough(Exception):
    pass


async def changes(unit: Unit, known: migrate.KnownSchema) -> list[str] | None:
    """None: this user has no right to create schemas."""
    schema, probe = unit.database.schema, f"rota_probe_{unit.connection.get_server_pid()}"
    found = await _shape(unit, schema, schema)
    expected: set[str] = set()
    try:
        async with unit.attempt():
            await unit.connection.execute(f"CREATE SCHEMA {probe}")
            await migrate.apply(unit, probe, known, migrate.FoundSchema())
            expected = await _shape(unit, probe, schema)
            raise _Enough
    except _Enough:
        pass
    except (asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError):
        return None
    # Functions of other releases may exist beside these (functions.py). Another digest of all functions is a finding of
    # its own.
    same = (await migrate.find(unit)).functions == known.digest
    own = {_function(one) for one in expected} - {None} if same else set()
    expected, found = ({one for one in shape if _function(one) in {None, *own}} for shape in (expected, found))
    return [f"missing {one}" for one in sorted(expected - found)] + [
        f"changed or added {one}" for one in sorted(found - expected) if "schema_versions" not in one
    ]


def _function(line: str) -> str | None:
    return line.partition("(")[0] if line.startswith("function ") else None


async def _shape(unit: Unit, schema: str, shown: str) -> set[str]:
    return {text for (text,) in await unit.connection.fetch(_SHAPE, schema, shown)}
