"""A time zone as stretches of constant offset.

`zoneinfo` gives the offset at an instant, but not its end. Within a stretch local time is plain arithmetic, and gaps
and folds happen at its ends. So the ends are searched, a year at a time, and cached.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec

from rota.errors import InvalidInput
from rota.model.times import SECOND, Instant

DAY_SECONDS = 86_400
# Stretches shorter than this could go unseen. The shortest in the zone database since 1970 lasts a week.
_STEP = 2 * DAY_SECONDS
# Changes this near to the turn of a year concern both years: no fold is longer.
_MARGIN = 3 * DAY_SECONDS
_YEARS_KEPT = 64
_EXPECTED = "the name of a time zone such as Europe/Berlin or UTC"
# Names whose meaning depends on the machine.
_OF_THE_MACHINE = frozenset({"localtime", "posixrules", "Factory"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """From `start` up to `end` (seconds of UTC) local time is UTC plus `offset`."""

    start: int
    end: int
    offset: int
    missing_from: int  # readings from here up to the first of this stretch never happened; none if it is the first
    seen_until: int  # readings before this one also happened in an earlier stretch
    seen_again_from: int  # readings from here on happen again in a later stretch

    @property
    def first(self) -> int:
        return self.start + self.offset

    @property
    def last(self) -> int:
        """The reading at its end."""
        return self.end + self.offset


class Zone:
    def __init__(self, name: str, info: ZoneInfo) -> None:
        self.name = name
        self.info = info
        self._years: dict[int, tuple[list[int], list[Stretch]]] = {}

    def offset(self, second: int) -> int:
        moment = (_EPOCH + timedelta(seconds=second)).astimezone(self.info)
        return int(moment.utcoffset().total_seconds())  # type: ignore[union-attr]

    def stretch(self, second: int) -> Stretch:
        """The stretch that holds this second of UTC. Stretches also end with the year, which changes nothing."""
        year = (_EPOCH + timedelta(seconds=second)).year
        known = self._years.get(year)
        if known is None:
            known = self._keep(year)
        starts, stretches = known
        return stretches[bisect_right(starts, second) - 1]

    def local(self, moment: Instant) -> datetime:
        return (_EPOCH + timedelta(microseconds=moment)).astimezone(self.info)

    def reading(self, moment: Instant) -> int:
        second = moment // SECOND
        return second + self.stretch(second).offset

    def midnight(self, day: date) -> Instant:
        """The first instant of that date (of a date that the zone skipped: the first instant after it)."""
        moment = datetime(day.year, day.month, day.day, tzinfo=self.info)
        return (moment - _EPOCH) // timedelta(microseconds=1)

    def _keep(self, year: int) -> tuple[list[int], list[Stretch]]:
        stretches = _stretches(self, _new_year(year), _new_year(year + 1))
        known = [stretch.start for stretch in stretches], stretches
        if len(self._years) >= _YEARS_KEPT:
            self._years.clear()
        self._years[year] = known
        return known


class _Change(msgspec.Struct, frozen=True):
    at: int
    before: int
    after: int


def _stretches(zone: Zone, start: int, end: int) -> list[Stretch]:
    changes = _changes(zone, start - _MARGIN, end + _MARGIN)
    cuts = sorted({start, *(change.at for change in changes if start < change.at < end)})
    return [_stretch(zone, changes, *ends) for ends in zip(cuts, [*cuts[1:], end], strict=True)]


def _stretch(zone: Zone, changes: list[_Change], start: int, end: int) -> Stretch:
    offset = zone.offset(start)
    before = next((change.before for change in changes if change.at == start), offset)
    return Stretch(
        start,
        end,
        offset,
        missing_from=start + min(before, offset),
        seen_until=max((change.at + change.before for change in changes if change.at <= start), default=start + offset),
        seen_again_from=min((change.at + change.after for change in changes if change.at >= end), default=end + offset),
    )


def _changes(zone: Zone, start: int, end: int) -> list[_Change]:
    found = []
    before = zone.offset(start)
    for second in range(start + _STEP, end + _STEP, _STEP):
        after = zone.offset(second)
        if after != before:
            found.append(_Change(_first_with(zone, after, second - _STEP, second), before, after))
        before = after
    return found


def _first_with(zone: Zone, offset: int, low: int, high: int) -> int:
    """Bisects the span until `low` has another offset and `high`, one second later, has this one."""
    while high - low > 1:
        middle = (low + high) // 2
        if zone.offset(middle) == offset:
            high = middle
        else:
            low = middle
    return high


def _new_year(year: int) -> int:
    return (date(year, 1, 1) - date(1970, 1, 1)).days * DAY_SECONDS


@lru_cache(maxsize=1024)
def zone(name: str) -> Zone:
    try:
        if name in _OF_THE_MACHINE:
            raise ValueError
        return Zone(name, ZoneInfo(name))
    except (ValueError, LookupError, OSError):  # malformed, unknown, or a folder of zones
        raise InvalidInput("time zone", name, _EXPECTED) from None
