"""Bounds on the search for a fire: its range and its number of steps.

Some rules fire once in a lifetime or never (each 9,973rd second that falls on 9:00:00, a Monday that a calendar always
excludes), and no check of the text finds them. So every search counts its steps and gives up at a bound. Steps and not
seconds, so that all machines refuse the same rules.
"""

from __future__ import annotations

from rota.model.times import DAY, Instant

# Steps from one fire to the next. A step takes one or two microseconds, so a search ends within some 20 ms. A lower
# bound would refuse sensible rules (the rarest, a Monday 29 February, needs some 500); a higher one would let one rule
# delay the other schedules.
MOST_STEPS = 10_000


class Exhausted(Exception):
    """The search took too many steps."""


# The largest difference between a reading and UTC, in all zones.
_DAYS_OFF = 2
_NO_END = 4_000_000  # days since 1970, after the end of the calendar


class Effort:
    """The remaining steps. `renew` restores them after each find, for the next search.

    `last_day` is the last day, counted from 1970, that the search considers.
    """

    __slots__ = ("_left", "_most", "last_day")

    def __init__(self, most: int = MOST_STEPS, until: Instant | None = None) -> None:
        self._most = self._left = most
        self.last_day = _NO_END if until is None else until // DAY + _DAYS_OFF

    def spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise Exhausted

    def renew(self) -> None:
        self._left = self._most
