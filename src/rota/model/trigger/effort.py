"""Bounds on the search for a fire: how far it looks, and how many steps it takes.

Some rules fire once in a lifetime or never (each 9,973rd second that falls on 9:00:00, a Monday that a calendar always
leaves out), and no test of the text tells which. So every search counts what it looks at and gives up after so many
steps. Steps and not seconds: what is refused on one machine is refused on all of them.
"""

from __future__ import annotations

from rota.model.times import DAY, Instant

# From one fire to the next. A step takes one or two microseconds, so a search ends within some 20 ms. Too low and rules
# that make sense are refused (the rarest sensible one, a Monday 29 February, needs some 500), too high and one rule
# keeps the other schedules waiting.
MOST_STEPS = 10_000


class Exhausted(Exception):
    """The search took too many steps."""


# A reading taken for a second of UTC is wrong by less than this, in all zones.
_DAYS_OFF = 2
_NO_END = 4_000_000  # days since 1970, after the end of the calendar


class Effort:
    """The steps that are left. `renew` when something was found: the next search has them all again.

    `last_day` is the last day, counted from 1970, on which a reading is of interest: nobody looks further.
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
