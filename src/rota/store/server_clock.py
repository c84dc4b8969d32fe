"""The server's clock, as well as this process knows it.

It is kept as the server's time at a moment of our monotonic clock, so jumps and skew of our wall clock do not matter.
Every answer that carries the server's time is a measurement; the quickest recent answer is the most exact one.
"""

from __future__ import annotations

from rota.clock import Clock
from rota.model.times import SECOND, Duration, Instant

# A measurement is worth less the older it is: clocks drift apart by up to 100 microseconds a second.
DRIFT = 0.0001
STALE = 60.0


class ServerClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._base = 0
        self._at = 0.0
        self._error = float("inf")  # of the measurement, in seconds

    def heard(self, server: Instant, sent: float) -> None:
        """Takes a measurement: the server's time in the answer to a query that was sent at `sent` on the monotonic
        clock."""
        received = self._clock.monotonic()
        error, doubt = (received - sent) / 2, self._doubt(received)
        middle = sent + error
        # Take a better measurement, or one that contradicts the old one: the clock was set, or this is another server.
        wrong = self.known and abs(server - self._base - (middle - self._at) * SECOND) > (error + doubt) * SECOND
        if error <= doubt or wrong:
            self._base, self._at, self._error = server, middle, error

    def now(self) -> Instant:
        if not self.known:
            return self._clock.now()
        return self._base + round((self._clock.monotonic() - self._at) * SECOND)

    @property
    def known(self) -> bool:
        return self._error != float("inf")

    @property
    def stale(self) -> bool:
        return not self.known or self._clock.monotonic() - self._at > STALE

    @property
    def doubt(self) -> Duration:
        """By how much `now` may be wrong."""
        return round(self._doubt(self._clock.monotonic()) * SECOND) if self.known else 0

    def _doubt(self, now: float) -> float:
        return self._error + (now - self._at) * DRIFT if self.known else float("inf")
