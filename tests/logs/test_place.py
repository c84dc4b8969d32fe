"""Where spools are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rota import config
from rota.logs.place import open_spool, spool_base
from rota.telemetry.events import Bus, Event, SpoolFailed


def place(environment: dict[str, str] | None = None, **given: Any) -> Path | None:
    return spool_base(config.load(given, environment={}), environment or {})


def test_beside_a_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    expected = tmp_path / "rota.db-rota" / "spool"
    assert place(store=f"sqlite:///{tmp_path}/rota.db") == expected
    assert place(store=f"sqlite:///{tmp_path}/link/rota.db") == expected


@pytest.mark.parametrize("given", [{"store": "postgresql://me:secret@db/rota"}, {"server": "https://rota.example.com"}])
def test_in_the_state_folder_of_the_user(given: dict[str, str], tmp_path: Path) -> None:
    found = place({"XDG_STATE_HOME": str(tmp_path)}, **given)
    assert found is not None
    assert found.parent == tmp_path / "rota" / "spool"
    assert "secret" not in str(found)
    home = place({}, **given)
    assert home is not None
    assert home.is_relative_to(Path.home() / ".local" / "state" / "rota")


def test_where_it_is_set(tmp_path: Path) -> None:
    one, two = (place(store=f"sqlite:///{name}.db", spool=str(tmp_path)) for name in ("one", "two"))
    assert one is not None
    assert two is not None
    assert one.parent == two.parent == tmp_path
    assert one != two


@pytest.mark.parametrize("given", [{"spool": "none"}, {"store": "sqlite:///:memory:"}])
def test_nowhere(given: dict[str, Any]) -> None:
    assert place(**given) is None


async def test_a_folder_that_can_not_be_made_costs_the_spool(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told: list[Event] = []
    bus = Bus()
    bus.subscribe(told.append)
    assert open_spool(config.load({"spool": str(tmp_path / "file")}, environment={}), "life", bus) is None
    await asyncio.sleep(0)
    assert [type(one) for one in told] == [SpoolFailed]
