"""Connections that callers bring, each with the face of an asyncpg connection, so that a `Unit` can use it.

asyncpg gets values as they are, with `$1` for the first. All others get them as literals of no type, with `%(p1)s`: the
server then works out the type of each from its place, as it does for asyncpg. SQLAlchemy and Django are asked to run
such texts on the driver that they use. A sync driver has carried a call out when the call returns, so nothing waits.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from rota.config import without_secrets
from rota.errors import InvalidInput

EXPECTED = (
    "a connection of asyncpg, psycopg or psycopg2, a session or connection of SQLAlchemy on one of these, "
    "or Django's connection"
)
IN_TRANSACTION = "a connection inside a transaction"
ROLLED_BACK = "a transaction in which no statement has failed; roll it back first"
Rows = list[Any]  # each read by position
_PLACE = re.compile(r"\$(\d+)")
_FAILED = "25P02"
_STATES_2 = ("IDLE", "ACTIVE", "INTRANS", "INERROR", "UNKNOWN")  # of psycopg2, by number


class Driver(ABC):
    """One connection of a caller."""

    waits: ClassVar[bool]  # its calls are awaited

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @abstractmethod
    async def run(self, text: str, values: Sequence[Any]) -> tuple[Rows, int]:
        """The rows that a statement returns, and how many it touched."""

    @abstractmethod
    def raw(self) -> Any:
        """The connection of asyncpg or psycopg below it; None if it is not open yet."""

    def look(self) -> None:
        """Refuses a connection that is closed, or whose transaction has failed, before anything is sent."""
        state = self._state()
        if state == "CLOSED":
            raise self.wrong("an open connection")
        if state == "INERROR":
            raise self.wrong(ROLLED_BACK)

    def look_again(self) -> None:
        """After the first statement: refuses a connection without a transaction. A connection that begins one by itself
        has begun it by now."""
        if self._state() == "IDLE":
            raise self.wrong(IN_TRANSACTION)

    def _state(self) -> str:
        raw = self.raw()
        if raw is None:
            return "IDLE"
        if library(raw) == "asyncpg":
            return "CLOSED" if raw.is_closed() else "INTRANS" if raw.is_in_transaction() else "IDLE"
        if raw.closed:
            return "CLOSED"
        if library(raw) == "psycopg2":
            return _STATES_2[raw.get_transaction_status()]
        return str(raw.info.transaction_status.name)

    def wrong(self, expected: str) -> InvalidInput:
        return InvalidInput("within", self.connection, expected)

    async def pause(self, seconds: float) -> None:
        if self.waits:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - there is no loop

    # -- the face of asyncpg -----------------------------------------------------------------------------------------
    async def fetch(self, text: str, *values: Any) -> Rows:
        return (await self.run(text, values))[0]

    async def fetchrow(self, text: str, *values: Any) -> Any:
        rows = await self.fetch(text, *values)
        return rows[0] if rows else None

    async def fetchval(self, text: str, *values: Any) -> Any:
        row = await self.fetchrow(text, *values)
        return None if row is None else row[0]

    async def execute(self, text: str, *values: Any) -> str:
        return f"DONE {(await self.run(text, values))[1]}"


class _Asyncpg(Driver):
    waits = True

    def raw(self) -> Any:
        return self.connection

    def look(self) -> None:
        super().look()
        self.look_again()  # it begins no transaction by itself

    async def run(self, text: str, values: Sequence[Any]) -> tuple[Rows, int]:
        return await self.connection.fetch(text, *values), 0

    async def execute(self, text: str, *values: Any) -> str:
        return str(await self.connection.execute(text, *values))


class _PsycopgAsync(Driver):
    waits = True

    def raw(self) -> Any:
        return self.connection

    async def run(self, text: str, values: Sequence[Any]) -> tuple[Rows, int]:
        psycopg = sys.modules["psycopg"]
        # A cursor of our own: the connection's may return rows of another shape.
        async with psycopg.AsyncCursor(self.connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(*percent(text, values))
            return await cursor.fetchall() if cursor.description else [], cursor.rowcount


class _Sync(Driver):
    waits = False

    def raw(self) -> Any:
        return self.connection

    @abstractmethod
    def cursor(self) -> Any: ...

    async def run(self, text: str, values: Sequence[Any]) -> tuple[Rows, int]:
        with self.cursor() as cursor:
            cursor.execute(*percent(text, values))
            return cursor.fetchall() if cursor.description else [], cursor.rowcount


class _Psycopg(_Sync):
    def cursor(self) -> Any:
        psycopg = sys.modules["psycopg"]
        return psycopg.Cursor(self.connection, row_factory=psycopg.rows.tuple_row)


class _Psycopg2(_Sync):
    def cursor(self) -> Any:
        return self.connection.cursor(cursor_factory=sys.modules["psycopg2.extensions"].cursor)


class _Django(_Sync):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        if connection.vendor != "postgresql":
            raise InvalidInput("within", connection.vendor, "Django's connection to PostgreSQL")

    def raw(self) -> Any:
        return self.connection.connection

    def look(self) -> None:
        if self.connection.in_atomic_block and self.connection.needs_rollback:
            raise self.wrong(ROLLED_BACK)
        if not self.connection.in_atomic_block and self.connection.get_autocommit():
            raise self.wrong(f"{IN_TRANSACTION}, such as that of `transaction.atomic()`")
        super().look()

    def wrong(self, expected: str) -> InvalidInput:
        return InvalidInput("within", f"Django's connection {self.connection.alias!r}", expected)

    def cursor(self) -> Any:
        return self.connection.cursor()


class _Alchemy(Driver):
    """A session, or a connection. `_below` is the connection of either."""

    _below: Any = None

    def raw(self) -> Any:
        return self._below.connection.driver_connection if self._below is not None else None

    def _adopt(self, connection: Any) -> None:
        if connection.dialect.name != "postgresql" or connection.dialect.driver not in _STYLES:
            found = f"SQLAlchemy on {connection.dialect.name}+{connection.dialect.driver}"
            raise InvalidInput("within", found, f"SQLAlchemy on PostgreSQL with {', '.join(_STYLES)}")
        self._below = connection
        super().look()

    def look(self) -> None:
        """Nothing to see before the session has its connection: see `_adopt`."""

    def _statement(self, text: str, values: Sequence[Any]) -> tuple[Any, ...]:
        if _STYLES[self._below.dialect.driver]:
            return percent(text, values)
        return (text, tuple(values)) if values else (text,)


class _AlchemyAsync(_Alchemy):
    waits = True

    async def run(self, text: str, values: Sequence[Any]) -> tuple[Rows, int]:
        above = await self.connection.connection() if _is_session(self.connection) else self.connection
        if self._below is None:
            self._adopt(above.sync_connection)
        result = await above.exec_driver_sql(*self._statement(text, values))
        return result.all() if result.returns_rows else [], result.rowcount


class _AlchemySync(_Alchemy):
    waits = False

    async def run(self, text: str, values: Sequence[Any]) -> tuple[Rows, int]:
        if self._below is None:
            self._adopt(self.connection.connection() if _is_session(self.connection) else self.connection)
        result = self._below.exec_driver_sql(*self._statement(text, values))
        return result.all() if result.returns_rows else [], result.rowcount


def _is_session(connection: Any) -> bool:
    return hasattr(connection, "get_bind")


# By the name of SQLAlchemy's driver: whether it takes the form of `percent`.
_STYLES = {"asyncpg": False, "psycopg": True, "psycopg_async": True, "psycopg2": True}
_DRIVERS: dict[tuple[str, str], type[Driver]] = {
    ("asyncpg", "Connection"): _Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): _Asyncpg,
    ("psycopg", "AsyncConnection"): _PsycopgAsync,
    ("psycopg", "Connection"): _Psycopg,
    ("psycopg2", "connection"): _Psycopg2,
    ("sqlalchemy", "AsyncSession"): _AlchemyAsync,
    ("sqlalchemy", "async_scoped_session"): _AlchemyAsync,
    ("sqlalchemy", "AsyncConnection"): _AlchemyAsync,
    ("sqlalchemy", "Session"): _AlchemySync,
    ("sqlalchemy", "scoped_session"): _AlchemySync,
    ("sqlalchemy", "Connection"): _AlchemySync,
    ("django", "BaseDatabaseWrapper"): _Django,
    ("django", "ConnectionProxy"): _Django,
}


def driver(connection: Any, waits: bool) -> Driver:
    """`waits`: the caller awaits the order."""
    for kind in type(connection).__mro__:
        found = _DRIVERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if found is None:
            continue
        if found.waits != waits:
            this, other = ("an async one", "the ..._sync call") if waits else ("a sync one", "the call with await")
            raise InvalidInput("within", connection, f"{EXPECTED}: {this}; for the others there is {other}")
        return found(connection)
    raise InvalidInput("within", _shown(connection), EXPECTED)


def _shown(connection: Any) -> str:
    """An address may have a password in it, and so may any other thing."""
    return without_secrets(connection) if isinstance(connection, str) else f"a {type(connection).__name__}"


def library(connection: Any) -> str:
    known = {"asyncpg", "psycopg", "psycopg2"}
    modules = (kind.__module__.partition(".")[0] for kind in type(connection).__mro__)
    return next((module for module in modules if module in known), "")


def failed_before(error: BaseException) -> bool:
    """The statement was refused because an earlier one of its transaction had failed."""
    causes = (error, getattr(error, "orig", None), error.__cause__)
    return any(_FAILED in (getattr(one, "sqlstate", None), getattr(one, "pgcode", None)) for one in causes)


def unusable(error: BaseException) -> bool:
    """SQLAlchemy's word for a session or connection that can't run anything: closed, unbound, to be rolled back."""
    return any(kind.__name__ == "InvalidRequestError" for kind in type(error).__mro__)


def percent(text: str, values: Sequence[Any]) -> tuple[str, Mapping[str, Any] | None]:
    if not values:
        return text, None
    return _percent_text(text), {f"p{place}": literal(value) for place, value in enumerate(values, 1)}


@lru_cache(maxsize=100)
def _percent_text(text: str) -> str:
    return _PLACE.sub(r"%(p\1)s", text.replace("%", "%%"))


def literal(value: Any) -> str | None:
    """A value as PostgreSQL reads it, whatever the type of its place is."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "{" + ",".join("NULL" if one is None else _element(literal(one)) for one in value) + "}"
    return repr(value)


def _element(text: str | None) -> str:
    assert text is not None
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
