"""SQLite FTS5 over a table with a row per line.

The index has no text of its own (`content=lines`): its size is that of an index without content. Newest first is in the
order of rows: lines of attempts that overlapped are not sorted by time, which would mean to fetch all matches first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from bench import raw
from bench.search.reading import Batch
from rota.model.times import Instant

if TYPE_CHECKING:
    from apsw import SQLiteValue

_SCHEMA = """
CREATE TABLE attempts (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, task TEXT NOT NULL, started_at INTEGER NOT NULL);
CREATE INDEX attempts_of_task ON attempts (task, started_at);
CREATE TABLE lines (id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, stream TEXT NOT NULL, at INTEGER NOT NULL,
                    text TEXT NOT NULL);
CREATE INDEX lines_of_attempt ON lines (attempt, at);
CREATE VIRTUAL TABLE words USING fts5 (text, content = 'lines', content_rowid = 'id')"""
_LINE = "INSERT INTO lines (id, attempt, stream, at, text) VALUES (?, ?, ?, ?, ?)"
_FOUND = """
SELECT l.at, a.owner, a.task, l.stream, l.text
FROM words w JOIN lines l ON l.id = w.rowid JOIN attempts a ON a.id = l.attempt
WHERE words MATCH ? ORDER BY w.rowid DESC LIMIT ?"""
_MATCHING = """
SELECT l.at, a.owner, a.task, l.stream, l.text FROM attempts a JOIN lines l ON l.attempt = a.id
WHERE a.task = ? AND l.at >= ? AND l.at < ? AND l.text REGEXP ?"""
_SIZES = """
SELECT CASE WHEN name GLOB 'words*' THEN 'FTS5' ELSE 'rows' END, sum(pgsize)
FROM dbstat WHERE aggregate = TRUE GROUP BY 1"""


class Fts:
    name = "FTS5"

    def __init__(self, path: Path) -> None:
        self._db, self._rows = raw.connect(str(path)), 0
        self._db.execute(_SCHEMA)

    def add(self, batch: Batch) -> None:
        rows = list(enumerate(batch.rows, self._rows + 1))
        self._rows += len(rows)
        with raw.transaction(self._db):
            self._db.executemany("INSERT INTO attempts VALUES (?, ?, ?, ?)", batch.attempts)
            self._db.executemany(_LINE, ((id, *row) for id, row in rows))
            self._db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", ((id, row[3]) for id, row in rows))

    def settle(self) -> None:
        self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._db.execute("ANALYZE")

    def sizes(self) -> Mapping[str, int]:
        return dict(self._db.execute(_SIZES))

    def word(self, word: str) -> int:
        return len(self._db.execute(_FOUND, (f'"{word}"', -1)).fetchall())

    def newest(self, word: str, count: int) -> int:
        return len(self._db.execute(_FOUND, (f'"{word}"', count)).fetchall())

    def phrase(self, words: str) -> int:
        return self.word(words)

    def expression(self, expression: str, task: str, begin: Instant, end: Instant) -> int:
        compiled = re.compile(expression)

        def regexp(*values: SQLiteValue) -> bool:
            return compiled.search(str(values[1])) is not None

        self._db.create_scalar_function("regexp", regexp, 2)
        return len(self._db.execute(_MATCHING, (task, begin, end, expression)).fetchall())

    def close(self) -> None:
        self._db.close()
