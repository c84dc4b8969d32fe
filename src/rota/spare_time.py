"""Whether the processors of this machine have time to spare, for work that can wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

# Less than this share of all processor time is idle: there is none to spare.
LEAST_IDLE = 0.1
# Ticks (hundredths of a second, of all processors) that are needed to tell.
LEAST_TICKS = 10
_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # idle, and waiting for a disk


def _kernel() -> str:
    try:
        return _STAT.read_text()
    except OSError:
        return ""


class SpareTime:
    def __init__(self, read: Callable[[], str] = _kernel) -> None:
        self._read = read
        self._idle = self._all = 0
        self._short = False

    def is_short(self) -> bool:
        """Since about the last call; after a short time the answer is the one of before. Never, where the kernel does
        not tell."""
        ticks = [int(one) for one in self._read().partition("\n")[0].split()[1:9]]
        idle, whole = sum(ticks[place] for place in _IDLE if place < len(ticks)), sum(ticks)
        if (passed := whole - self._all) >= LEAST_TICKS:
            self._short = self._all > 0 and idle - self._idle < LEAST_IDLE * passed
            self._idle, self._all = idle, whole
        return self._short
