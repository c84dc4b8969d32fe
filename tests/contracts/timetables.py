"""Short ways to say what the contracts need of schedules: kept ones, steps of theirs, and what became of fires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.times import MINUTE, Instant, instant
from rota.model.trigger import schedule as timing
from rota.model.trigger import template as work
from rota.model.trigger.fires import next_fire
from rota.model.trigger.identity import fire_id
from rota.model.trigger.plan import Parsed, new_fires, parse
from rota.model.trigger.plan import advance as next_step
from rota.model.trigger.policies import CatchUp, Missed
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
from rota.model.trigger.rules import Every
from rota.model.trigger.schedule import Timing
from rota.model.trigger.template import Template
from rota.store.base import Store
from tests.contracts.world import World, command
from tests.store.postgres.backends import Postgres
from tests.store.sqlite.backends import _Sqlite

NAME = "nightly"
ALL = CatchUp(Missed.ALL)
NEVER: Instant = 2**62
ORDER = Template(task="true", spec=command())


def minutely(name: str = NAME, who: Principal = LOCAL, **changes: Any) -> Timing:
    """One that fires at each full minute, and makes up for all that it missed."""
    return Timing(**{"name": name, "owner": who.user, "rule": Every(MINUTE), "catch_up": ALL, **changes})


def new(schedule: Timing, since: Instant, template: Template = ORDER, **changes: Any) -> NewSchedule:
    given: dict[str, Any] = {
        "name": schedule.name,
        "timing": timing.to_json(schedule),
        "work": work.to_json(template),
        "overlap": schedule.overlap,
        "since": since,
        "next_at": next_fire(schedule, since),
    }
    return NewSchedule(**given | changes)


async def keep(
    world: World, name: str = NAME, who: Principal = LOCAL, template: Template = ORDER, **changes: Any
) -> StoredSchedule:
    """Keeps a schedule that is new, and tells how it stands."""
    wanted = new(minutely(name, who, **changes), world.clock.now(), template)
    assert await world.store.put_schedule(who, wanted, None)
    return await standing(world, name, who)


async def standing(world: World, name: str = NAME, who: Principal = LOCAL) -> StoredSchedule:
    (found,) = await world.store.schedules(who, ScheduleFilter(names=(name,)))
    return found


async def gone(world: World, name: str = NAME, who: Principal = LOCAL) -> bool:
    return await world.store.schedules(who, ScheduleFilter(names=(name,))) == []


def parsed(info: StoredSchedule) -> Parsed:
    return parse(info)


def fires_at(info: StoredSchedule, *instants: Instant) -> list[NewFire]:
    return new_fires(parse(info), instants)


def step(info: StoredSchedule, *instants: Instant, **changes: Any) -> Advance:
    """These fires and no others, as if they were due."""
    schedule = parse(info).schedule
    handled = max(instants, default=info.next_at or info.handled)
    plain = Advance(
        owner=info.owner, name=info.name, revision=info.revision, before=info.handled, fires=fires_at(info, *instants),
        skips=[], handled=handled, next_at=next_fire(schedule, handled), limit=schedule.limit, overlap=schedule.overlap,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **changes)


async def move_on(world: World, name: str = NAME, who: Principal = LOCAL, store: Store | None = None) -> list[Fate]:
    """Carries out all that is due by now, which must be accepted."""
    info = await standing(world, name, who)
    (fates,) = await (store or world.store).advance(SYSTEM, [next_step(info, parse(info), world.clock.now())])
    assert fates is not None
    return fates


async def tick(world: World, name: str = NAME, minutes: int = 1) -> tuple[list[Fate], list[str]]:
    """Lets that many minutes pass, and makes the fires of them; what became of them, and the ids of their jobs."""
    info = await standing(world, name)
    world.clock.advance(60 * minutes)
    fates = await move_on(world, name)
    instants = range(info.handled // MINUTE * MINUTE + MINUTE, world.clock.now() + 1, MINUTE)
    return fates, [fire_id("local", name, fire) for fire in instants]


async def backfill(world: World, *ago: int, name: str = NAME) -> list[Fate] | None:
    """Fires of so many minutes ago."""
    info = await standing(world, name)
    now = world.clock.now()
    wanted = new_fires(parse(info), [now // MINUTE * MINUTE - one * MINUTE for one in ago], now)
    return await world.store.make_fires(LOCAL, name, FireKind.BACKFILL, wanted)


async def by_hand(world: World, name: str = NAME) -> tuple[Fate, str]:
    now = world.clock.now()
    job = world.job(id=world.chance.job_id(now))
    fates = await world.store.make_fires(LOCAL, name, FireKind.MANUAL, [NewFire(now, job)])
    assert fates is not None
    return fates[0], job.id


async def history(
    world: World, name: str = NAME, who: Principal = LOCAL, before: Instant = NEVER, limit: int = 1_000
) -> list[FireInfo]:
    return await world.store.fires(who, who.user, name, before, limit)


async def made(world: World, name: str = NAME) -> list[tuple[Instant, str | None]]:
    """Fires and their jobs, in the order of their times."""
    return [(instant(one.fire), one.job_id) for one in reversed(await history(world, name)) if one.kind is not None]


async def skipped(world: World, name: str = NAME, who: Principal = LOCAL) -> list[tuple[Instant, Instant, object, str]]:
    found = [one for one in reversed(await history(world, name, who)) if one.kind is None]
    return [(instant(one.fire), instant(one.last), one.count, str(one.reason)) for one in found]


async def states(world: World, jobs: Sequence[str]) -> list[State]:
    return await world.states(*jobs)


async def events(world: World, prefix: str = "schedule.") -> list[tuple[str, str, str, dict[str, Any]]]:
    found = await world.store.events(SYSTEM, 0, 10_000)
    return [(one.kind, one.owner, one.subject, one.data) for one in found if one.kind.startswith(prefix)]


def behind(world: World, statement: str) -> None:
    """Someone writes straight into the tables."""
    match world.backend:
        case Postgres() as postgres:
            with postgres.connection() as db:
                db.execute(statement.encode())
        case _Sqlite() as sqlite:
            with sqlite._connection() as db:
                db.execute(statement)
        case other:
            raise AssertionError(other)
