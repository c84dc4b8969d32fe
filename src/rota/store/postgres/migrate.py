"""Brings a database to the schema that this code knows, while nodes work on it.

Steps make the tables, one file each. The table `schema_versions` has a row for each step that was applied, with the
oldest code that can work with it. A step says that in its first line (`-- works with: 1`); without such a line, only
code of its own version and newer can. So nodes of the previous version keep working beside new ones as long as a step
only adds: that makes a rolling upgrade possible. docs/contributing.md has the rules for a change (expand, contract).

A step has two parts, divided by a line `-- after functions`: tables first, then the functions of this code are
installed (functions.py), then the second part can use them, for triggers and for changes of rows. Functions are also
installed when their text changed and no step is missing.

A change of a table needs an exclusive lock on it, and every other transaction queues behind a request for one: a single
long read would stop the renewals of all nodes. So the migration waits for a lock only for a moment, then rolls
everything back and tries again a little later. It reports the transaction it waits for.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from typing import NamedTuple

from rota import __version__, errors
from rota.clock import Chance
from rota.errors import StoreUnavailable
from rota.model.times import Instant
from rota.store import sql_files
from rota.store.copy import MARKER, UNFINISHED
from rota.store.postgres import functions, partitions
from rota.store.postgres.database import Blocked, Database, LockedUp, Unit, in_schema
from rota.store.postgres.locks import Onlooker, Tell
from rota.store.postgres.session import lock_number

# For each lock on a table: renewals wait behind it, and have 3 s.
LOCK_LIMIT = "250ms"
# Between two tries other transactions have all the time they need. After the longest wait a person must look at it.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
LONGEST_WAIT = 300.0
_WORKS_WITH = re.compile(r"-- works with: (\d+)\s")
_VERSIONS = """
CREATE TABLE IF NOT EXISTS {schema}.schema_versions (
    version integer PRIMARY KEY, works_with integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(),
    functions text NOT NULL DEFAULT '', code text NOT NULL DEFAULT '')
