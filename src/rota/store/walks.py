"""Walking through a large table in small pieces.

Some rows can only be found to be old by looking at each: an edge is when its child is gone. Those that must stay (of
dead letters, of jobs that wait for long) would be looked at again each time. So a walk remembers how far it has come,
looks at a bounded number of rows per write, and begins again an hour after it has come to the end.
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
        """What was looked at last; None: it rests."""
        if self._place is None and self._clock.monotonic() >= self._again_at:
            self._place = self._beginning
        return self._place

    def went(self, looked: int, last: Sequence[str]) -> bool:
        """Records the last key of a piece; True if the walk is not at its end."""
        more = looked >= PIECE
        self._place = tuple(last) if more else None
        self._again_at = self._clock.monotonic() + REST
        return more
