"""`rota schedule import celery-beat` and `rota schedule import apscheduler`: schedules for tasks of the same name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rota import orders
from rota.app_core import AppCore
from rota.cli.foreign_schedules import Foreign, apscheduler_entries, celery_entries, names_of
from rota.cli.schedule import how
from rota.cli.schedule_texts import in_zone
from rota.cli.session import make_app
from rota.cli.show import complain, document, table
from rota.cli.submit import known_tasks
from rota.errors import InvalidInput
from rota.model.job import Spec
from rota.model.option_table import SCHEDULE_NAMES
from rota.model.options import read_options
from rota.model.task import TaskInfo
from rota.model.times import Instant
from rota.model.trigger.fires import next_fire
from rota.model.trigger.reading import read_schedule, rule_text
from rota.model.trigger.schedule import Timing
from rota.model.trigger.template import Template, template_of
from rota.tasks.modules import import_named
from rota.wire_orders.offered import OfferedTasks

PAUSED = "was paused in APScheduler"
_WHAT = {"celery-beat": ("Celery", "a Celery app"), "apscheduler": ("BaseScheduler", "a scheduler of APScheduler 3")}
Read = Callable[[Any], tuple[list[Foreign], list[str]]]


class Taken(msgspec.Struct, frozen=True):
    schedule: Timing
    template: Template
    notes: list[str]
    paused: bool
    next_at: Instant | None
    saved: str = "no (dry run)"


async def celery_beat_(args: argparse.Namespace) -> int:
    return await _take_over(args, celery_entries)


async def apscheduler_(args: argparse.Namespace) -> int:
    return await _take_over(args, apscheduler_entries)


async def _take_over(args: argparse.Namespace, read: Read) -> int:
    renamed = dict(_pair(one) for one in args.map)
    entries, notes = read(_load(args.target, args.verb))
    async with make_app(args) as app:
        known = await known_tasks(app, args)
        taken: dict[str, Taken] = {}
        refused: dict[str, str] = {}
        for entry in entries:
            try:
                taken[entry.name] = _taken(app, entry, known, renamed)
            except InvalidInput as problem:
                refused[entry.name] = str(problem)
        if not args.dry_run and taken:
            await _save(app, taken, refused)
    _show(args, taken, refused, notes)
    return (1 if taken else 2) if refused else 0


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise InvalidInput("--map", text, "OLD=NEW, such as shop.tasks.send=send")
    return old, new


def _load(target: str, verb: str) -> Any:
    """`shop.celery:app`, from this folder or the Python path."""
    name, _, attribute = target.partition(":")
    kind, what = _WHAT[verb]
    if not all(part.isidentifier() for part in (*name.split("."), *attribute.split("."))):
        raise InvalidInput("TARGET", target, f"MODULE:NAME of {what}, such as shop.jobs:app")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    found: Any = import_named(name, target)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InvalidInput("TARGET", target, f"MODULE:NAME of {what}; {name} has no {attribute!r}")
        found = getattr(found, part)
    if all(one.__name__ != kind for one in type(found).__mro__):
        raise InvalidInput("TARGET", target, f"MODULE:NAME of {what}; it is a {type(found).__name__}")
    return found


def _taken(app: AppCore, entry: Foreign, known: OfferedTasks, renamed: Mapping[str, str]) -> Taken:
    if entry.why:
        raise InvalidInput("schedule", entry.name, f"one that rota can have: {entry.why}")
    info = _task(entry.task, known, renamed)
    body, defaults = orders.named(app.settings.max_args, info, _arguments(info, entry))
    now = app.clock.now()
    schedule = read_schedule(app.who.user, entry.name, entry.times, now)
    options = read_options(defaults, entry.options, SCHEDULE_NAMES)
    template = template_of(Spec.function(info.name), info.name, body, options)
    return Taken(schedule, template, entry.notes, entry.paused, next_fire(schedule, now))


def _task(task: str, known: OfferedTasks, renamed: Mapping[str, str]) -> TaskInfo:
    names = [renamed[name] for name in names_of(task) if name in renamed] or list(names_of(task))
    for name in names:
        if name in known.infos:
            return known.infos[name]
    return known.get(names[0])


def _arguments(info: TaskInfo, entry: Foreign) -> dict[str, Any]:
    """By name: rota has no positional arguments in schedules."""
    if len(entry.args) > len(info.parameters):
        raise InvalidInput("args", entry.args, f"at most {len(info.parameters)}, for task {info.name!r}")
    given = dict(zip(info.parameters, entry.args, strict=False))
    if twice := given.keys() & entry.kwargs.keys():
        raise InvalidInput("kwargs", sorted(twice)[0], f"names that args don't fill, for task {info.name!r}")
    return given | entry.kwargs


async def _save(app: AppCore, taken: dict[str, Taken], refused: dict[str, str]) -> None:
    planning = await app.planning()
    for name, one in list(taken.items()):
        try:
            saved = await planning.save(one.schedule, one.template, note=PAUSED if one.paused else None)
        except InvalidInput as problem:
            del taken[name]
            refused[name] = str(problem)
        else:
            taken[name] = msgspec.structs.replace(one, next_at=saved.info.next_at, saved=how(saved))


def _show(args: argparse.Namespace, taken: Mapping[str, Taken], refused: Mapping[str, str], notes: list[str]) -> None:
    if args.json:
        made = [
            {
                "name": name, "task": one.template.task, "rule": rule_text(one.schedule.rule),
                "zone": one.schedule.zone, "next_fire": _next(one), "saved": one.saved, "notes": one.notes,
            }
            for name, one in taken.items()
        ]  # fmt: skip
        document({"taken": made, "not_taken": dict(refused), "notes": notes, "dry_run": args.dry_run})
        return
    if taken:
        rows = (
            (name, one.template.task, rule_text(one.schedule.rule), one.schedule.zone, _next(one), one.saved)
            for name, one in taken.items()
        )
        table(("NAME", "TASK", "RULE", "ZONE", "NEXT", "SAVED"), rows)
    elif not refused:
        print("there are no schedules in it")
    for note in notes:
        complain(note)
    for name, one in taken.items():
        for note in one.notes:
            complain(f"{name}: {note}")
    for name, why in refused.items():
        complain(f"{name}: not taken: {why}")


def _next(taken: Taken) -> str:
    return "" if taken.next_at is None else in_zone(taken.next_at, taken.schedule.zone)
