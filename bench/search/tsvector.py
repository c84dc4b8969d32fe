"""PostgreSQL's `tsvector` under GIN, over a table with a row per line.

The index is on the expression: a column with the vectors would double the table. `simple` takes words as they are, as
lines of programs need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

import psycopg

from bench.search.reading import Batch
from rota.model.times import Instant

_SCHEMA: LiteralString = """
CREATE TABLE attempts (id bigint PRIMARY KEY, owner text NOT NULL, task text NOT NULL, started_at bigint NOT NULL);
CREATE INDEX ON attempts (task, started_at);
CREATE TABLE lines (attempt bigint NOT NULL, stream text NOT NULL, at bigint NOT NULL, text text NOT NULL);
CREATE INDEX ON lines (attempt, at);
CREATE INDEX ON lines (at);
CREATE INDEX words ON lines USING gin (to_tsvector('simple', text))"""
_LINES: LiteralString = (
    "SELECT l.at, a.owner, a.task, l.stream, l.text FROM lines l JOIN attempts a ON a.id = l.attempt "
)
_WORD: LiteralString = (
    _LINES + "WHERE to_tsvector('simple', l.text) @@ phraseto_tsquery('simple', %s) ORDER BY l.at DESC LIMIT %s"
)
_MATCHING: LiteralString = _LINES + "WHERE a.task = %s AND l.at >= %s AND l.at < %s AND l.text ~ %s"


class Tsvector:
    name = "tsvector"

    def __init__(self, url: str) -> None:
        self._db = psycopg.connect(url, autocommit=True)
        self._db.execute("SET client_min_messages = warning")  # words of 2 KB and more are left out with a notice
        self._db.execute(_SCHEMA)

    def add(self, batch: Batch) -> None:
        with self._db.transaction(), self._db.cursor() as cursor:
            with cursor.copy("COPY attempts FROM STDIN") as attempts:
                for attempt in batch.attempts:
                    attempts.write_row(attempt)
            with cursor.copy("COPY lines FROM STDIN") as lines:
                for row in batch.rows:
                    lines.write_row(row)

    def settle(self) -> None:
        self._db.execute("SELECT gin_clean_pending_list('words')")
        self._db.execute("ANALYZE")

    def sizes(self) -> Mapping[str, int]:
        found = self._db.execute(
            "SELECT pg_total_relation_size('lines') + pg_total_relation_size('attempts'), pg_relation_size('words')"
        ).fetchone()
        assert found is not None
        return {"rows": found[0] - found[1], "GIN": found[1]}

    def word(self, word: str) -> int:
        return len(self._db.execute(_WORD, (word, None)).fetchall())

    def newest(self, word: str, count: int) -> int:
        return len(self._db.execute(_WORD, (word, count)).fetchall())

    def phrase(self, words: str) -> int:
        return self.word(words)

    def expression(self, expression: str, task: str, begin: Instant, end: Instant) -> int:
        return len(self._db.execute(_MATCHING, (task, begin, end, expression)).fetchall())

    def close(self) -> None:
        self._db.close()
