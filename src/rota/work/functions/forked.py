"""The first steps of every function process: a session and an output of its own, tied to the fork server's life."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rota.tasks.catalogue import TaskDef
from rota.work.functions.hooked import ProcessHooks
from rota.work.keeper.kernel import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl, set_name

PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessConfig(NamedTuple):
    """The same for every process of one fork server."""

    tasks: Mapping[str, TaskDef]
    max_result: int
    jobs: int  # a pool process leaves after this many
    memory: int  # and if it keeps more bytes than this
    says_started: bool = False

    def hooks(self, kind: str) -> ProcessHooks:
        """The hooks of a new process."""
        return ProcessHooks(kind, (task.hooks for task in self.tasks.values()))


def settle_in(fork_server: int, out: int, err: int, name: bytes) -> None:
    """Ties the process to the fork server's life, and makes it the subreaper of its descendants."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != fork_server:
        os._exit(0)  # the fork server died before this process could be tied to it
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.setsid()
    set_name(name)
    for number, pipe in ((1, out), (2, err)):
        os.dup2(pipe, number)
        os.close(pipe)
    sys.stdout, sys.stderr = _stream(1), _stream(2)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]


class CountedFile(io.FileIO):
    """Counts the bytes that were printed, so that log lines find their place between prints."""

    written = 0

    def write(self, data: Any) -> int:
        """Writes all of the data: a signal may cut a write short."""
        left = memoryview(data).cast("B")
        size = len(left)
        while left:
            count = super().write(left) or 0
            self.written += count
            left = left[count:]
        return size


def _stream(fd: int) -> io.TextIOWrapper:
    raw = CountedFile(fd, "wb", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def resident() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * PAGE
