"""The bounds of a command that the kernel keeps for each process: set by the process itself, just before it becomes
the command, or by the warden for itself, and then its children inherit them; so nothing that a command starts can be
without them."""

import os
import resource

from .kernel import attempt
from .wire import CommandRequest

GIVE_UP = 5  # seconds of CPU time between SIGXCPU and SIGKILL


class Bounds:
    """The limits to set, computed beforehand: after the memory limit is set there may be no memory for that."""

    def __init__(self, request: CommandRequest, bounded: "set[str]") -> None:
        self.nice = request.number(b"nice") or 0
        self.limits: list[tuple[int, tuple[int, int]]] = []
        self.words: list[str] = []
        self._add(request.number(b"files"), resource.RLIMIT_NOFILE)
        self._add(request.number(b"file_size"), resource.RLIMIT_FSIZE)
        cpu = request.number(b"cpu")
        self._add(cpu, resource.RLIMIT_CPU, GIVE_UP)
        processes = request.number(b"processes")
        if processes is not None and "pids" not in bounded:
            self._bound_user(processes, os.geteuid() if request.owner is None else request.owner[0])
        if "memory" not in bounded:
            self._add(request.number(b"memory"), resource.RLIMIT_AS)  # last, because it bounds this code too
        if self.limits:
            self.words.insert(0, "rlimits")
        if self.nice:
            self.words.append(f"nice:{self.nice}")

    def _add(self, value: int | None, kind: int, more: int = 0) -> None:
        if value is not None:
            most = resource.getrlimit(kind)[1]
            soft, hard = (_lower(value, most), _lower(value + more, most))
            self.limits.append((kind, (soft, hard)))

    def _bound_user(self, processes: int, uid: int) -> None:
        """The kernel counts all processes of the user, so their current number is added. It does not count root's."""
        if uid == 0:
            self.words.append("processes-unlimited")
        else:
            self._add(_tasks_of(uid) + processes, resource.RLIMIT_NPROC)

    def be_nice(self, group: int) -> None:
        """Sets the niceness of the whole group just after its start: a fork only for this would cost too much."""
        if self.nice:
            attempt(os.setpriority, os.PRIO_PGRP, group, os.getpriority(os.PRIO_PROCESS, 0) + self.nice)

    def apply(self) -> None:
        for kind, pair in self.limits:
            resource.setrlimit(kind, pair)


def _lower(value: int, most: int) -> int:
    return value if most == resource.RLIM_INFINITY else min(value, most)


def _tasks_of(uid: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}/task").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return count
