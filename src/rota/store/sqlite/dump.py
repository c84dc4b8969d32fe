"""A SQLite store as one side of a copy (`store.copy`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import apsw
import msgspec

from rota.clock import SystemClock
from rota.errors import InvalidInput, RotaError, StoreError
from rota.model.rank import AGEING_STEP
from rota.model.requirements import read_requirements
from rota.store.carriers.at_once import run_at_once
from rota.store.copy import LISTS, MARKER, ONE_SIDED, TABLES, Key, Place, Row, Side
from rota.store.sqlite.database import Database, translated

# The rows of tables that are not simply a table, and the order in which they are read. An attempt that ended its job
# is part of the job.
_LAST = "a.job = j.seq AND a.fence = j.fence AND a.finished_at = j.finished_at"
_ROWS = {
    "live": ("jobs j CROSS JOIN payloads p ON p.seq = j.seq WHERE j.finished_at IS NULL", ("j.seq",)),
    "ended": (
        f"jobs j CROSS JOIN payloads p ON p.seq = j.seq LEFT JOIN attempts a ON {_LAST}"
        " WHERE j.finished_at IS NOT NULL",
        ("j.seq",),
    ),
    "attempts": (
        "attempts t CROSS JOIN jobs j ON j.seq = t.job"
        " WHERE NOT (t.fence = j.fence AND t.finished_at IS j.finished_at)",
        ("t.job", "t.fence"),
    ),
    "output": ("output t CROSS JOIN jobs j ON j.seq = t.job WHERE true", ("t.job", "t.fence", "t.number")),
    "progress": ("progress t CROSS JOIN jobs j ON j.seq = t.job WHERE true", ("t.job",)),
    "checkpoints": ("checkpoints t CROSS JOIN jobs j ON j.seq = t.job WHERE true", ("t.job",)),
    # Gates that jobs which run alone have closed for themselves are closed anew when they run.
    "gates": ("gates t WHERE t.job IS NULL", ("t.id",)),
}
_OF_JOBS = ("attempts", "output", "progress", "checkpoints")
_ENDING = ("node", "outcome", "exit_code", "error", "result", "usage")
# A job that waits to be alone, or for another to have been alone, is ready: the gates for that are not copied.
_FREED = "j.held_by LIKE 'a:%' OR j.held_by IN (SELECT 'g:' || id FROM gates WHERE job IS NOT NULL)"
_LIVE = {
    "state": f"iif({_FREED}, 'ready', j.state)",
    "held_by": f"iif({_FREED}, NULL, j.held_by)",
    "reason": f"iif({_FREED}, NULL, j.reason)",
}


class SqliteSide(Side):
    def __init__(self, path: str, name: str) -> None:
        self.name, self._path = name, path
        self._db = Database(path, SystemClock(), AGEING_STEP)
        self._reading: Database | None = None  # with the snapshot
        self._types: dict[str, dict[str, str]] = {}
        self._payload = frozenset(name for _, name, *_ in self._db.connection.execute("PRAGMA table_info(payloads)"))

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
        self._db.close()

    # -- reading -----------------------------------------------------------------------------------------------------
    async def columns(self, table: str) -> list[str]:
        return [one for one in self._declared(table) if one not in ONE_SIDED.get(table, ())]

    def _declared(self, table: str) -> dict[str, str]:
        """The columns with their types."""
        if table not in self._types:
            tables = {"live": ("jobs", "payloads"), "ended": ("jobs", "payloads")}.get(table, (table,))
            found = {
                name: kind
                for physical in tables
                for _, name, kind, *_ in self._db.connection.execute(f"PRAGMA table_info({physical})")
            }
            ending = {"exit_code": "INTEGER"} | dict.fromkeys(("outcome", "error", "result", "usage"), "TEXT")
            self._types[table] = found | (ending if table == "ended" else {})
        return self._types[table]

    async def snapshot(self) -> None:
        if self._reading is not None:
            self._reading.close()
        self._reading = Database(self._path, SystemClock(), AGEING_STEP, writable=False)
        with translated(self._path):
            self._reading.connection.execute("BEGIN").fetchall()
            self._reading.connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()

    async def rows(self, table: str, columns: Sequence[str], after: Key | None) -> AsyncIterator[tuple[Key, Row]]:
        assert self._reading is not None
        source, keys = self._source(table)
        types = self._declared(table)
        picked = ", ".join((*keys, *(self._expression(table, one, types[one]) for one in columns)))
        beyond = f"AND ({', '.join(keys)}) > ({', '.join('?' * len(keys))})" if after is not None else ""
        query = f"SELECT {picked} FROM {source} {beyond} ORDER BY {', '.join(keys)}"  # noqa: S608
        texts = [types[one] == "TEXT" for one in columns]
        lists = [(table, one) in LISTS for one in columns]
        with translated(self._path):
            for row in self._reading.connection.execute(query, after or ()):
                given = row[len(keys) :]
                key = [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in row[: len(keys)]]
                yield key, tuple(map(_read, given, texts, lists))

    def _source(self, table: str) -> tuple[str, tuple[str, ...]]:
        if table in _ROWS:
            return _ROWS[table]
        info = self._db.connection.execute(f"PRAGMA table_info({table})")
        keys = sorted((place, name) for _, name, _, _, _, place in info if place)
        return f"{table} t WHERE true", tuple(f"t.{name}" for _, name in keys)

    def _expression(self, table: str, column: str, kind: str) -> str:
        """Texts are read as bytes: one that is not UTF-8 must not keep the row from being read."""
        if table in _OF_JOBS and column == "job":
            value = "j.id"
        elif table == "ended" and column in _ENDING:
            value = f"a.{column}"
        elif table == "live":
            value = _LIVE.get(column, column if column == "key" else f"{self._alias(column)}.{column}")
        elif table == "ended":
            value = f"{self._alias(column)}.{column}"
        else:
            value = f"t.{column}"
        return f"CAST({value} AS BLOB)" if kind == "TEXT" else value

    def _alias(self, column: str) -> str:
        return "p" if column in self._payload else "j"

    async def counts(self) -> dict[str, int]:
        with translated(self._path):
            return {
                table: self._db.connection.execute(f"SELECT count(*) FROM {self._source(table)[0]}").get  # noqa: S608
                for table in TABLES
            }

    # -- writing -----------------------------------------------------------------------------------------------------
    async def begun(self) -> str | None:
        with translated(self._path):
            if not self._db.connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (MARKER,)).get:
                return None
            found: str = self._db.connection.execute(f"SELECT place FROM {MARKER} WHERE name = ''").get  # noqa: S608
            return found

    async def begin(self, source: str) -> None:
        def write(db: Database) -> None:
            run_at_once(self.check_target(source))
            _begin(db.connection, source)

        self._db.write(write)

    async def places(self) -> dict[str, Place]:
        rows = self._db.connection.execute(f"SELECT name, place FROM {MARKER} WHERE name <> ''")  # noqa: S608
        return {name: msgspec.json.decode(place, type=Place) for name, place in rows}

    async def put(self, table: str, columns: Sequence[str], rows: Sequence[Row], place: Place) -> None:
        def write(db: Database) -> None:
            for row in rows:
                try:
                    self._insert(db.connection, table, dict(zip(columns, row, strict=True)))
                except (apsw.Error, RotaError) as error:
                    raise StoreError(f"{self.name}: a row of {table!r} is refused ({row[0]}): {error}") from None
            _mark(db.connection, table, msgspec.json.encode(place).decode())

        self._db.write(write)

    def _insert(self, connection: apsw.Connection, table: str, row: dict[str, Any]) -> None:
        if table in ("live", "ended"):
            _insert_job(connection, row, self._payload, ended=table == "ended")
        else:
            _insert_other(connection, table, row)

    async def finish(self) -> None:
        self._db.write(lambda db: db.connection.execute(f"DROP TABLE {MARKER}").fetchall())


def _read(value: Any, text: bool, is_list: bool) -> Any:
    if text and value is not None:
        value = bytes(value).decode("utf-8", "replace")
    if is_list:
        return _list(value)
    return value


def _list(text: str) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        return []


def _begin(connection: apsw.Connection, source: str) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {MARKER}").fetchall()
    connection.execute(f"CREATE TABLE {MARKER} (name TEXT PRIMARY KEY, place TEXT NOT NULL) STRICT").fetchall()
    _mark(connection, "", source)
    physical = {"live": "jobs", "ended": "payloads"}
    for table in TABLES:
        connection.execute(f"DELETE FROM {physical.get(table, table)}").fetchall()  # noqa: S608


def _mark(connection: apsw.Connection, name: str, place: str) -> None:
    connection.execute(f"INSERT OR REPLACE INTO {MARKER} VALUES (?, ?)", (name, place)).fetchall()  # noqa: S608


def _insert_other(connection: apsw.Connection, table: str, row: dict[str, Any]) -> None:
    if table in _OF_JOBS:
        job = row.pop("job")
        names = ", ".join(row)
        connection.execute(
            f"INSERT INTO {table} (job, {names}) SELECT seq, {', '.join('?' * len(row))} FROM jobs WHERE id = ?",  # noqa: S608
            (*row.values(), job),
        ).fetchall()
    else:
        values = [msgspec.json.encode(one).decode() if isinstance(one, list) else one for one in row.values()]
        _insert_plainly(connection, table, dict(zip(row, values, strict=True)))


def _insert_plainly(connection: apsw.Connection, table: str, row: dict[str, Any]) -> None:
    places = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", tuple(row.values())).fetchall()  # noqa: S608


def _insert_job(connection: apsw.Connection, row: dict[str, Any], payloads: frozenset[str], ended: bool) -> None:
    ending = {name: row.pop(name) for name in _ENDING} if ended else {}
    if ended:  # a replay goes by these
        count = "SELECT count(*) FROM edges WHERE {} = ?"
        row["parents"] = connection.execute(count.format("child"), (row["id"],)).get
        row["tied"] = min(1, connection.execute(count.format("parent"), (row["id"],)).get)
        row["special"] = int(_special(row["requirements"]))
    _insert_plainly(connection, "jobs", {name: value for name, value in row.items() if name not in payloads})
    seq = connection.last_insert_rowid()
    _insert_plainly(connection, "payloads", {"seq": seq} | {k: v for k, v in row.items() if k in payloads})
    if ending.get("outcome") is not None:
        started = row["finished_at"] if row["started_at"] is None else row["started_at"]
        times = {"number": row["tries"], "started_at": started, "finished_at": row["finished_at"]}
        _insert_plainly(connection, "attempts", {"job": seq, "fence": row["fence"]} | times | ending)


def _special(requirements: str | None) -> bool:
    try:
        return requirements is not None and read_requirements(requirements).special
    except InvalidInput:
        return False
