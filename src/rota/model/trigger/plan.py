"""The next step of a schedule, as one value that a store can carry out or refuse."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rota.errors import InvalidInput
from rota.model.times import SECOND, Instant
from rota.model.trigger import schedule as timing
from rota.model.trigger import template as work
from rota.model.trigger.calendars import NO_CALENDARS, Calendars
from rota.model.trigger.catchup import due, passed_over
from rota.model.trigger.fires import next_fire, run_time
from rota.model.trigger.identity import fire_id
from rota.model.trigger.records import Advance, NewFire, StoredSchedule
from rota.model.trigger.schedule import Timing
from rota.model.trigger.skipped import Skipped, SkipReason
from rota.model.trigger.template import Template

_SEARCHED = ('"rrule"', '"exclude"', '"only"')  # as in the text of a schedule


class Parsed(msgspec.Struct, frozen=True):
    """A schedule read from its texts, with the calendars that it names."""

    schedule: Timing
    template: Template
    calendars: Calendars = NO_CALENDARS


def parse(info: StoredSchedule) -> Parsed:
    """Raises InvalidInput if the texts can't be read, or belong to another schedule. Calendars are left out."""
    schedule = timing.from_json(info.timing)
    if (schedule.owner, schedule.name) != (info.owner, info.name):
        raise InvalidInput("schedule", schedule.name, f"the name it stands under, {info.name!r}")
    return Parsed(schedule, work.from_json(info.work))


def quick(info: StoredSchedule, now: Instant) -> bool:
    """Whether its step is computed within microseconds: it is on time, and no rule or calendar has to be searched.
    Other steps may take some 50 ms."""
    on_time = info.next_at is not None and now - info.next_at <= SECOND
    return on_time and not any(word in info.timing for word in _SEARCHED)


def named_calendars(schedule: Timing) -> tuple[str, ...]:
    return tuple(sorted({*schedule.exclude, *schedule.only}))


def advance(info: StoredSchedule, parsed: Parsed, now: Instant) -> Advance:
    """The step for all fires that are due by now: made or skipped by its policies, all skipped while paused."""
    schedule, calendars = parsed.schedule, parsed.calendars
    if info.paused:
        found = passed_over(schedule, info.handled, now, SkipReason.PAUSED, calendars)
    else:
        found = due(schedule, info.handled, now, info.fired, calendars)
    over = found.ended and not found.make
    # The cursor is the last decided fire, never "now": a node with a fast clock must not skip fires.
    decided = max([info.handled, *found.make[-1:], *(run.last for run in found.skip[-1:])])
    return Advance(
        owner=info.owner, name=info.name, revision=info.revision, before=info.handled,
        fires=new_fires(parsed, found.make), skips=found.skip, handled=decided,
        next_at=None if over else next_fire(schedule, found.handled, calendars),
        limit=schedule.limit, overlap=schedule.overlap,
    )  # fmt: skip


def new_fires(parsed: Parsed, fires: Iterable[Instant], now: Instant | None = None) -> list[NewFire]:
    """The jobs of these fires, to run at their times; with `now`, at once."""
    schedule, template = parsed.schedule, parsed.template
    made: list[NewFire] = []
    for fire in fires:
        scheduled_for = run_time(schedule, fire) if now is None else now
        at = scheduled_for if now is None and scheduled_for > fire else None
        job_id = fire_id(schedule.owner, schedule.name, fire)
        made.append(NewFire(fire, template.job(job_id, at, schedule.zone, fire, scheduled_for)))
    return made


def left_behind(info: StoredSchedule, parsed: Parsed, now: Instant) -> list[Skipped]:
    """Due fires that are not handled when the schedule is removed."""
    reason = SkipReason.PAUSED if info.paused else SkipReason.REMOVED
    return passed_over(parsed.schedule, info.handled, now, reason, parsed.calendars).skip
