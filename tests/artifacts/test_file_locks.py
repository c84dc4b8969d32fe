"""Locks between processes: exclusive and shared, waited for and left, and never kept by whoever went away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.artifacts.file_locks import EXCLUSIVE, SHARED, FileLock, try_lock, wait_lock
from rota.daemon_thread import in_daemon_thread
from tests.artifacts.made import child


def free(path: Path) -> bool:
    lock = try_lock(path, EXCLUSIVE)
    if lock is not None:
        lock.close()
    return lock is not None


async def waiting(path: Path, kind: int) -> asyncio.Task[FileLock]:
    """A task whose thread is started by now."""
    started, real = asyncio.Event(), in_daemon_thread

    async def told(call: Callable[[], None], name: str) -> None:
        started.set()
        await real(call, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rota.artifacts.file_locks.in_daemon_thread", told)
        task = asyncio.ensure_future(wait_lock(path, kind, 60.0))
        await started.wait()
    return task


def held(path: Path, kind: int) -> FileLock:
    lock = try_lock(path, kind)
    assert lock is not None
    return lock


async def test_one_excludes_others_and_several_share(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = held(path, SHARED), held(path, SHARED)
    assert not free(path)
    first.close()
    assert not free(path)
    second.close()
    second.close()
    held(path, EXCLUSIVE).close()
    (await wait_lock(path, EXCLUSIVE, 1.0)).close()
    assert free(path)


async def test_a_waiter_gets_the_lock_when_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = held(path, EXCLUSIVE)
    tasks = [await waiting(path, SHARED) for _ in range(3)]
    first.close()
    for lock in await asyncio.gather(*tasks):
        assert not free(path)
        lock.close()
    assert free(path)


async def test_a_waiter_who_has_gone_keeps_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = held(path, EXCLUSIVE)
    task = await waiting(path, EXCLUSIVE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(TimeoutError):
        await wait_lock(path, SHARED, 0.01)
    first.close()
    # Each of the threads that were left behind gets the lock once more, and closes it.
    (await wait_lock(path, EXCLUSIVE, 60.0)).close()


async def test_a_lock_whose_file_was_deleted_is_none(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = held(path, EXCLUSIVE)
    task = await waiting(path, EXCLUSIVE)
    path.unlink()
    second = held(path, EXCLUSIVE)
    first.close()  # the waiter gets the lock of a file without a name, and asks for the one that has it now
    assert not free(path)
    second.close()
    (await task).close()
    assert free(path)


async def test_a_child_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = held(path, EXCLUSIVE)
    with child():
        assert not free(path)
        lock.close()
        assert free(path)


async def test_a_link_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        try_lock(tmp_path / "lock", SHARED)
    assert not (tmp_path / "elsewhere").exists()
