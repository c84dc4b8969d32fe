"""Finds, terminates and kills all processes below this one; the package's docstring explains the method."""

import os

from .kernel import attempt
from .lean import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

FREEZE_ROUNDS = 16  # looks for new processes to stop, before the killing starts anyway


def parent_of(pid: int) -> int | None:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        # The program's name is in parentheses and may itself hold some.
        return int(os.read(fd, 1024).rpartition(b")")[2].split(None, 2)[1])
    except OSError:
        return None
    finally:
        os.close(fd)


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def descend(kin: set[int], spare: "Collection[int]" = (), order: int = 1) -> "Iterator[int]":
    """Look once at every process. Children of processes in `kin` are added to it, and yielded as found."""
    for name in os.listdir("/proc")[::order]:
        if name.isdigit() and (pid := int(name)) not in kin and pid not in spare and parent_of(pid) in kin:
            kin.add(pid)
            yield pid


def hit(pid: int, kin: "Collection[int]", number: int) -> None:
    """Signals a process only while it is below us: its pid may have been reused."""
    handle = os.pidfd_open(pid)
    try:
        if parent_of(pid) in kin:
            signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def strike(pid: int, kin: "Collection[int]", number: int) -> None:
    """Like hit, but for an own child with its process group, which is ours until the child is reaped."""
    attempt(hit, pid, kin, number)
    if parent_of(pid) == os.getpid() and os.getpgid(pid) != os.getpgrp():  # equal until setsid is called
        attempt(os.killpg, os.getpgid(pid), number)


def terminate(main: int) -> None:
    """Sends SIGTERM to every process of the tree, just once: some programs treat a second SIGTERM as a forced stop."""
    kin = {os.getpid()}
    while any(list(descend(kin))):
        pass
    outside = [pid for pid in kin - {os.getpid()} if group_of(pid) != main]
    for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process must run to hear it
        attempt(os.killpg, main, number)
        for pid in outside:
            attempt(hit, pid, kin, number)


def cull(spare: "Collection[int]" = ()) -> int:
    """Stops, then kills, all processes below this one. Returns their number."""
    me = os.getpid()
    kin = freeze(me, strike, spare)
    for pid in kin - {me}:
        strike(pid, kin, signal.SIGKILL)
    return len(kin) - 1


def freeze(root: int, stop: "Callable[[int, Collection[int], int], None]", spare: "Collection[int]" = ()) -> "set[int]":
    """Stops all processes below a root, so that they can't fork faster than we look. Returns them and the root."""
    kin = {root}
    for turn in range(FREEZE_ROUNDS):
        known = len(kin)
        # From the oldest pid on, one look finds a whole tree; from the newest back, it finds a tree that keeps forking.
        for pid in descend(kin, spare, order=-1 if turn % 2 else 1):
            attempt(stop, pid, kin, signal.SIGSTOP)  # at once, so that it can't fork while we look on
        if len(kin) == known and turn > 0:
            break
    return kin
