"""`rota schedule import crontab`: a schedule for each line, and a message for each line that was not taken."""

from __future__ import annotations

import argparse
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rota.app_core import AppCore
from rota.cli.schedule import how
from rota.cli.schedule_texts import in_zone, utc
from rota.cli.session import make_app, read_input, utf8
from rota.cli.show import complain, document, shortened, table
from rota.cli.submit import order_options
from rota.errors import InvalidInput
from rota.model.job import NO_RETRY
from rota.model.option_table import SCHEDULE_NAMES
from rota.model.options import Options, read_options
from rota.model.times import Instant
from rota.model.trigger.arguments import FIRE_TIME, SCHEDULED_FOR
from rota.model.trigger.crontab import (
    LONGEST_SHOWN,
    LONGEST_TEXT,
    Crontab,
    CrontabEntry,
    Untaken,
    entry_name,
    read_crontab,
)
from rota.model.trigger.fires import next_fire
from rota.model.trigger.reading import read_schedule
from rota.model.trigger.schedule import Timing
from rota.model.trigger.template import Template, template_of
from rota.model.trigger.zones import zone

ETC = Path("/etc")
UNKNOWN_ZONE = "the time zone of this machine can't be told: the lines are taken as UTC; give --tz to say which"


class Taken(msgspec.Struct, frozen=True):
    line: int
    schedule: Timing
    template: Template
    rule: str
    note: str | None
    next_at: Instant | None = None
    saved: str = "no (dry run)"


class Import:
    """The import of one crontab: its settings, and the lines that were taken and refused so far."""

    def __init__(self, app: AppCore, args: argparse.Namespace, environment: Mapping[str, str], etc: Path = ETC) -> None:
        self._app, self._args = app, args
        user = pwd.getpwuid(os.getuid())
        self._user, self._home = user.pw_name, user.pw_dir
        self._zone = None if args.tz is None else zone(args.tz).name
        self._machine_zone = machine_zone(environment, etc)
        self._options = read_options(Options(), order_options(args, NO_RETRY), SCHEDULE_NAMES)
        self.zone_unknown = False
        self.taken: dict[str, Taken] = {}
        self.twice: list[tuple[int, int]] = []
        self.untaken: list[Untaken] = []

    def read(self, crontab: Crontab) -> None:
        self.untaken += crontab.untaken
        for entry in crontab.entries:
            try:
                self._take(entry)
            except InvalidInput as problem:
                self.refuse(entry.line, entry.command, str(problem))

    def _take(self, entry: CrontabEntry) -> None:
        if entry.user is not None and entry.user != self._user and not self._args.any_user:
            why = (
                f"it is for the user {entry.user}, and would run as that of the node; --any-user takes it all the same"
            )
            self.refuse(entry.line, entry.command, why)
            return
        name = entry_name(entry, self._args.prefix)
        if name in self.taken:
            self.twice.append((entry.line, self.taken[name].line))
            return
        given = {"rule": entry.rule, "tz": self._zone_of(entry), "catch_up": "none"}  # cron makes up for nothing
        now = self._app.clock.now()
        schedule = read_schedule(self._app.who.user, name, given, now)
        taken = Taken(entry.line, schedule, self._template(entry), entry.rule, _note(entry), next_fire(schedule, now))
        self.taken[name] = taken

    def _zone_of(self, entry: CrontabEntry) -> str:
        chosen = self._zone or entry.zone or self._machine_zone
        if chosen is None:
            self.zone_unknown = True
        return chosen or "UTC"

    def _template(self, entry: CrontabEntry) -> Template:
        home = entry.env.get("HOME") or self._home
        spec, task = self._app.command(
            [entry.shell, "-c", entry.command], cwd=home, env=entry.env, name=entry_task(entry)
        )
        return template_of(spec, task, "{}", self._options)

    def refuse(self, line: int, text: str, why: str) -> None:
        self.untaken.append(Untaken(line, shortened(text, LONGEST_SHOWN), why))

    async def save(self) -> None:
        planning = await self._app.planning()
        for name, one in list(self.taken.items()):
            try:
                saved = await planning.save(one.schedule, one.template)
            except InvalidInput as problem:
                del self.taken[name]
                self.refuse(one.line, name, str(problem))
            else:
                self.taken[name] = msgspec.structs.replace(one, next_at=saved.info.next_at, saved=how(saved))

    def notes(self) -> list[str]:
        said = [(line, f"it says the same as line {first}, and is taken once") for line, first in self.twice]
        said += [(one.line, one.note) for one in self.taken.values() if one.note]
        about_all = [UNKNOWN_ZONE] if self.zone_unknown else []
        return about_all + [f"line {line}: {note}" for line, note in sorted(said)]


