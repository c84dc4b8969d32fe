"""Migrates a SQLite file to the schema of this code. The version is the file's `user_version`."""

from __future__ import annotations

from functools import cache

import apsw

from rota import errors
from rota.store import sql_files
from rota.store.copy import MARKER, UNFINISHED
from rota.store.sqlite.database import APPLICATION, Database, translated


@cache
def known_version() -> int:
    return sql_files.migrations("sqlite")[-1][0]


def version(db: Database) -> int:
    with translated(db.path):
        return int(db.connection.pragma("user_version"))


def check(db: Database) -> None:
    found, known = version(db), known_version()
    if found > known:
        raise errors.SchemaTooNew(found, known)
    if found < known:
        raise errors.SchemaMissing(found, known)
    with translated(db.path):
        if db.connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (MARKER,)).get:
            raise errors.StoreError(f"{db.path} is {UNFINISHED}")


def migrate(db: Database) -> tuple[int, int]:
    """Applies missing steps in one transaction: a process that opens a new file meanwhile must not find half a schema.
    The write lock keeps two migrators apart."""
    before, known = version(db), known_version()
    if before > known:
        raise errors.SchemaTooNew(before, known)
    if before < known:
        db.write(_apply_all)
    return before, known


def _apply_all(db: Database) -> None:
    for number, text in sql_files.migrations("sqlite"):
        _apply(db, number, text)


def _apply(db: Database, number: int, text: str) -> None:
    # Another process may have migrated while we waited for the lock.
    if int(db.connection.pragma("user_version")) >= number:
        return
    cursor: apsw.Cursor = db.connection.execute(text)
    cursor.fetchall()
    db.connection.pragma("application_id", APPLICATION)
    db.connection.pragma("user_version", number)
