"""A node's own view of its lease, by its monotonic clock.

The lease is renewed about every second and lasts `length`. Others may take the node's jobs when they have seen no
renewal for a whole length. So the node must stop its work a margin earlier, counted from the moment it *asked* for the
last successful renewal (the answer may have been slow).

A store may have a quicker sign of life than renewals. If that is lost while the node lives, the node is *exposed*:
others don't wait for the whole length, so the node must stop sooner too, until it has renewed again.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import Clock
from rota.model.times import SECOND, Duration

BEAT = 1.0
# All work must be stopped this long before others may take it: time for kills and delays.
MARGIN = 1.0
# The node begins to stop its attempts this long before that point.
WARNING = 2.0
# The same for a node that is exposed. The warning is just long enough for the node to stop its work and join again:
# at the deadline itself the keeper would kill the node with its work.
EXPOSED_MARGIN = 0.3
EXPOSED_WARNING = 0.1
# After a longer gap in its own renewals, a node does not count the silence of others against them.
GAP = 3.0


class Lease:
    def __init__(self, clock: Clock, length: float, exposed: Callable[[], Duration | None] = lambda: None) -> None:
        self._clock, self._exposed = clock, exposed
        self.length = length
        self._renewed = clock.monotonic()
        self._healthy_since = self._renewed

    def renewed(self, asked: float) -> None:
        """A renewal that was asked for at this instant has succeeded."""
        if asked - self._renewed > GAP:
            self._healthy_since = self._clock.monotonic()
        self._renewed = asked

    @property
    def overdue(self) -> bool:
        """A renewal should have been asked for by now."""
        return self._clock.monotonic() - self._renewed > BEAT

    @property
    def deadline(self) -> float:
        """When the keeper kills everything that still runs."""
        if (exposed := self._exposed()) is not None:
            return self._renewed + exposed / SECOND - EXPOSED_MARGIN
        return self._renewed + self.length - MARGIN

    @property
    def endangered(self) -> bool:
        """Time to stop the attempts: the lease may end before the store answers again."""
        return self._clock.monotonic() > self.deadline - (WARNING if self._exposed() is None else EXPOSED_WARNING)

    @property
    def exposed(self) -> bool:
        return self._exposed() is not None

    def healthy_since(self) -> float:
        """The time since which this node has renewed without a gap; now, if it can't at present."""
        now = self._clock.monotonic()
        return now if now - self._renewed > GAP else self._healthy_since
