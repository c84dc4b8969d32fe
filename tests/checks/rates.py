"""Starts in sliding windows: I10."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

from tests.checks.breach import TOO_FAST, Breach


class Starts:
    """The starts so far, by key. Each is held against the bound that counts when it happens."""

    def __init__(self) -> None:
        self._times: dict[Hashable, list[float]] = defaultdict(list)

    def start(self, key: Hashable, at: float, most: int, window: float) -> Breach | None:
        """Windows are open at their beginning: a start leaves the window exactly its length later."""
        times = self._times[key]
        near = sum(other <= at < other + window for other in times)
        times.append(at)
        if near < most:
            return None
        return Breach("I10", TOO_FAST, f"{key}: {near + 1} starts instead of {most} in the window that ends at {at}")


def bursts(times: Iterable[float], most: int, window: float, key: str = "") -> list[Breach]:
    starts = Starts()
    found = [starts.start(key, at, most, window) for at in sorted(times)]
    return [breach for breach in found if breach is not None]
