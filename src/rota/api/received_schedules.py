"""Checks of schedules, fires and calendars that a client sent; see `api.received`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.api import received
from rota.errors import InvalidInput
from rota.model.access import Grant
from rota.model.limits import plain_name
from rota.model.options import check_reason
from rota.model.times import LATEST, LONGEST
from rota.model.trigger import schedule as timing
from rota.model.trigger import template as work
from rota.model.trigger.calendars import Calendar, calendar_name
from rota.model.trigger.plan import named_calendars
from rota.model.trigger.reading import schedule_name
from rota.model.trigger.records import Advance, FireKind, NewFire, NewSchedule
from rota.model.trigger.skipped import Skipped

MOST_FIRES = 10_000  # in one call
MOST_STEPS = 100
FURTHEST = LATEST + LONGEST


def schedule(given: NewSchedule, grant: Grant, largest: int) -> NewSchedule:
    """Its texts made anew, with the user of the key as its owner."""
    schedule_name(given.name)
    found = timing.from_json(given.timing)
    if found.name != given.name:
        raise InvalidInput("name", given.name, f"the name in its timing, {found.name!r}")
    found = msgspec.structs.replace(found, owner=grant.user)
    template = _template(work.from_json(given.work), largest)
    grant.check_work(template.spec, template.task, template.queue)
    for what, name in (("app", given.app), ("module", given.module)):
        if name is not None:
            plain_name(name, what)
    if given.note is not None:
        check_reason(given.note)
    received.span(given.since, "since", 0, FURTHEST)
    received.span(given.next_at, "next_at", 0, FURTHEST)
    return msgspec.structs.replace(
        given, timing=timing.to_json(found), work=work.to_json(template), overlap=found.overlap,
        calendars=named_calendars(found),
    )  # fmt: skip


def _template(given: work.Template, largest: int) -> work.Template:
    spec = received.work(given.spec, largest)
    received.json_object(given.args, "arguments", largest)
    return msgspec.structs.replace(given, spec=spec, requirements=received.requirements(given.requirements))


def fires(given: Sequence[NewFire], grant: Grant, largest: int) -> list[NewFire]:
    if len(given) > MOST_FIRES:
        raise InvalidInput("fires", f"{len(given)} of them", f"at most {MOST_FIRES:,} at a time")
    found = []
    for one in given:
        received.span(one.fire, "fire", 0, FURTHEST)
        found.append(NewFire(one.fire, received.job(one.job, largest)))
    grant.check_orders([one.job for one in found])
    return found


def asked_for(kind: FireKind) -> FireKind:
    """The fires of the rule are made by `advance`."""
    if kind is FireKind.RULE:
        raise InvalidInput("kind", str(kind), f"{FireKind.MANUAL} or {FireKind.BACKFILL}")
    return kind


def steps(given: Sequence[Advance], grant: Grant) -> None:
    """Which schedules are meant. What they make is worked out again (`SchedulesClient.carry_out`)."""
    if len(given) > MOST_STEPS:
        raise InvalidInput("steps", f"{len(given)} of them", f"at most {MOST_STEPS:,} at a time")
    for one in given:
        if one.owner != grant.user:
            raise InvalidInput("owner", one.owner, f"{grant.user!r}: the user of the key")


def skipped(given: Skipped) -> Skipped:
    received.span(given.first, "first", 0, FURTHEST)
    received.span(given.last, "last", given.first, FURTHEST)
    received.span(given.count, "count", 0, FURTHEST)
    return given


def calendar(given: Calendar) -> Calendar:
    calendar_name(given.name)
    return given
