"""Which place an address opens, and what is said without obstore."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rota.artifacts.folder import FolderPlace
from rota.artifacts.opening import open_place
from rota.artifacts.place import PlaceRefused
from rota.clock import Chance, SystemClock
from rota.objects_address import objects_address

BUCKET = "s3://key:hidden@bucket/below?endpoint=http://127.0.0.1:1"


async def test_a_folder(tmp_path: Path) -> None:
    place = open_place(objects_address(f"file:{tmp_path}/objects"), SystemClock(), Chance(1))
    assert isinstance(place, FolderPlace)
    assert (await place.probe()).place == f"file:{tmp_path}/objects"
    assert (tmp_path / "objects").is_dir()


def test_a_bucket() -> None:
    place = open_place(objects_address(BUCKET), SystemClock(), Chance(1))
    assert place.name == "s3://bucket/below at http://127.0.0.1:1"


def test_a_bucket_without_obstore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "rota.artifacts.s3", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(PlaceRefused, match=r"S3 needs obstore; install it with `pip install 'rota\[objects\]'`"):
        open_place(objects_address(BUCKET), SystemClock(), Chance(1))
