"""Schedules: saved, listed, paused, fired, and previews of their fires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from rota.api.answers import Answer
from rota.api.job_places import Number
from rota.api.pages import Cursor, Limit, Page, cursor_of, read_cursor
from rota.api.requests import Request
from rota.api.resources.searches import LONGEST
from rota.api.routes import Routes
from rota.api.versions import EDITS, PUTS, READS, TELLS, check_match, tagged, unless_known
from rota.clients.schedules import NEVER, Saved
from rota.errors import InvalidInput
from rota.model.access import Permission
from rota.model.options import LONGEST_REASON
from rota.model.readers import printable
from rota.model.times import as_instant, instant
from rota.model.trigger.reading import schedule_name
from rota.model.trigger.records import Fate, ScheduleFilter, StoredSchedule
from rota.model.versions import ABSENT
from rota.views.schedules import (
    BackfillView,
    FireView,
    InstantView,
    SavedScheduleView,
    ScheduleDetailView,
    ScheduleView,
    look,
    schedule_fields,
    standing,
)
from rota.wire_orders.schedules import WITHOUT_NAME, ScheduleEntry, TimingEntry, read_template, read_timing

ROUTES = Routes("schedules")
A_FEW = 5
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000)]


class ScheduleListQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`app`: only those that this app declares."""

    app: str | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class NextQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    count: Count = 10


class FiresQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 100
    cursor: Cursor | None = None


class PreviewBody(TimingEntry, kw_only=True, forbid_unknown_fields=True):
    count: Count = 10


class NoteBody(msgspec.Struct, forbid_unknown_fields=True):
    note: str = ""


class BackfillBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """`many`: also more than 10,000 fires."""

    from_: str
    to: str
    dry_run: bool = False
    many: bool = False


class FiredView(msgspec.Struct):
    """`fate`: made, queued behind earlier fires, or skipped by the overlap policy; then there is no job."""

    fate: Fate
    job: str | None


def version(info: StoredSchedule | None) -> str:
    return ABSENT if info is None else f"r{info.revision}"


@ROUTES.get("/api/v1/schedules", Permission.READ, "Schedules by name")
async def list_schedules(request: Request[None, ScheduleListQuery]) -> Page[ScheduleView]:
    query, client = request.query, request.jobs
    if query.app is not None:
        printable(query.app, "app", 1, LONGEST, "the name of an app")
    conditions = {"app": query.app}
    after = None if query.cursor is None else read_cursor(query.cursor, tuple[str, str], conditions)
    if after is not None:
        printable("".join(after), "cursor", 1, LONGEST, "`next` of the page before")
    found = await client.store.schedules(client.who, ScheduleFilter(app=query.app, after=after, limit=query.limit))
    full = len(found) == query.limit
    following = cursor_of([found[-1].owner, found[-1].name], conditions) if full else None
    return Page([ScheduleView.of(info) for info in found], following)


@ROUTES.get("/api/v1/schedules/{name}", Permission.READ, "A schedule with its next fires", **READS)
async def get_schedule(request: Request[None, None]) -> Answer[ScheduleDetailView]:
    planning = request.schedules
    info = await planning.get(request.path["name"])
    parsed, _ = look(info)
    coming: list[int] = []
    if standing(info, parsed) not in ("broken", "ended"):
        try:
            coming = await planning.upcoming(info.name, A_FEW)
        except InvalidInput:  # a calendar that it needs can't be read
            coming = []
    past = await planning.history(info.name, A_FEW)
    return unless_known(request, ScheduleDetailView.whole(info, coming, past), version(info))


@ROUTES.put("/api/v1/schedules/{name}", Permission.ORDER, "Adds or replaces a schedule", **PUTS)
async def put_schedule(request: Request[ScheduleEntry, None]) -> Answer[SavedScheduleView]:
    desk, body, name = request.desk, request.body, schedule_name(request.path["name"])
    if body.note is not None and not body.paused:
        raise InvalidInput("note", body.note, "it with paused: it says why")
    note = _note(body.note or "")
    timing = read_timing(body, request.principal.user, name, request.store.now())
    tasks = await desk.tasks.with_([body.job.task] if body.job.task is not None else ())
    template = read_template(body.job, desk.settings.max_args, tasks)
    request.grant.check_work(template.spec, template.task, template.queue)
    planning = request.schedules
    saved = await planning.save(timing, template, note=note if body.paused else None, check=_check(request))
    info = saved.info
    if body.paused and not saved.created and not (info.paused and body.note is None):
        info = await planning.pause(name, note)
    view = SavedScheduleView(**schedule_fields(info), saved=_how(saved))
    return tagged(view, version(info), 201 if saved.created else 200)


