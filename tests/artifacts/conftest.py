"""Each test that asks for `kept` or `place` runs in a folder and on a real S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.artifacts.place import ObjectPlace
from tests.artifacts.places import KINDS, Place, place_of


@pytest.fixture(params=KINDS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_of(request.param, tmp_path)


@pytest.fixture
async def place(kept: Place) -> ObjectPlace:
    place = kept.open()
    await place.probe()
    return place
