"""Schedules: kept, changed, moved on; their fires, and the calendars they go by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from rota.errors import InvalidInput
from rota.model.lifecycle import State
from rota.model.principal import Principal
from rota.model.times import Instant
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import (
    Advance,
    Fate,
    FireInfo,
    FireKind,
    NewFire,
    NewSchedule,
    ScheduledFire,
    ScheduleFilter,
    ScheduleInfo,
)
from rota.model.trigger.skipped import Skipped
from rota.store.columns import given_lists
from rota.store.firing import NOTHING, REPLACED, decide, saved
from rota.store.postgres import orders
from rota.store.postgres.database import Unit, encode
from rota.store.postgres.encoding import clean
from rota.store.rows import fire_infos, schedule_info
from rota.store.values import Topic

Alive = Mapping[tuple[str, str], list[tuple[str, str]]]  # jobs of a schedule that have not ended, with their kinds


class Wish(NamedTuple):
    """Fires of one schedule that are to be made."""

    owner: str
    name: str
    overlap: Overlap
    fires: Sequence[NewFire]


# -- what people do --------------------------------------------------------------------------------------------------
async def put(unit: Unit, who: Principal, new: NewSchedule, revision: int | None) -> bool:
    await unit.begin()
    await _check_calendars(unit, who, new.calendars)
    values = {
        "owner": who.user, "name": new.name, "timing": new.timing, "work": new.work, "overlap": new.overlap.value,
        "calendars": list(new.calendars), "app": new.app, "module": new.module, "since": new.since,
        "next_at": new.next_at, "now": unit.now,
    }  # fmt: skip
    before = await unit.value("hold_schedule", owner=who.user, name=new.name)
    if revision is None:
        done = await unit.run("insert_schedule", **values, note=clean(new.note))
    else:
        done = await unit.run("replace_schedule", **values, revision=revision)
    if not done:
        return False
    if new.overlap is not Overlap.ALLOW and before in (None, Overlap.ALLOW):
        await unit.run("reopen_fires", owner=who.user, name=new.name)
    await _changed(unit, who, new.name, "saved", saved(new, revision))
    return True


async def _check_calendars(unit: Unit, who: Principal, names: Sequence[str]) -> None:
    rows = await unit.rows("lock_calendars", owner=who.user, names=list(names)) if names else []
    known = {name for (name,) in rows}
    for name in names:
        if name not in known:
            raise InvalidInput("calendar", name, "the name of a calendar that exists (see `rota calendar list`)")


async def pause(unit: Unit, who: Principal, name: str, note: str) -> bool:
    await unit.begin()
    if not await unit.run("pause_schedule", owner=who.user, name=name, by=who.user, note=clean(note), now=unit.now):
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
    await _record_skips(unit, [(who.user, name, one) for one in skips])
    await _changed(unit, who, name, "removed", {} if app is None else {"app": app})
    return True


async def undeclare(unit: Unit, who: Principal, app: str, read: Sequence[tuple[str, int]]) -> list[str]:
    await unit.begin()
    rows = await unit.rows(
        "undeclare_schedules", owner=who.user, app=app, names=[name for name, _ in read],
        revisions=[revision for _, revision in read], now=unit.now,
    )  # fmt: skip
    for name, module in rows:
        await _changed(unit, who, name, "undeclared", {"app": app, "module": module})
    return sorted(name for name, _ in rows)


async def _changed(unit: Unit, who: Principal, name: str, how: str, more: Mapping[str, Any] = NOTHING) -> None:
    await unit.emit(f"schedule.{how}", who.user, name, {"by": who.user, **more})
    unit.topics.add(Topic.SCHEDULE)


async def make_fires(
    unit: Unit, who: Principal, name: str, kind: FireKind, fires: Sequence[NewFire]
) -> list[Fate] | None:
    await unit.begin()
    overlap = await unit.value("hold_schedule", owner=who.user, name=name)
    if overlap is None:
        return None
    fates = (await _make(unit, kind, [Wish(who.user, name, Overlap(overlap), fires)]))[0]
    if kind is FireKind.MANUAL:
        for fire, fate in zip(fires, fates, strict=True):
            if fate in (Fate.MADE, Fate.QUEUED):
                place = {"owner": who.user, "name": name}
                await unit.run("note_last_fire", **place, last_fire=fire.fire, last_job=fire.job.id)
    return fates


# -- what schedulers do ----------------------------------------------------------------------------------------------
async def coming(unit: Unit, until: Instant, limit: int) -> tuple[list[ScheduleInfo], Instant | None]:
    found = [schedule_info(row) for row in await unit.rows("coming_schedules", until=until, limit=limit)]
    if len(found) == limit and limit:
        return found, found[-1].next_at
    return found, await unit.value("next_schedule_after", until=until)


async def advance(unit: Unit, who: Principal, steps: Sequence[Advance]) -> list[list[Fate] | None]:
    """Each schedule once: of several steps of one, at most the first that fits can be carried out."""
    named: set[tuple[str, str]] = set()
    plain: list[int] = []
    others: list[int] = []
    for place, one in enumerate(steps):
        if who.sees in (None, one.owner):
            simple = len(one.fires) == 1 and not one.skips and one.overlap is Overlap.ALLOW
            (plain if simple and (one.owner, one.name) not in named else others).append(place)
            named.add((one.owner, one.name))
    answers: list[list[Fate] | None] = [None] * len(steps)
    if others:
        await unit.begin()
    for chosen, carry_out in ((plain, _fire_plainly), (others, _advance)):
        if chosen:
            for place, fates in zip(chosen, await carry_out(unit, [steps[place] for place in chosen]), strict=True):
                answers[place] = fates
    if None in answers:  # for which it may have been too soon: the server's clock was set back, and we haven't heard
        await unit.look_at_the_clock(again=True)
    return answers


async def _fire_plainly(unit: Unit, steps: Sequence[Advance]) -> list[list[Fate] | None]:
    jobs = [one.fires[0].job for one in steps]
    rows = await unit.rows(
        "fire_plainly", now=unit.now, step=unit.database.ageing_step, owners=[one.owner for one in steps],
        names=[one.name for one in steps], revisions=[one.revision for one in steps],
        cursors=[one.before for one in steps], fires=[one.fires[0].fire for one in steps],
        limits=[one.limit for one in steps], nexts=[one.next_at for one in steps], times=[job.at for job in jobs],
        expiries=[job.expires for job in jobs],
        **given_lists(jobs),
    )  # fmt: skip
    answers: list[list[Fate] | None] = [None] * len(steps)
    for place, made, later in rows:
        answers[place] = [Fate.MADE if made else Fate.ALREADY]
        unit.topics |= {Topic.READY, Topic.DUE} if later else {Topic.READY}
    return answers


async def _advance(unit: Unit, steps: Sequence[Advance]) -> list[list[Fate] | None]:
    rows = await unit.rows(
        "standing_schedules", owners=[one.owner for one in steps], names=[one.name for one in steps],
        revisions=[one.revision for one in steps], cursors=[one.before for one in steps],
        reaches=[one.reach for one in steps], now=unit.now,
    )  # fmt: skip
    chosen: dict[tuple[str, str], int] = {}
    for place in sorted(place for (place,) in rows):
        chosen.setdefault((steps[place].owner, steps[place].name), place)
    fitting = [steps[place] for place in chosen.values()]
    if not fitting:
        return [None] * len(steps)
    wishes = [Wish(one.owner, one.name, one.overlap, one.fires) for one in fitting]
    fates = await _make(unit, FireKind.RULE, wishes)
    await _record_skips(unit, [(one.owner, one.name, skip) for one in fitting for skip in one.skips])
    await _move(unit, fitting, fates)
    answers: list[list[Fate] | None] = [None] * len(steps)
    for place, fate in zip(chosen.values(), fates, strict=True):
        answers[place] = fate
    return answers


async def _move(unit: Unit, steps: Sequence[Advance], fates: Sequence[Sequence[Fate]]) -> None:
    made = [
        [fire for fire, fate in zip(one.fires, some, strict=True) if fate in (Fate.MADE, Fate.QUEUED)]
        for one, some in zip(steps, fates, strict=True)
    ]
    await unit.run(
        "move_schedules", owners=[one.owner for one in steps], names=[one.name for one in steps],
        handled=[one.handled for one in steps], made=[len(some) for some in made],
        limits=[one.limit for one in steps], nexts=[one.next_at for one in steps],
        last_fires=[some[-1].fire if some else None for some in made],
        last_jobs=[some[-1].job.id if some else None for some in made],
    )  # fmt: skip


async def _make(unit: Unit, kind: FireKind, wishes: Sequence[Wish]) -> list[list[Fate]]:
    """Rows of fires first: whoever has put one in makes its job, and nobody else does."""
    fresh = await _insert_fires(unit, kind, wishes)
    alive = await _alive(unit, [one for one in wishes if one.overlap is not Overlap.ALLOW], fresh)
    fates: list[list[Fate]] = []
    waiting: list[str] = []
    withdrawn: list[str] = []
    skips: list[tuple[str, str, Skipped]] = []
    for wish in wishes:
        new = [fire for fire in wish.fires if fire.job.id in fresh]
        decision = decide(wish.overlap, kind, new, alive.get((wish.owner, wish.name), []))
        by_id = dict(zip([fire.job.id for fire in new], decision.fates, strict=True))
        fates.append([by_id.get(fire.job.id, Fate.ALREADY) for fire in wish.fires])
        waiting += [fire.job.id for fire in decision.waiting(new)]
        withdrawn += [job for job, fate in by_id.items() if fate is Fate.SKIPPED]
        skips += [(wish.owner, wish.name, skip) for skip in decision.skipped(new)]
        if decision.cancel:
            await orders.cancel(unit, Principal(wish.owner), decision.cancel, REPLACED)
    if withdrawn:
        await unit.run("withdraw_fires", ids=withdrawn)
        await _record_skips(unit, skips)
    await _insert_jobs(unit, wishes, fresh - set(withdrawn), waiting)
    return fates


async def _insert_fires(unit: Unit, kind: FireKind, wishes: Sequence[Wish]) -> set[str]:
    fires = [(one, fire) for one in wishes for fire in one.fires]
    if kind is FireKind.BACKFILL:  # the job of a fire may outlive the record of it
        there = {job for (job,) in await unit.rows("known_jobs", ids=[fire.job.id for _, fire in fires])}
        fires = [(one, fire) for one, fire in fires if fire.job.id not in there]
    if not fires:
        return set()
    rows = await unit.rows(
        "insert_fires", kind=kind.value, now=unit.now, owners=[one.owner for one, _ in fires],
        names=[one.name for one, _ in fires], fires=[fire.fire for _, fire in fires],
        ids=[fire.job.id for _, fire in fires], open=[one.overlap is not Overlap.ALLOW for one, _ in fires],
    )  # fmt: skip
    return {job for (job,) in rows}


async def _alive(unit: Unit, wishes: Sequence[Wish], fresh: set[str]) -> Alive:
    """Fires of before; those that have ended are closed on the way."""
    if not wishes:
        return {}
    rows = await unit.rows("open_fires", owners=[one.owner for one in wishes], names=[one.name for one in wishes])
    before = [row for row in rows if row[2] not in fresh]
    over = [job for _, _, job, _, _, lives in before if not lives]
    if over:
        await unit.run("close_fires", ids=over)
    alive: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for owner, name, job, kind, _, lives in before:
        if lives:
            alive.setdefault((owner, name), []).append((job, kind))
    return alive


async def _insert_jobs(unit: Unit, wishes: Sequence[Wish], chosen: set[str], waiting: Sequence[str]) -> None:
    jobs = [(one.owner, fire.job) for one in wishes for fire in one.fires if fire.job.id in chosen]
    for owner, group in groupby(sorted(jobs, key=lambda one: one[0]), key=lambda one: one[0]):
        await orders.insert(unit, owner, [job for _, job in group], blocked=frozenset(waiting))
    if waiting:
        await unit.run("wait_for_others", ids=list(waiting))
        unit.topics.add(Topic.SCHEDULE)


async def _record_skips(unit: Unit, skips: Iterable[tuple[str, str, Skipped]]) -> None:
    rows = list(skips)
    if rows:
        await unit.run(
            "insert_skips", now=unit.now, owners=[owner for owner, _, _ in rows], names=[name for _, name, _ in rows],
            firsts=[one.first for _, _, one in rows], lasts=[one.last for _, _, one in rows],
            counts=[one.count for _, _, one in rows], reasons=[one.reason.value for _, _, one in rows],
        )  # fmt: skip


async def set_aside(unit: Unit, owner: str, name: str, revision: int, why: str) -> bool:
    await unit.begin()
    if not await unit.run("set_aside_schedule", owner=owner, name=name, revision=revision, why=clean(why)):
        return False
    await unit.emit("schedule.set_aside", owner, name, {"reason": why})
    return True


async def release(unit: Unit, limit: int) -> tuple[int, int]:
    if not await unit.value("count_waiting"):
        return 0, 0
    await unit.begin()
    await unit.run("close_ended")
    rows = await unit.rows("release", now=unit.now, limit=limit, step=unit.database.ageing_step)
    unit.topics |= {Topic.READY if state == State.READY else Topic.DUE for (state,) in rows}
    return len(rows), await unit.value("count_waiting")


# -- calendars -------------------------------------------------------------------------------------------------------
async def put_calendar(unit: Unit, who: Principal, calendar: Calendar) -> None:
    await unit.begin()
    await unit.run("put_calendar", owner=who.user, name=calendar.name, body=encode(calendar).decode())
    await unit.run("look_again", owner=who.user, calendar=calendar.name, now=unit.now)
    await unit.emit("calendar.saved", who.user, calendar.name, {"by": who.user})
    unit.topics.add(Topic.SCHEDULE)


async def remove_calendar(unit: Unit, who: Principal, name: str) -> list[str] | None:
    await unit.begin()
    if not await unit.value("hold_calendar", owner=who.user, name=name):
        return None
    needing = [schedule for (schedule,) in await unit.rows("schedules_needing", owner=who.user, calendar=name)]
    if not needing:
        await unit.run("remove_calendar", owner=who.user, name=name)
        await unit.emit("calendar.removed", who.user, name, {"by": who.user})
    return needing


async def calendars(unit: Unit, owner: str, names: Sequence[str] | None = None) -> list[Calendar]:
    found: list[Calendar] = []
    for _, body in await unit.rows("calendar_rows", owner=owner, names=None if names is None else list(names)):
        with suppress(msgspec.MsgspecError, InvalidInput):
            found.append(msgspec.json.decode(body, type=Calendar))
    return found


# -- reads -----------------------------------------------------------------------------------------------------------
async def schedules(unit: Unit, who: Principal, query: ScheduleFilter) -> list[ScheduleInfo]:
    names = None if query.names is None else list(query.names)
    owner, name = query.after or ("", "")
    place: dict[str, Any] = {"after_name": name, "app": query.app, "limit": query.limit}
    if who.sees is None:
        rows = await unit.rows("schedule_rows", after_owner=owner, names=names, **place)
    elif names is None:
        rows = await unit.rows("schedule_rows_of", owner=who.sees, **place)
    else:
        rows = await unit.rows("schedule_rows_named", owner=who.sees, names=names, **place)
    return [schedule_info(row) for row in rows]


async def fires(unit: Unit, owner: str, name: str, before: Instant, limit: int) -> list[FireInfo]:
    values = {"owner": owner, "name": name, "before": before, "limit": limit}
    return fire_infos([*await unit.rows("fire_rows", **values), *await unit.rows("skip_rows", **values)], limit)


async def of_jobs(unit: Unit, ids: Sequence[str]) -> dict[str, ScheduledFire]:
    rows = await unit.rows("fires_of_jobs", ids=list(ids))
    return {job: ScheduledFire(name, fire, FireKind(kind)) for job, name, fire, kind in rows}
