"""From readings of a wall clock to instants.

Inside a stretch of constant offset each reading is one instant. Where two stretches meet, readings may be missing
(clocks went forward) or happen twice (they went back), and the schedule's policies decide. Rules that fire every hour
or more often follow elapsed time instead: they fire whenever the clock shows a matching reading, so they neither pause
for an hour in autumn nor fire once more in spring.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from rota.model.times import LATEST, SECOND, Instant
from rota.model.trigger.effort import Effort
from rota.model.trigger.policies import Fold, Gap
from rota.model.trigger.zones import DAY_SECONDS, Stretch, Zone

_LAST_SECOND = LATEST // SECOND
# The largest difference between a reading and UTC, in all zones.
_FARTHEST_OFFSET = 2 * DAY_SECONDS
# The cost of a stretch: its zone may have to be searched for a whole year.
_STRETCH_STEPS = 50


class Readings(Protocol):
    @property
    def elapsed(self) -> bool: ...

    def since(self, reading: int, effort: Effort) -> Iterator[int]:
        """All readings from this one on, in order."""


def instants(rule: Readings, zone: Zone, gap: Gap, fold: Fold, after: Instant, effort: Effort) -> Iterator[Instant]:
    """All instants later than `after`, in order, each once. Works from one stretch to the next that has a reading."""
    second = after // SECOND + 1
    if rule.elapsed:
        gap, fold = Gap.SKIP, Fold.BOTH
    stretch: Stretch | None = zone.stretch(second)
    while stretch is not None and stretch.start <= _LAST_SECOND:
        effort.spend(_STRETCH_STEPS)
        shifted = gap is Gap.SHIFT and stretch.start >= second and _missed(rule, stretch, effort)
        if shifted:
            yield stretch.start * SECOND
        low, high = _taken(stretch, fold)
        beyond = None
        for reading in rule.since(max(low, second + stretch.offset), effort):
            if reading >= high:
                beyond = reading
                break
            if not (shifted and reading == stretch.first):
                yield (reading - stretch.offset) * SECOND
        stretch = _following(rule, zone, stretch, beyond, effort)


def _missed(rule: Readings, stretch: Stretch, effort: Effort) -> bool:
    """Whether a reading fell into the gap before this stretch."""
    if stretch.missing_from == stretch.first:
        return False
    reading = next(rule.since(stretch.missing_from, effort), None)
    return reading is not None and reading < stretch.first


def _taken(stretch: Stretch, fold: Fold) -> tuple[int, int]:
    """The readings of this stretch that count, as a half-open range."""
    low = max(stretch.first, stretch.seen_until) if fold is Fold.FIRST else stretch.first
    high = min(stretch.last, stretch.seen_again_from) if fold is Fold.SECOND else stretch.last
    return low, high


def _following(rule: Readings, zone: Zone, stretch: Stretch, beyond: int | None, effort: Effort) -> Stretch | None:
    """The next stretch that may have a fire: the following one if clocks go back at the end of this one, else that of
    the next reading. None for a rule without further readings, unless its last ones are repeated."""
    again = stretch.seen_again_from < stretch.last
    if again and next(rule.since(stretch.seen_again_from, effort), None) is not None:
        return zone.stretch(stretch.end)
    if beyond is None:
        return None
    return zone.stretch(min(max(stretch.end, beyond - _FARTHEST_OFFSET), _LAST_SECOND + 1))
