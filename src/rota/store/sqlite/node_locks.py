"""File locks that show processes on one SQLite file which nodes live, in a folder beside the database file.

A node holds an `flock` on a file named after its incarnation. The lock belongs to the open file description, which the
node shares with its keeper and the keeper's children: the kernel frees it when the last of them has ended. So a free
lock means that the process is gone *and* that nothing it started is left. Pids are not used: the system reuses them. A
paused process keeps its lock, and is found by its silence instead.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from rota.errors import StoreReadOnly

_LOCK = ".lock"


class NodeLocks:
    """The locks of this process's nodes, and tests of other nodes' locks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    def hold(self, incarnation: str) -> None:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(self._path(incarnation), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreReadOnly(f"{self._folder} can't be written: {error.strerror}") from None
        self._held[incarnation] = descriptor

    def descriptors(self, incarnation: str) -> list[int]:
        return [self._held[incarnation]] if incarnation in self._held else []

    def drop(self, incarnation: str) -> None:
        descriptor = self._held.pop(incarnation, None)
        if descriptor is not None:
            os.close(descriptor)
            self._path(incarnation).unlink(missing_ok=True)

    def close(self) -> None:
        """Releases all locks; other processes then see the nodes of this process as gone."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def __del__(self) -> None:
        self.close()

    def disown(self) -> None:
        """In a forked child: the locks stay open, because a node is not gone while a process that it started is
        left."""
        self._held = {}

    def gone(self, incarnation: str) -> bool:
        """True only if the process has certainly ended; a missing file says nothing."""
        if incarnation in self._held:
            return False
        try:
            descriptor = os.open(self._path(incarnation), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            return True
        finally:
            os.close(descriptor)

    def forget(self, incarnation: str) -> None:
        """Removes the file of a node that was taken over."""
        self._path(incarnation).unlink(missing_ok=True)

    def sweep(self, living: set[str]) -> None:
        """Removes the files of dead nodes."""
        with suppress(OSError):
            for path in self._folder.glob(f"*{_LOCK}"):
                if path.stem not in living and self.gone(path.stem):
                    path.unlink(missing_ok=True)

    def _path(self, incarnation: str) -> Path:
        return self._folder / f"{incarnation}{_LOCK}"
