"""Schedules: added, changed and listed. `carriers.fires` moves them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rota.model.principal import Principal
from rota.model.times import Instant
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import FireInfo, FireKind, NewSchedule, ScheduledFire, ScheduleFilter, StoredSchedule
from rota.model.trigger.skipped import Skipped
from rota.store.carriers.calendars import check_calendars
from rota.store.carriers.fires import record_skips
from rota.store.carriers.quotas import check_schedules
from rota.store.carriers.unit import Columns, Unit
from rota.store.firing import NOTHING, saved
from rota.store.rows import fire_infos, schedule_info
from rota.store.values import Topic


# -- changes ---------------------------------------------------------------------------------------------------------
async def put(unit: Unit, who: Principal, new: NewSchedule, revision: int | None) -> bool:
    await unit.begin()
    await check_calendars(unit, who, new.calendars)
    values = {
        "owner": who.user, "name": new.name, "timing": new.timing, "work": new.work, "overlap": new.overlap.value,
        "calendars": new.calendars, "app": new.app, "module": new.module, "since": new.since, "next_at": new.next_at,
        "now": unit.now,
    }  # fmt: skip
    before = await unit.value("hold_schedule", owner=who.user, name=new.name)
    if revision is None:
        await check_schedules(unit, who)
        done = await unit.run("insert_schedule", **values, note=unit.text(new.note))
    else:
        done = await unit.run("replace_schedule", **values, revision=revision)
    if not done:
        return False
    if new.overlap is not Overlap.ALLOW and before in (None, Overlap.ALLOW):
        await unit.run("reopen_fires", owner=who.user, name=new.name)
    await _changed(unit, who, new.name, "saved", saved(new, revision))
    return True


async def pause(unit: Unit, who: Principal, name: str, note: str) -> bool:
    await unit.begin()
    kept = unit.text(note)
    if not await unit.run("pause_schedule", owner=who.user, name=name, by=who.user, note=kept, now=unit.now):
        return False
    await _changed(unit, who, name, "paused")
    return True


async def resume(unit: Unit, who: Principal, name: str, revision: int, since: Instant) -> bool:
    await unit.begin()
    if not await unit.run("resume_schedule", owner=who.user, name=name, revision=revision, since=since, now=unit.now):
        return False
    await _changed(unit, who, name, "resumed")
    return True


async def remove(
    unit: Unit,
    who: Principal,
    name: str,
    revision: int,
    before: Instant,
    skips: Sequence[Skipped],
    app: str | None = None,
) -> bool:
    await unit.begin()
    if not await unit.run("remove_schedule", owner=who.user, name=name, revision=revision, before=before):
        return False
    await record_skips(unit, [(who.user, name, one) for one in skips])
    await _changed(unit, who, name, "removed", {} if app is None else {"app": app})
    return True


async def undeclare(unit: Unit, who: Principal, app: str, read: Sequence[tuple[str, int]]) -> list[str]:
    await unit.begin()
    columns: Columns = {"names": [name for name, _ in read], "revisions": [revision for _, revision in read]}
    rows = await unit.rows("undeclare_schedules", columns, owner=who.user, app=app, now=unit.now)
    for name, module in rows:
        await _changed(unit, who, name, "undeclared", {"app": app, "module": module})
    return sorted(name for name, _ in rows)


async def _changed(unit: Unit, who: Principal, name: str, how: str, more: Mapping[str, Any] = NOTHING) -> None:
    await unit.emit(f"schedule.{how}", who.user, name, {"by": who.user, **more})
    unit.topics.add(Topic.SCHEDULE)


async def set_aside(unit: Unit, owner: str, name: str, revision: int, why: str) -> bool:
    await unit.begin()
    if not await unit.run("set_aside_schedule", owner=owner, name=name, revision=revision, why=unit.text(why)):
        return False
    await unit.emit("schedule.set_aside", owner, name, {"reason": why})
    return True


# -- reads -----------------------------------------------------------------------------------------------------------
async def coming(unit: Unit, until: Instant, limit: int) -> tuple[list[StoredSchedule], Instant | None]:
    found = [schedule_info(row) for row in await unit.rows("coming_schedules", until=until, limit=limit)]
    if len(found) == limit and limit:
        return found, found[-1].next_at
    return found, await unit.value("next_schedule_after", until=until)


async def schedules(unit: Unit, who: Principal, query: ScheduleFilter) -> list[StoredSchedule]:
    owner, name = query.after or ("", "")
    place: dict[str, Any] = {"after_name": name, "app": query.app, "limit": query.limit}
    if who.sees is None:
        rows = await unit.rows("schedule_rows", after_owner=owner, names=query.names, **place)
    elif query.names is None:
        rows = await unit.rows("schedule_rows_of", owner=who.sees, **place)
    else:
        rows = await unit.rows("schedule_rows_named", owner=who.sees, names=query.names, **place)
    return [schedule_info(row) for row in rows]


async def fires(unit: Unit, owner: str, name: str, before: Instant, limit: int) -> list[FireInfo]:
    values = {"owner": owner, "name": name, "before": before, "limit": limit}
    return fire_infos([*await unit.rows("fire_rows", **values), *await unit.rows("skip_rows", **values)], limit)


async def of_jobs(unit: Unit, ids: Sequence[str]) -> dict[str, ScheduledFire]:
    rows = await unit.rows("fires_of_jobs", ids=ids)
    return {job: ScheduledFire(name, fire, FireKind(kind)) for job, name, fire, kind in rows}
