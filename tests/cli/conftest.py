"""A folder with an app, and a node that all tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import APP, LATER, Rota


@pytest.fixture
def rota(tmp_path: Path) -> Rota:
    """In an empty folder: no node, no store."""
    (tmp_path / "shop.py").write_text(APP)
    return Rota(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rota]:
    """With a node that runs, one for each file of tests."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "shop.py").write_text(APP)
    rota = Rota(folder)
    node = rota.up("--app", "shop:app", "--slots", "8", "--node", "first")
    yield rota
    try:
        for _ in range(2):
            node.signal()
        assert node.end() == 0, node.err
    finally:
        node.kill()


@pytest.fixture
def kept(rota: Rota) -> Rota:
    """A store without a node, with one schedule: nothing happens but what a test does."""
    rota.ok("schedule", "add", "nightly", LATER, "--tz", "Europe/Berlin", "--", "echo", "at {fire_time}")
    return rota
