"""The instants at which a schedule fires.

The identity of a fire is the instant its rule names. With jitter it runs somewhat later, always by the same amount.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import count, islice

from rota.errors import InvalidInput
from rota.model.times import LATEST, MINUTE, SECOND, Instant
from rota.model.trigger.calendars import NO_CALENDARS, Calendars, Days, allowed
from rota.model.trigger.effort import MOST_STEPS, Effort, Exhausted
from rota.model.trigger.reading import rule_text
from rota.model.trigger.rules import Every, Times
from rota.model.trigger.schedule import Timing, last_named, readings
from rota.model.trigger.spread import spread
from rota.model.trigger.wall import instants
from rota.model.trigger.zones import zone

_MOST_AT_ONCE = 10_000
COUNTED_STEPS = 2 * MOST_STEPS  # for counting skipped fires


def fires(
    schedule: Timing,
    after: Instant,
    until: Instant | None = None,
    *,
    limit: int | None = None,
    calendars: Calendars = NO_CALENDARS,
) -> Iterator[Instant]:
    """All fires later than `after` and not later than `until`, in order, at most `limit`. Computed lazily; raises
    InvalidInput if the search for one takes too many steps."""
    last = _last(schedule, until)
    effort = Effort(until=last)
    try:
        for fire in islice(_searched(schedule, after, last, calendars, effort), limit):
            effort.renew()
            yield fire
    except Exhausted:
        days = " on the days its calendars leave" if schedule.exclude or schedule.only else ""
        expected = f"a rule that fires more often; the search for its next fire{days} was given up"
        raise InvalidInput("rule", rule_text(schedule.rule), expected) from None


def counted(
    schedule: Timing, after: Instant, until: Instant, most: int, calendars: Calendars = NO_CALENDARS
) -> list[Instant] | None:
    """All fires later than `after` and not later than `until`; None if there are more than `most`, or if the search
    takes too many steps."""
    last = _last(schedule, until)
    effort = Effort(COUNTED_STEPS, last)
    try:
        found = list(islice(_searched(schedule, after, last, calendars, effort), most + 1))
    except Exhausted:
        return None
    return found if len(found) <= most else None


def _last(schedule: Timing, until: Instant | None) -> Instant:
    return min(LATEST if moment is None else moment for moment in (until, schedule.end, LATEST))


def _searched(
    schedule: Timing, after: Instant, last: Instant, calendars: Calendars, effort: Effort
) -> Iterator[Instant]:
    first = max(after, (schedule.start or 0) - 1)
    days = allowed(schedule.exclude, schedule.only, calendars)
    found = _named(schedule, first, effort) if days is None else _on_days(schedule, first, last, days, effort)
    return _up_to(found, last)


def next_fire(schedule: Timing, after: Instant, calendars: Calendars = NO_CALENDARS) -> Instant | None:
    return next(fires(schedule, after, calendars=calendars), None)


def newest(
    schedule: Timing, after: Instant, until: Instant, limit: int, calendars: Calendars = NO_CALENDARS
) -> list[Instant]:
    """The last `limit` fires later than `after` and not later than `until`, in order.

    Looks back in spans that double while they hold few fires, so years without a fire are cheap, and so is a second
    with many.
    """
    found: list[Instant] = []
    span, high = MINUTE, until
    while len(found) < limit and high > after:
        low = max(after, high - span)
        block = list(fires(schedule, low, high, limit=_MOST_AT_ONCE + 1, calendars=calendars))
        if len(block) > _MOST_AT_ONCE and span > SECOND:
            span = max(SECOND, span // 16)
            continue
        found = block + found
        high, span = low, span * 2
    return found[-limit:] if limit else []


def run_time(schedule: Timing, fire: Instant) -> Instant:
    """The run time of a fire: with its jitter, which is the same on every node."""
    if not schedule.jitter:
        return fire
    return fire + spread("jitter", schedule.name, fire) % (schedule.jitter + 1)


def _named(schedule: Timing, after: Instant, effort: Effort) -> Iterator[Instant]:
    """The instants of the rule alone."""
    match schedule.rule:
        case Every(period, anchor):
            return count(anchor + max(0, (after - anchor) // period + 1) * period, period)
        case Times(moments):
            return iter(moments[bisect_right(moments, after) :])
    rule, last = readings(schedule), last_named(schedule)
    assert rule is not None
    if last is not None and after >= last:
        return iter(())
    found = instants(rule, zone(schedule.zone), schedule.gap, schedule.fold, after, effort)
    return found if last is None else _up_to(found, last)


def _on_days(schedule: Timing, after: Instant, last: Instant, days: Days, effort: Effort) -> Iterator[Instant]:
    """The instants of the rule on allowed days. From any other day the search jumps to the next allowed one."""
    where = zone(schedule.zone)
    found = _named(schedule, after, effort)
    while (fire := next(found, None)) is not None and fire <= last:
        today = where.local(fire).date()
        day = days.next(today, effort)
        if day is None:
            return
        if day == today:
            yield fire
        else:
            # If clocks go back over midnight, a date begins twice: the search never goes back.
            found = _named(schedule, max(fire, where.midnight(day) - 1), effort)


def _up_to(found: Iterator[Instant], last: Instant) -> Iterator[Instant]:
    for fire in found:
        if fire > last:
            return
        yield fire
