"""Installs the SQL functions of this code (sql/postgres/functions).

Nodes run statements that call these functions while they are replaced. CREATE OR REPLACE is safe for them: a running
statement finishes with the old body, the next one uses the new body, and prepared plans stay valid. So a function keeps
its signature and its meaning as long as nodes may run that call it; another meaning gets another name.

While nodes of other code may run (`shared`), no function is dropped, and a changed signature is refused. A step that
older code does not fit clears up: functions that no file defines any more are dropped. So does development within one
release, where a changed signature replaces the old one.
"""

from __future__ import annotations

import asyncpg

from rota.store.postgres.database import Unit, in_schema

# CREATE OR REPLACE changes the ctid of a row of pg_proc.
_EXISTING = """
SELECT p.oid::regprocedure::text, p.ctid::text, EXISTS (SELECT FROM pg_trigger t WHERE t.tgfoid = p.oid) FROM pg_proc p
WHERE p.pronamespace = $1::text::regnamespace
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')   -- of an extension
"""


async def install(unit: Unit, schema: str, text: str, *, shared: bool) -> None:
    # Functions may call functions of later files.
    await unit.connection.execute("SET LOCAL check_function_bodies = off")
    before = await unit.connection.fetch(_EXISTING, schema)
    try:
        async with unit.attempt():
            await unit.connection.execute(in_schema(text, schema))
    except asyncpg.InvalidFunctionDefinitionError:
        if shared:
            raise
        await _drop(unit, [name for name, _, triggers in before if not triggers])
        await unit.connection.execute(in_schema(text, schema))
    if not shared:
        places = {(name, place) for name, place, _ in before}
        after = await unit.connection.fetch(_EXISTING, schema)
        await _drop(unit, [name for name, place, _ in after if (name, place) in places])


async def _drop(unit: Unit, names: list[str]) -> None:
    if names:
        await unit.connection.execute(f"DROP ROUTINE {', '.join(names)}")
