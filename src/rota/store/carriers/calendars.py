"""Calendars of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from rota.errors import InvalidInput
from rota.model.principal import Principal
from rota.model.trigger.calendars import Calendar
from rota.model.versions import calendar_version
from rota.store.carriers.edits import begin_edit, check_version
from rota.store.carriers.unit import Unit
from rota.store.values import Topic


async def put_calendar(unit: Unit, who: Principal, calendar: Calendar, version: str | None = None) -> None:
    await _begin(unit, who, calendar.name, version)
    await unit.run("put_calendar", owner=who.user, name=calendar.name, body=msgspec.json.encode(calendar).decode())
    await unit.run("look_again", owner=who.user, calendar=calendar.name, now=unit.now)
    await unit.emit("calendar.saved", who.user, calendar.name, {"by": who.user})
    unit.topics.add(Topic.SCHEDULE)


async def remove_calendar(unit: Unit, who: Principal, name: str, version: str | None = None) -> list[str] | None:
    await _begin(unit, who, name, version)
    if not await unit.value("hold_calendar", owner=who.user, name=name):
        return None
    needing = [schedule for (schedule,) in await unit.rows("schedules_needing", owner=who.user, calendar=name)]
    if not needing:
        await unit.run("remove_calendar", owner=who.user, name=name)
        await unit.emit("calendar.removed", who.user, name, {"by": who.user})
    return needing


async def _begin(unit: Unit, who: Principal, name: str, version: str | None) -> None:
    await begin_edit(unit, "calendar", who.user, name)
    if version is not None:
        found = await calendars(unit, who.user, [name])
        check_version("calendar", name, version, calendar_version(found[0] if found else None))


async def calendars(unit: Unit, owner: str, names: Sequence[str] | None = None) -> list[Calendar]:
    found: list[Calendar] = []
    for _, body in await unit.rows("calendar_rows", owner=owner, names=names):
        with suppress(msgspec.MsgspecError, InvalidInput):
            found.append(msgspec.json.decode(body, type=Calendar))
    return found


async def check_calendars(unit: Unit, who: Principal, names: Sequence[str]) -> None:
    """Refuses names of calendars that the principal does not have. The others stay until the unit is committed."""
    known = {name for (name,) in await unit.rows("lock_calendars", owner=who.user, names=names)} if names else set()
    for name in names:
        if name not in known:
            raise InvalidInput("calendar", name, "the name of a calendar that exists (see `rota calendar list`)")
