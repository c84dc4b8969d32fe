"""A folder of objects: what stands on the disk, what a full or hanging disk does, and what a killed process leaves."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rota.artifacts import folder_files
from rota.artifacts.folder import FolderPlace
from rota.artifacts.place import NoObject, PlaceAway, PlaceRefused
from rota.clock import Chance, ManualClock, SystemClock
from rota.model.times import DAY, SECOND
from tests.artifacts.folder_writer import TIMES
from tests.artifacts.places import InFolder, content, keys, read

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
async def place(root: Path) -> FolderPlace:
    place = InFolder(root).open()
    await place.probe()
    return place


def incoming(root: Path) -> list[Path]:
    return list((root / folder_files.INCOMING).iterdir())


async def test_all_is_for_this_user_alone(root: Path, place: FolderPlace) -> None:
    old = os.umask(0)
    try:
        await place.put("a/b/c", content(b"x"))
        await place.put_new("a/b/d", b"x")
    finally:
        os.umask(old)
    modes = {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}
    assert modes == {".": 0o700, ".incoming": 0o700, "a": 0o700, "a/b": 0o700, "a/b/c": 0o600, "a/b/d": 0o600}


async def test_a_folder_that_is_there_keeps_its_mode(root: Path) -> None:
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    await InFolder(root).open().probe()
    assert stat.S_IMODE(root.stat().st_mode) == 0o755


async def test_empty_folders_go(root: Path, place: FolderPlace) -> None:
    await place.put("a/b/c", content(b"x"))
    await place.put("a/d", content(b"x"))
    await place.delete(["a/b/c"])
    assert sorted(path.name for path in root.rglob("*")) == [".incoming", "a", "d"]
    await place.delete(["a/d"])
    assert sorted(path.name for path in root.rglob("*")) == [".incoming"]


async def test_a_folder_that_goes_while_it_is_written_to_comes_back(place: FolderPlace) -> None:
    async def write(name: str) -> None:
        for _ in range(100):
            await place.put(f"a/b/{name}", content(b"x"))
            await place.delete([f"a/b/{name}"])

    await asyncio.gather(*(write(name) for name in "abc"))
    assert await keys(place) == []


async def test_without_a_probe_or_a_mount_it_is_no_place(root: Path) -> None:
    place = InFolder(root).open()
    calls = (place.put("a/b", content(b"x")), place.put_new("a/b", b"x"), place.head("a/b"), read(place, "a/b"))
    for call in calls:
        with pytest.raises(PlaceRefused, match="no folder of objects is there; was a disk unmounted"):
            await call
    assert not root.exists()


async def test_other_files_are_no_objects(root: Path, place: FolderPlace) -> None:
    (root / ".hidden").write_text("x")
    (root / folder_files.INCOMING / "draft").write_text("x")
    await place.put("a", content(b"x"))
    assert await keys(place) == ["a"]
    with pytest.raises(NoObject):
        await place.head("a/b")  # `a` is a file
    with pytest.raises(PlaceRefused, match="a file stands where a folder is needed"):
        await place.put("a/b", content(b"x"))


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.ENOSPC, PlaceRefused, "it is full"), (errno.EDQUOT, PlaceRefused, "it is full"),
        (errno.EROFS, PlaceRefused, "read-only"), (errno.EACCES, PlaceRefused, "by this user"),
        (errno.EIO, PlaceAway, "Input/output error"), (errno.ETIMEDOUT, PlaceAway, "no answer"),
    ],
)  # fmt: skip
async def test_a_write_that_fails_leaves_nothing(
    root: Path, place: FolderPlace, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception], words: str
) -> None:
    def fails(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    await place.put("a/b", content(b"old"))
    for name in ("write", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fails)
            with pytest.raises(kind, match=words):
                await place.put("a/b", content(b"new"))
            with pytest.raises(kind, match=words):
                await place.put_new("a/c", b"new")
    assert await read(place, "a/b") == b"old"
    assert await keys(place) == ["a/b"]
    assert incoming(root) == []


def late(call: Callable[..., object], going_on: threading.Event) -> Callable[..., object]:
    def hanging(*arguments: object) -> object:
        going_on.wait(20)
        return call(*arguments)

    return hanging


async def test_a_disk_that_hangs_is_away(root: Path, place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty, going_on = InFolder(root).open(limit=0.2), threading.Event()
    await place.put("a/b", content(b"old"))
    for name in ("open", "write", "pread", "fsync"):
        going_on.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, name, late(getattr(os, name), going_on))
            with pytest.raises(PlaceAway, match=r"no answer within 0\.2s"):
                await (read(hasty, "a/b") if name == "pread" else hasty.put("a/b", content(b"new")))
        going_on.set()
    assert await read(place, "a/b") == b"old"


async def test_a_put_that_is_cancelled_closes_its_file(root: Path, place: FolderPlace) -> None:
    waiting = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x"
        waiting.set()
        await asyncio.Event().wait()

    putting = asyncio.ensure_future(place.put("a/b", endless()))
    await waiting.wait()
    assert len(incoming(root)) == 1
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert incoming(root) == []


async def test_a_closed_file_is_not_used_again(root: Path, place: FolderPlace) -> None:
    """A thread may be late: the number of its file could belong to another one by then."""
    draft = folder_files.Draft(root, "late")
    draft.open()
    draft.close()
    draft.write(b"x")
    draft.open()
    assert draft.keep("a/b") is False
    assert incoming(root) == []
    await place.put("a/b", content(b"x"))
    reader = folder_files.Reader(root, "a/b", 0, None)
    reader.close()
    assert (reader.open(), reader.read(9)) == (0, b"")


async def test_the_sweep_removes_old_drafts_alone(root: Path, place: FolderPlace) -> None:
    now = SystemClock().now()
    for name, age in (("old", DAY + SECOND), ("young", DAY - 60 * SECOND)):
        draft = root / folder_files.INCOMING / name
        draft.touch()
        os.utime(draft, ns=((now - age) * 1000, (now - age) * 1000))
    await place.put("a/b", content(b"x"))
    os.utime(root / "a/b", (0, 0))
    later = FolderPlace(root, ManualClock(now), Chance(1))
    assert await later.sweep() == 1
    assert [draft.name for draft in incoming(root)] == ["young"]
    assert await keys(place) == ["a/b"]


async def test_a_file_system_without_hard_links_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", fails)
    place = InFolder(root).open()
    state = await place.probe()
    assert not state.exclusive
    assert "does not refuse to replace" in state.warning
    assert await place.put_new("a/b", b"first") is True
    assert await place.put_new("a/b", b"second") is False
    assert await read(place, "a/b") == b"first"
    assert incoming(root) == []


async def test_urls_need_a_signer(root: Path) -> None:
    place = FolderPlace(root, SystemClock(), Chance(1))
    with pytest.raises(PlaceRefused, match="signed and served by the API"):
        await place.sign("GET", "a/b", 60)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
async def test_a_killed_process_leaves_whole_objects(root: Path, place: FolderPlace, kills: int) -> None:
    command = [sys.executable, "-m", "tests.artifacts.folder_writer", str(root)]
    for at in range(kills):
        writers = [
            subprocess.Popen([*command, name], cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in ("one", "two")
        ]
        for writer in writers:
            assert writer.stdout
            for _ in range(1 + 7 * at):
                assert writer.stdout.readline()
            writer.kill()
            writer.wait()
            writer.stdout.close()
        found = await keys(place)
        assert {key.split("/")[1] for key in found} == {"one", "two"}
        for key in found:
            assert await read(place, key) == key.encode() * TIMES
    assert len(incoming(root)) <= 2 * kills
    await place.delete(found)
    later = FolderPlace(root, ManualClock(SystemClock().now() + DAY + 60 * SECOND), Chance(1))
    await later.sweep()
    assert [path.name for path in root.rglob("*")] == [folder_files.INCOMING]
