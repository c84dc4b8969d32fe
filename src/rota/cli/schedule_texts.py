"""Schedules as text: their rules, times and states, and all of it as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.cli.show import ago
from rota.errors import InvalidInput
from rota.model.times import Duration, Instant, iso, short
from rota.model.trigger import template as work
from rota.model.trigger.arguments import local_iso
from rota.model.trigger.plan import Parsed, parse
from rota.model.trigger.reading import recurrence_text, rule_text
from rota.model.trigger.records import FireInfo, ScheduleInfo
from rota.model.trigger.template import Template


def in_zone(moment: Instant, where: str) -> str:
    """`2027-01-01 09:00:00+01:00`"""
    return local_iso(moment, where).replace("T", " ")


def utc(moment: Instant) -> str:
    return in_zone(moment, "UTC").replace("+00:00", "Z")


def look(info: ScheduleInfo) -> tuple[Parsed | None, str | None]:
    """The parsed schedule, or the problem with its stored texts: they may have been written by hand."""
    try:
        return parse(info), None
    except InvalidInput as problem:
        return None, str(problem)


class Stored(msgspec.Struct, frozen=True):
    """The readable parts of a schedule that can't be parsed as a whole: enough to write it anew."""

    rule: str | None = None
    zone: str | None = None
    template: Template | None = None


class _Timing(msgspec.Struct):
    rule: dict[str, Any]
    zone: str = "UTC"


def stored(info: ScheduleInfo) -> Stored:
    try:
        said = msgspec.json.decode(info.timing, type=_Timing)
    except (msgspec.MsgspecError, RecursionError):
        rule, where = None, None
    else:
        rule, where = _stored_rule(said.rule), said.zone
    try:
        return Stored(rule, where, work.from_json(info.work))
    except InvalidInput:
        return Stored(rule, where)


def _stored_rule(rule: dict[str, Any]) -> str:
    """As people write it; JSON if its parts make no sense."""
    match rule:
        case {"kind": "cron", "text": str(text)}:
            return text
        case {"kind": "rrule", "text": str(text), "begin": str(begin)}:
            return recurrence_text(text, begin)
        case {"kind": "every", "period": int(period), **more} if not more:
            return f"every {short(period)}"
        case _:
            return msgspec.json.encode(rule).decode()


def standing(info: ScheduleInfo, parsed: Parsed | None) -> str:
    if info.broken is not None or parsed is None:
        return "broken"
    if info.next_at is None or (parsed.schedule.limit is not None and info.fired >= parsed.schedule.limit):
        return "ended"
    return "paused" if info.paused else "active"


def next_of(info: ScheduleInfo, parsed: Parsed | None) -> Instant | None:
    return info.next_at if standing(info, parsed) == "active" else None


def next_text(info: ScheduleInfo, now: Instant) -> str:
    parsed, _ = look(info)
    fire = next_of(info, parsed)
    if parsed is None or fire is None:
        stands = standing(info, parsed)
        return "it has ended and does not fire any more" if stands == "ended" else f"it is {stands}"
    if fire <= now:
        return "it is due now"
    return f"next fire {in_zone(fire, parsed.schedule.zone)} ({utc(fire)}, {ago(fire, now)})"


# -- JSON ------------------------------------------------------------------------------------------------------------
def as_json(info: ScheduleInfo) -> dict[str, Any]:
    """A schedule as JSON. If it can't be parsed: the parts that can."""
    parsed, problem = look(info)
    template = parsed.template if parsed else stored(info).template
    return {
        "name": info.name, "owner": info.owner, "state": standing(info, parsed), "broken": info.broken or problem,
        "app": info.app, "module": info.module, "undeclared_at": _iso(info.undeclared_at),
        **_timing(info, parsed), "job": None if template is None else _work(template),
        "next_fire": _iso(next_of(info, parsed)), "last_fire": _iso(info.last_fire), "last_job": info.last_job,
        "fired": info.fired, "paused_at": _iso(info.paused_at), "paused_by": info.paused_by, "note": info.note,
        "created_at": _iso(info.created_at), "changed_at": _iso(info.changed_at), "revision": info.revision,
    }  # fmt: skip


def _timing(info: ScheduleInfo, parsed: Parsed | None) -> dict[str, Any]:
    """The timing, by the names of its options."""
    if parsed is None:
        said = stored(info)
        return {"rule": said.rule, "zone": said.zone}
    schedule, policy = parsed.schedule, parsed.schedule.catch_up
    return {
        "rule": rule_text(schedule.rule), "zone": schedule.zone, "gap": schedule.gap, "fold": schedule.fold,
        "start": _iso(schedule.start), "end": _iso(schedule.end), "jitter": _short(schedule.jitter or None),
        "limit": schedule.limit, "exclude": schedule.exclude, "only": schedule.only, "overlap": schedule.overlap,
        "catch_up": policy.missed, "catch_up_window": _short(policy.window), "catch_up_max": policy.most,
    }  # fmt: skip


def _work(template: Template) -> dict[str, Any]:
    return {
        "task": template.task, "kind": template.spec.kind, "spec": template.spec.shown,
        "args": msgspec.json.decode(template.args), "queue": template.queue, "priority": template.priority,
        "retry": template.retry.parts(), "timeout": _short(template.timeout), "expires": _short(template.expires),
        **template.requirements.as_json(),
    }  # fmt: skip


def instant_as_json(fire: Instant, where: str) -> dict[str, str]:
    return {"fire_time": iso(fire), "local": local_iso(fire, where)}


def fire_as_json(fire: FireInfo) -> dict[str, Any]:
    return {
        "fire_time": iso(fire.fire), "last": iso(fire.last), "count": fire.count, "decided_at": iso(fire.at),
        "made": fire.kind is not None, "kind": fire.kind, "reason": fire.reason, "job": fire.job_id,
        "state": fire.state,
    }  # fmt: skip


def _iso(moment: Instant | None) -> str | None:
    return None if moment is None else iso(moment)


def _short(span: Duration | None) -> str | None:
    return None if span is None else short(span)