"""
_AFTER_FUNCTIONS = "\n-- after functions\n"


@dataclass(frozen=True)
class KnownSchema:
    """The schema that some version of the code knows."""

    steps: tuple[tuple[int, str], ...]
    functions: str
    code: str = __version__

    @property
    def newest(self) -> int:
        return self.steps[-1][0]

    @property
    def works_with(self) -> int:
        """The oldest code that can work with it."""
        return max(works_with(number, text) for number, text in self.steps)

    @cached_property
    def digest(self) -> str:
        """Of the functions."""
        return sha256(self.functions.encode()).hexdigest()


def works_with(number: int, text: str) -> int:
    declared = _WORKS_WITH.match(text)
    return int(declared[1]) if declared else number


class FoundSchema(NamedTuple):
    """The schema of a database; version 0: there is none."""

    version: int = 0
    works_with: int = 0  # the oldest code that can work with it
    functions: str = ""  # the digest of its functions,
    code: str = ""  # and the version of rota that installed them

    def fits(self, known: KnownSchema) -> bool:
        """Whether the known schema can be reached from here, or is older and still supported."""
        return self.version <= known.newest or self.works_with <= known.newest

    def lacks(self, known: KnownSchema) -> bool:
        """Whether there is something to migrate. Functions of a newer schema or a newer rota are left alone: an old
        node that starts again must not take a correction back."""
        if self.version != known.newest:
            return self.version < known.newest
        return self.functions != known.digest and _release(self.code) <= _release(known.code)

    def shared(self, known: KnownSchema) -> bool:
        """Whether nodes of an older schema, or of another release of this one, may run beside the known code."""
        return (0 < self.version < known.newest and known.works_with < known.newest) or (
            self.version == known.newest and self.code != known.code
        )


def _release(code: str) -> tuple[list[int], bool]:
    """For comparison: the numbers of a version, and whether it is final. A candidate comes before its release."""
    return [int(number) for number in re.findall(r"\d+", code)[:3]], re.search("[a-z]", code) is None


@cache
def known() -> KnownSchema:
    return KnownSchema(tuple(sql_files.migrations("postgres")), sql_files.functions("postgres"))


async def find(unit: Unit) -> FoundSchema:
    schema = unit.database.schema
    # Asked first: behind a pooler everything is a transaction, and a statement that fails would end it.
    missing, current = await unit.connection.fetchrow(
        "SELECT to_regclass($1) IS NULL, EXISTS (SELECT FROM pg_attribute"
        " WHERE attrelid = to_regclass($1) AND attname = 'functions')",
        f"{schema}.schema_versions",
    )
    if missing:
        return FoundSchema()
    if not current:
        text = f"schema {schema} was made by a rota from before schema version 1, which can't be migrated"
        raise errors.StoreError(f"{text}; drop it, or name another with ?schema= in the address")
    row = await unit.connection.fetchrow(
        f"SELECT version, max(works_with) OVER (), functions, code FROM {schema}.schema_versions "  # noqa: S608
        "ORDER BY version DESC LIMIT 1"
    )
    return FoundSchema(*row) if row else FoundSchema()


async def check(unit: Unit, known: KnownSchema) -> None:
    """Functions are not checked here: within one schema version they have the same meaning in every release."""
    found = await find(unit)
    if not found.fits(known):
        raise errors.SchemaTooNew(found.version, known.newest)
    if found.version < known.newest:
        raise errors.SchemaMissing(found.version, known.newest)
    if await unit.connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{unit.database.schema}.{MARKER}"):
        raise errors.StoreError(f"{unit.database.place} is {UNFINISHED}")


async def migrate(database: Database, known: KnownSchema, now: Instant, chance: Chance, tell: Tell) -> tuple[int, int]:
    """Applies missing steps and functions, all or nothing. A second migrator waits and finds nothing left to do."""
    onlooker = Onlooker(database, tell)
    end, pause = database.clock.monotonic() + LONGEST_WAIT, FIRST_PAUSE
    while True:
        try:
            async with database.unhurried() as unit:
                if (found := await _reachable(unit, known)).lacks(known):
                    process = await unit.connection.fetchval("SELECT pg_backend_pid()")
                    async with onlooker.watching(process):
                        return await _migrate(unit, known, now)
                return found.version, found.version
        except (Blocked, LockedUp):
            if database.clock.monotonic() + pause > end:
                raise StoreUnavailable(
                    f"{database.place}: the schema stays as it was: for {LONGEST_WAIT:.0f} s the migration "
                    f"{onlooker.last}; run `rota migrate` again when that has ended"
                ) from None
        await asyncio.sleep(pause * (0.5 + chance.random() / 2))
        pause = min(2 * pause, LONGEST_PAUSE)


async def _reachable(unit: Unit, known: KnownSchema) -> FoundSchema:
    found = await find(unit)
    if not found.fits(known):
        raise errors.SchemaTooNew(found.version, known.newest)
    return found


async def _migrate(unit: Unit, known: KnownSchema, now: Instant) -> tuple[int, int]:
    # Migrators wait for each other, and no other transaction waits behind them: so that may take its time.
    await unit.connection.execute(f"SET LOCAL lock_timeout = '{LONGEST_WAIT:.0f}s'")
    await unit.connection.execute("SELECT pg_advisory_xact_lock($1)", lock_number(unit.database.schema, "migrate"))
    await unit.connection.execute(f"SET LOCAL lock_timeout = '{LOCK_LIMIT}'")
    await _prepare(unit)
    found = await _reachable(unit, known)
    if found.lacks(known):
        await apply(unit, unit.database.schema, known, found)
        await _record(unit, known, found.version)
    await partitions.make(unit, now)
    return found.version, max(found.version, known.newest)


async def _prepare(unit: Unit) -> None:
    """The schema and its table of versions: a statement that fails for want of them would end the transaction."""
    schema = unit.database.schema
    exists = await unit.connection.fetchval("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema)
    if not exists:  # asked first: IF NOT EXISTS too needs the right to create schemas
        await unit.connection.execute(f"CREATE SCHEMA {schema}")
    await unit.connection.execute(_VERSIONS.format(schema=schema))


async def apply(unit: Unit, schema: str, known: KnownSchema, found: FoundSchema) -> None:
    """Makes the tables of missing steps, the functions, and the rest of these steps."""
    parts = [text.partition(_AFTER_FUNCTIONS) for number, text in known.steps if number > found.version]
    for tables, _, _ in parts:
        await _run(unit, in_schema(tables, schema))
    await functions.install(unit, schema, known.functions, shared=found.shared(known))
    for _, _, rest in parts:
        await _run(unit, in_schema(rest, schema))


async def _run(unit: Unit, text: str) -> None:
    """The driver can't execute a text without statements, and a part of a step may be nothing but comments."""
    await unit.connection.execute(f"SELECT;\n{text}")


async def _record(unit: Unit, known: KnownSchema, after: int) -> None:
    table = f"{unit.database.schema}.schema_versions"
    await unit.connection.executemany(
        f"INSERT INTO {table} (version, works_with) VALUES ($1, $2)",  # noqa: S608
        [(number, works_with(number, text)) for number, text in known.steps if number > after],
    )
    update = f"UPDATE {table} SET functions = $1, code = $2 WHERE version = $3"  # noqa: S608
    await unit.connection.execute(update, known.digest, known.code, known.newest)
