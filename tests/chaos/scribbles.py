"""What jobs of runs about output write: lines that can be told from their place alone. Only the standard library is
imported here: the jobs begin with it."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.witness import ALIVE, TICK, Pen

STREAMS = ("stdout", "stderr")
LINE = 20  # bytes
AT_ONCE = 4 * LINE  # bytes of a write
# Of functions the last words may be lost with the node: what was written so many seconds before the end is no such.
LAST_WORDS = 1.0
PAUSE = 0.004
_NOTES = ".noted~"


def lines(stream: str, start: int, size: int) -> bytes:
    """A range of what a stream is to have."""
    first = start // LINE
    whole = b"".join(b"%s %012d\n" % (stream.encode(), n) for n in range(first, (start + size) // LINE + 1))
    return whole[start - first * LINE :][:size]


def note_of(job: str, fence: int, stream: str) -> str:
    return f"{os.environ['CHAOS_WITNESS']}{_NOTES}{job}~{fence}~{stream}"


@dataclass(frozen=True)
class Part:
    """Of a job's output, as rota shows it: `left_out` bytes that a mark stands for, or a body."""

    stream: str
    body: bytes = b""
    left_out: int = 0


@dataclass(frozen=True)
class Noted:
    """How many bytes a stream surely had: at the end, and of a job whose last words may be lost, before those."""

    size: int = 0
    early: int = 0


@dataclass(frozen=True)
class Scribbles:
    """What one attempt had surely written, by stream, and what is shown of it."""

    written: dict[str, Noted]
    shown: list[Part]


def read_notes(folder: Path) -> dict[tuple[str, int], dict[str, Noted]]:
    found: dict[tuple[str, int], dict[str, Noted]] = {}
    for path in folder.glob(f"*{_NOTES}*"):
        _, job, fence, stream = path.name.split("~")
        found.setdefault((job, int(fence)), {})[stream] = Noted(*map(int, path.read_bytes().split()))
    return found


class Desk:
    """What one attempt is to write, and its notes. A job that floods has one stream."""

    def __init__(self, pen: Pen, job: str, fence: int, floods: bool, loses_last_words: bool = False) -> None:
        self.pen, self._floods, self._loses = pen, floods, loses_last_words
        self._streams = STREAMS[:1] if floods else STREAMS
        self._notes = {one: os.open(note_of(job, fence, one), os.O_WRONLY | os.O_CREAT, 0o666) for one in self._streams}
        self._said, self._spoke, self._early = 0, 0.0, 0
        self._recent: deque[tuple[float, int]] = deque()

    def next(self) -> Iterator[tuple[str, bytes]]:
        for stream in self._streams:
            yield stream, lines(stream, self._said, AT_ONCE)
        self._said += AT_ONCE
        if (now := time.monotonic()) > self._spoke + TICK:
            self.pen.note(ALIVE)
            self._spoke = now
            self._recent.append((now, self._said))

    def wrote(self, stream: str) -> None:
        size, now = self._said + AT_ONCE, time.monotonic()
        while self._recent and self._recent[0][0] < now - LAST_WORDS:
            self._early = self._recent.popleft()[1]
        os.pwrite(self._notes[stream], b"%20d %20d" % (size, self._early if self._loses else size), 0)

    def pause(self) -> float:
        return 0.0 if self._floods and self._said % (64 * AT_ONCE) else PAUSE
