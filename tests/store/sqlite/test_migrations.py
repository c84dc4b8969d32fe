"""A file between two versions of the schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.clock import Chance, SystemClock
from rota.errors import SchemaMissing, SchemaTooNew
from rota.model.principal import LOCAL
from rota.store import sql_files
from rota.store.sqlite import SqliteStore, migrate
from rota.store.values import JobFilter

KNOWN = migrate.known_version()
NEXT = "ALTER TABLE jobs ADD COLUMN colour TEXT;"


async def test_a_file_moves_up_and_older_code_refuses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(str(tmp_path / "rota.db"), SystemClock(), Chance())
    assert await store.migrate() == (0, KNOWN)
    with monkeypatch.context() as newer:
        steps = [*sql_files.migrations("sqlite"), (KNOWN + 1, NEXT)]
        newer.setattr(sql_files, "migrations", lambda _: steps)
        newer.setattr(migrate, "known_version", lambda: KNOWN + 1)
        with pytest.raises(SchemaMissing):
            await store.open()
        assert await store.migrate() == (KNOWN, KNOWN + 1)
        await store.open()
        assert await store.find(LOCAL, JobFilter()) == []
    for verb in (store.open, store.migrate):
        with pytest.raises(SchemaTooNew):
            await verb()
    await store.close()
