"""What the jobs themselves say, in a file outside rota: one line per event, appended whole.

Nothing but the standard library is imported here: the command jobs begin with it, many times a second.
A running attempt also says every tenth of a second that it still runs, so that one that was killed is known to have
lived until then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICK = 0.1
START, ALIVE, STOPPED, END = "start", "alive", "stopped", "end"
CRASH = "crash"  # the next thing that it does is to kill the process that it runs in
SHADOW = "shadow"  # by a process that it left behind: it lives until somebody kills it
FIRES, KEYS, SAVES = ".fires", ".keys", ".saves"
SHADOWS_LIVE = 60.0


@dataclass(frozen=True)
class Line:
    at: float  # seconds of the machine's monotonic clock: the same for all processes
    wall: float
    word: str
    job: str
    fence: int
    number: int  # of the order, as the client counts them
    node: str
    pid: int


class Pen:
    def __init__(self, job: str, fence: int, number: int, node: str) -> None:
        self._who = f"{job} {fence} {number} {node} {os.getpid()}"
        self._file = _file()

    def note(self, word: str) -> None:
        os.write(self._file, f"{time.monotonic()} {time.time()} {word} {self._who}\n".encode())


def note_fire(job: str, fence: int, schedule: str, fire: str, node: str) -> None:
    """In a file of its own, for jobs that know which fire they are."""
    os.write(_file(FIRES), f"{job} {fence} {schedule} {fire} {node}\n".encode())


def note_keys(job: str, keys: Sequence[str]) -> None:
    """In a file of its own too: what the job was told that it needs."""
    os.write(_file(KEYS), f"{job} {','.join(keys)}\n".encode())


def note_save(word: str, job: str, fence: int, state: Sequence[int]) -> None:
    """What an attempt found, asked to keep, and was told about that."""
    os.write(_file(SAVES), f"{time.monotonic()} {word} {job} {fence} {','.join(map(str, state))}\n".encode())


def cast_shadow(job: str, fence: int, number: int, node: str) -> None:
    """Leaves a process behind that has no parent, no session and no name in common with this one."""
    if pid := os.fork():
        os.waitpid(pid, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        pen, end = Pen(job, fence, number, node), time.monotonic() + SHADOWS_LIVE
        while time.monotonic() < end:
            pen.note(SHADOW)
            time.sleep(TICK)
    finally:
        os._exit(0)


_files: dict[str, int] = {}


def _file(suffix: str = "") -> int:
    if suffix not in _files:
        path = os.environ["CHAOS_WITNESS"] + suffix
        _files[suffix] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    return _files[suffix]


def slices(seconds: float) -> list[float]:
    """How long to sleep each time, so as to say in between that one is alive."""
    whole, rest = divmod(seconds, TICK)
    return [TICK] * int(whole) + [rest]


def parse(line: str) -> Line:
    at, wall, word, job, fence, number, node, pid = line.split()
    return Line(float(at), float(wall), word, job, int(fence), int(number), node, int(pid))


class Reader:
    """Reads on from where it was; a line that is not whole yet is left for the next time."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self.lines = path, 0, list[Line]()

    def read(self) -> list[Line]:
        """All lines so far."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._offset += len(whole)
            self.lines += [parse(line) for line in whole.decode().splitlines()]
        return self.lines

    def in_flight(self, node: str, since: float) -> set[str]:
        """Jobs that run on this node since it was last started (wall clock): what was killed before never said so."""
        running: set[str] = set()
        for line in self.read():
            if line.node == node and line.wall > since and line.word != SHADOW:
                (running.add if line.word in (START, ALIVE) else running.discard)(line.job)
        return running
