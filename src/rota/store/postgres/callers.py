"""Orders inside a caller's own transaction: they exist if and when that commits. The caller brings the connection: of
asyncpg, of psycopg 3 (sync or async), or a session or connection of SQLAlchemy (sync or async) on one of these. One
call of the database function `accept` does all the work, so the only difference between drivers is how they pass
parameters. Errors of the driver reach the caller as they are: it is the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rota.errors import InvalidInput, KeyConflict, NotFound
from rota.model.job import NewJob, Submitted
from rota.model.principal import Principal
from rota.model.rank import AGEING_STEP
from rota.model.times import Duration
from rota.store.postgres.wire import read_answer, stray, wire

_EXPECTED = "a connection of asyncpg or psycopg 3, or a session or connection of SQLAlchemy"
_NAMES = ("owner", "jobs", "life", "step", "ring")
_CASTS = ("text", "jsonb", "bigint", "bigint", "boolean")


class CallerOrder:
    """One order, ready to be written through any of these connections."""

    def __init__(self, schema: str, who: Principal, jobs: Sequence[NewJob], key_life: Duration, ring: bool) -> None:
        if missing := stray(jobs):
            raise missing
        self._schema = schema
        # NULL instead of false: inside a caller's transaction, without a notification.
        self._values = (who.user, wire(jobs), key_life, AGEING_STEP, ring or None)

    async def give_to(self, connection: Any) -> list[Submitted]:
        """Writes the order through an async connection."""
        if _is(connection, "asyncpg"):
            if not connection.is_in_transaction():
                raise InvalidInput("within", connection, "a connection inside a transaction")
            return _answer(await connection.fetchval(self._text([f"${n}" for n in range(1, 6)]), *self._values))
        if _is(connection, "psycopg") and _async(connection):
            _check_psycopg(connection)
            cursor = await connection.execute(self._text(["%s"] * 5), self._values)
            return _answer((await cursor.fetchone())[0])
        if _is(connection, "sqlalchemy") and _async(connection):
            result = await connection.execute(*self._statement())
            return _answer(result.scalar())
        raise InvalidInput("within", connection, f"{_EXPECTED}, an async one; for the others there is submit_sync")

    def give_to_sync(self, connection: Any) -> list[Submitted]:
        if _is(connection, "psycopg") and not _async(connection):
            _check_psycopg(connection)
            return _answer(connection.execute(self._text(["%s"] * 5), self._values).fetchone()[0])
        if _is(connection, "sqlalchemy") and not _async(connection):
            return _answer(connection.execute(*self._statement()).scalar())
        raise InvalidInput("within", connection, f"{_EXPECTED}, a sync one; for the others there is submit")

    def _text(self, places: Sequence[str]) -> str:
        owner, jobs, life, step, ring = (f"CAST({place} AS {kind})" for place, kind in zip(places, _CASTS, strict=True))
        return f"SELECT {self._schema}.accept({owner}, {jobs}, {life}, {step}, NULL, {ring})"

    def _statement(self) -> tuple[Any, Mapping[str, Any]]:
        from sqlalchemy import text

        return text(self._text([f":{name}" for name in _NAMES])), dict(zip(_NAMES, self._values, strict=True))


def _answer(found: Any) -> list[Submitted]:
    answer, _ = read_answer(found)
    if isinstance(answer, KeyConflict | NotFound):
        raise answer
    return answer


def _is(connection: Any, library: str) -> bool:
    return any(kind.__module__.partition(".")[0] == library for kind in type(connection).__mro__)


def _async(connection: Any) -> bool:
    return any("async" in kind.__name__.lower() for kind in type(connection).__mro__)


def _check_psycopg(connection: Any) -> None:
    """Refuses a connection in autocommit mode without an open transaction."""
    if connection.autocommit and connection.info.transaction_status.name == "IDLE":
        raise InvalidInput("within", connection, "a connection inside a transaction")