@ROUTES.delete("/api/v1/schedules/{name}", Permission.ORDER, "Removes a schedule; its jobs stay", **EDITS)
async def remove_schedule(request: Request[None, None]) -> None:
    await request.schedules.remove(request.path["name"], check=_check(request))


def _check(request: Request[Any, Any]) -> Callable[[StoredSchedule | None], None]:
    def check(info: StoredSchedule | None) -> None:
        check_match(request, version(info))

    return check


def _how(saved: Saved) -> str:
    return "added" if saved.created else "replaced" if saved.changed else "unchanged"


def _note(text: str) -> str:
    return printable(text, "note", 0, LONGEST_REASON, f"a text of up to {LONGEST_REASON:,} printable characters")


# -- previews --------------------------------------------------------------------------------------------------------
@ROUTES.post("/api/v1/schedule-preview", Permission.READ, "The next fires of a timing that is not saved")
async def preview_schedule(request: Request[PreviewBody, None]) -> Page[InstantView]:
    timing = read_timing(request.body, request.principal.user, WITHOUT_NAME, request.store.now())
    found = await request.schedules.preview(timing, request.body.count)
    return Page([InstantView.of(fire, timing.zone) for fire in found])


@ROUTES.get("/api/v1/schedules/{name}/next", Permission.READ, "The next fires of a schedule")
async def next_fires(request: Request[None, NextQuery]) -> Page[InstantView]:
    info = await request.schedules.get(request.path["name"])
    if info.broken is not None:
        raise InvalidInput("schedule", info.name, f"one that is not broken: {info.broken}")
    zone = (await request.schedules.parsed(info)).schedule.zone
    return Page(
        [InstantView.of(fire, zone) for fire in await request.schedules.upcoming(info.name, request.query.count)]
    )


@ROUTES.get("/api/v1/schedules/{name}/fires", Permission.READ, "Made and skipped fires, latest first")
async def list_fires(request: Request[None, FiresQuery]) -> Page[FireView]:
    query, name = request.query, request.path["name"]
    before = NEVER if query.cursor is None else read_cursor(query.cursor, Number, {"name": name})
    found = await request.schedules.history(name, query.limit, before)
    full = len(found) == query.limit
    following = cursor_of(as_instant(found[-1].fire), {"name": name}) if full else None
    return Page([FireView.of(fire) for fire in found], following)


# -- verbs -----------------------------------------------------------------------------------------------------------
@ROUTES.post(
    "/api/v1/schedules/{name}/pause", Permission.ORDER, "Skips the fires of a schedule until it is resumed", **TELLS
)
async def pause_schedule(request: Request[NoteBody | None, None]) -> Answer[ScheduleView]:
    name, note = request.path["name"], None if request.body is None else _note(request.body.note)
    info = await request.schedules.get(name)
    if not (info.paused and note is None):  # the earlier note stays
        info = await request.schedules.pause(name, note or "")
    return tagged(ScheduleView.of(info), version(info))


@ROUTES.post("/api/v1/schedules/{name}/resume", Permission.ORDER, "Lets a schedule fire again", **TELLS)
async def resume_schedule(request: Request[None, None]) -> Answer[ScheduleView]:
    info = await request.schedules.resume(request.path["name"])
    return tagged(ScheduleView.of(info), version(info))


@ROUTES.post("/api/v1/schedules/{name}/fire", Permission.ORDER, "Makes a job of the schedule now", status=201)
async def fire_schedule(request: Request[None, None]) -> FiredView:
    await _check_template(request)
    fate, job = await request.schedules.fire(request.path["name"])
    return FiredView(fate, None if fate is Fate.SKIPPED else job)


@ROUTES.post("/api/v1/schedules/{name}/backfill", Permission.ORDER, "Makes the fires of a past period that are missing")
async def backfill_schedule(request: Request[BackfillBody, None]) -> BackfillView:
    body, name = request.body, request.path["name"]
    start, end = instant(body.from_, "from"), instant(body.to, "to")
    await _check_template(request)
    steps = request.schedules.backfill(name, start, end, dry_run=body.dry_run, many=body.many)
    *_, last = [step async for step in steps]
    return last.view(name, body.dry_run)


async def _check_template(request: Request[Any, Any]) -> None:
    """A key that may not order the work of a schedule may not fire it either."""
    template = (await request.schedules.parsed(await request.schedules.get(request.path["name"]))).template
    request.grant.check_work(template.spec, template.task, template.queue)
