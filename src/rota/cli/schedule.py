"""`rota schedule add`, `pause`, `resume`, `fire`, `backfill` and `remove`: verbs that change schedules or make jobs."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence

from rota.app_core import AppCore
from rota.cli.live import Bar
from rota.cli.schedule_texts import in_zone, next_text
from rota.cli.session import check_exists, existing, make_app, planning_of, utf8
from rota.cli.show import answer, complain, document, safe
from rota.cli.submit import check_form, order_options, verdict, work_of
from rota.cli.waiting import hinting
from rota.clients.schedules import BackfillProgress, Saved, SchedulesClient
from rota.errors import InvalidInput, NotFound
from rota.model.option_table import SCHEDULE_NAMES
from rota.model.options import read_options
from rota.model.times import Instant, as_instant, instant
from rota.model.trigger.arguments import fill
from rota.model.trigger.fires import next_fire
from rota.model.trigger.plan import named_calendars
from rota.model.trigger.reading import NAMES, read_schedule
from rota.model.trigger.records import Fate, StoredSchedule
from rota.model.trigger.template import Template, template_of
from rota.views.jobs import JobView
from rota.views.schedules import SavedScheduleView, look, schedule_fields


# -- add -------------------------------------------------------------------------------------------------------------
async def add_(args: argparse.Namespace) -> int:
    check_form(args)
    if args.note is not None and not args.paused:
        args.parser.error("--note says why it is paused; give --paused too")
    note = utf8(args.note or "", "--note")
    async with make_app(args) as app:
        given = {name: getattr(args, name, None) for name in NAMES}
        schedule = read_schedule(app.who.user, args.schedule, given, app.clock.now())
        template = await _order(app, args, schedule.zone)
        if named_calendars(schedule):
            check_exists(app)  # a new store would have no calendars
        else:
            next_fire(schedule, app.clock.now())  # refuses a rule without fires before a store is made
        planning = await app.planning()
        saved = await planning.save(schedule, template, replace=args.replace, note=note if args.paused else None)
        info = saved.info
        if args.paused and not saved.created and not (info.paused and args.note is None):
            info = await planning.pause(schedule.name, note)
        text = f"{info.name} {how(saved)}; {next_text(info, app.clock.now())}"
        return answer(args, SavedScheduleView(**schedule_fields(info), saved=how(saved)), text)


def how(saved: Saved) -> str:
    return "added" if saved.created else "replaced" if saved.changed else "unchanged"


async def _order(app: AppCore, args: argparse.Namespace, where: str) -> Template:
    now = app.clock.now()
    # Arguments are checked with sample times filled in, and stored with the fields unfilled.
    spec, task, body, defaults = await work_of(app, args, lambda given: fill(given, where, now, now))
    return template_of(spec, task, body, read_options(defaults, order_options(args, defaults.retry), SCHEDULE_NAMES))


# -- pause, resume, remove -------------------------------------------------------------------------------------------
Answer = tuple[str, bool, str]  # name, whether it was done, and the text
Step = Callable[[SchedulesClient, str, Instant], Awaitable[str]]


async def pause_(args: argparse.Namespace) -> int:
    note = utf8(args.note or "", "--note")

    async def pause(planning: SchedulesClient, name: str, _: Instant) -> str:
        if args.note is None and (await planning.get(name)).paused:  # the earlier note stays
            return "was paused before"
        await planning.pause(name, note)
        return "paused"

    return await _each(args, pause)


async def resume_(args: argparse.Namespace) -> int:
    async def resume(planning: SchedulesClient, name: str, now: Instant) -> str:
        before = await planning.get(name)
        info = await planning.resume(name)
        word = "resumed" if before.revision != info.revision else "was not paused"
        return f"{word}; {next_text(info, now)}"

    return await _each(args, resume)


async def remove_(args: argparse.Namespace) -> int:
    async def remove(planning: SchedulesClient, name: str, _: Instant) -> str:
        _note_declared(await planning.remove(name))
        return "removed"

    return await _each(args, remove, all_or_none=True)


def _note_declared(info: StoredSchedule) -> None:
    if info.app and info.undeclared_at is None:
        complain(f"app {info.app!r} declares schedule {info.name!r}: it comes back when a node of that app starts")


async def _each(args: argparse.Namespace, step: Step, all_or_none: bool = False) -> int:
    """Does a step for each schedule and prints a line for it. A failure goes to stderr, and the others are still done.
    With `all_or_none` nothing is done if a name is unknown."""
    names = [utf8(name, "NAME") for name in dict.fromkeys(args.schedules)]
    async with existing(args) as client:
        planning = planning_of(client)
        answers = await _refused(planning, names) if all_or_none else []
        for name in [] if answers else names:
            try:
                answers.append((name, True, await step(planning, name, client.store.now())))
            except NotFound as problem:
                answers.append((name, False, str(problem)))
            except InvalidInput as problem:
                answers.append((name, False, f"schedule {name!r}: {problem}"))
    if args.json:
        document([{"name": name, "done": done, "answer": answer} for name, done, answer in answers])
    else:
        for name, done, answer in answers:
            if done:
                print(f"{safe(name)} {answer}")
            else:
                complain(answer)
    return 0 if all(done for _, done, _ in answers) else 1


async def _refused(planning: SchedulesClient, names: Sequence[str]) -> list[Answer]:
    """The answers if one of the names is unknown; none if all are known."""
    unknown: dict[str, str] = {}
    for name in names:
        try:
            await planning.get(name)
        except NotFound as problem:
            unknown[name] = str(problem)
    if not unknown:
        return []
    left = "schedule {!r} was left alone: a name beside it is unknown"
    return [(name, False, unknown.get(name, left.format(name))) for name in names]


# -- fire ------------------------------------------------------------------------------------------------------------
async def fire_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        fate, job_id = await planning_of(client).fire(utf8(args.schedule, "NAME"))
        if fate is Fate.SKIPPED:
            complain(
                f"schedule {args.schedule!r} was not fired: an earlier job of it still lives, and its overlap is skip"
            )
            return 1
        if not args.json:
            print(job_id, flush=True)
        if args.wait:
            with hinting(client, job_id):
                info = await client.wait(job_id)
        else:
            info = await client.get(job_id)
        if args.json:
            document(JobView.of(info))
        return verdict(info) if args.wait else 0


# -- backfill --------------------------------------------------------------------------------------------------------
async def backfill_(args: argparse.Namespace) -> int:
    start, end = instant(args.from_, "--from"), instant(args.to, "--to")
    progress, line = BackfillProgress(0), Bar(not args.dry_run)
    async with existing(args) as client:
        planning = planning_of(client)
        info = await planning.get(utf8(args.schedule, "NAME"))
        try:
            async for progress in planning.backfill(info.name, start, end, dry_run=args.dry_run, many=args.yes):
                part = 100 * progress.done // max(progress.total, 1)
                line.show(f"{progress.done:,} of {progress.total:,} ({part} %)")
        finally:
            line.show("")
    _result(args, info, progress)
    return 0


def _result(args: argparse.Namespace, info: StoredSchedule, progress: BackfillProgress) -> None:
    parsed, _ = look(info)
    where = parsed.schedule.zone if parsed else "UTC"
    if args.json:
        document(progress.view(info.name, args.dry_run))
        return
    if progress.first is None or progress.last is None:
        print("it has no fires in that time")
        return
    span = f"from {in_zone(as_instant(progress.first), where)} to {in_zone(as_instant(progress.last), where)}"
    if args.dry_run:
        print(f"{_fires(progress.total)}, {span}; those that were made before would not be made again")
    else:
        print(
            f"{_fires(progress.total)}, {span}: {progress.made:,} made, {progress.queued:,} queued, "
            f"{progress.already:,} made before"
        )


def _fires(count: int) -> str:
    return "1 fire" if count == 1 else f"{count:,} fires"
