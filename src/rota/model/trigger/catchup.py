"""Decides which due fires are made and which are skipped.

Every policy comes down to one instant: later fires are made, earlier ones are skipped.
"""

from __future__ import annotations

import msgspec

from rota.model.times import Instant
from rota.model.trigger.calendars import NO_CALENDARS, Calendars
from rota.model.trigger.fires import counted, fires, newest
from rota.model.trigger.policies import Missed
from rota.model.trigger.schedule import Timing
from rota.model.trigger.skipped import Skipped, SkipReason

COUNTED = 10_000  # larger runs of skipped fires are not counted
AT_ONCE = 500  # fires per write, so that it stays short
_OF_POLICY = {Missed.NONE: SkipReason.MISSED, Missed.LATEST: SkipReason.NEWER, Missed.ALL: SkipReason.MAXIMUM}


class Due(msgspec.Struct, frozen=True):
    make: list[Instant]
    skip: list[Skipped]
    handled: Instant  # all fires up to here are in one of the lists
    more: bool  # there are more fires to make: ask again with `handled`
    ended: bool  # the limit on the number of fires is reached


def due(schedule: Timing, handled: Instant, now: Instant, fired: int = 0, calendars: Calendars = NO_CALENDARS) -> Due:
    """Decides all fires later than `handled` and not later than `now`; `fired` is the number of fires ever made."""
    left = None if schedule.limit is None else max(0, schedule.limit - fired)
    if left == 0:
        return Due([], [], handled, False, True)
    some = list(fires(schedule, handled, now, limit=2, calendars=calendars))
    if len(some) < 2 and all(fire >= now - schedule.catch_up.grace for fire in some):  # the usual case
        ended = len(some) == left
        return Due(some, [], some[0] if ended else max(handled, now), False, ended)
    floor = max(handled + 1, _floor(schedule, handled, now, calendars))
    most = AT_ONCE if left is None else min(left, AT_ONCE)
    found = list(fires(schedule, floor - 1, now, limit=most + 1, calendars=calendars))
    make = found[:most]
    ended = len(make) == left
    more = len(found) > most and not ended
    oldest = min(floor, max(handled + 1, now - (schedule.catch_up.window or now)))
    skip = _run(schedule, handled, oldest - 1, SkipReason.WINDOW, calendars)
    skip += _run(schedule, oldest - 1, floor - 1, _OF_POLICY[schedule.catch_up.missed], calendars)
    reached = make[-1] if make else floor - 1
    return Due(make, skip, reached if more or ended else max(handled, now), more, ended)


def passed_over(
    schedule: Timing, handled: Instant, now: Instant, reason: SkipReason, calendars: Calendars = NO_CALENDARS
) -> Due:
    """Skips all fires later than `handled` and not later than `now` for one reason, such as a pause."""
    return Due([], _run(schedule, handled, now, reason, calendars), max(handled, now), False, False)


def _run(schedule: Timing, after: Instant, until: Instant, reason: SkipReason, calendars: Calendars) -> list[Skipped]:
    """The fires in between as one run; nothing if there are none."""
    found = counted(schedule, after, until, COUNTED, calendars)
    if found is not None:
        return [Skipped(found[0], found[-1], len(found), reason)] if found else []
    first = list(fires(schedule, after, until, limit=1, calendars=calendars))
    return [Skipped(first[0], newest(schedule, after, until, 1, calendars)[0], None, reason)] if first else []


def _floor(schedule: Timing, handled: Instant, now: Instant, calendars: Calendars) -> Instant:
    """Fires from here on are made. The newest always is if it is within the grace: it is late, not missed."""
    policy = schedule.catch_up
    last = newest(schedule, handled, now, 1, calendars)[0]
    on_time = last >= now - policy.grace
    oldest = max(handled, now - policy.window - 1) if policy.window is not None else handled
    match policy.missed:
        case Missed.NONE:
            kept = []
        case Missed.LATEST:
            kept = [last] if last > oldest else []
        case Missed.ALL:
            kept = newest(schedule, oldest, last - 1 if on_time else now, policy.most, calendars)
    return kept[0] if kept else last if on_time else now + 1
