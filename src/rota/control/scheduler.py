"""Makes the fires of schedules, each at its instant.

Any number of schedulers may run: the store applies a step only if the schedule still has the revision and cursor from
which the step was computed. The leader acts at once, the others only on steps that are overdue for a while.

Computing steps takes longer than applying them. So the leader reads the schedules of the next second ahead of time,
computes each step, and sleeps to the exact instant. An edit or pause meanwhile voids the prepared step. Only the near
future is held in memory: a hundred thousand waiting schedules cost nothing. If a rule has to be searched, or many fires
were missed, a step takes some 50 ms: a thread computes it, and the loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import msgspec

from rota.errors import InvalidInput, RotaError, StoreError
from rota.model.principal import SYSTEM
from rota.model.times import MILLISECOND, SECOND, Duration, Instant
from rota.model.trigger.plan import Parsed, advance, named_calendars, parse, quick
from rota.model.trigger.records import Advance, Fate, StoredSchedule
from rota.refusals import anyones
from rota.service import SelfWaking
from rota.store.base import Store
from rota.telemetry.events import Bus, ScheduleSetAside

# How far the leader looks ahead, and the latest time of that look before the instant.
AHEAD: Duration = SECOND
LEAD: Duration = 500 * MILLISECOND
KEPT_AHEAD: Duration = 2 * AHEAD
# After the instant, other work comes first for this long.
LATER: Duration = 100 * MILLISECOND
# Followers wait for the leader to act first.
FOLLOWERS_WAIT: Duration = 300 * MILLISECOND
# Schedules per look, and jobs per write (a step with more jobs is a write of its own).
LOOKED_AT = 1_000
BATCH = 250
# Bounds a single sleep. For lost wake-ups the renewal of the node's lease wakes this service.
LONGEST_SLEEP = 60.0
# The pause after a refused step: another scheduler was quicker, or our clock is a little fast.
SOON, LONGEST_PAUSE = 0.005, 0.5
# An older prepared step is computed anew.
FRESH: Duration = SECOND
# Steps computed before other tasks of the loop get their turn.
A_FEW = 8
PARSED_KEPT = 5_000

Name = tuple[str, str]
T = TypeVar("T")


class PreparedStep(msgspec.Struct, frozen=True):
    at: Instant
    info: StoredSchedule
    step: Advance
    now: Instant  # for which the step was computed


class Scheduler(SelfWaking):
    name = "scheduler"

    def __init__(self, store: Store, bus: Bus, leads: Callable[[], bool]) -> None:
        self._store, self._bus, self._leads = store, bus, leads
        self._prepared: dict[Name, PreparedStep] = {}
        self._parsed: dict[Name, tuple[tuple[int, str, str], Parsed]] = {}
        self._seen_until: Instant = 0  # all steps that are due until then are prepared
        self._look_at: Instant | None = 0  # when to read again; None: nothing to read
        self._pending: dict[Name, StoredSchedule] = {}  # schedules whose next step is to be computed,
        self._pending_at: Instant = 0  # from then on
        self._refusals = 0  # in a row
        self._failure: StoreError | None = None  # of one step, raised when the others are done
        # Not the loop's own threads: all of them may be busy with name lookups.
        self._thread = ThreadPoolExecutor(1, "rota-scheduler")

    def when_changed(self) -> None:
        """For news of schedules: one may be due earlier than was known."""
        self._look_at = 0
        self.wake()

    async def tick(self) -> float:
        late = 0 if self._leads() else FOLLOWERS_WAIT
        behind = late and late + LEAD  # the delay of the look
        try:
            refused = await self._carry_out(late)
            if self._look_at is not None and self._look_at + behind <= self._store.now():
                refused |= await self._look(late)
            if self._pending and self._pending_at <= self._store.now():
                await self._prepare_pending()
            if self._failure is not None:
                raise self._failure
        except BaseException:
            self._look_at, self._failure = 0, None  # read everything again
            raise
        instants = [one.at + late for one in self._prepared.values()]
        if self._look_at is not None:
            # Followers wake up for the look too: they may lead by then.
            instants.append(self._look_at if self._look_at > self._store.now() else self._look_at + behind)
        if self._pending:
            instants.append(self._pending_at)
        wait = max(0.0, (min(instants) - self._store.now()) / SECOND) if instants else LONGEST_SLEEP
        self._refusals = self._refusals + 1 if refused else 0
        pause = min(SOON * 2**self._refusals, LONGEST_PAUSE) if refused else 0.0
        return min(max(wait, pause), LONGEST_SLEEP)

    async def _carry_out(self, late: Duration) -> bool:
        """Applies due steps; returns whether some were refused. A schedule with more to do waits for the next turn:
        others may be due by now."""
        refused = False
        now = self._store.now()
        due = sorted((one for one in self._prepared.values() if one.at + late <= now), key=lambda one: one.at)
        for batch in _writes(due):
            steps = [fresh for one in batch if (fresh := await self._renewed(one)) is not None]
            for one, fates in zip(steps, await self._advance(steps), strict=True):
                self._prepared.pop(_name(one), None)
                if fates is None:
                    refused, self._look_at = True, 0
                else:
                    await self._go_on(one, fates)
        return refused

    async def _renewed(self, one: PreparedStep) -> PreparedStep | None:
        """A step that has waited for too long (the machine was asleep) is computed anew: its fires may count as missed
        by now."""
        if self._store.now() <= one.now + FRESH:
            return one
        del self._prepared[_name(one)]
        await asyncio.sleep(0)
        await self._prepare(one.info)
        return self._prepared.get(_name(one))

    async def _advance(self, steps: Sequence[PreparedStep]) -> Sequence[list[Fate] | None]:
        """A step that the store refuses must not block the others. If its values are the cause, the schedule is set
        aside; otherwise the store has a problem, and the step is tried again."""
        if not steps:
            return []
        try:
            return await self._store.advance(SYSTEM, [one.step for one in steps])
        except (InvalidInput, OverflowError, StoreError) as error:
            if anyones(error):
                raise
            if len(steps) > 1:
                return [fates for one in steps for fates in await self._advance([one])]
            if isinstance(error, StoreError):
                self._failure = StoreError(f"firing {steps[0].info.name}: {error}")
            else:
                await self._set_aside(steps[0].info, error)
            return [None]

    async def _go_on(self, one: PreparedStep, fates: list[Fate]) -> None:
        """The schedule is as its step left it: if it is due again soon, the next step is computed without reading. That
        waits until the workers have taken the jobs."""
        made = sum(fate in (Fate.MADE, Fate.QUEUED) for fate in fates)
        step, fired = one.step, one.info.fired + made
        if step.next_at is None or (step.limit is not None and step.limit <= fired):
            return
        if step.next_at <= max(self._seen_until, self._store.now() + KEPT_AHEAD):
            info = msgspec.structs.replace(one.info, handled=step.handled, next_at=step.next_at, fired=fired)
            now = self._store.now()
            if now < step.next_at < now + 2 * LATER:
                await self._prepare(info)
            else:  # a late schedule has its next turn after the others
                begin = now if step.next_at <= now else now + LATER
                self._pending_at = min(self._pending_at, begin) if self._pending else begin
                self._pending[_name(one)] = info
        if step.next_at > self._seen_until:
            self._look_before(step.next_at)

    def _look_before(self, instant: Instant) -> None:
        look = instant - LEAD
        self._look_at = look if self._look_at is None else min(self._look_at, look)

    async def _look(self, late: Duration) -> bool:
        """Prepares steps that are due soon; returns whether one that came due meanwhile was refused."""
        now = self._store.now()
        until = now - late if late else now + AHEAD
        self._look_at = None  # before the read: later news must not be lost
        found, upcoming = await self._store.coming_schedules(SYSTEM, until, LOOKED_AT)
        if len(found) == LOOKED_AT:  # read the others when these are done
            self._seen_until = found[-1].next_at or until
            self._look_before(self._seen_until + LEAD)
        else:
            self._seen_until = until
            if upcoming is not None:
                self._look_before(upcoming)
        return await self._prepare_all(found, late)

    async def _prepare_all(self, found: Sequence[StoredSchedule], late: Duration) -> bool:
        """Earliest first; steps that come due meanwhile are applied in between."""
        refused = False
        before = self._prepared
        self._prepared = {name: one for name, one in before.items() if one.at > self._seen_until}
        for number, info in enumerate(found, 1):
            name = (info.owner, info.name)
            self._pending.pop(name, None)
            kept = before.get(name)
            if kept is not None and _stand(kept.info) == _stand(info):
                self._prepared[name] = kept
            else:
                await self._prepare(info)
            if number % A_FEW == 0:
                await asyncio.sleep(0)
                refused |= await self._carry_out(late)
        return refused

    async def _prepare_pending(self) -> None:
        """Prepares a few; the rest at the next turn."""
        for name in list(islice(self._pending, A_FEW)):
            await self._prepare(self._pending.pop(name))

    async def _prepare(self, info: StoredSchedule) -> None:
        """A schedule that can't be read is set aside; the others go on."""
        assert info.next_at is not None
        now = max(info.next_at, self._store.now())
        try:
            parsed = await self._read(info)
            step = await self._aside(info, lambda: advance(info, parsed, now))
        except (InvalidInput, ArithmeticError, LookupError, TypeError, RecursionError, ValueError) as error:
            await self._set_aside(info, error)
        else:
            self._prepared[info.owner, info.name] = PreparedStep(info.next_at, info, step, now)

    async def _aside(self, info: StoredSchedule, work: Callable[[], T]) -> T:
        """Runs long computations in the thread."""
        if quick(info, self._store.now()):
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _set_aside(self, info: StoredSchedule, error: Exception) -> None:
        self._parsed.pop((info.owner, info.name), None)
        why = str(error) if isinstance(error, RotaError) else f"{type(error).__name__}: {error}"
        if await self._store.set_aside_schedule(SYSTEM, info.owner, info.name, info.revision, why):
            self._bus.emit(ScheduleSetAside(info.owner, info.name, why))

    async def _read(self, info: StoredSchedule) -> Parsed:
        name = (info.owner, info.name)
        texts = (info.revision, info.timing, info.work)
        kept = self._parsed.get(name)
        if kept is not None and kept[0] == texts:
            return kept[1]
        parsed = await self._aside(info, lambda: parse(info))
        if names := named_calendars(parsed.schedule):
            calendars = await self._store.calendars(SYSTEM, info.owner, names)
            parsed = msgspec.structs.replace(parsed, calendars={one.name: one for one in calendars})
        while len(self._parsed) >= PARSED_KEPT:
            del self._parsed[next(iter(self._parsed))]
        self._parsed[name] = (texts, parsed)
        return parsed


def _writes(due: Sequence[PreparedStep]) -> Iterator[list[PreparedStep]]:
    """Batches by number of jobs, not of steps: a step may have hundreds of fires."""
    batch: list[PreparedStep] = []
    jobs = 0
    for one in due:
        weight = max(1, len(one.step.fires))
        if batch and jobs + weight > BATCH:
            yield batch
            batch, jobs = [], 0
        batch.append(one)
        jobs += weight
    if batch:
        yield batch


def _stand(info: StoredSchedule) -> tuple[object, ...]:
    """The fields from which a step is computed; others (the last job) don't matter here."""
    return info.revision, info.handled, info.fired, info.timing, info.work


def _name(one: PreparedStep) -> Name:
    return one.info.owner, one.info.name
