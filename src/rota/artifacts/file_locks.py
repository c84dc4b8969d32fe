"""Locks between processes of one machine: `flock` on files, freed by the kernel when their holder ends.

A blocking `flock` has no time limit and can't be cancelled, so it waits in a thread of its own. A waiter who has gone
leaves the thread behind, which closes its file as soon as it gets the lock.

Lock files are deleted by whoever holds their lock exclusively. So a lock counts only if its file still has its name.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path

from rota.daemon_thread import in_daemon_thread

SHARED, EXCLUSIVE = fcntl.LOCK_SH, fcntl.LOCK_EX
_held: set[int] = set()


class FileLock:
    """A lock that is held until `close`."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        if self.descriptor in _held:  # not so in a forked child, nor a second time
            _held.discard(self.descriptor)
            os.close(self.descriptor)
            self.descriptor = -1


def try_lock(path: Path, kind: int) -> FileLock | None:
    """None: another holds it."""
    while True:
        lock = FileLock(_open(path))
        try:
            fcntl.flock(lock.descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        if _is_named(lock, path):
            return lock
        lock.close()


async def wait_lock(path: Path, kind: int, patience: float) -> FileLock:
    """Raises TimeoutError after `patience` seconds."""
    async with asyncio.timeout(patience):
        while (lock := try_lock(path, kind)) is None:
            lock = await _wait(_open(path), kind)
            if _is_named(lock, path):
                break
            lock.close()
    return lock


async def _wait(descriptor: int, kind: int) -> FileLock:
    """The thread hands the lock over, or closes it if nobody waits any more; `handing` decides which."""
    lock, handing = FileLock(descriptor), threading.Lock()
    taken = gone = False

    def work() -> None:
        nonlocal taken
        try:
            fcntl.flock(descriptor, kind)
        except OSError:
            lock.close()
            raise
        with handing:
            taken = True
            if gone:
                lock.close()

    try:
        await in_daemon_thread(work, "file-lock")
    except BaseException:
        with handing:
            gone = True
            if taken:
                lock.close()
        raise
    return lock


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    _held.add(descriptor)
    return descriptor


def _is_named(lock: FileLock, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock.descriptor), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def _after_fork() -> None:
    """A lock belongs to all processes that have its file open. A child must not keep what its parent has released."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)
