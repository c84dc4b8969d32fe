"""What to make and what to skip, when some fires are due.

All policies come down to one instant: fires from there on are made, earlier ones are skipped. Skips are told as runs of
neighbours with one reason: a schedule that fires each second and was down for a month has one line, not two million.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from rota.model.times import Instant
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.fires import NO_CALENDARS, fires, newest
from rota.model.trigger.policies import Missed
from rota.model.trigger.schedule import Schedule

EXAMINED = 10_000  # fires looked at in one go, some 50 ms


class Reason(StrEnum):
    """Why a fire was not made."""

    MISSED = "missed"  # and nothing is made up for
    NEWER = "newer"  # a newer one is made instead
    WINDOW = "window"  # too old to be made up for
    MAXIMUM = "maximum"  # enough newer ones are made up for
    PAUSED = "paused"
    OVERLAP = "overlap"


_OF_POLICY = {Missed.NONE: Reason.MISSED, Missed.LATEST: Reason.NEWER, Missed.ALL: Reason.MAXIMUM}


class Skipped(msgspec.Struct, frozen=True):
    """A run of fires that were not made, from `first` to `last`, `count` of them."""

    first: Instant
    last: Instant
    count: int
    reason: Reason


class Due(msgspec.Struct, frozen=True):
    make: list[Instant]
    skip: list[Skipped]
    handled: Instant  # all fires up to here are in one of the lists
    more: bool  # there are more than could be looked at in one go: ask again with `handled`
    ended: bool  # the limit on the number of fires is reached


def due(
    schedule: Schedule,
    handled: Instant,
    now: Instant,
    fired: int = 0,
    calendars: Mapping[str, Calendar] = NO_CALENDARS,
) -> Due:
    """Decides about all fires later than `handled` and not later than `now`; `fired` is how many were ever made."""
    left = EXAMINED if schedule.limit is None else max(0, schedule.limit - fired)
    floor = _floor(schedule, handled, now, calendars)
    oldest = now - (schedule.catch_up.window or now)
    make: list[Instant] = []
    runs = _Runs()
    reached, more, looked = handled, False, fires(schedule, handled, now, limit=EXAMINED + 1, calendars=calendars)
    for number, fire in enumerate(looked):
        if number == EXAMINED or len(make) == left:
            more = number == EXAMINED
            break
        if fire >= floor:
            make.append(fire)
        else:
            runs.add(fire, Reason.WINDOW if fire < oldest else _OF_POLICY[schedule.catch_up.missed])
        reached = fire
    ended = schedule.limit is not None and len(make) >= left
    return Due(make, runs.skipped, reached if more or ended else max(handled, now), more and not ended, ended)


def passed_over(
    schedule: Schedule,
    handled: Instant,
    now: Instant,
    reason: Reason,
    calendars: Mapping[str, Calendar] = NO_CALENDARS,
) -> Due:
    """All fires later than `handled` and not later than `now` skipped for one reason: the schedule was paused, say."""
    runs = _Runs()
    reached, more = handled, False
    for number, fire in enumerate(fires(schedule, handled, now, limit=EXAMINED + 1, calendars=calendars)):
        if number == EXAMINED:
            more = True
            break
        runs.add(fire, reason)
        reached = fire
    return Due([], runs.skipped, reached if more else max(handled, now), more, False)


class _Runs:
    def __init__(self) -> None:
        self.skipped: list[Skipped] = []

    def add(self, fire: Instant, reason: Reason) -> None:
        last = self.skipped[-1] if self.skipped else None
        if last is not None and last.reason is reason:
            self.skipped[-1] = Skipped(last.first, fire, last.count + 1, reason)
        else:
            self.skipped.append(Skipped(fire, fire, 1, reason))


def _floor(schedule: Schedule, handled: Instant, now: Instant, calendars: Mapping[str, Calendar]) -> Instant:
    """Fires from here on are made. Those within the grace always are: they are late, not missed."""
    policy = schedule.catch_up
    on_time = now - policy.grace
    oldest = max(handled, now - policy.window - 1) if policy.window is not None else handled
    match policy.missed:
        case Missed.NONE:
            return on_time
        case Missed.LATEST:
            kept = newest(schedule, oldest, now, 1, calendars)
        case Missed.ALL:
            kept = newest(schedule, oldest, on_time - 1, policy.most, calendars)
    return min(on_time, kept[0]) if kept else on_time
