"""One unit of work of any store: named queries in one transaction.

Carriers are written once, as coroutines over a `Unit`. The queries that they name are in `sql/shared` if both stores
say the same, and otherwise in one `.sql` file per store, with the same parameters and the same columns. On PostgreSQL a
statement is a round trip, and a carrier waits for it. On SQLite it has been carried out when the call returns, so the
carrier never waits (`sqlite.unit`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from rota.model.times import Duration, Instant
from rota.store.values import Topic

Row = Any  # read by position
Columns = Mapping[str, Sequence[Any]]


class Unit(Protocol):
    """A query takes lists as values. `columns` are the values of many rows, column by column: queries of PostgreSQL
    find each column as an array under its name, queries of SQLite find the rows as the JSON list `:rows` of objects."""

    topics: set[Topic]  # to be announced once the unit is committed

    @property
    def now(self) -> Instant | None:
        """The parameter `now` of queries. None: the query looks at the server's clock."""

    @property
    def ageing_step(self) -> Duration: ...

    async def begin(self) -> None:
        """From here on all statements are one transaction. A unit of one statement need not begin one."""

    async def rows(self, name: str, columns: Columns | None = None, /, **values: Any) -> list[Row]: ...

    async def value(self, name: str, columns: Columns | None = None, /, **values: Any) -> Any:
        """The first column of the first row, or None."""

    async def run(self, name: str, columns: Columns | None = None, /, **values: Any) -> int:
        """Carries out a change; returns how many rows it touched."""

    async def emit(self, kind: str, owner: str, subject: str, data: dict[str, Any] | None = None) -> None:
        """Appends to the outbox, in this transaction."""

    async def emit_for_jobs(self, kind: str, jobs: Sequence[tuple[str, str, dict[str, Any]]]) -> None:
        """Appends one event per (job, its owner, data)."""

    async def settle(self, ended: Collection[str], /) -> object:
        """Jobs have ended: settles their children. SQLite does that before each commit, and nothing here."""

    async def hand_on(self) -> None:
        """Keys may have become free: releases jobs that wait for them. SQLite does that before each commit too."""

    def ids(self, texts: Iterable[str]) -> list[str]:
        """Those that can be ids here: PostgreSQL would refuse a query with another text."""

    def text(self, text: str | None) -> str | None:
        """A text that a person wrote, as the store can keep it."""
