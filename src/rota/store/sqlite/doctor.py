"""What `rota doctor` looks at in a SQLite file."""

from __future__ import annotations

import shutil
from pathlib import Path

from rota import errors
from rota.model.job import Kind
from rota.store.examining import waited_for
from rota.store.firing import examined, undeclared
from rota.store.sqlite import migrate, offers
from rota.store.sqlite.database import MEMORY, Database
from rota.store.values import Finding

LITTLE_SPACE = 100 << 20
LARGE_WAL = 256 << 20


def examine(db: Database) -> list[Finding]:
    findings = [_schema(db)]
    if findings[0].ok:
        findings += [_integrity(db), _strays(db), _unknown_kinds(db), _tasks(db), _schedules(db), _undeclared(db)]
    if db.path != MEMORY:
        findings += [_space(db), _log(db)]
    return findings


def _schema(db: Database) -> Finding:
    try:
        migrate.check(db)
    except errors.StoreError as error:
        return Finding("schema", False, str(error))
    return Finding("schema", True, f"version {migrate.version(db)}")


def _integrity(db: Database) -> Finding:
    answer = db.connection.pragma("quick_check")
    return Finding("integrity", answer == "ok", str(answer))


def _strays(db: Database) -> Finding:
    count = len(db.rows("stray_holders"))
    text = (
        f"running jobs are held by {count} nodes that are not alive" if count else "every running job has a living node"
    )
    return Finding("running jobs", count == 0, text)


def _unknown_kinds(db: Database) -> Finding:
    unknown = sorted({kind for (kind,) in db.rows("ready_kinds")} - set(Kind))
    text = f"ready jobs of kinds that no node runs: {', '.join(unknown)}" if unknown else "all known"
    return Finding("kinds", not unknown, text)


def _tasks(db: Database) -> Finding:
    return waited_for(offers.unoffered(db))


def _schedules(db: Database) -> Finding:
    broken = [name for (name,) in db.rows("broken_schedules")]
    return examined(broken, db.value("next_schedule"), db.now())


def _undeclared(db: Database) -> Finding:
    return undeclared([name for (name,) in db.rows("undeclared_schedules")])


def _space(db: Database) -> Finding:
    free = shutil.disk_usage(Path(db.path).resolve().parent).free
    return Finding("disk space", free > LITTLE_SPACE, f"{free >> 20} MiB free")


def _log(db: Database) -> Finding:
    wal = Path(f"{db.path}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    hint = "; some process holds a read open" if size > LARGE_WAL else ""
    return Finding("write-ahead log", size <= LARGE_WAL, f"{size >> 20} MiB{hint}")
