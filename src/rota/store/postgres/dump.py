"""A PostgreSQL store as one side of a copy (`store.copy`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import msgspec

from rota.clock import SystemClock
from rota.errors import InvalidInput, StoreError
from rota.model.gates import Match
from rota.model.rank import AGEING_STEP
from rota.store.copy import MARKER, ONE_SIDED, TABLES, Key, Place, Row, Side
from rota.store.postgres.address import address
from rota.store.postgres.database import Database
from rota.store.postgres.encoding import clean
from rota.store.postgres.errors import translated

# The settings of a session that reads for as long as it takes.
_UNHURRIED = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '10s'"
AT_A_TIME = 50  # rows that are fetched together: some are large
_PHYSICAL = {"live": "jobs", "ended": "history"}
_EXISTS = (
    "(EXISTS (SELECT FROM {schema}.jobs j WHERE j.id = t.job)"
    " OR EXISTS (SELECT FROM {schema}.history h WHERE h.id = t.job))"
)
# The rows of tables that are not simply a table, and the order in which they are read.
_ROWS = {
    "live": ("{schema}.jobs t WHERE true", ("id",)),
    "ended": ("{schema}.history t WHERE true", ("id",)),
    "attempts": ("{schema}.attempts t WHERE " + _EXISTS, ("job", "fence")),
    "output": ("{schema}.output t WHERE " + _EXISTS, ("job", "fence", "number")),
    "segments": ("{schema}.segments t WHERE true", ("id",)),
    "progress": ("{schema}.progress t WHERE " + _EXISTS, ("job",)),
    "checkpoints": ("{schema}.checkpoints t WHERE " + _EXISTS, ("job",)),
    # Gates that jobs which run alone have closed for themselves are closed anew when they run.
    "gates": ("{schema}.gates t WHERE t.job IS NULL", ("id",)),
    "starts": ("(SELECT DISTINCT * FROM {schema}.starts) t WHERE true", ("owner", "key", "until", "job", "fence")),
    "settling": ("(SELECT DISTINCT job FROM {schema}.settling) t WHERE true", ("job",)),
    "freed": ("(SELECT DISTINCT held_by FROM {schema}.freed) t WHERE true", ("held_by",)),
    "outbox": ("{schema}.outbox t WHERE true", ("seq",)),
}
# A job that waits to be alone, or for another to have been alone, is ready: the gates for that are not copied.
_FREED = "(t.held_by LIKE 'a:%' OR t.held_by IN (SELECT 'g:' || g.id FROM {schema}.gates g WHERE g.job IS NOT NULL))"
_LIVE = {
    "state": f"CASE WHEN {_FREED} THEN 'ready' ELSE t.state END",
    "held_by": f"CASE WHEN {_FREED} THEN NULL ELSE t.held_by END",
    "reason": f"CASE WHEN {_FREED} THEN NULL ELSE t.reason END",
}


class PostgresSide(Side):
    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._database = Database(address(url), SystemClock(), AGEING_STEP, server_time=True)
        self._schema = self._database.schema
        self._writing: asyncpg.Connection | None = None
        self._reading: asyncpg.Connection | None = None  # with the snapshot
        self._types: dict[str, dict[str, str]] = {}

    async def close(self) -> None:
        for connection in (self._reading, self._writing):
            if connection is not None:
                connection.terminate()
        await self._database.close()

    async def _own(self) -> asyncpg.Connection:
        if self._writing is None:
            self._writing = await self._connect()
        return self._writing

    async def _connect(self) -> asyncpg.Connection:
        with translated(self.name):
            connection = await self._database.connect({})
            await connection.execute(_UNHURRIED)
            return connection

    # -- reading -----------------------------------------------------------------------------------------------------
    async def columns(self, table: str) -> list[str]:
        return [one for one in await self._declared(table) if one not in ONE_SIDED.get(table, ())]

    async def _declared(self, table: str) -> dict[str, str]:
        """The columns with their types."""
        if table not in self._types:
            query = (
                "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute"
                " WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
            )
            rows = await (await self._own()).fetch(query, f"{self._schema}.{_PHYSICAL.get(table, table)}")
            self._types[table] = dict(map(tuple, rows))
        return self._types[table]

    async def snapshot(self) -> None:
        await self._number_events()
        if self._reading is not None:
            self._reading.terminate()
        self._reading = await self._connect()
        await self._reading.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        await self._reading.execute("SELECT 1")  # the snapshot is that of the first statement

    async def _number_events(self) -> None:
        """Events get their positions from their first reader; that is this copy."""
        text, _ = self._database.queries["number_events"]
        while await (await self._own()).execute(text) != "UPDATE 0":
            pass

    async def rows(self, table: str, columns: Sequence[str], after: Key | None) -> AsyncIterator[tuple[Key, Row]]:
        assert self._reading is not None
        types = await self._declared(table)
        source, keys = await self._source(table)
        picked = [_text(f"t.{key}", types[key]) for key in keys]
        picked += [_text(self._expression(table, one), types[one]) for one in columns]
        where = ""
        if after is not None:
            places = ", ".join(f"${place}::text::{types[key]}" for place, key in enumerate(keys, 1))
            where = f"AND ({', '.join(f't.{key}' for key in keys)}) > ({places})"
        order = ", ".join(f"t.{key}" for key in keys)
        query = f"SELECT {', '.join(picked)} FROM {source} {where} ORDER BY {order}"  # noqa: S608
        with translated(self.name):
            async for row in self._reading.cursor(query, *map(str, after or ()), prefetch=AT_A_TIME):
                found = tuple(int(value) if isinstance(value, bool) else value for value in row)
                yield list(found[: len(keys)]), found[len(keys) :]

    async def _source(self, table: str) -> tuple[str, Sequence[str]]:
        if table in _ROWS:
            source, keys = _ROWS[table]
            return source.format(schema=self._schema), keys
        query = (
            "SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k(number, place)"
            " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number"
            " WHERE i.indrelid = $1::regclass AND i.indisprimary ORDER BY k.place"
        )
        rows = await (await self._own()).fetch(query, f"{self._schema}.{table}")
        return f"{self._schema}.{table} t WHERE true", [row[0] for row in rows]

    def _expression(self, table: str, column: str) -> str:
        if table == "live":
            return _LIVE.get(column, f"t.{column}").format(schema=self._schema)
        if table == "ended" and column == "node":  # of the attempt that ended it, if one did
            return "CASE WHEN t.outcome IS NOT NULL THEN coalesce(t.node, '') END"
        return f"t.{column}"

    async def counts(self) -> dict[str, int]:
        with translated(self.name):
            connection = await self._own()
            return {
                table: await connection.fetchval(f"SELECT count(*) FROM {(await self._source(table))[0]}")  # noqa: S608
                for table in TABLES
            }

    # -- writing -----------------------------------------------------------------------------------------------------
    @property
    def _marker(self) -> str:
        return f"{self._schema}.{MARKER}"

    async def begun(self) -> str | None:
        connection = await self._own()
        if await connection.fetchval("SELECT to_regclass($1)", self._marker) is None:
            return None
        found: str = await connection.fetchval(f"SELECT place FROM {self._marker} WHERE name = ''")  # noqa: S608
        return found

    async def begin(self, source: str) -> None:
        connection = await self._own()
        if self._reading is not None:  # its locks would be in the way
            await self._reading.close()
            self._reading = None
        tables = ", ".join(f"{self._schema}.{_PHYSICAL.get(table, table)}" for table in TABLES)
        with translated(self.name):
            async with connection.transaction():
                await connection.execute(f"LOCK TABLE {tables}")
                await self.check_target(source)
                await connection.execute(f"DROP TABLE IF EXISTS {self._marker}")
                await connection.execute(f"CREATE TABLE {self._marker} (name text PRIMARY KEY, place text NOT NULL)")
                await connection.execute(f"TRUNCATE {tables}")
                await self._mark(connection, "", source)

    async def places(self) -> dict[str, Place]:
        rows = await (await self._own()).fetch(f"SELECT name, place FROM {self._marker} WHERE name <> ''")  # noqa: S608
        return {name: msgspec.json.decode(place, type=Place) for name, place in rows}

    async def put(self, table: str, columns: Sequence[str], rows: Sequence[Row], place: Place) -> None:
        connection = await self._own()
        types = await self._declared(table)
        names, made = _completed(table, columns, rows)
        records = [tuple(_native(value, types[name]) for name, value in zip(names, row, strict=True)) for row in made]
        try:
            await self._write(connection, table, names, records, place)
        except (InvalidInput, StoreError) as error:
            for row, record in zip(rows, records, strict=True):
                await self._try(connection, table, names, record, row[0])
            raise StoreError(f"{self.name}: rows of {table!r} are refused: {error}") from None

    async def _write(
        self, connection: asyncpg.Connection, table: str, names: Sequence[str], records: Sequence[Row], place: Place
    ) -> None:
        with translated(self.name):
            async with connection.transaction():
                await connection.copy_records_to_table(
                    _PHYSICAL.get(table, table), schema_name=self._schema, columns=names, records=records
                )
                await self._mark(connection, table, msgspec.json.encode(place).decode())

    async def _try(
        self, connection: asyncpg.Connection, table: str, names: Sequence[str], record: Row, key: object
    ) -> None:
        """Names the row that was refused; writes nothing."""
        transaction = connection.transaction()
        await transaction.start()
        try:
            with translated(self.name):
                await connection.copy_records_to_table(
                    _PHYSICAL.get(table, table), schema_name=self._schema, columns=names, records=[record]
                )
        except (InvalidInput, StoreError) as error:
            raise StoreError(f"{self.name}: a row of {table!r} is refused ({key}): {error}") from None
        finally:
            await transaction.rollback()

    async def _mark(self, connection: asyncpg.Connection, name: str, place: str) -> None:
        await connection.execute(
            f"INSERT INTO {self._marker} VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET place = excluded.place",  # noqa: S608
            name, place,
        )  # fmt: skip

    async def finish(self) -> None:
        connection = await self._own()
        last = (
            f"SELECT setval('{self._schema}.outbox_positions', max(seq)) FROM {self._schema}.outbox HAVING max(seq) > 0"  # noqa: S608
        )
        with translated(self.name):
            async with connection.transaction():
                await connection.execute(last)
                await connection.execute(f"DROP TABLE {self._marker}")
            await connection.execute(f"ANALYZE {self._schema}.jobs")

    def fit(self, row: Row) -> Row:
        return tuple(clean(value) if isinstance(value, str) else value for value in row)


def _text(expression: str, kind: str) -> str:
    return f"{expression}::text" if kind == "uuid" else expression


def _native(value: Any, kind: str) -> Any:
    return bool(value) if kind == "boolean" and value is not None else value


def _completed(table: str, columns: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[Row]]:
    """The rows with the columns that only PostgreSQL has."""
    place = {name: number for number, name in enumerate(columns)}
    match table:
        case "ended":
            return [*columns, "lasting"], [(*row, row[place["state"]] == "failed") for row in rows]
        case "edges":
            now = SystemClock().now()
            return [*columns, "at"], [(*row, now) for row in rows]
        case "gates":
            return [*columns, "task_like"], [(*row, Match(task=row[place["task"]]).like) for row in rows]
    return list(columns), list(rows)
