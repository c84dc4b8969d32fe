"""What jobs of runs about output write: lines that can be told from their place alone. Only the standard library is
imported here: the jobs begin with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

STREAMS = ("stdout", "stderr")
LINE = 20  # bytes
AT_ONCE = 4 * LINE  # bytes of a write
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
class Scribbles:
    """What one attempt had surely written, by stream, and what is shown of it."""

    written: dict[str, int]
    shown: list[Part]


def read_notes(folder: Path) -> dict[tuple[str, int], dict[str, int]]:
    found: dict[tuple[str, int], dict[str, int]] = {}
    for path in folder.glob(f"*{_NOTES}*"):
        _, job, fence, stream = path.name.split("~")
        found.setdefault((job, int(fence)), {})[stream] = int(path.read_bytes() or b"0")
    return found
