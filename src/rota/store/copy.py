"""Copies all rows of one store to an empty other one, of any engine.

Each side gives and takes the rows of the same tables (`TABLES`) in the same form: texts, numbers, bytes and lists. Live
and ended jobs are tables of their own, and an ended job carries its last attempt, as on PostgreSQL. The columns of a
table are those that both schemas have. So a new column is copied without a word here; `ONE_SIDED` names the columns
that only one engine has.

The source is read in one snapshot. Rows go in batches; each batch and the place it reached are one transaction of the
target. A copy that was killed goes on there. Until the end the target has the table `copying`, and no node or client
opens it. In the end both sides are read again and compared, row by row as a sum of hashes. A resumed copy may have
mixed two states of its source, if that was used in between: then the comparison fails, and all is copied anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from rota.errors import InvalidInput, StoreError, StoreUnavailable

Row = tuple[Any, ...]
Key = list[Any]  # the place of a row in its table, for one engine

MARKER = "copying"
UNFINISHED = "an unfinished copy of another store; run the same `rota store copy` again to finish it"
# A batch is a transaction of the target.
MOST_ROWS, MOST_BYTES = 500, 4 << 20
_MODULUS = 1 << 128
_NAMING = ("id", "job", "child", "key", "name", "owner")

# Edges come before jobs: on SQLite a job counts its parents.
TABLES = (
    "tasks", "users", "access_keys", "queues", "flows", "limits", "calendars", "schedules", "fires", "skips",
    "workflows", "members", "edges", "gates", "keys", "live", "ended", "attempts", "output", "segments", "purged",
    "progress", "checkpoints", "wanted", "starts", "settling", "freed", "outbox", "audit", "tallies", "tallied",
    "repeats", "locks",
)  # fmt: skip
# Not copied: the nodes of the source, which have ended, and what belongs to their running attempts or to the server.
# The secrets of the target are its own. Whoever watches the source does not watch the target.
LEFT_OUT = frozenset(
    {"nodes", "watches", "secrets", "leader", "slots", "boot", "schema_versions", "sqlite_sequence", MARKER}
)
# Columns that one engine has and the other does without.
ONE_SIDED = {
    "live": {"seq", "claimed_at", "finished_at", "skip_cause", "error_group"},
    "ended": {"seq", "claimed_at", "lasting", "tied", "parents", "waits", "special", "level", "own_step", "held_by"},
    "attempts": {"lasting"},
    "output": {"lasting"},
    "edges": {"at"},
    "gates": {"swept", "task_like", "claims"},
    "settling": {"number"},
    "freed": {"number"},
    "outbox": {"id"},
    "audit": {"seq"},
}
# Lists: arrays on PostgreSQL, JSON on SQLite.
LISTS = {("schedules", "calendars")}


class Total(msgspec.Struct):
    """How many rows, and the sum of their hashes: the order of rows does not matter."""

    rows: int = 0
    digest: int = 0

    def add(self, row: Row) -> None:
        self.rows += 1
        hashed = blake2b(msgspec.msgpack.encode(row), digest_size=16).digest()
        self.digest = (self.digest + int.from_bytes(hashed)) % _MODULUS


class Place(msgspec.Struct):
    """How far a table has been copied."""

    key: Key | None = None
    done: bool = False


class Side(ABC):
    """One of the two stores."""

    name: str  # for people, without secrets

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def columns(self, table: str) -> list[str]: ...

    @abstractmethod
    async def snapshot(self) -> None:
        """From here on `rows` show one state of the store."""

    @abstractmethod
    def rows(self, table: str, columns: Sequence[str], after: Key | None) -> AsyncIterator[tuple[Key, Row]]:
        """The rows after a place, in the order of their keys, read as they are needed."""

    @abstractmethod
    async def counts(self) -> dict[str, int]:
        """The number of rows of each table by now, outside of the snapshot."""

    # -- the target --------------------------------------------------------------------------------------------------
    @abstractmethod
    async def begun(self) -> str | None:
        """The source of an unfinished copy; None: there is none."""

    async def check_target(self, source: str) -> str | None:
        """Refuses a target that is neither empty nor the unfinished copy of this source; returns the name of the
        source in the latter case."""
        before = await self.begun()
        if before is not None and before != source:
            raise InvalidInput("target", self.name, f"an empty store; it is an unfinished copy of {before}")
        if before is None:
            for table, count in (await self.counts()).items():
                if count:
                    found = f"{count:,} {'job' if table in ('live', 'ended') else 'row'}s in {table!r}"
                    raise InvalidInput("target", self.name, f"an empty store; it has {found}")
        return before

    @abstractmethod
    async def begin(self, source: str) -> None:
        """Marks the store as an unfinished copy without rows. Deletes the rows of an earlier one, after `check_target`
        in the same transaction: an order may have come since."""

    @abstractmethod
    async def places(self) -> dict[str, Place]: ...

    @abstractmethod
    async def put(self, table: str, columns: Sequence[str], rows: Sequence[Row], place: Place) -> None:
        """Writes a batch and the place it reached, together."""

    @abstractmethod
    async def finish(self) -> None:
        """Takes the mark away."""

    def fit(self, row: Row) -> Row:
        """A row as this store can keep it."""
        return row


class Report(msgspec.Struct):
    source: str
    target: str
    tables: dict[str, Total] = {}
    resumed: bool = False
    changed_texts: int = 0  # texts with characters that the target can't keep, which were replaced


async def preview(source: Side, target: str) -> Report:
    """The rows that there are to copy; nothing is written."""
    counts = await source.counts()
    return Report(source.name, target, {table: Total(counts[table]) for table in TABLES})


Tell = Callable[[str, int], None]  # the table, and its rows so far


async def _nothing() -> None: ...


class Copy:
    def __init__(
        self, source: Side, target: Side, tell: Tell, check_unused: Callable[[], Awaitable[None]] = _nothing
    ) -> None:
        """`check_unused` raises if a node has used the source since the copy began."""
        self._source, self._target, self._tell, self._check_unused = source, target, tell, check_unused
        self._columns: dict[str, list[str]] = {}
        self.report = Report(source.name, target.name)

    async def run(self) -> Report:
        await self._source.snapshot()
        before = await self._target.check_target(self._source.name)
        for table in TABLES:
            theirs = set(await self._target.columns(table))
            both = theirs.intersection(await self._source.columns(table))
            # What names a row comes first, for messages; the rest in an order that makes digests comparable.
            self._columns[table] = sorted(both, key=lambda one: (one not in _NAMING, one))
        self.report.resumed = before is not None
        if not (self.report.resumed and await self._gone_on()):
            await self._target.begin(self._source.name)
            if not await self._copied_alike():
                what = f"{self._target.name} differs from its source after the copy"
                raise StoreError(f"{what}: save what was ordered there; another run deletes it and starts anew")
        await self._check_source()
        await self._check_unused()
        await self._target.finish()
        return self.report

    async def _check_source(self) -> None:
        """Changes after the snapshot would be lost without a word, so all rows are read once more. That takes a fifth
        of the time of the whole; the number of rows alone would not tell of a job that has ended."""
        await self._source.snapshot()
        counts, changed = await self._source.counts(), []
        for table, total in self.report.tables.items():
            if counts[table] != total.rows or await self._total(self._source, table) != total:
                changed.append(table)
        if changed:
            what = f"{self._source.name} was changed while it was copied ({', '.join(changed)})"
            raise StoreUnavailable(f"{what}; stop its clients, and run the copy again")

    async def _gone_on(self) -> bool:
        """Finishes an earlier copy. False: its source was used meanwhile, so rows are missing, doubled or different."""
        try:
            return await self._copied_alike()
        except StoreError as error:
            if error.whole:
                raise
            return False

    async def _copied_alike(self) -> bool:
        places = await self._target.places()
        for table in TABLES:
            place = places.get(table, Place())
            if not place.done:
                await self._copy(table, place)
        await self._target.snapshot()
        for table in TABLES:
            self._tell(f"comparing {table}", 0)
            self.report.tables[table] = await self._total(self._source, table)
            if self.report.tables[table] != await self._total(self._target, table):
                return False
        return True

    async def _copy(self, table: str, place: Place) -> None:
        batch: list[Row] = []
        size, done = 0, 0
        columns = self._columns[table]
        async for key, row in self._source.rows(table, columns, place.key):
            fitted = self._target.fit(row)
            self.report.changed_texts += fitted != row
            batch.append(fitted)
            size += _size(row)
            place = Place(key)
            if len(batch) >= MOST_ROWS or size >= MOST_BYTES:
                await self._target.put(table, columns, batch, place)
                done += len(batch)
                self._tell(table, done)
                batch, size = [], 0
        await self._target.put(table, columns, batch, Place(place.key, done=True))
        self._tell(table, done + len(batch))

    async def _total(self, side: Side, table: str) -> Total:
        total = Total()
        async for _, row in side.rows(table, self._columns[table], None):
            total.add(self._target.fit(row))
            if total.rows % (20 * MOST_ROWS) == 0:
                self._tell(f"comparing {table}", total.rows)
        return total


def _size(row: Row) -> int:
    return sum(len(value) for value in row if isinstance(value, str | bytes))
