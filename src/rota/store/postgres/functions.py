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

from rota.errors import StoreError
from rota.store.postgres.database import Unit, in_schema

# The comment of rota's functions. The schema may hold functions of other people, which are left alone.
OURS = "installed by rota"
# CREATE OR REPLACE changes the ctid of a row of pg_proc.
_EXISTING = """
SELECT p.oid::regprocedure::text, p.ctid::text, EXISTS (SELECT FROM pg_trigger t WHERE t.tgfoid = p.oid),
       coalesce(obj_description(p.oid, 'pg_proc') = $2, false) FROM pg_proc p
WHERE p.pronamespace = $1::text::regnamespace
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')   -- of an extension
"""


async def install(unit: Unit, schema: str, text: str, *, shared: bool) -> None:
    # Functions may call functions of later files.
    await unit.connection.execute("SET LOCAL check_function_bodies = off")
    before = await unit.connection.fetch(_EXISTING, schema, OURS)
    try:
        async with unit.attempt():
            await unit.connection.execute(in_schema(text, schema))
    except asyncpg.InvalidFunctionDefinitionError:
        if shared:
            raise
        await _drop(unit, [name for name, _, triggers, ours in before if ours and not triggers])
        await unit.connection.execute(in_schema(text, schema))
    places = {(name, place) for name, place, _, _ in before}
    after = await unit.connection.fetch(_EXISTING, schema, OURS)
    for name, place, _, ours in after:
        if (name, place) not in places and not ours:
            await unit.connection.execute(f"COMMENT ON ROUTINE {name} IS '{OURS}'")
    if not shared:
        await _drop(unit, [name for name, place, _, ours in after if ours and (name, place) in places])
    elif others := _overloads([name for name, *_ in before], [name for name, *_ in after]):
        # CREATE OR REPLACE has added a second signature beside the old one, and a call may fit both.
        raise StoreError(f"other arguments of functions that nodes may call: {', '.join(others)}")


def _overloads(before: list[str], after: list[str]) -> list[str]:
    """New signatures under names that were there before."""
    known = {name.partition("(")[0] for name in before}
    return [name for name in after if name not in before and name.partition("(")[0] in known]


async def _drop(unit: Unit, names: list[str]) -> None:
    if names:
        await unit.connection.execute(f"DROP ROUTINE {', '.join(names)}")
