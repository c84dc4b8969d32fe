"""The messages between controller, keeper and wardens; the package's docstring lists them."""

import os
import sys

from .kernel import attempt
from .lean import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FDS_PER_START = 5
MOST_FDS = 6  # a command may get one more than its standard three


def send(channel: "socket.socket", words: bytes, fds: "Iterable[int]" = ()) -> None:
    packed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)] if packed else []
    channel.sendmsg([words], rights, socket.MSG_DONTWAIT)


def receive(channel: "socket.socket", flags: int = 0) -> tuple[bytes, bytes, list[int]]:
    """One message: verb, name or value, file descriptors. The verb is empty when the other side is gone."""
    space = socket.CMSG_SPACE(4 * MOST_FDS)
    try:
        words, extra, _, _ = channel.recvmsg(256, space, flags | socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return b"", b"", []
    packed = b"".join(data for _, _, data in extra)
    fds = [int.from_bytes(packed[i : i + 4], sys.byteorder) for i in range(0, len(packed), 4)]
    verb, _, value = words.partition(b" ")
    return verb, value, fds


class CommandRequest:
    """A command to run, and its bounds."""

    def __init__(self, fd: int) -> None:
        bounds, cwd, count, *strings = os.pread(fd, os.fstat(fd).st_size, 0).split(b"\0")
        self.bounds = {key: value for key, _, value in (word.partition(b"=") for word in bounds.split())}
        self.cwd = cwd  # empty: a private folder
        self.argv = strings[: int(count)]
        variables = (item.partition(b"=") for item in strings[int(count) :])
        self.env = {key: value for key, _, value in variables}

    def number(self, name: bytes) -> int | None:
        return int(self.bounds[name]) if name in self.bounds else None

    @property
    def owner(self) -> tuple[int, int] | None:
        """User and group, if the command runs as another user."""
        uid, gid = self.number(b"uid"), self.number(b"gid")
        return None if uid is None or gid is None else (uid, gid)

    @property
    def rest(self) -> bytes:
        """The beginning of the paths for what lies in the pipes when the controller is gone; empty: it is lost."""
        return bytes.fromhex(self.bounds.get(b"rest", b"").decode())

    @property
    def groups(self) -> list[int]:
        return [int(one) for one in self.bounds.get(b"groups", b"").split(b",") if one]


def say(report: int, *words: object) -> None:
    attempt(os.write, report, " ".join(map(str, words)).encode() + b"\n")
