"""One SQLite connection, its named queries, and its transactions.

Batches travel as one JSON parameter and come back as one JSON value. SQLite is as fast that way as row by row, and the
Python lock is taken twice per statement instead of twice per row: measured with another thread busy in Python, a drain
runs 1.6 times as fast (docs/measurements.md).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from rota import errors
from rota.clock import Clock
from rota.lines.words import Probe, may_contain
from rota.model.times import Duration, Instant
from rota.store import sql_files
from rota.store.sqlite.write_queue import WriteQueue
from rota.store.values import Topic

T = TypeVar("T")
MEMORY = ":memory:"
# "rot1" in ASCII, in the header of the file: tells our files from any other SQLite database, and from those of before.
APPLICATION = 0x726F7431
BEFORE_VERSION_1 = 0x726F7461
# A write waits this long for other processes' writes. Ours are short; a process that holds the lock longer is stopped
# or broken.
BUSY_MS = 5_000
PATIENCE_MS = 1_000
# With fewer free bytes than this, a failed write counts as a full disk: SQLite reports some of these as plain I/O
# errors.
SCARCE = 1 << 20
# Constraints that a row's own values may break. Uniqueness and foreign keys say nothing about the values.
_BAD_VALUES = (
    apsw.SQLITE_CONSTRAINT_CHECK,
    apsw.SQLITE_CONSTRAINT_NOTNULL,
    apsw.SQLITE_CONSTRAINT_DATATYPE,
)
TOGETHER = (64, 32, 16, 8, 4, 2)  # rows of one INSERT; few texts, so all stay prepared
encode = msgspec.json.encode


@lru_cache(maxsize=100)
def _of_rows(query: str, count: int) -> str:
    """An INSERT of one row, as one of several."""
    before, word, row = query.rstrip().rpartition("VALUES ")
    return before + word + ", ".join([row] * count)


@lru_cache(maxsize=1)
def queries() -> dict[str, str]:
    return sql_files.load("sqlite")


class Database:
    def __init__(self, path: str, clock: Clock, ageing_step: Duration, *, writable: bool = True) -> None:
        self.path, self.clock, self.ageing_step = path, clock, ageing_step
        self.topics: set[Topic] = set()  # to be announced after the commit
        self._queries = queries()
        self._write_queue: WriteQueue | None = None
        with translated(path):
            self.connection = self._connect()
            if writable:
                self._prepare_to_write()
            else:
                self.connection.pragma("query_only", True)

    def _connect(self) -> apsw.Connection:
        _create_private(self.path)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(self.path, flags=flags)
        connection.set_busy_timeout(BUSY_MS)  # for other programs, which don't use the write queue
        _refuse_foreign(connection, self.path)
        connection.pragma("synchronous", "full")
        connection.pragma("temp_store", "memory")
        connection.pragma("cache_size", -32_000)
        connection.create_scalar_function("has_words", _has_words, 2, deterministic=True)
        return connection

    def _prepare_to_write(self) -> None:
        if self.path != MEMORY:
            self._write_queue = WriteQueue(beside(self.path), min(PATIENCE_MS, BUSY_MS) / 1000)
        with self._turn():
            # SQLite does not wait here for another process that is creating the same file.
            for tries_left in range(BUSY_MS // 10, -1, -1):
                try:
                    self.connection.pragma("journal_mode", "wal")
                    return
                except apsw.BusyError:
                    if not tries_left:
                        raise
                    time.sleep(0.01)

    def _turn(self) -> AbstractContextManager[None]:
        return self._write_queue.turn() if self._write_queue else nullcontext()

    def close(self) -> None:
        self.connection.close()
        if self._write_queue:
            self._write_queue.close()

    def now(self) -> Instant:
        return self.clock.now()

    def rows(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return self.found(self._queries[name], values)

    def found(self, query: str, values: dict[str, Any] | Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query that was built."""
        try:
            return self.connection.execute(query, values).fetchall()
        except UnicodeDecodeError:
            return self._rows_with_care(query, values)

    def _rows_with_care(self, query: str, values: dict[str, Any] | Sequence[Any]) -> list[tuple[Any, ...]]:
        """The same rows when a text in them is not UTF-8: texts come as hexadecimal, and undecodable bytes are shown as
        such. One bad row must not hide the others."""
        columns = [f"c{index}" for index in range(len(self.connection.execute(query, values).get_description()))]
        picked = ", ".join(f"iif(typeof({column}) = 'text', hex({column}), {column})" for column in columns)
        careful = f"WITH q({', '.join(columns)}) AS ({query}\n) SELECT {picked} FROM q"  # noqa: S608
        return [
            tuple(bytes.fromhex(v).decode("utf-8", "replace") if isinstance(v, str) else v for v in row)
            for row in self.connection.execute(careful, values)
        ]

    def value(self, name: str, /, **values: Any) -> Any:
        """The first column of the first row, or None."""
        return self.connection.execute(self._queries[name], values).get

    def run(self, name: str, /, **values: Any) -> int:
        """Carries out a change; returns how many rows it touched."""
        cursor = self.connection.execute(self._queries[name], values)
        cursor.fetchall()
        return self.connection.changes()

    def many(self, name: str, rows: Iterable[Sequence[Any]]) -> None:
        self.connection.executemany(self._queries[name], rows)

    def insert(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Carries a plain INSERT out for many rows, with few statements: each gives the Python lock away, and while the
        loop is busy it comes back late."""
        query, start = self._queries[name], 0
        for size in TOGETHER:
            while len(rows) - start >= size:
                values = tuple(chain.from_iterable(rows[start : start + size]))
                self.connection.execute(_of_rows(query, size), values)
                start += size
        self.connection.executemany(query, rows[start:])

    def emit(self, kind: str, owner: str, subject: str, data: dict[str, Any] | None = None) -> None:
        """Appends to the outbox, in this transaction."""
        text = encode(data or {}).decode()
        self.run("append_event", now=self.now(), kind=kind, owner=owner, subject=subject, data=text)

    def emit_for_jobs(self, kind: str, jobs: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Appends one event per job to the outbox, in this transaction."""
        rows = [(job_id, encode(data).decode()) for job_id, data in jobs]
        self.run("append_job_events", at=self.now(), kind=kind, jobs=encode(rows).decode())

    def write(self, work: Callable[[Database], T]) -> T:
        """One transaction. IMMEDIATE: upgrading a read lock to a write lock could fail half-way."""
        self.topics = set()
        with self._turn(), translated(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                answer = work(self)
                self.connection.execute("COMMIT")
            except BaseException:
                # After "disk full" SQLite may have rolled back by itself.
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
        return answer

    def read(self, work: Callable[[Database], T]) -> T:
        with translated(self.path):
            self.connection.execute("BEGIN")
            try:
                return work(self)
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("COMMIT")


def _has_words(*given: Any) -> bool:
    """Whether a filter of words lets one word of each group through."""
    words, groups = given
    return all(any(may_contain(words, probe) for probe in group) for group in _read_groups(groups))


@lru_cache(maxsize=16)
def _read_groups(groups: str) -> list[list[Probe]]:
    return msgspec.json.decode(groups, type=list[list[Probe]])


def _refuse_foreign(connection: apsw.Connection, path: str) -> None:
    """Refuses a file that is neither ours nor empty, before anything is changed."""
    # Contents are read before the application id: another process may be creating our schema now.
    contents = connection.execute("SELECT count(*) FROM sqlite_schema").get
    application = int(connection.pragma("application_id"))
    if application == BEFORE_VERSION_1:
        text = f"{path} was made by a rota from before schema version 1, which can't be migrated"
        raise errors.StoreError(f"{text}; move the file away, and `rota migrate` makes a new one")
    if application != APPLICATION and contents:
        raise errors.StoreError(f"{path} is a SQLite database of another program; choose another file")


def beside(path: str) -> Path:
    """The folder beside the file for locks and wake-up pipes."""
    return Path(f"{path}-rota")


def _create_private(path: str) -> None:
    """Creates the file readable by its owner only: arguments and results are private. An existing file stays as it
    is."""
    if path != MEMORY:
        with suppress(OSError):  # SQLite will report the error
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turns the errors of SQLite into ours, with a text for the person who must act."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise errors.InvalidInput("text", error.object, "text that UTF-8 can carry") from None
    except OverflowError as error:
        raise errors.InvalidInput("number", str(error), "a number of at most 64 bits") from None
    except (apsw.BusyError, apsw.LockedError):
        raise errors.StoreUnavailable(f"{path} is locked by another process that does not let go") from None
    except apsw.FullError:
        raise errors.StoreFull(f"no space left for {path}; nothing was written") from None
    except apsw.ReadOnlyError:
        raise errors.StoreReadOnly(f"{path} can't be written; check its permissions and its folder's") from None
    except apsw.CantOpenError:
        raise errors.StoreReadOnly(_cannot_open(path)) from None
    except apsw.NotADBError:
        raise errors.StoreError(f"{path} is not a SQLite database") from None
    except apsw.CorruptError as error:
        raise errors.StoreError(f"{path} is damaged: {error}") from None
    except apsw.IOError as error:
        if _is_full(path):
            raise errors.StoreFull(f"no space left for {path}; nothing was written") from None
        raise errors.StoreUnavailable(f"{path} can't be read or written: {error}") from None
    except (apsw.ProtocolError, apsw.InterruptError, apsw.SchemaChangeError, apsw.NoMemError) as error:
        raise errors.StoreUnavailable(f"{path}: {error}") from None
    except (apsw.PermissionsError, apsw.AuthError) as error:
        raise errors.StoreDenied(f"{path}: {error}; check its permissions and its folder's") from None
    except (apsw.ConstraintError, apsw.TooBigError) as error:
        if isinstance(error, apsw.ConstraintError) and getattr(error, "extendedresult", None) not in _BAD_VALUES:
            raise errors.StoreError(f"{path} refused a call: {error}") from None
        raise errors.InvalidInput("row", str(error), "values that the tables allow") from None
    except apsw.Error as error:
        raise errors.StoreError(f"{path} refused a call: {error}") from error


def _is_full(path: str) -> bool:
    with suppress(OSError):  # the folder may be gone
        return shutil.disk_usage(Path(path).resolve().parent).free < SCARCE
    return False


def _cannot_open(path: str) -> str:
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        return f"can't open {path}: the folder {folder} does not exist"
    return f"can't open {path}; check its permissions and its folder's"
