"""The client for schedules and calendars.

A change takes effect at one instant. Fires that were due before it and are not handled yet are handled first, under the
old schedule. Then the change is written if the schedule's revision still matches; otherwise everything is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice

import msgspec

from rota.clock import Chance
from rota.errors import InvalidInput, NotFound, RotaError, StoreUnavailable
from rota.model.principal import Principal
from rota.model.times import LATEST, Instant, as_instant, aware, iso
from rota.model.trigger import schedule as timing
from rota.model.trigger import template as work
from rota.model.trigger.arguments import local_iso
from rota.model.trigger.calendars import Calendar, calendar_name
from rota.model.trigger.fires import fires, next_fire
from rota.model.trigger.plan import Parsed, advance, left_behind, named_calendars, new_fires, parse
from rota.model.trigger.reading import rule_text
from rota.model.trigger.records import (
    Advance,
    Fate,
    FireInfo,
    FireKind,
    NewFire,
    NewSchedule,
    ScheduleFilter,
    StoredSchedule,
)
from rota.model.trigger.rules import Recurrence
from rota.model.trigger.schedule import Timing
from rota.model.trigger.skipped import Skipped
from rota.model.trigger.template import Template
from rota.store.base import Store
from rota.views.schedules import BackfillView

PAGE = 500
# Another writer releases a schedule within milliseconds.
TRIES = 100
A_MOMENT = 0.02
# A larger backfill needs a confirmation.
MANY = 10_000
MOST = 1_000_000
A_FEW = 20  # fires computed without a break for other tasks of the loop
NEVER: Instant = LATEST + 1
Check = Callable[[StoredSchedule | None], None]


def anything(info: StoredSchedule | None) -> None:
    """The default for `check`: every schedule may be changed."""


class Saved(msgspec.Struct, frozen=True):
    info: StoredSchedule
    created: bool
    changed: bool
    before: StoredSchedule | None = None  # the schedule before the change; None: there was none


class BackfillProgress(msgspec.Struct, frozen=True):
    """The progress of a backfill."""

    total: int
    made: int = 0
    queued: int = 0
    already: int = 0
    first: datetime | None = None
    last: datetime | None = None

    @property
    def done(self) -> int:
        return self.made + self.queued + self.already

    def view(self, name: str, dry_run: bool) -> BackfillView:
        counts = self.total, self.made, self.queued, self.already
        return BackfillView(name, *counts, _second(self.first), _second(self.last), dry_run)


def _second(moment: datetime | None) -> str | None:
    return None if moment is None else local_iso(as_instant(moment), "UTC").replace("+00:00", "Z")


class SchedulesClient:
    def __init__(
        self, store: Store, who: Principal, chance: Chance, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._store, self._who, self._chance, self._pause = store, who, chance, pause

    async def get(self, name: str) -> StoredSchedule:
        info = await self._find(name)
        if info is None:
            raise NotFound("schedule", name)
        return info

    async def _find(self, name: str) -> StoredSchedule | None:
        found = await self._store.schedules(self._who, ScheduleFilter(names=(name,), limit=1))
        return found[0] if found else None

    async def all(self, app: str | None = None) -> AsyncIterator[StoredSchedule]:
        """All schedules, ordered by name."""
        after: tuple[str, str] | None = None
        while page := await self._store.schedules(self._who, ScheduleFilter(app=app, after=after, limit=PAGE)):
            for info in page:
                yield info
            after = (page[-1].owner, page[-1].name)

    async def parsed(self, info: StoredSchedule) -> Parsed:
        """Raises InvalidInput if its texts can't be read."""
        return await self._with_calendars(parse(info))

    async def _with_calendars(self, parsed: Parsed) -> Parsed:
        names = named_calendars(parsed.schedule)
        found = await self._store.calendars(self._who, self._who.user, names) if names else []
        return msgspec.structs.replace(parsed, calendars={calendar.name: calendar for calendar in found})

    async def upcoming(self, name: str, count: int) -> list[Instant]:
        """Its next fires."""
        info = await self.get(name)
        parsed = await self.parsed(info)
        limit = parsed.schedule.limit
        left = count if limit is None else min(count, limit - info.fired)
        after = max(info.handled, self._store.now())
        return await _listed(fires(parsed.schedule, after, limit=max(0, left), calendars=parsed.calendars))

    async def preview(self, schedule: Timing, count: int) -> list[Instant]:
        """The fires of a schedule that is not stored."""
        calendars = {one.name: one for one in await self.calendars()}
        most = count if schedule.limit is None else min(count, schedule.limit)
        return await _listed(fires(schedule, self._store.now(), limit=most, calendars=calendars))

    async def history(self, name: str, limit: int, before: Instant = NEVER) -> list[FireInfo]:
        """Records of its fires, latest first. A removed schedule still has them."""
        found = await self._store.fires(self._who, self._who.user, name, before, limit)
        if not found:
            await self.get(name)
        return found

    async def save(
        self,
        schedule: Timing,
        template: Template,
        *,
        app: str | None = None,
        module: str | None = None,
        replace: bool = True,
        note: str | None = None,
        check: Check = anything,
    ) -> Saved:
        """Creates a schedule, or replaces the one with that name. The same schedule again changes nothing. With a
        `note` a new one begins as paused. `module`: the module of the app that declares it. `check` may refuse what
        would be replaced (None: nothing): no other edit comes between."""
        if schedule.owner != self._who.user:  # built before a server said whose the key is
            schedule = msgspec.structs.replace(schedule, owner=self._who.user)
        parsed = await self._with_calendars(Parsed(schedule, template))
        next_fire(schedule, self._store.now(), parsed.calendars)  # raises if the schedule is wrong
        created: bool | None = None  # not None: it was saved already
        before: StoredSchedule | None = None
        async for info in self._standing(schedule.name):
            if created is None:
                check(info)
            if info is not None:
                parsed = _counting_on(info, parsed)
                if created is None and _same(info, parsed, app, module):
                    return Saved(info, False, False)
                _check_place(info, app, replace or created is not None)
                if not await self._up_to_date(info):
                    continue
            since = self._store.now() if info is None else max(info.handled, self._store.now())
            new = _new(parsed, app, module, since, note)
            if info is None and new.next_at is None and app is None:
                raise _never(schedule, since)
            if await self._store.put_schedule(self._who, new, None if info is None else info.revision):
                if created is None:
                    created, before = info is None, info
                fresh = await self._with_calendars(parsed)
                if fresh == parsed:
                    return Saved(await self.get(schedule.name), created, True, before)
                parsed = fresh  # a calendar was changed before the schedule was saved
        raise _busy(schedule.name)

    async def pause(self, name: str, note: str = "") -> StoredSchedule:
        if not await self._store.pause_schedule(self._who, name, note):
            raise NotFound("schedule", name)
        return await self.get(name)

    async def resume(self, name: str) -> StoredSchedule:
        """Fires during the pause stay skipped."""
        async for info in self._standing(name):
            if info is None:
                raise NotFound("schedule", name)
            await self.parsed(info)
            if not info.paused and info.broken is None:
                return info
            since = self._store.now()
            if await self._up_to_date(info):
                await self._store.resume_schedule(self._who, name, info.revision, since)
        raise _busy(name)

    async def remove(self, name: str, check: Check = anything) -> StoredSchedule:
        """Its jobs stay as they are. `check` as for `save`."""
        async for info in self._standing(name):
            if info is None:
                raise NotFound("schedule", name)
            check(info)
            if await self._remove(info, None):
                return info
        raise _busy(name)

    async def withdraw(self, name: str, app: str, removable: Callable[[StoredSchedule], bool]) -> bool:
        """Removes a schedule that the app no longer declares. False: it is gone already, or not removable by now."""
        async for info in self._standing(name):
            if info is None or not removable(info):
                return False
            if await self._remove(info, app):
                return True
        raise _busy(name)

    async def _remove(self, info: StoredSchedule, app: str | None) -> bool:
        left = await self._left(info)
        return await self._store.remove_schedule(self._who, info.name, info.revision, info.handled, left, app)

    async def undeclare(self, app: str, infos: Sequence[StoredSchedule]) -> None:
        """Sets `undeclared_at` on schedules that a starting node of the app did not declare; they keep firing."""
        fresh = [(info.name, info.revision) for info in infos if info.undeclared_at is None]
        for start in range(0, len(fresh), PAGE):
            await self._store.undeclare_schedules(self._who, app, fresh[start : start + PAGE])

    async def _left(self, info: StoredSchedule) -> list[Skipped]:
        """Due fires that are not handled; none if the schedule can't be read."""
        if info.broken is not None or info.next_at is None:
            return []
        try:
            return left_behind(info, await self.parsed(info), self._store.now())
        except InvalidInput:
            return []

    async def check(self, schedule: Timing, template: Template, app: str) -> None:
        """Raises InvalidInput if the app can't have this schedule."""
        parsed = await self._with_calendars(Parsed(schedule, template))
        next_fire(schedule, self._store.now(), parsed.calendars)
        if info := await self._find(schedule.name):
            _check_place(info, app, replace=True)

    async def _standing(self, name: str) -> AsyncIterator[StoredSchedule | None]:
        """The current schedule, read again until a change succeeds."""
        for turn in range(TRIES):
            if turn:
                await self._pause(A_MOMENT)
            yield await self._find(name)

    async def _up_to_date(self, info: StoredSchedule) -> bool:
        """Handles fires that were due before now. False: read the schedule again."""
        now = self._store.now()
        if info.next_at is None or info.next_at > now or info.broken is not None:
            return True
        try:
            step = advance(info, await self.parsed(info), now)
        except InvalidInput as error:  # no scheduler has set it aside yet
            await self._store.set_aside_schedule(self._who, info.owner, info.name, info.revision, str(error))
        else:
            await self._store.advance(self._who, [step])
        return False

    async def carry_out(self, steps: Sequence[Advance]) -> list[list[Fate] | None]:
        """Steps that a client asks for, worked out again from the schedules: a step makes the jobs of a rule, without
        an order and its quotas and audit, so nobody may choose them."""
        own = {one.name: await self._step(one) for one in steps}
        found = [name for name, step in own.items() if step is not None]
        fates = await self._store.advance(self._who, [step for step in own.values() if step is not None])
        answers = dict(zip(found, fates, strict=True))
        return [answers.pop(one.name, None) for one in steps]

    async def _step(self, asked: Advance) -> Advance | None:
        info, now = await self._find(asked.name), self._store.now()
        if info is None or (info.revision, info.handled) != (asked.revision, asked.before):
            return None
        if info.next_at is None or info.next_at > now or info.broken is not None:
            return None
        return advance(info, await self.parsed(info), now)

    async def fire(self, name: str) -> tuple[Fate, str]:
        """Makes a job now, apart from the rule; returns its fate and id. The overlap policy applies."""
        info = await self.get(name)
        parsed = await self.parsed(info)
        for nudge in range(TRIES):
            now = self._store.now() + nudge
            job_id = self._chance.job_ids(now, 1)[0]
            job = parsed.template.job(job_id, None, parsed.schedule.zone, now, now)
            wish = [NewFire(now, job)]
            fates = await self._store.make_fires(self._who, name, FireKind.MANUAL, wish)
            if fates is None:
                raise NotFound("schedule", name)
            if fates[0] is not Fate.ALREADY:  # the rule fired in this very microsecond
                return fates[0], job_id
        raise _busy(name)

    async def backfill(
        self, name: str, start: Instant, end: Instant, *, dry_run: bool = False, many: bool = False
    ) -> AsyncIterator[BackfillProgress]:
        """Makes the fires from `start` to `end` that were not made; reports progress after every step."""
        info = await self.get(name)
        parsed = await self.parsed(info)
        now = self._store.now()
        if end < start:
            raise InvalidInput("to", iso(end), f"a time that is not before {iso(start)}")
        if end > now:
            raise InvalidInput("to", iso(end), f"a time that has passed; it is {iso(now)}")
        instants = await _listed(
            fires(parsed.schedule, start - 1, end, limit=(MOST if many else MANY) + 1, calendars=parsed.calendars)
        )
        if len(instants) > MOST:
            raise InvalidInput("backfill", f"more than {MOST:,} fires", f"at most {MOST:,} at a time")
        if len(instants) > MANY and not many:
            raise InvalidInput("backfill", f"more than {MANY:,} fires", f"at most {MANY:,}, or --yes for as many")
        ends = (aware(instants[0]), aware(instants[-1])) if instants else ()
        progress = BackfillProgress(len(instants), 0, 0, 0, *ends)
        yield progress
        for part in [] if dry_run else _pages(instants):
            wishes = new_fires(parsed, part, self._store.now())
            now_stands = await self.get(name)
            if (now_stands.timing, now_stands.work) != (info.timing, info.work):
                raise InvalidInput("schedule", name, f"one that stays as it is meanwhile; {progress.done:,} are made")
            fates = await self._store.make_fires(self._who, name, FireKind.BACKFILL, wishes)
            if fates is None:
                raise NotFound("schedule", name)
            progress = msgspec.structs.replace(
                progress,
                made=progress.made + fates.count(Fate.MADE),
                queued=progress.queued + fates.count(Fate.QUEUED),
                already=progress.already + fates.count(Fate.ALREADY),
            )
            yield progress

    async def calendars(self) -> list[Calendar]:
        return await self._store.calendars(self._who, self._who.user)

    async def calendar(self, name: str) -> Calendar:
        found = await self._store.calendars(self._who, self._who.user, [name])
        if not found:
            raise NotFound("calendar", name)
        return found[0]

    async def save_calendar(self, calendar: Calendar, version: str | None = None) -> None:
        calendar_name(calendar.name)
        await self._store.put_calendar(self._who, calendar, version)

    async def remove_calendar(self, name: str, version: str | None = None) -> None:
        needing = await self._store.remove_calendar(self._who, name, version)
        if needing is None:
            raise NotFound("calendar", name)
        if needing:
            raise InvalidInput("calendar", name, f"one that no schedule needs; needed by {', '.join(needing)}")


