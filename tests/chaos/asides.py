"""What a client asked beside its orders: cancels, and the key of an order for other work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

ASIDES = "asides"
CANCEL, CLASH = "cancel", "clash"
# Answers: it was done; it was refused, or came too late; nobody knows.
DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"


@dataclass(frozen=True)
class Aside:
    word: str
    number: int
    answer: str
    at: float  # when it was answered, by the monotonic clock
    why: str = ""


def read_asides(folder: Path) -> list[Aside]:
    path = folder / ASIDES
    return [msgspec.json.decode(line, type=Aside) for line in path.read_bytes().splitlines()] if path.exists() else []
