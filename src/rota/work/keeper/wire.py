"""How controller, keeper and wardens talk; the package's docstring has the words."""

import os
import sys

from .kernel import attempt
from .lean import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FDS_PER_START = 5


def send(channel: "socket.socket", words: bytes, fds: "Iterable[int]" = ()) -> None:
    packed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)] if packed else []
    channel.sendmsg([words], rights, socket.MSG_DONTWAIT)


def receive(channel: "socket.socket", flags: int = 0) -> tuple[bytes, bytes, list[int]]:
    """One message: verb, name or value, file descriptors. The verb is empty when the other side is gone."""
    space = socket.CMSG_SPACE(4 * FDS_PER_START)
    try:
        words, extra, _, _ = channel.recvmsg(256, space, flags | socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return b"", b"", []
    packed = b"".join(data for _, _, data in extra)
    fds = [int.from_bytes(packed[i : i + 4], sys.byteorder) for i in range(0, len(packed), 4)]
    verb, _, value = words.partition(b" ")
    return verb, value, fds


def read_request(fd: int) -> tuple[bytes, list[bytes], dict[bytes, bytes]]:
    cwd, count, *strings = os.pread(fd, os.fstat(fd).st_size, 0).split(b"\0")
    argv, variables = strings[: int(count)], strings[int(count) :]
    return cwd, argv, {key: value for key, _, value in (item.partition(b"=") for item in variables)}


def say(report: int, *words: object) -> None:
    attempt(os.write, report, " ".join(map(str, words)).encode() + b"\n")
