"""Calendars: named sets of dates that schedules exclude or require."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec

from rota.api.answers import Answer
from rota.api.pages import Page
from rota.api.requests import Request
from rota.api.routes import Routes
from rota.api.versions import EDITS, PUTS, READS, check_match, tagged, unless_known
from rota.errors import InvalidInput
from rota.model.access import Permission
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.ics import dates_from_ics, years_after
from rota.model.trigger.zones import zone
from rota.model.versions import calendar_version
from rota.views.schedules import CalendarView

ROUTES = Routes("calendars")


class CalendarBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """`dates`, or `ics`: the text of an iCalendar file, whose events mark days of the zone `tz` from `from` to `to`."""

    dates: list[date] | None = None
    ics: str | None = None
    from_: date | None = None
    to: date | None = None
    tz: str | None = None


@ROUTES.get("/api/v1/calendars", Permission.READ, "Calendars by name")
async def list_calendars(request: Request[None, None]) -> Page[CalendarView]:
    return Page([CalendarView.of(one) for one in await request.schedules.calendars()])


@ROUTES.get("/api/v1/calendars/{name}", Permission.READ, "A calendar", **READS)
async def get_calendar(request: Request[None, None]) -> Answer[CalendarView]:
    found = await request.schedules.calendar(request.path["name"])
    return unless_known(request, CalendarView.of(found), calendar_version(found))


@ROUTES.put("/api/v1/calendars/{name}", Permission.ORDER, "Adds or replaces a calendar", **PUTS)
async def put_calendar(request: Request[CalendarBody, None]) -> Answer[CalendarView]:
    name = request.path["name"]
    calendar = Calendar(name, _dates(request))
    before = await _find(request, name)
    expected = check_match(request, calendar_version(before))
    await request.schedules.save_calendar(calendar, expected)
    return tagged(CalendarView.of(calendar), calendar_version(calendar), 201 if before is None else 200)


@ROUTES.delete("/api/v1/calendars/{name}", Permission.ORDER, "Removes a calendar", **EDITS)
async def remove_calendar(request: Request[None, None]) -> None:
    name = request.path["name"]
    expected = check_match(request, calendar_version(await _find(request, name)))
    await request.schedules.remove_calendar(name, expected)


async def _find(request: Request[Any, None], name: str) -> Calendar | None:
    return next((one for one in await request.schedules.calendars() if one.name == name), None)


def _dates(request: Request[CalendarBody, None]) -> tuple[date, ...]:
    body = request.body
    if (body.dates is None) == (body.ics is None):
        raise InvalidInput("dates and ics", "both" if body.dates is not None else "none", "one of them")
    if body.dates is not None:
        for name, value in (("from", body.from_), ("to", body.to), ("tz", body.tz)):
            if value is not None:
                raise InvalidInput(name, value, "it with ics, not with dates")
        return tuple(body.dates)
    where = "UTC" if body.tz is None else body.tz
    first = zone(where).local(request.store.now()).date() if body.from_ is None else body.from_
    last = years_after(first) if body.to is None else body.to
    if last < first:
        raise InvalidInput("to", str(last), f"a day not before {first}")
    return dates_from_ics(body.ics or "", first, last, where)
