"""`rota schedule list`, `show`, `next` and `history`: the state of schedules, their next fires and their past fires."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence

from rota.app_core import AppCore
from rota.cli import calls, commands
from rota.cli.job import as_json, brief
from rota.cli.schedule_texts import in_zone, utc
from rota.cli.session import check_exists, client_place, existing, planning_of, utf8
from rota.cli.show import Cell, age, complain, document, facts, listing, shortened, state, table, when
from rota.clients.schedules import SchedulesClient
from rota.errors import InvalidInput, NotFound
from rota.model.job import Kind
from rota.model.times import SECOND, Instant, as_instant, short
from rota.model.trigger.fires import fires
from rota.model.trigger.plan import Parsed, named_calendars
from rota.model.trigger.reading import NAMES, read_schedule, rule_text
from rota.model.trigger.records import FireInfo, FireKind, StoredSchedule
from rota.model.trigger.schedule import Timing
from rota.views.schedules import (
    FireView,
    InstantView,
    ScheduleDetailView,
    ScheduleView,
    look,
    next_of,
    standing,
    stored,
)

LONGEST_RULE = 60
A_FEW = 5
WITHOUT_NAME = "preview"


# -- list ------------------------------------------------------------------------------------------------------------
async def list_(args: argparse.Namespace) -> int:
    app_name = None if args.app_name is None else utf8(args.app_name, "--app-name")
    async with existing(args) as client:
        found = [info async for info in planning_of(client).all(app_name)]
    listing(
        args, map(ScheduleView.of, found), ("NAME", "RULE", "ZONE", "NEXT", "LAST", "STATE", "TASK"), map(_row, found)
    )
    if not args.json:
        _note_undeclared(found)
    return 0


def _note_undeclared(found: Sequence[StoredSchedule]) -> None:
    for info in found:
        if info.undeclared_at is not None:
            where = f" (module {info.module})" if info.module else ""
            complain(
                f"the node of app {info.app!r} that started last does not declare {info.name!r}{where}: {_cure(info)}"
            )


def _cure(info: StoredSchedule) -> str:
    declaring = "imports it" if info.module else "declares it"
    return f"start one that {declaring}, or, if it is gone for good, `rota schedule remove {shlex.quote(info.name)}`"


def _row(info: StoredSchedule) -> tuple[Cell, ...]:
    parsed, _ = look(info)
    stands = state(standing(info, parsed))
    if parsed is None:
        said = stored(info)
        known = shortened(said.rule or "?", LONGEST_RULE), said.zone or "?"
        return (
            info.name,
            *known,
            "",
            _second(info.last_fire, "UTC"),
            stands,
            said.template.task if said.template else "?",
        )
    where = parsed.schedule.zone
    rule = shortened(rule_text(parsed.schedule.rule), LONGEST_RULE)
    upcoming, last = _moment(next_of(info, parsed), where), _second(info.last_fire, where)
    return info.name, rule, where, upcoming, last, stands, parsed.template.task


def _moment(moment: Instant | None, where: str) -> str:
    return "" if moment is None else in_zone(moment, where)


def _second(moment: Instant | None, where: str) -> str:
    """An instant without microseconds: fires made by hand have some."""
    return "" if moment is None else in_zone(moment - moment % SECOND, where)


# -- show ------------------------------------------------------------------------------------------------------------
async def show_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        planning, now = planning_of(client), client.store.now()
        info = await planning.get(utf8(args.schedule, "NAME"))
        parsed, problem = look(info)
        coming = await _coming(planning, info, parsed)
        past = await planning.history(info.name, A_FEW)
    if args.json:
        document(ScheduleDetailView.whole(info, coming, past))
        return 0
    facts([*_identity(info, parsed, problem, now), *_timing(info, parsed), *_work(info, parsed), *_course(info, now)])
    where = parsed.schedule.zone if parsed else "UTC"
    if coming:
        print("\nnext fires" + (", all skipped while it is paused" if info.paused else ""))
        _show_instants(coming, where, now)
    if past:
        print("\nlast fires")
        _show_history(past, where)
    return 0


async def _coming(planning: SchedulesClient, info: StoredSchedule, parsed: Parsed | None) -> list[Instant]:
    if parsed is None or standing(info, parsed) in ("broken", "ended"):
        return []
    try:
        return await planning.upcoming(info.name, A_FEW)
    except InvalidInput:  # a calendar that it needs can't be read
        return []


def _identity(
    info: StoredSchedule, parsed: Parsed | None, problem: str | None, now: Instant
) -> Iterator[tuple[str, Cell]]:
    yield "name", info.name
    yield "state", state(standing(info, parsed))
    yield "broken", info.broken or problem or ""
    yield "paused", f"{when(info.paused_at, now)} by {info.paused_by}" if info.paused else ""
    yield "note", (info.note or "") if info.paused else ""
    yield "declared by", _declarer(info, now) if info.app else ""
    yield "owner", info.owner


def _declarer(info: StoredSchedule, now: Instant) -> str:
    where = f"app {info.app}, " + (f"module {info.module}" if info.module else "in a module that is not known")
    if info.undeclared_at is None:
        return where
    return f"{where}; not by the node of the app that started last ({when(info.undeclared_at, now)}): {_cure(info)}"


def _timing(info: StoredSchedule, parsed: Parsed | None) -> Iterator[tuple[str, Cell]]:
    if parsed is None:
        said = stored(info)
        yield "rule", brief(said.rule or "")
        yield "zone", said.zone or ""
        return
    schedule = parsed.schedule
    yield "rule", brief(rule_text(schedule.rule))
    yield "zone", schedule.zone
    yield "clock changes", f"gap {schedule.gap}, fold {schedule.fold}"
    yield "start", _moment(schedule.start, schedule.zone)
    yield "end", _moment(schedule.end, schedule.zone)
    yield "jitter", f"up to {short(schedule.jitter)}" if schedule.jitter else ""
    yield "limit", f"{schedule.limit} fires" if schedule.limit is not None else ""
    yield "exclude", ", ".join(schedule.exclude)
    yield "only", ", ".join(schedule.only)
    yield "overlap", schedule.overlap
    yield "catch-up", _catch_up(schedule)


def _catch_up(schedule: Timing) -> str:
    policy = schedule.catch_up
    window = "" if policy.window is None else f", not older than {short(policy.window)}"
    return f"{policy.missed}{window}, at most {policy.most}"


def _work(info: StoredSchedule, parsed: Parsed | None) -> Iterator[tuple[str, Cell]]:
    work = parsed.template if parsed else stored(info).template
    if work is None:
        return
    spec, arguments = work.shown
    yield "task", f"{work.task} ({work.spec.kind})"
    if work.spec.kind is Kind.COMMAND:
        yield from ((name, brief(text)) for name, text in commands.facts_of(spec))
    elif work.spec.kind is Kind.HTTP:
        yield from ((name, brief(text)) for name, text in calls.facts_of(spec))
    else:
        yield "arguments", brief(as_json(arguments))
    yield "secrets", ", ".join(work.spec.secrets)
    yield "queue", f"{work.queue}, priority {work.priority}"
    yield "retries", f"{work.retry.retries}, backoff {work.retry.backoff}" if work.retry.retries else "none"
    yield "timeout", short(work.timeout) if work.timeout is not None else ""
    yield from work.requirements.facts()
    yield "expires", f"{short(work.expires)} after it is due" if work.expires is not None else ""


def _course(info: StoredSchedule, now: Instant) -> Iterator[tuple[str, Cell]]:
    yield "created", when(info.created_at, now)
    yield "changed", when(info.changed_at, now) if info.changed_at != info.created_at else ""
    yield "fired", f"{info.fired} times" if info.fired != 1 else "once"
    yield "last job", info.last_job or ""


# -- next ------------------------------------------------------------------------------------------------------------
async def next_(args: argparse.Namespace) -> int:
    _check_form(args)
    found, where, now = await (_of_rule(args) if args.rule is not None else _of_schedule(args))
    if args.json:
        document([InstantView.of(fire, where) for fire in found])
    elif found:
        _show_instants(found, where, now)
    if len(found) < args.n:
        complain(
            "there are no fires to come: it has ended" if not found else f"no more than {len(found)}: then it ends"
        )
    return 0


def _check_form(args: argparse.Namespace) -> None:
    if args.rule is None and args.schedule is None:
        args.parser.error("give the NAME of a schedule, or a --rule to try out")
    if args.rule is None:
        for name in NAMES:
            if getattr(args, name, None) is not None:
                args.parser.error(f"--{name} goes with --rule, not with a schedule")


async def _of_schedule(args: argparse.Namespace) -> tuple[list[Instant], str, Instant]:
    async with existing(args) as client:
        planning = planning_of(client)
        info = await planning.get(utf8(args.schedule, "NAME"))
        if info.broken is not None:
            raise InvalidInput("schedule", info.name, f"one that is not broken: {info.broken}")
        where = (await planning.parsed(info)).schedule.zone
        found = await planning.upcoming(info.name, args.n)
        if info.paused:
            complain(f"schedule {info.name!r} is paused: what comes up before it is resumed is skipped")
        return found, where, client.store.now()


async def _of_rule(args: argparse.Namespace) -> tuple[list[Instant], str, Instant]:
    """No store is needed, unless calendars are named."""
    async with AppCore(**client_place(args)) as app:
        given = {name: getattr(args, name, None) for name in NAMES}
        name = WITHOUT_NAME if args.schedule is None else args.schedule
        schedule = read_schedule(app.who.user, name, given, app.clock.now())
        if named_calendars(schedule):
            check_exists(app)
            planning = await app.planning()
            return await planning.preview(schedule, args.n), schedule.zone, app.clock.now()
        most = args.n if schedule.limit is None else min(args.n, schedule.limit)
        return list(fires(schedule, app.clock.now(), limit=most)), schedule.zone, app.clock.now()


def _show_instants(found: Sequence[Instant], where: str, now: Instant) -> None:
    if where == "UTC":
        table(("UTC", "IN"), ((utc(fire), age(fire - now)) for fire in found))
    else:
        table((where, "UTC", "IN"), ((in_zone(fire, where), utc(fire), age(fire - now)) for fire in found))


# -- history ---------------------------------------------------------------------------------------------------------
async def history_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        planning = planning_of(client)
        found = await planning.history(utf8(args.schedule, "NAME"), args.limit)
        where = await _zone_of(planning, args.schedule)
    if args.json:
        document([FireView.of(fire) for fire in found])
    else:
        _show_history(found, where)
    return 0


async def _zone_of(planning: SchedulesClient, name: str) -> str:
    """The zone of a schedule, or UTC: a removed schedule has a history but no zone."""
    try:
        parsed, _ = look(await planning.get(name))
    except NotFound:
        return "UTC"
    return parsed.schedule.zone if parsed else "UTC"


def _show_history(found: Sequence[FireInfo], where: str) -> None:
    headers = ("FIRE TIME", "UTC", "WHAT", "JOB", "STATE")
    table(headers, (_history_row(fire, where) for fire in found))


def _history_row(fire: FireInfo, where: str) -> tuple[Cell, ...]:
    times = [
        _run(_second(as_instant(fire.fire), name), _second(as_instant(fire.last), name)) for name in (where, "UTC")
    ]
    local, universal = times[0], times[1].replace("+00:00", "Z")
    if fire.kind is None:
        count = f" ({'many' if fire.count is None else fire.count})" if fire.fire != fire.last else ""
        return f"{local}{count}", universal, f"skipped: {fire.reason}", "", ""
    what = "made" if fire.kind is FireKind.RULE else f"made: {fire.kind}"
    return local, universal, what, fire.job_id or "", state(fire.state) if fire.state else "gone"


def _run(first: str, last: str) -> str:
    return first if first == last else f"{first}..{last}"
