"""The checks of `rota doctor` on a SQLite file."""

from __future__ import annotations

import shutil
from pathlib import Path

from rota import errors
from rota.store.carriers import doctor
from rota.store.sqlite import migrate
from rota.store.sqlite.database import MEMORY, Database, translated
from rota.store.sqlite.unit import at_once
from rota.store.values import Finding

LITTLE_SPACE = 100 << 20
LARGE_WAL = 256 << 20


def examine(db: Database) -> list[Finding]:
    findings = [_schema(db)]
    if findings[0].ok:
        findings += [_integrity(db), *_tables(db)]
    if db.path != MEMORY:
        findings += [_space(db), _log(db)]
    return findings


def _schema(db: Database) -> Finding:
    try:
        migrate.check(db)
    except errors.StoreError as error:
        return Finding("schema", False, str(error))
    return Finding("schema", True, f"version {migrate.version(db)}")


def _tables(db: Database) -> list[Finding]:
    try:
        with translated(db.path):
            return at_once(doctor.examine)(db, db.now())
    except errors.StoreError as error:
        return [Finding("tables", False, str(error))]


def _integrity(db: Database) -> Finding:
    answer = db.connection.pragma("quick_check")
    return Finding("integrity", answer == "ok", str(answer))


def _space(db: Database) -> Finding:
    free = shutil.disk_usage(Path(db.path).resolve().parent).free
    return Finding("disk space", free > LITTLE_SPACE, f"{free >> 20} MiB free")


def _log(db: Database) -> Finding:
    wal = Path(f"{db.path}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    hint = "; some process holds a read open" if size > LARGE_WAL else ""
    return Finding("write-ahead log", size <= LARGE_WAL, f"{size >> 20} MiB{hint}")
