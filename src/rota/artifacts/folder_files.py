"""The files of a folder of objects: what is done with the file system, all of it blocking.

What is being written stands in `.incoming` until it is complete: written, flushed to the disk, then renamed. So a
process or a machine that dies at any moment leaves a file there, which nobody sees and the sweep removes, or the
whole object. Folders have mode 0700, files 0600.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

INCOMING = ".incoming"
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_AGAIN = 20  # tries to rename into a folder that others remove because it is empty


class FoundFile(NamedTuple):
    key: str
    size: int
    at: int  # microseconds since 1970


class NotPrepared(Exception):
    """The folder is not one that objects are kept in; or it was, and is not mounted now."""


class _Handle:
    """A file that is opened and used by threads. Calls may come after the caller has given up: they run one at a time,
    and none does anything once the handle was closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: int | None = None
        self._closed = False

    def _open(self, path: Path, flags: int) -> int | None:
        if not self._closed:
            self._file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        return self._file

    def give_up(self) -> None:
        """Without waiting for a call that hangs: that one does nothing more."""
        self._closed = True

    def close(self) -> bool:
        """Whether it was open."""
        with self._lock:
            self._closed = True
            if self._file is None:
                return False
            os.close(self._file)
            self._file = None
            return True


class Draft(_Handle):
    """A file that is being written."""

    def __init__(self, root: Path, name: str) -> None:
        super().__init__()
        self._root, self.path = root, root / INCOMING / name

    def open(self) -> None:
        with self._lock:
            try:
                self._open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            except FileNotFoundError:
                raise NotPrepared from None

    def write(self, data: bytes) -> None:
        with self._lock:
            rest = memoryview(data)
            while rest and self._file is not None:
                rest = rest[os.write(self._file, rest) :]

    def keep(self, key: str, *, new: bool = False) -> bool:
        """Makes it visible. `new`: only if there is no such object; False: there was one."""
        with self._lock:
            if self._file is None:
                return False
            os.fsync(self._file)
            if self._closed:
                return False
            target = self._root / key
            for left in reversed(range(_AGAIN)):
                _make_folders(self._root, target.parent)
                try:
                    kept = _link(self.path, target) if new else bool(self.path.replace(target))
                except FileNotFoundError:
                    if not left or not self.path.exists():
                        raise
                else:
                    break
            _flush_folder(target.parent)
            return kept

    def close(self) -> bool:
        """Nothing is left of it, but what was kept."""
        opened = super().close()
        if opened:
            self.path.unlink(missing_ok=True)
        return opened


class Reader(_Handle):
    """An open object. It reads what was there when it was opened, even if it is replaced or deleted meanwhile."""

    def __init__(self, root: Path, key: str, start: int, end: int | None) -> None:
        super().__init__()
        self._path, self._at, self._end = root / key, start, end

    def open(self) -> int:
        """Returns how many bytes there are to read."""
        with self._lock:
            opened = self._open(self._path, os.O_RDONLY)
            size = 0 if opened is None else _regular(os.fstat(opened)).st_size
            self._end = size if self._end is None else min(self._end, size)
            return max(0, self._end - self._at)

    def read(self, most: int) -> bytes:
        with self._lock:
            if self._file is None or self._end is None:
                return b""
            data = os.pread(self._file, max(0, min(most, self._end - self._at)), self._at)
            self._at += len(data)
            return data


def prepare(root: Path) -> None:
    """Makes the folder, if need be, for this user alone. One that is there keeps its own mode: what we make in it is
    closed to others in any case."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    incoming = root / INCOMING
    with suppress(FileExistsError):
        incoming.mkdir(mode=0o700)
        _flush_folder(root)


def prepared(root: Path) -> bool:
    return (root / INCOMING).is_dir()


def can_link(root: Path, name: str) -> bool:
    """Whether the file system has hard links, the one way to make a file visible that never replaces another."""
    first, second = root / INCOMING / name, root / INCOMING / f"{name}-link"
    try:
        first.touch(0o600, exist_ok=False)
        os.link(first, second)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    finally:
        first.unlink(missing_ok=True)
        second.unlink(missing_ok=True)
    return True


def found(root: Path, key: str) -> FoundFile:
    state = _regular((root / key).stat())
    return FoundFile(key, state.st_size, state.st_mtime_ns // 1000)


def delete(root: Path, keys: list[str]) -> None:
    for key in keys:
        file = root / key
        try:
            file.unlink()
        except (FileNotFoundError, NotADirectoryError):
            continue
        for folder in file.parents:
            if folder == root:
                break
            try:
                folder.rmdir()
            except OSError:  # it is not empty
                break


def page(root: Path, prefix: str, after: str, most: int) -> list[FoundFile]:
    files: list[FoundFile] = []
    for key in _keys(root, prefix, after):
        with suppress(FileNotFoundError):  # deleted meanwhile
            files.append(found(root, key))
        if len(files) == most:
            break
    return files


def sweep(root: Path, before: int) -> int:
    """Removes drafts that were last written to before this time, in microseconds since 1970."""
    count = 0
    with suppress(FileNotFoundError), os.scandir(root / INCOMING) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime_ns // 1000 < before:
                    Path(entry.path).unlink()
                    count += 1
    return count


def _keys(root: Path, prefix: str, after: str) -> Iterator[str]:
    """All keys below a folder that are greater than `after`, in order. A folder sorts as its name with the slash that
    follows it in keys, or `a-b` would come after `a/b`."""
    try:
        with os.scandir(root / prefix) as entries:
            names = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in entries
                if not entry.name.startswith(".")
            ]
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in sorted(names):
        key = prefix + name
        if not name.endswith("/"):
            if key > after:
                yield key
        elif after < key or after.startswith(key):
            yield from _keys(root, key, after)


def _link(draft: Path, target: Path) -> bool:
    """Whether the target is new. Without hard links two processes may both find that it is."""
    try:
        os.link(draft, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if target.exists():
            return False
        draft.replace(target)
    return True


def _regular(state: os.stat_result) -> os.stat_result:
    """A folder is no object."""
    if not stat.S_ISREG(state.st_mode):
        raise FileNotFoundError
    return state


def _make_folders(root: Path, folder: Path) -> None:
    """All below the root. The root itself is never made anew: it may be a disk that is not mounted."""
    if folder == root or folder.is_dir():
        return
    _make_folders(root, folder.parent)
    with suppress(FileExistsError, FileNotFoundError):  # others make and remove folders too; the rename will tell
        folder.mkdir(mode=0o700)
        _flush_folder(folder.parent)


def _flush_folder(folder: Path) -> None:
    with suppress(FileNotFoundError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
