"""Private folders: made for one command, gone with it.

Making and removing folders takes longer than most other steps of a command. So a folder that a command left unchanged
and empty gets a new name, and serves the warden's next command.

They are in a folder of the keeper, which keeper and wardens keep locked while they live. A folder whose lock is free
was left by a keeper that was killed, and is removed by the next.
"""

import errno
import fcntl
import os

from .kernel import attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = b"rota-"
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
TEMPORARY = b"/tmp"
AT_ONCE = 500  # files and folders that are removed without a noticeable delay
GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS, of Linux


def claim(parent: bytes, mode: int) -> tuple[bytes, int]:
    """A new folder of ours in `parent`, and the lock on it."""
    for number in range(1000):
        path = os.path.join(parent, b"%s%d-%d" % (PREFIX, os.getpid(), number))
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            continue  # left by a keeper with the same pid
        lock = lock_up(path)
        if lock is not None:
            os.fchmod(lock, mode)
            return path, lock
        # Another keeper has just started, and removed the folder as a left-over.
    raise FileExistsError(errno.EEXIST, "no name is free", parent)


def lock_up(path: bytes) -> int | None:
    """The lock on a folder of our user; None if another process has it, or the folder is gone."""
    try:
        fd = os.open(path, DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found, there = os.fstat(fd), os.lstat(path)
        if found.st_uid == os.geteuid() and found.st_ino == there.st_ino:
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def candidates(parent: bytes) -> list[bytes]:
    """Folders with names as keepers give them. An unlocked one was left by a killed keeper."""
    names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
    return [os.path.join(parent, name) for name in names if name[len(PREFIX) :].replace(b"-", b"").isdigit()]


def inherit(parent: bytes, act: "Callable[[bytes], object]") -> None:
    """Calls `act` for every left-over folder while holding its lock: a new owner may be about to lock it."""
    for path in candidates(parent):
        lock = lock_up(path)
        if lock is not None:
            attempt(act, path)
            os.close(lock)


class Folders:
    def __init__(self, parent: bytes) -> None:
        self.parent = parent
        self.path, self.lock = claim(parent, 0o711)  # commands of other users must be able to pass
        self.count = 0
        self.usual = b""  # the folder of commands with default settings: of the running or the next one,
        self.looks: list[object] = []  # and its properties when it was made

    def make(self, nested: bool, owner: tuple[int, int] | None) -> tuple[bytes, bytes]:
        """A folder for one command, and one for temporary files: inside it, or the same."""
        usual = nested and owner is None
        if usual and self.usual:
            if self.is_new():
                return self.usual, self.usual + TEMPORARY
            self.clear(self.usual)  # it was changed
        path = self.name()
        temporary = path + TEMPORARY if nested else path
        try:
            os.mkdir(path, 0o700)
        except FileNotFoundError:
            os.mkdir(self.path, 0o711)  # it was removed from outside
            os.mkdir(path, 0o700)
        if nested:
            os.mkdir(temporary, 0o700)
        if owner is not None:
            os.chown(temporary, *owner)
            os.chown(path, *owner)
        if usual:
            self.usual, self.looks = path, looks(path)
        return path, temporary

    def name(self) -> bytes:
        self.count += 1
        return os.path.join(self.path, b"%d-%d" % (os.getpid(), self.count))

    def is_new(self) -> bool:
        return bool(self.looks) and looks(self.usual) == self.looks

    def clear(self, path: bytes) -> bool:
        """Remove a command's folder, or keep it for the next. False if there is so much in it that it takes a while."""
        if path == self.usual:
            self.usual = self.renamed(path) if self.is_new() else b""
            if self.usual:
                return True
        return remove_empty(path) or remove(path, AT_ONCE)

    def renamed(self, path: bytes) -> bytes:
        new = self.name()
        try:
            os.rename(path, new)
        except OSError:
            return b""
        return new

    def leave(self) -> None:
        """Removes the folder that was kept for the next command."""
        if self.usual:
            remove_empty(self.usual)

    def close(self) -> None:
        attempt(os.rmdir, self.path)


def looks(path: bytes) -> list[object]:
    """All properties of its two folders that a command could change; empty if they can't be read."""
    try:
        return [_look(path), _look(path + TEMPORARY)]
    except OSError:
        return []


def _look(path: bytes) -> tuple[object, ...]:
    fd = os.open(path, DIRECTORY)
    try:
        found = os.fstat(fd)
        owner = found.st_mode, found.st_uid, found.st_gid
        return found.st_dev, found.st_ino, *owner, _flags(fd), _attributes(fd), os.listdir(fd)
    finally:
        os.close(fd)


def _flags(fd: int) -> bytes:
    """Such as `immutable`. Not every file system has them."""
    try:
        return fcntl.ioctl(fd, GET_FLAGS, bytes(8))
    except OSError:
        return b""


def _attributes(fd: int) -> list[tuple[str, bytes]]:
    """Such as access lists. Not every file system has them."""
    try:
        return [(name, os.getxattr(fd, name)) for name in os.listxattr(fd)]
    except OSError:
        return []


def remove_empty(path: bytes) -> bool:
    """Remove a folder that the command has left empty, as most do. False if it takes longer."""
    try:
        try:
            os.rmdir(path + TEMPORARY)
        except FileNotFoundError:
            pass
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove(path: bytes, most: float = float("inf")) -> bool:
    """All that is in a folder, and itself. False if these are more than `most` folders and files; the rest is left.

    Links are not followed, and folders are taken out of each other first: they may be nested deeper than paths or
    descriptors reach.
    """
    try:
        top = os.open(path, DIRECTORY)
    except OSError:
        return True  # it is gone, or was never ours
    try:
        folders = [b"."]
        seen = 0
        names = b".rota-" + os.urandom(8).hex().encode()  # of moved folders: an earlier try may have left some
        while folders and seen < most:
            inner, count = _empty(top, folders.pop(), names + b"-%d" % seen, most - seen)
            seen += count
            folders += inner
    finally:
        os.close(top)
    attempt(os.rmdir, path)
    return seen < most


def _empty(top: int, name: bytes, names: bytes, most: float) -> tuple[list[bytes], int]:
    """Delete the files of a folder in `top`, and the folder; its subfolders move up, under new names. Returns
    these, and how many entries there were."""
    moved: list[bytes] = []
    fd = _opened_up(lambda: os.open(name, DIRECTORY, dir_fd=top), name, top)
    if fd is None:
        return moved, 1
    count = 1
    try:
        for entry in os.listdir(fd):
            count += 1
            if count > most:
                return moved, count
            new = names + b"-%d" % count
            if _unlink_or_move(os.fsencode(entry), fd, new, top):
                moved.append(new)
    except OSError:
        pass
    finally:
        os.close(fd)
    if name != b".":
        attempt(lambda: os.rmdir(name, dir_fd=top))
    return moved, count


def _unlink_or_move(name: bytes, fd: int, new: bytes, top: int) -> bool:
    """True if it is a folder that was moved."""
    try:
        os.unlink(name, dir_fd=fd)
    except IsADirectoryError:
        return _opened_up(lambda: _rename(name, fd, new, top), name, fd) is not None
    except OSError:
        pass
    return False


def _rename(name: bytes, fd: int, new: bytes, top: int) -> int:
    os.rename(name, new, src_dir_fd=fd, dst_dir_fd=top)
    return top


def _opened_up(act: "Callable[[], int]", name: bytes, fd: int) -> int | None:
    """Gives a folder its owner's permissions if it has none. Root never needs that: it would follow a link."""
    for _ in range(2):
        try:
            return act()
        except PermissionError:
            attempt(lambda: os.chmod(name, 0o700, dir_fd=fd))
        except OSError:
            return None
    return None
