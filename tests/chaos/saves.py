"""What attempts noted about their checkpoints: what they found, what they asked to keep, what they were told.

A state is (fence of the attempt that saved it, number of the step)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.witness import SAVES

SAW, SAVING, SAVED, REFUSED = "saw", "saving", "saved", "refused"
NOTHING = (0, -1)  # what an attempt finds before which nobody saved


@dataclass(frozen=True)
class Save:
    at: float
    word: str
    job: str
    fence: int
    state: tuple[int, int]


def read(lines: Iterable[str]) -> list[Save]:
    return [_read(*line.split()) for line in lines]


def _read(at: str, word: str, job: str, fence: str, state: str) -> Save:
    of, _, number = state.partition(",")
    return Save(float(at), word, job, int(fence), (int(of), int(number)))


def read_file(folder: Path) -> list[Save]:
    path = folder / f"witness{SAVES}"
    return read(path.read_text().splitlines()) if path.exists() else []
