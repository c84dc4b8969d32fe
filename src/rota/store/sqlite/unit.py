"""A transaction of SQLite as the `Unit` that shared carriers take.

A carrier is a coroutine, but here every statement has been carried out when its call returns. So the coroutine never
waits, and one step runs it to its end, in the thread and transaction of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from rota.model.times import Duration, Instant
from rota.store.carriers.at_once import run_at_once
from rota.store.carriers.unit import Columns, Row
from rota.store.sqlite.database import Database, encode

T = TypeVar("T")
P = ParamSpec("P")


class SqliteUnit:
    def __init__(self, db: Database) -> None:
        self.db, self.topics = db, db.topics

    @property
    def now(self) -> Instant:
        return self.db.now()

    @property
    def ageing_step(self) -> Duration:
        return self.db.ageing_step

    async def begin(self) -> None:
        """Nothing to do: all calls are transactions."""

    async def rows(self, name: str, columns: Columns | None = None, /, **values: Any) -> list[Row]:
        return self.db.rows(name, **_encoded(columns, values))

    async def value(self, name: str, columns: Columns | None = None, /, **values: Any) -> Any:
        return self.db.value(name, **_encoded(columns, values))

    async def run(self, name: str, columns: Columns | None = None, /, **values: Any) -> int:
        return self.db.run(name, **_encoded(columns, values))

    async def emit(self, kind: str, owner: str, subject: str, data: dict[str, Any] | None = None) -> None:
        self.db.emit(kind, owner, subject, data)

    async def emit_for_jobs(self, kind: str, jobs: Sequence[tuple[str, str, dict[str, Any]]]) -> None:
        self.db.emit_for_jobs(kind, [(job, data) for job, _, data in jobs])

    async def settle(self, ended: Collection[str]) -> None:
        """Nothing to do: see `calls`."""

    async def hand_on(self) -> None:
        """Nothing to do: see `calls`."""

    def ids(self, texts: Iterable[str]) -> list[str]:
        return list(texts)

    def text(self, text: str | None) -> str | None:
        return text


def _encoded(columns: Columns | None, values: dict[str, Any]) -> dict[str, Any]:
    if columns is not None:
        values["rows"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {key: encode(one).decode() if isinstance(one, (list, tuple)) else one for key, one in values.items()}


def at_once(
    carrier: Callable[Concatenate[SqliteUnit, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Database, P], T]:
    """A plain function that runs the whole coroutine."""

    @wraps(carrier)
    def carry_out(db: Database, /, *args: P.args, **named: P.kwargs) -> T:
        return run_at_once(carrier(SqliteUnit(db), *args, **named))

    return carry_out
