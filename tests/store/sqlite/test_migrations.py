"""What a step of the schema does with rows that an older version wrote."""

from __future__ import annotations

from pathlib import Path

import apsw

from rota.clock import Chance, SystemClock
from rota.store import sql_files
from rota.store.sqlite import SqliteStore
from rota.store.sqlite.database import APPLICATION
from tests.store import upgrades


async def test_next_fires_of_an_older_version_are_worked_out_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "rota.db")
    db = apsw.Connection(path)
    for number, text in sql_files.migrations("sqlite"):
        if number <= upgrades.OLD:
            db.execute(text).fetchall()
    db.pragma("application_id", APPLICATION)
    db.pragma("user_version", upgrades.OLD)
    for row in upgrades.rows("[]"):
        db.execute(f"INSERT INTO schedules ({upgrades.COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
    db.close()
    store = SqliteStore(path, SystemClock(), Chance())
    assert (await store.migrate())[0] == upgrades.OLD
    await store.open()
    await upgrades.check_upgraded(store)
    await store.close()
