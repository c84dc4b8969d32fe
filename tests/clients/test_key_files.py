"""The first admin key: made by one of several nodes, and kept where only its user can read it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota.clients.key_files import keep, key_file, make_first_key
from rota.clock import Chance, ManualClock
from rota.model.access_keys import key_hash, key_id
from rota.model.principal import SYSTEM
from rota.store.sqlite import SqliteStore


def test_where_it_is_kept(tmp_path: Path) -> None:
    assert key_file(f"sqlite:///{tmp_path}/a.db") == tmp_path.resolve() / "a.db-rota" / "admin-key"
    assert key_file("sqlite:///:memory:") is None
    base = {"XDG_CONFIG_HOME": str(tmp_path)}
    one, other = (key_file(f"postgresql://ann:{word}@db/rota", base) for word in ("secret", "rotated"))
    assert one == other, "whatever the password"
    assert one is not None
    assert one.parent == tmp_path / "rota"
    assert key_file("postgresql://ann@db/other", base) != one
    assert key_file("postgresql://db/rota", {"XDG_CONFIG_HOME": "relative"}) == key_file("postgresql://db/rota", {})


def test_only_its_user_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "admin-key"
    keep(path, "old")
    path.chmod(0o644)
    keep(path, "new")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("seen", [True, False])
async def test_one_of_two_nodes_makes_it(tmp_path: Path, seen: bool) -> None:
    address = f"sqlite:///{tmp_path}/rota.db"
    stores = [SqliteStore(f"{tmp_path}/rota.db", ManualClock(), Chance()) for _ in range(2)]
    await stores[0].migrate()
    lines = await asyncio.gather(*(make_first_key(store, address, "local", Chance(), seen) for store in stores))
    (line,) = [line for line in lines if line is not None]
    text = (tmp_path / "rota.db-rota" / "admin-key").read_text().strip()
    grant = await stores[0].grant_of(SYSTEM, key_hash(text))
    assert grant is not None
    assert (grant.key, grant.user, grant.role) == (key_id(text), "local", "admin")
    assert (text in line) is seen, "it would stay in a log"
    for store in stores:
        await store.close()


async def test_a_key_that_can_not_be_kept_is_shown(tmp_path: Path) -> None:
    (tmp_path / "rota.db-rota").mkdir()
    (tmp_path / "rota.db-rota" / "admin-key").mkdir()
    store = SqliteStore(":memory:", ManualClock(), Chance(), inline=True)
    await store.migrate()
    line = await make_first_key(store, f"sqlite:///{tmp_path}/rota.db", "local", Chance(), seen=False)
    assert line is not None
    assert "shown only now" in line
    assert await store.grant_of(SYSTEM, key_hash(next(word for word in line.split() if "rota_" in word).strip(";")))
    assert await make_first_key(store, "sqlite:///:memory:", "local", Chance(), seen=False) is None
    await store.close()
