"""`rota calendar ...`: named sets of dates that schedules exclude or require."""

from __future__ import annotations

import argparse
import re
from datetime import date

from rota.app_core import AppCore
from rota.cli.session import existing, make_app, planning_of, read_input, utf8
from rota.cli.show import answer, complain, document, listing, safe
from rota.errors import InvalidInput
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.ics import LONGEST_TEXT, dates_from_ics, years_after
from rota.model.trigger.zones import zone
from rota.views.schedules import CalendarView

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


async def add_(args: argparse.Namespace) -> int:
    if args.dates is not None:
        for name in ("from_", "to", "tz"):
            if getattr(args, name) is not None:
                args.parser.error(f"--{name.rstrip('_')} goes with --ics, not with --dates")
    async with make_app(args) as app:
        name = utf8(args.calendar, "NAME")
        dates = _listed(args.dates) if args.dates is not None else _of_events(app, args)
        calendar = Calendar(name, dates)
        await (await app.planning()).save_calendar(calendar)
    if not dates:
        complain(f"calendar {name!r} has no dates: no event touches a day from --from to --to")
    return answer(args, CalendarView.of(calendar), f"{name} has {_count(calendar)}{_span(calendar)}")


def _listed(given: str) -> tuple[date, ...]:
    return tuple(_date(part.strip(), "--dates") for part in given.split(","))


def _date(given: str, what: str) -> date:
    try:
        if not _DATE.fullmatch(given):
            raise ValueError
        return date.fromisoformat(given)
    except ValueError:
        raise InvalidInput(what, given, "a date such as 2027-12-24") from None


def _of_events(app: AppCore, args: argparse.Namespace) -> tuple[date, ...]:
    zone_name = "UTC" if args.tz is None else args.tz
    today = zone(zone_name).local(app.clock.now()).date()
    first = today if args.from_ is None else _date(args.from_, "--from")
    last = years_after(first) if args.to is None else _date(args.to, "--to")
    if last < first:
        raise InvalidInput("--to", str(last), f"a day not before {first}")
    return dates_from_ics(_text(args.ics), first, last, zone_name)


def _text(path: str) -> str:
    expected = "a file that can be read"
    body = read_input(path, "--ics", expected, 4 * LONGEST_TEXT + 1)
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidInput("--ics", path, f"{expected} (it is not UTF-8)") from None


async def list_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        found = await planning_of(client).calendars()
    rows = ((one.name, str(len(one.dates)), *(str(day) for day in (one.dates[:1] + one.dates[-1:]))) for one in found)
    padded = ([*row, "", ""][:4] for row in rows)
    return listing(args, map(CalendarView.of, found), ("NAME", "DATES", "FIRST", "UNTIL"), padded)


async def show_(args: argparse.Namespace) -> int:
    async with existing(args) as client:
        calendar = await planning_of(client).calendar(utf8(args.calendar, "NAME"))
    if args.json:
        document(CalendarView.of(calendar))
        return 0
    print(f"{safe(calendar.name)} has {_count(calendar)}")
    for day in calendar.dates:
        print(f"{day:%Y-%m-%d %a}")
    return 0


async def remove_(args: argparse.Namespace) -> int:
    name = utf8(args.calendar, "NAME")
    async with existing(args) as client:
        try:
            await planning_of(client).remove_calendar(name)
        except InvalidInput as needed:  # the input is right; a schedule needs the calendar
            complain(str(needed))
            return 1
    return answer(args, {"name": name, "removed": True}, f"{name} removed")


def _count(calendar: Calendar) -> str:
    return "1 date" if len(calendar.dates) == 1 else f"{len(calendar.dates):,} dates"


def _span(calendar: Calendar) -> str:
    return f", from {calendar.dates[0]} to {calendar.dates[-1]}" if calendar.dates else ""