def _new(parsed: Parsed, app: str | None, module: str | None, since: Instant, note: str | None) -> NewSchedule:
    schedule = parsed.schedule
    return NewSchedule(
        name=schedule.name, timing=timing.to_json(schedule), work=work.to_json(parsed.template),
        overlap=schedule.overlap, calendars=named_calendars(schedule), app=app, module=module, since=since,
        next_at=next_fire(schedule, since, parsed.calendars), note=note,
    )  # fmt: skip


def _check_place(info: StoredSchedule, app: str | None, replace: bool) -> None:
    if info.app != app:
        whose = f"app {info.app!r} declares it" if info.app else "it was not declared in code"
        cure = "remove it, or choose another name"
        raise InvalidInput("schedule", info.name, f"a name that is free; {whose}: {cure}")
    if not replace:
        raise InvalidInput("schedule", info.name, "a name that is free, or --replace")


def _same(info: StoredSchedule, parsed: Parsed, app: str | None, module: str | None) -> bool:
    if info.broken is not None or info.undeclared_at is not None:
        return False
    kept = (info.timing, info.work, info.app, info.module)
    return kept == (timing.to_json(parsed.schedule), work.to_json(parsed.template), app, module)


def _counting_on(info: StoredSchedule, parsed: Parsed) -> Parsed:
    """An RRULE without DTSTART keeps the beginning of its first version, so that saving it again changes nothing."""
    rule = parsed.schedule.rule
    if not isinstance(rule, Recurrence) or not rule.implied:
        return parsed
    try:
        before = timing.from_json(info.timing).rule
    except InvalidInput:
        return parsed
    if not isinstance(before, Recurrence) or (before.text, before.implied) != (rule.text, True):
        return parsed
    return msgspec.structs.replace(parsed, schedule=msgspec.structs.replace(parsed.schedule, rule=before))


def _never(schedule: Timing, since: Instant) -> InvalidInput:
    if schedule.end is not None and schedule.end <= since:
        return InvalidInput("end", iso(schedule.end), f"a time after {iso(since)}")
    return InvalidInput("rule", rule_text(schedule.rule), f"one that fires at least once after {iso(since)}")


async def _listed(found: Iterator[Instant]) -> list[Instant]:
    """Yields to the loop after every few fires: the search for one may take 20 ms."""
    listed: list[Instant] = []
    while part := list(islice(found, A_FEW)):
        listed += part
        await asyncio.sleep(0)
    return listed


def _pages(instants: Sequence[Instant]) -> Iterator[list[Instant]]:
    rest = iter(instants)
    while part := list(islice(rest, PAGE)):
        yield part


def _busy(name: str) -> RotaError:
    return StoreUnavailable(f"schedule {name!r} is being changed by others all the time; try again")
