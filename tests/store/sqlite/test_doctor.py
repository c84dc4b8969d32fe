"""What `rota doctor` finds in a file."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from rota.clock import Chance
from rota.store.sqlite import SqliteStore, doctor
from rota.store.values import Finding
from tests.contracts.world import World
from tests.store.sqlite.backends import SqliteFile


async def finding(store: SqliteStore, name: str) -> Finding:
    return {finding.name: finding for finding in await store.examine()}[name]


SPACE = ("disk space", "write-ahead log")


async def test_a_healthy_file(store: SqliteStore) -> None:
    findings = await store.examine()
    names = [finding.name for finding in findings]
    expected = ["schema", "integrity", "running jobs", "kinds", "tasks", "schedules", "declared schedules"]
    assert names == [*expected, "sealed output", *SPACE]
    assert all(finding.ok for finding in findings)


async def test_tables_that_someone_changed_are_a_finding(store: SqliteStore, db: apsw.Connection) -> None:
    db.execute("ALTER TABLE tasks RENAME TO gone")
    findings = {finding.name: finding for finding in await store.examine()}
    assert not findings["tables"].ok
    assert "no such table: tasks" in findings["tables"].text
    assert findings["disk space"].ok, "the others are told all the same"


async def test_a_file_that_was_never_migrated(backend: SqliteFile) -> None:
    store = backend.store(Chance(3))
    found = await finding(store, "schema")
    assert not found.ok
    assert "rota migrate" in found.text
    assert [finding.name for finding in await store.examine()] == ["schema", "disk space", "write-ahead log"]
    await store.close()


async def test_running_jobs_without_a_living_node(world: World, store: SqliteStore) -> None:
    actor = await world.node()
    await world.one()
    await actor.take()
    world.backend.lose_node(actor.incarnation)
    found = await finding(store, "running jobs")
    assert not found.ok
    assert "1" in found.text


async def test_kinds_that_nobody_runs(world: World, store: SqliteStore, db: apsw.Connection) -> None:
    await world.several(2)
    db.execute("UPDATE jobs SET kind = 'quantum'")
    found = await finding(store, "kinds")
    assert not found.ok
    assert found.text.endswith("quantum")


async def test_little_space(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 5 << 20
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 40, 0, free))
    found = await finding(store, "disk space")
    assert (found.ok, found.text) == (False, "5 MiB free")


async def test_a_log_that_grows(world: World, store: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.several(10)
    assert Path(f"{path}-wal").stat().st_size > 1_000
    monkeypatch.setattr(doctor, "LARGE_WAL", 1_000)
    found = await finding(store, "write-ahead log")
    assert not found.ok
    assert "read open" in found.text
