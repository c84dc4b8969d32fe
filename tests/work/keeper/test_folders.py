"""Private folders: removed whatever is in them, also those of keepers that were killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from rota.work.keeper.client import KeeperClient
from rota.work.keeper.folders import claim, inherit, lock_up, remove
from tests.work.keeper.shell import ENV, Pipe, Shell, finish, until


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    return place


def test_links_are_not_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    (place / "link").symlink_to(tmp_path / "outside")
    (place / "inner").mkdir()
    (place / "inner" / "link").symlink_to(tmp_path / "outside" / "kept")
    assert remove(os.fsencode(place))
    assert not place.exists()
    assert (tmp_path / "outside" / "kept").read_text() == "kept"


def test_folders_nested_deeper_than_any_path(place: Path) -> None:
    fd = os.open(place, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d" * 100, dir_fd=fd)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    assert remove(os.fsencode(place))
    assert not place.exists()


def test_folders_without_permissions(place: Path) -> None:
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "b" / "c").write_text("")
    (place / "a" / "b").chmod(0)
    (place / "a").chmod(0)
    assert remove(os.fsencode(place))
    assert not place.exists()


def test_what_is_too_much_at_once_is_left_and_taken_later(place: Path) -> None:
    for number in range(30):
        (place / f"{number}").mkdir()
        (place / f"{number}" / "file").write_text("")
    assert not remove(os.fsencode(place), most=20)
    assert place.exists()
    assert remove(os.fsencode(place))
    assert not place.exists()


def test_whose_lock_is_free_was_left(place: Path) -> None:
    held, lock = claim(os.fsencode(place), 0o711)
    left = os.fsencode(place / "rota-1-0")
    (place / "rota-1-0").mkdir()
    (place / "rota-something").mkdir()
    found: list[bytes] = []
    inherit(os.fsencode(place), found.append)
    assert found == [left]
    os.close(lock)
    inherit(os.fsencode(place), found.append)
    assert sorted(found[1:]) == sorted([held, left])


def test_a_folder_that_another_takes_for_left_is_left_to_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the making of a folder and its lock there is a moment."""
    others: list[int | None] = []
    make = os.mkdir

    def mkdir(path: bytes, mode: int) -> None:
        make(path, mode)
        if not others:
            others.append(lock_up(path))

    monkeypatch.setattr("os.mkdir", mkdir)
    path, lock = claim(os.fsencode(place), 0o711)
    assert path.endswith(b"-1")
    for fd in (lock, others[0]):
        assert fd is not None
        os.close(fd)


async def test_a_keeper_leaves_nothing_and_the_next_takes_what_a_killed_one_left(
    place: Path, out: Pipe, null: int
) -> None:
    keeper = KeeperClient(folder=str(place))
    shell = Shell(keeper, out, null)
    child = await shell.start("/bin/sh", "-c", "mkdir -p deep/down; echo x > deep/file; echo $PWD; sleep 1000")
    folder = Path(await out.line())
    assert folder.is_relative_to(place)
    assert keeper.pid is not None
    os.kill(keeper.pid, signal.SIGKILL)
    assert (await finish(child)).lost
    assert (folder / "deep" / "file").exists()
    await keeper.start()
    await until(lambda: not folder.parent.exists())
    await keeper.close()
    assert list(place.iterdir()) == []


async def test_a_command_that_leaves_very_much_is_over_before_that_is_removed(
    place: Path, out: Pipe, null: int
) -> None:
    keeper = KeeperClient(folder=str(place))
    shell = Shell(keeper, out, null)
    script = "for i in $(seq 50); do mkdir $i; for j in $(seq 30); do : > $i/$j; done; done; echo $PWD"
    exit, output = await shell.run("/bin/sh", "-c", script, env=ENV)
    assert exit.code == 0
    await until(lambda: not Path(output.decode().strip()).exists())
    assert (await finish(await shell.start("/bin/true"))).code == 0
    await keeper.close()
    await until(lambda: not any(place.iterdir()))


async def test_a_command_that_removes_its_folder_or_the_keepers(place: Path, out: Pipe, null: int) -> None:
    keeper = KeeperClient(folder=str(place))
    shell = Shell(keeper, out, null)
    for script in ("rm -rf $PWD; exit 3", "rm -rf $(dirname $PWD); exit 3", "exit 3"):
        child = await shell.start("/bin/sh", "-c", script)
        assert (await finish(child)).code == 3
    await asyncio.sleep(0)
    await keeper.close()
    assert list(place.iterdir()) == []


async def said(keeper: KeeperClient, null: int, script: str) -> list[str]:
    """The lines that a script writes."""
    out = Pipe()
    try:
        exit, output = await Shell(keeper, out, null).run("/bin/sh", "-c", script, env={"PATH": os.environ["PATH"]})
    finally:
        out.close()
    assert exit.code == 0
    return output.decode().splitlines()


async def test_a_folder_that_was_left_as_it_was_made_serves_the_next_command_under_a_new_name(
    place: Path, null: int
) -> None:
    keeper = KeeperClient(folder=str(place))
    *first, was = await said(keeper, null, "stat -c %i . tmp; ls -A . tmp; echo $PWD")
    *second, is_now = await said(keeper, null, "stat -c %i . tmp; ls -A . tmp; echo $PWD")
    assert first == second
    assert was != is_now
    assert not Path(was).exists()
    assert not Path(is_now).exists()
    await keeper.close()
    assert list(place.iterdir()) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "mark",
    [
        "echo secret > file",
        "echo secret > tmp/.file",
        "mkdir inner",
        "chmod 777 .",
        "chmod 1700 tmp",
        "rmdir tmp",
        "rmdir tmp; ln -s /etc tmp",
        "mv tmp other; mkdir -m 700 tmp; mkfifo tmp/fifo",
        "mv $PWD $PWD-away; mkdir -m 755 -p $PWD/tmp",
        """python3 -c 'import os; os.setxattr(".", "user.mark", b"x")' || true""",  # no file system need have them
    ],
)
async def test_a_command_finds_no_trace_of_the_one_before(place: Path, null: int, mark: str) -> None:
    keeper = KeeperClient(folder=str(place))
    await said(keeper, null, mark)
    found = await said(
        keeper,
        null,
        """ls -A . tmp; stat -c '%a %F' . tmp
        python3 -c 'import os; print(os.listxattr("."))'""",
    )
    assert found == [".:", "tmp", "", "tmp:", "700 directory", "700 directory", "[]"]
    await keeper.close()


async def test_a_folder_that_somebody_spoils_while_it_waits_is_not_given_to_a_command(place: Path, null: int) -> None:
    keeper = KeeperClient(folder=str(place))
    await said(keeper, null, "true")
    [kept] = [path for one in place.iterdir() for path in one.iterdir()]
    (kept / "foreign").write_text("")
    assert await said(keeper, null, "ls -A") == ["tmp"]
    assert not kept.exists()
    await keeper.close()
    assert list(place.iterdir()) == []
