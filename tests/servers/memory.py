"""Shared memory that a killed PostgreSQL leaves behind: its next start would remove it, but there may be none."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

IPC_RMID = 0


class Memory(NamedTuple):
    files: set[Path]
    segments: set[int]  # System V


def memory_of(pids: Iterable[int]) -> Memory:
    """What processes that still exist have mapped."""
    found = Memory(set(), set())
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            _, _, _, _, inode, *name = line.split(maxsplit=5)
            if name and name[0].startswith("/dev/shm/PostgreSQL."):
                found.files.add(Path(name[0]))
            elif name and name[0].startswith("/SYSV"):
                found.segments.add(int(inode))  # the kernel shows the id of the segment here
    return found


def discard(memory: Memory) -> None:
    for file in memory.files:
        file.unlink(missing_ok=True)
    for segment in memory.segments:
        ctypes.CDLL(None).shmctl(segment, IPC_RMID, None)
