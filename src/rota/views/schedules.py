"""Schedules, their fires and calendars. A schedule whose stored texts can't be read shows the parts that can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from rota.errors import InvalidInput
from rota.model.job import Kind
from rota.model.lifecycle import State
from rota.model.times import Instant, iso, short
from rota.model.trigger import template as work
from rota.model.trigger.arguments import local_iso
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.plan import Parsed, parse
from rota.model.trigger.reading import recurrence_text, rule_text
from rota.model.trigger.records import FireInfo, FireKind, StoredSchedule
from rota.model.trigger.skipped import SkipReason
from rota.model.trigger.template import Template
from rota.views.jobs import Needs, RetryView, needs
from rota.views.moments import Moment, Period, moment, period


def look(info: StoredSchedule) -> tuple[Parsed | None, str | None]:
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


def stored(info: StoredSchedule) -> Stored:
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
        case {"kind": "every", "period": int(span), **more} if not more:
            return f"every {short(span)}"
        case _:
            return msgspec.json.encode(rule).decode()


def standing(info: StoredSchedule, parsed: Parsed | None) -> str:
    if info.broken is not None or parsed is None:
        return "broken"
    if info.next_at is None or (parsed.schedule.limit is not None and info.fired >= parsed.schedule.limit):
        return "ended"
    return "paused" if info.paused else "active"


def next_of(info: StoredSchedule, parsed: Parsed | None) -> Instant | None:
    return info.next_at if standing(info, parsed) == "active" else None


class TemplateView(Needs, kw_only=True):
    """The order that each fire makes."""

    task: str
    kind: Kind
    spec: dict[str, Any]
    args: dict[str, Any]
    queue: str
    priority: int
    retry: RetryView
    timeout: Period | None
    expires: Period | None

    @classmethod
    def of(cls, template: Template) -> TemplateView:
        spec, args = template.shown
        return cls(
            task=template.task, kind=template.spec.kind, spec=spec, args=args,
            queue=template.queue, priority=template.priority,
            retry=RetryView.of(template.retry), timeout=period(template.timeout), expires=period(template.expires),
            **needs(template.requirements),
        )  # fmt: skip


class ScheduleView(msgspec.Struct, kw_only=True):
    """A schedule. The options of a timing that can't be read are not there."""

    name: str
    owner: str
    state: str
    broken: str | None
    app: str | None
    module: str | None
    undeclared_at: Moment | None
    rule: str | None
    zone: str | None
    gap: str | UnsetType = UNSET
    fold: str | UnsetType = UNSET
    start: Moment | UnsetType | None = UNSET
    end: Moment | UnsetType | None = UNSET
    jitter: Period | UnsetType | None = UNSET
    limit: int | UnsetType | None = UNSET
    exclude: list[str] | UnsetType = UNSET
    only: list[str] | UnsetType = UNSET
    overlap: str | UnsetType = UNSET
    catch_up: str | UnsetType = UNSET
    catch_up_window: Period | UnsetType | None = UNSET
    catch_up_max: int | UnsetType = UNSET
    job: TemplateView | None
    next_fire: Moment | None
    last_fire: Moment | None
    last_job: str | None
    fired: int
    paused_at: Moment | None
    paused_by: str | None
    note: str | None
    created_at: Moment
    changed_at: Moment
    revision: int

    @classmethod
    def of(cls, info: StoredSchedule) -> ScheduleView:
        return cls(**schedule_fields(info))


_SAME = ("name", "owner", "app", "module", "last_job", "fired", "paused_by", "note", "revision")
_MOMENTS = ("undeclared_at", "last_fire", "paused_at", "created_at", "changed_at")


def schedule_fields(info: StoredSchedule) -> dict[str, Any]:
    """The fields of ScheduleView."""
    parsed, problem = look(info)
    template = parsed.template if parsed else stored(info).template
    return {
        **{name: getattr(info, name) for name in _SAME},
        **{name: moment(getattr(info, name)) for name in _MOMENTS},
        **_timing(info, parsed),
        "state": standing(info, parsed), "broken": info.broken or problem,
        "job": None if template is None else TemplateView.of(template),
        "next_fire": moment(next_of(info, parsed)),
    }  # fmt: skip


def _timing(info: StoredSchedule, parsed: Parsed | None) -> dict[str, Any]:
    """The timing, by the names of its options."""
    if parsed is None:
        said = stored(info)
        return {"rule": said.rule, "zone": said.zone}
    schedule, policy = parsed.schedule, parsed.schedule.catch_up
    return {
        "rule": rule_text(schedule.rule), "zone": schedule.zone, "gap": schedule.gap, "fold": schedule.fold,
        "start": moment(schedule.start), "end": moment(schedule.end), "jitter": period(schedule.jitter or None),
        "limit": schedule.limit, "exclude": list(schedule.exclude), "only": list(schedule.only),
        "overlap": schedule.overlap, "catch_up": policy.missed, "catch_up_window": period(policy.window),
        "catch_up_max": policy.most,
    }  # fmt: skip


class InstantView(msgspec.Struct):
    """A fire to come. `local`: in the zone of the schedule."""

    fire_time: Moment
    local: str

    @classmethod
    def of(cls, fire: Instant, where: str) -> InstantView:
        return cls(iso(fire), local_iso(fire, where))


class FireView(msgspec.Struct):
    """A fire that was made, or a run of fires that were skipped; `count`: of the run, None if it is too long."""

    fire_time: Moment
    last: Moment
    count: int | None
    decided_at: Moment
    made: bool
    kind: FireKind | None
    reason: SkipReason | None
    job: str | None
    state: State | None

    @classmethod
    def of(cls, fire: FireInfo) -> FireView:
        times = iso(fire.fire), iso(fire.last), fire.count, iso(fire.at)
        return cls(*times, fire.kind is not None, fire.kind, fire.reason, fire.job_id, fire.state)


class ScheduleDetailView(ScheduleView, kw_only=True):
    """A schedule with its next fires and its latest ones."""

    next: list[InstantView]
    history: list[FireView]

    @classmethod
    def whole(cls, info: StoredSchedule, coming: Sequence[Instant], past: Sequence[FireInfo]) -> ScheduleDetailView:
        fields = schedule_fields(info)
        where = fields["zone"] or "UTC"
        following = [InstantView.of(fire, where) for fire in coming]
        return cls(**fields, next=following, history=[FireView.of(fire) for fire in past])


class SavedScheduleView(ScheduleView, kw_only=True):
    """`saved`: added, replaced or unchanged."""

    saved: str


class BackfillView(msgspec.Struct):
    """The fires of a past period: all, and those that were made, queued, or made before."""

    name: str
    total: int
    made: int
    queued: int
    already: int
    first: Moment | None
    last: Moment | None
    dry_run: bool


class CalendarView(msgspec.Struct):
    name: str
    dates: list[str]

    @classmethod
    def of(cls, calendar: Calendar) -> CalendarView:
        return cls(calendar.name, [str(day) for day in calendar.dates])
