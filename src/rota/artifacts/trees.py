"""Folders and files by descriptors: each step opens one name in an open folder, and never follows a link."""

from __future__ import annotations

import ctypes
import os
import stat
from contextlib import suppress
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: what looks like a file may have become a pipe, whose opening would wait.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ_ONLY, EXECUTABLE = 0o444, 0o555


def new_folder(name: str | Path, parent: int | None = None) -> int:
    """The descriptor of a fresh folder of our own; raises FileExistsError for anything that is there."""
    os.mkdir(name, 0o700, dir_fd=parent)
    return os.open(name, FOLDER, dir_fd=parent)


def new_file(name: str, parent: int) -> int:
    return os.open(name, _NEW, 0o600, dir_fd=parent)


def open_file(name: str, parent: int) -> int:
    return os.open(name, _READ, dir_fd=parent)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync(folder: Path) -> None:
    """Writes the file system of a folder to the disk: one call instead of one for each of thousands of files."""
    descriptor = os.open(folder, FOLDER)
    try:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:  # not Linux
            os.sync()
        elif syncfs(descriptor):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
    finally:
        os.close(descriptor)


def sync_names(folder: Path) -> None:
    """Writes the names in a folder to the disk."""
    descriptor = os.open(folder, FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def seal(folder: Path) -> None:
    """Makes all files and folders read-only. Links stay as they are."""
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)  # noqa: PTH118 - tens of thousands
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode):
                os.chmod(path, EXECUTABLE if mode & 0o111 else READ_ONLY)  # noqa: PTH101
        os.chmod(where, EXECUTABLE)  # noqa: PTH101


def size_of(folder: Path) -> int:
    """The bytes of all files, as the disk has them."""
    found = (os.lstat(os.path.join(where, name)) for where, _, names in os.walk(folder) for name in names)  # noqa: PTH118
    return sum(one.st_blocks * 512 for one in found)


def remove(path: Path) -> None:
    """Removes a file or a tree, also if its folders are read-only; what another removes meanwhile is no error."""
    with suppress(FileNotFoundError):
        parent = os.open(path.parent, FOLDER)
        try:
            _remove(path.name, parent)
        finally:
            os.close(parent)


def _remove(name: str, parent: int) -> None:
    with suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=parent)
        except (IsADirectoryError, PermissionError):
            _remove_folder(name, parent)


def _remove_folder(name: str, parent: int) -> None:
    descriptor = os.open(name, FOLDER, dir_fd=parent)
    try:
        os.fchmod(descriptor, 0o700)
        for inner in os.listdir(descriptor):  # noqa: PTH208 - of a descriptor
            _remove(inner, descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)
