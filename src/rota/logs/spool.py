"""The spool: a folder of one node's life with the journals of its running attempts (`journal`).

The folder is locked by an `flock` on itself, which the node shares with its keeper and the keeper's children, as it
shares the lock of the node (`store/sqlite/node_locks.py`). So a free lock means that nothing adds to it any more, and
whoever takes the lock may read it and bring it to the store (`replay`).

A file that an attempt has done with serves the next one: making and removing files costs more than writing to them.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rota.logs.journal import NOTHING, Journal, JournalFile, Title

SUFFIX = ".journal"
# The beginning of names of files with the rest of a command's output: `left~JOB~FENCE~PROOF~STREAM`.
LEFT = "left~"
# Files that are kept for the next attempts, and the size that they may have then.
SPARE = 64
LARGEST_SPARE = 256 << 10
# Seconds without a spool after the file system has refused something.
PAUSE = 10.0
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Spool:
    """Raises OSError if the folder can't be made."""

    def __init__(self, base: Path, name: str, tell: Callable[[OSError], None]) -> None:
        """`tell` is called from any thread, with the first of each series of troubles."""
        self.folder, self._tell = base / name, tell
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(base)
        self._lock = _made(self.folder)
        self._mutex = threading.Lock()
        self._spare: list[JournalFile] = []
        self._names, self._epochs = itertools.count(1), itertools.count(1)
        self._not_before = 0.0
        self._troubled = self._closed = False

    @property
    def guards(self) -> Sequence[int]:
        """Descriptors whose closing, by the last process that holds them, tells others that nothing is added."""
        return () if self._closed else (self._lock,)

    def of(self, title: Callable[[], Title]) -> AttemptSpool:
        return AttemptSpool(self, title)

    def close(self) -> None:
        """Journals that were not closed stay, for a replay."""
        with self._mutex:
            self._closed = True
            for file in self._spare:
                _remove(file.path)
            self._spare.clear()
        with suppress(OSError):
            self.folder.rmdir()
        os.close(self._lock)

    # -- for journals ------------------------------------------------------------------------------------------------
    def epoch(self) -> int:
        return next(self._epochs)

    def take(self) -> JournalFile:
        if self._closed or time.monotonic() < self._not_before:
            raise _Pause
        with self._mutex:
            if self._spare:
                return self._spare.pop()
        return JournalFile(str(self.folder / f"{next(self._names)}{SUFFIX}"))

    def give(self, file: JournalFile) -> None:
        file.restart()
        with suppress(OSError):
            if file.reach > LARGEST_SPARE:
                file.cut()
            os.pwrite(file.descriptor, NOTHING, 0)
            with self._mutex:
                if len(self._spare) < SPARE and not self._closed:
                    self._spare.append(file)
                    self._troubled = False
                    return
        _remove(file.path)

    def failed(self, error: OSError) -> None:
        if isinstance(error, _Pausing):
            return
        self._not_before = time.monotonic() + PAUSE
        if not self._troubled:
            self._troubled = True
            self._tell(error)


class AttemptSpool:
    """An attempt's place in a spool. Nothing is made or written before it is needed."""

    __slots__ = ("_spool", "_title")

    def __init__(self, spool: Spool, title: Callable[[], Title]) -> None:
        self._spool, self._title = spool, title

    def journal(self) -> Journal:
        return Journal(self._spool, self._title())

    @property
    def rest(self) -> str:
        """The beginning of the paths where the keeper is to put what lies in the attempt's pipes when the node dies."""
        title = self._title()
        return str(self._spool.folder / f"{LEFT}{title.job}~{title.fence}~{title.proof}~")


class _Pausing(OSError):
    pass


_Pause = _Pausing("the spool pauses")


def _made(folder: Path) -> int:
    """The lock on a new folder. Whoever looks for folders without an owner may remove it before it is locked."""
    while True:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        lock = lock_of(folder)
        if lock is not None:
            return lock
        if folder.exists():
            raise FileExistsError(f"{folder} is in use")


def check_owner(base: Path) -> None:
    """Whoever may write to the folder of spools can put one there that we would bring to the store, or take ours away.
    Raises OSError."""
    about = base.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
        why = "is no folder of this user, or others may write to it"
        raise PermissionError(errno.EPERM, f"{base} {why}: choose another one with ROTA_SPOOL, or chmod go-w")


def lock_of(folder: Path) -> int | None:
    """The lock on a folder of our user; None if another process has it, or the folder is gone."""
    try:
        descriptor = os.open(folder, _FOLDER)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found, there = os.fstat(descriptor), os.lstat(folder)
        if found.st_uid == os.geteuid() and found.st_ino == there.st_ino:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


@contextmanager
def abandoned(folder: Path) -> Iterator[bool]:
    """Whether nobody owns this spool. Nobody else takes it meanwhile."""
    lock = lock_of(folder)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _remove(path: str) -> None:
    with suppress(OSError):
        Path(path).unlink()