def entry_task(entry: CrontabEntry) -> str:
    """The task of its jobs: the name of the schedule without its hash, which is the program."""
    return entry_name(entry).rpartition("-")[0]


def _note(entry: CrontabEntry) -> str | None:
    named = [word for word in (FIRE_TIME, SCHEDULED_FOR) if word in entry.command]
    return f"{' and '.join(named)} in the command becomes the time of each fire" if named else None


async def crontab_(args: argparse.Namespace) -> int:
    utf8(args.prefix, "--prefix")
    body = read_input(args.file, "FILE", "a crontab that can be read", 4 * LONGEST_TEXT + 4)
    crontab = read_crontab(body.decode("utf-8", "replace"), user_column=_has_users(args))
    async with make_app(args) as app:
        work = Import(app, args, os.environ)
        work.read(crontab)
        if not args.dry_run and work.taken:
            await work.save()
        work.untaken.sort(key=lambda one: one.line)
        _show(args, work)
    if not crontab.entries and work.untaken:
        return 2
    return 1 if work.untaken else 0


def _has_users(args: argparse.Namespace) -> bool:
    if args.user_column is not None:
        return bool(args.user_column)
    path = Path(args.file).absolute()
    return args.file != "-" and (path == ETC / "crontab" or path.parent.name == "cron.d")


def _show(args: argparse.Namespace, work: Import) -> None:
    if args.json:
        taken = [_as_json(name, one) for name, one in work.taken.items()]
        untaken = [msgspec.to_builtins(one) for one in work.untaken]
        document({"taken": taken, "not_taken": untaken, "notes": work.notes(), "dry_run": args.dry_run})
        return
    if work.taken:
        rows = ((str(t.line), name, t.rule, t.schedule.zone, _next(t), t.saved) for name, t in work.taken.items())
        table(("LINE", "NAME", "RULE", "ZONE", "NEXT", "SAVED"), rows)
    elif not work.untaken:
        print("there are no entries in it")
    for note in work.notes():
        complain(note)
    for one in work.untaken:
        complain(f"line {one.line}: {one.text}: {one.why}")


def _next(taken: Taken) -> str:
    return "" if taken.next_at is None else in_zone(taken.next_at, taken.schedule.zone)


def _as_json(name: str, taken: Taken) -> dict[str, Any]:
    spec = msgspec.json.decode(taken.template.spec.body)
    fire = None if taken.next_at is None else utc(taken.next_at).replace(" ", "T")
    return {
        "line": taken.line, "name": name, "rule": taken.rule, "zone": taken.schedule.zone, "command": spec["argv"],
        "next_fire": fire, "saved": taken.saved, "note": taken.note,
    }  # fmt: skip


def machine_zone(environment: Mapping[str, str], etc: Path) -> str | None:
    """The time zone of cron on this machine. None: unknown."""
    given = environment.get("TZ")
    if given is not None:
        return _known(given.removeprefix(":")) if given else "UTC"
    try:
        return _known((etc / "timezone").read_text("utf-8").strip())
    except (OSError, ValueError):
        pass
    try:
        _, found, name = str((etc / "localtime").readlink()).partition("zoneinfo/")
    except OSError:
        return None
    return _known(name) if found else None


def _known(name: str) -> str | None:
    """Some systems keep the zones twice: with leap seconds, and without."""
    try:
        return zone(name.removeprefix("posix/").removeprefix("right/")).name
    except InvalidInput:
        return None
