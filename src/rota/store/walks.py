"""Walking through a large table in small pieces.

No index finds these rows: an edge is old when its child is gone, which takes a look-up per edge. Edges that must stay
(of dead letters, of jobs that wait for long) would be read again each time. So a walk remembers its position, reads a
bounded number of rows per write, and starts over an hour after it has reached the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.clock import Clock

# Rows that one write looks at: some milliseconds.
PIECE = 1_000
REST = 3600.0

Place = tuple[str, ...]  # a primary key


class Walk:
    def __init__(self, clock: Clock, beginning: Place) -> None:
        self._clock, self._beginning = clock, beginning
        self._place: Place | None = beginning
        self._again_at = 0.0

    @property
    def place(self) -> Place | None:
        """The last key that was read; None: the walk pauses."""
        if self._place is None and self._clock.monotonic() >= self._again_at:
            self._place = self._beginning
        return self._place

    def went(self, looked: int, last: Sequence[str]) -> bool:
        """Records the last key of a piece; True if the walk is not at its end."""
        more = looked >= PIECE
        self._place = tuple(last) if more else None
        self._again_at = self._clock.monotonic() + REST
        return more
