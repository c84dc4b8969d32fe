"""Schedules: kept, changed, moved on; their fires, and the calendars they go by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from rota.errors import InvalidInput
from rota.model.job import NewJob
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
from rota.store.firing import NOTHING, REPLACED, Decision, decide, saved
from rota.store.rows import fire_infos, schedule_info
from rota.store.sqlite import orders
from rota.store.sqlite.database import Database, encode
from rota.store.values import Topic

# Of fires that wait, read at once: to know that there are some, and to replace them all.
A_FEW, MANY = 20, 1_000_000


# -- what people do --------------------------------------------------------------------------------------------------
def put(db: Database, who: Principal, new: NewSchedule, revision: int | None) -> bool:
    _check_calendars(db, who, new.calendars)
    now = db.now()
    values = {
        "owner": who.user, "name": new.name, "timing": new.timing, "work": new.work, "overlap": new.overlap.value,
        "calendars": encode(new.calendars).decode(), "app": new.app, "module": new.module, "since": new.since,
        "next_at": new.next_at,
    }  # fmt: skip
    before = db.value("overlap_of", owner=who.user, name=new.name)
    if revision is None:
        done = db.run("insert_schedule", **values, now=now, note=new.note)
    else:
        done = db.run("replace_schedule", **values, now=now, revision=revision)
    if not done:
        return False
    if new.overlap is not Overlap.ALLOW and before in (None, Overlap.ALLOW):
        db.run("reopen_fires", owner=who.user, name=new.name)
    _changed(db, who, new.name, "saved", saved(new, revision))
    return True


def _check_calendars(db: Database, who: Principal, names: Sequence[str]) -> None:
    rows = db.rows("calendar_rows", owner=who.user, names=encode(names).decode()) if names else []
    known = {name for name, _ in rows}
    for name in names:
        if name not in known:
            raise InvalidInput("calendar", name, "the name of a calendar that exists (see `rota calendar list`)")


def pause(db: Database, who: Principal, name: str, note: str) -> bool:
    if not db.run("pause_schedule", owner=who.user, name=name, by=who.user, note=note, now=db.now()):
        return False
    _changed(db, who, name, "paused")
    return True


def resume(db: Database, who: Principal, name: str, revision: int, since: Instant) -> bool:
    if not db.run("resume_schedule", owner=who.user, name=name, revision=revision, since=since, now=db.now()):
        return False
    _changed(db, who, name, "resumed")
    return True


def remove(
    db: Database,
    who: Principal,
    name: str,
    revision: int,
    before: Instant,
    skips: Sequence[Skipped],
    app: str | None = None,
) -> bool:
    if not db.run("remove_schedule", owner=who.user, name=name, revision=revision, before=before):
        return False
    _record_skips(db, who.user, name, skips)
    _changed(db, who, name, "removed", {} if app is None else {"app": app})
    return True


def undeclare(db: Database, who: Principal, app: str, read: Sequence[tuple[str, int]]) -> list[str]:
    rows = db.rows("undeclare_schedules", owner=who.user, app=app, read=encode(read).decode(), now=db.now())
    for name, module in rows:
        _changed(db, who, name, "undeclared", {"app": app, "module": module})
    return sorted(name for name, _ in rows)


def _changed(db: Database, who: Principal, name: str, how: str, more: Mapping[str, Any] = NOTHING) -> None:
    db.emit(f"schedule.{how}", who.user, name, {"by": who.user, **more})
    db.topics.add(Topic.SCHEDULE)


def make_fires(db: Database, who: Principal, name: str, kind: FireKind, fires: Sequence[NewFire]) -> list[Fate] | None:
    overlap = db.value("overlap_of", owner=who.user, name=name)
    if overlap is None:
        return None
    fates = _make(db, who.user, name, kind, Overlap(overlap), fires)
    if kind is FireKind.MANUAL:
        for fire, fate in zip(fires, fates, strict=True):
            if fate in (Fate.MADE, Fate.QUEUED):
                db.run("note_last_fire", owner=who.user, name=name, last_fire=fire.fire, last_job=fire.job.id)
    return fates


# -- what schedulers do ----------------------------------------------------------------------------------------------
def coming(db: Database, until: Instant, limit: int) -> tuple[list[ScheduleInfo], Instant | None]:
    found = [schedule_info(row) for row in db.rows("coming_schedules", until=until, limit=limit)]
    if len(found) == limit and limit:
        return found, found[-1].next_at
    return found, db.value("next_schedule_after", until=until)


def advance(db: Database, who: Principal, steps: Sequence[Advance]) -> list[list[Fate] | None]:
    names = [(one.owner, one.name, one.revision, one.before, one.reach) for one in steps]
    fitting = {key for (key,) in db.rows("standing_schedules", steps=encode(names).decode(), now=db.now())}
    answers: list[list[Fate] | None] = [None] * len(steps)
    moved: set[tuple[str, str]] = set()  # one that is named twice moves once
    for index in sorted(fitting):
        one = steps[index]
        if who.sees in (None, one.owner) and (one.owner, one.name) not in moved:
            moved.add((one.owner, one.name))
            answers[index] = _advance(db, one)
    return answers


def _advance(db: Database, one: Advance) -> list[Fate]:
    fates = _make(db, one.owner, one.name, FireKind.RULE, one.overlap, one.fires)
    _record_skips(db, one.owner, one.name, one.skips)
    made = [fire for fire, fate in zip(one.fires, fates, strict=True) if fate in (Fate.MADE, Fate.QUEUED)]
    last = made[-1] if made else None
    db.run(
        "move_schedule", owner=one.owner, name=one.name, handled=one.handled, made=len(made), limit=one.limit,
        next_at=one.next_at, last_fire=last.fire if last else None, last_job=last.job.id if last else None,
    )  # fmt: skip
    return fates


def _make(
    db: Database, owner: str, name: str, kind: FireKind, overlap: Overlap, fires: Sequence[NewFire]
) -> list[Fate]:
    known = _known(db, owner, name, fires)
    fresh = [fire for fire in fires if fire.fire not in known]
    alive = _alive(db, owner, name, every=overlap is Overlap.REPLACE) if fresh and overlap is not Overlap.ALLOW else []
    decision = decide(overlap, kind, fresh, alive)
    if decision.cancel:
        orders.cancel(db, Principal(owner), decision.cancel, REPLACED)
    _insert(db, owner, name, kind, overlap, fresh, decision)
    _record_skips(db, owner, name, decision.skipped(fresh))
    fates = dict(zip([fire.fire for fire in fresh], decision.fates, strict=True))
    return [fates.get(fire.fire, Fate.ALREADY) for fire in fires]


def _known(db: Database, owner: str, name: str, fires: Sequence[NewFire]) -> set[Instant]:
    """Those that were made before: their row tells, or their job, which may outlive it."""
    if not fires:
        return set()
    instants = encode([fire.fire for fire in fires]).decode()
    jobs = encode([fire.job.id for fire in fires]).decode()
    known = {fire for (fire,) in db.rows("known_fires", owner=owner, name=name, fires=instants)}
    there = {job for (job,) in db.rows("known_jobs", ids=jobs)}
    return known | {fire.fire for fire in fires if fire.job.id in there}


def _alive(db: Database, owner: str, name: str, every: bool) -> list[tuple[str, str]]:
    """Fires of before that live, of those that wait only some unless `every` one is asked for."""
    return _going(db, owner, name) + _waiting(db, owner, name, MANY if every else A_FEW)


def _going(db: Database, owner: str, name: str) -> list[tuple[str, str]]:
    return _living(db, db.rows("going_fires", owner=owner, name=name))


def _waiting(db: Database, owner: str, name: str, limit: int) -> list[tuple[str, str]]:
    """In order. Those that have ended meanwhile are not in the way of the others."""
    while found := db.rows("waiting_fires", owner=owner, name=name, limit=limit):
        if living := _living(db, found):
            return living
    return []


def _living(db: Database, found: Sequence[tuple[Any, ...]]) -> list[tuple[str, str]]:
    """Those whose jobs have ended are closed."""
    over = [job for job, _, lives in found if not lives]
    if over:
        db.run("close_fires", ids=encode(over).decode())
    return [(job, kind) for job, kind, lives in found if lives]


def _insert(
    db: Database, owner: str, name: str, kind: FireKind, overlap: Overlap, fires: Sequence[NewFire], decision: Decision
) -> None:
    made, now = decision.made(fires), db.now()
    if not made:
        return
    waiting = {fire.job.id for fire in decision.waiting(fires)}
    cares = int(overlap is not Overlap.ALLOW)
    jobs: list[NewJob] = [fire.job for fire in made]
    orders.insert(db, owner, jobs, now, blocked=waiting)
    db.many(
        "insert_fire",
        [(owner, name, f.fire, f.job.id, kind.value, now, cares, int(f.job.id in waiting)) for f in made],
    )
    if waiting:
        db.topics.add(Topic.SCHEDULE)


def _record_skips(db: Database, owner: str, name: str, skips: Sequence[Skipped]) -> None:
    if skips:
        now = db.now()
        rows = [(owner, name, one.first, one.last, one.count, one.reason.value, now) for one in skips]
        db.many("insert_skip", rows)


def set_aside(db: Database, owner: str, name: str, revision: int, why: str) -> bool:
    if not db.run("set_aside_schedule", owner=owner, name=name, revision=revision, why=why):
        return False
    db.emit("schedule.set_aside", owner, name, {"reason": why})
    return True


def nothing_waits(db: Database, limit: int) -> tuple[int, int] | None:
    """The answer of `release` if no fire waits."""
    return None if db.value("any_waiting") else (0, 0)


def release(db: Database, limit: int) -> tuple[int, int]:
    waiting = db.rows("waiting_schedules")
    released = 0
    for owner, name in waiting:
        if released == limit:
            break
        first = _waiting(db, owner, name, A_FEW)
        if not first or _going(db, owner, name):
            continue
        state = db.rows("release_job", id=first[0][0], now=db.now(), step=db.ageing_step)
        db.run("stop_waiting", id=first[0][0])
        released += len(state)
        db.topics |= {Topic.READY if became == State.READY else Topic.DUE for (became,) in state}
    return released, len(db.rows("waiting_schedules"))


# -- calendars -------------------------------------------------------------------------------------------------------
def put_calendar(db: Database, who: Principal, calendar: Calendar) -> None:
    db.run("put_calendar", owner=who.user, name=calendar.name, body=encode(calendar).decode())
    db.run("look_again", owner=who.user, calendar=calendar.name, now=db.now())
    db.emit("calendar.saved", who.user, calendar.name, {"by": who.user})
    db.topics.add(Topic.SCHEDULE)


def remove_calendar(db: Database, who: Principal, name: str) -> list[str] | None:
    needing = [schedule for (schedule,) in db.rows("schedules_needing", owner=who.user, calendar=name)]
    if needing:
        return needing
    if not db.run("remove_calendar", owner=who.user, name=name):
        return None
    db.emit("calendar.removed", who.user, name, {"by": who.user})
    return []


def calendars(db: Database, owner: str, names: Sequence[str] | None = None) -> list[Calendar]:
    wanted = None if names is None else encode(names).decode()
    found: list[Calendar] = []
    for _, body in db.rows("calendar_rows", owner=owner, names=wanted):
        with suppress(msgspec.MsgspecError, InvalidInput):
            found.append(msgspec.json.decode(body, type=Calendar))
    return found


# -- reads -----------------------------------------------------------------------------------------------------------
def schedules(db: Database, who: Principal, query: ScheduleFilter) -> list[ScheduleInfo]:
    names = None if query.names is None else encode(query.names).decode()
    owner, name = query.after or ("", "")
    place: dict[str, Any] = {"after_name": name, "app": query.app, "limit": query.limit}
    if who.sees is None:
        rows = db.rows("schedule_rows", after_owner=owner, names=names, **place)
    elif names is None:
        rows = db.rows("schedule_rows_of", owner=who.sees, **place)
    else:
        rows = db.rows("schedule_rows_named", owner=who.sees, names=names, **place)
    return [schedule_info(row) for row in rows]


def fires(db: Database, owner: str, name: str, before: Instant, limit: int) -> list[FireInfo]:
    values = {"owner": owner, "name": name, "before": before, "limit": limit}
    return fire_infos([*db.rows("fire_rows", **values), *db.rows("skip_rows", **values)], limit)


def of_jobs(db: Database, ids: Sequence[str]) -> dict[str, ScheduledFire]:
    rows = db.rows("fires_of_jobs", ids=encode(ids).decode())
    return {job: ScheduledFire(name, fire, FireKind(kind)) for job, name, fire, kind in rows}
