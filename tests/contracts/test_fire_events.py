"""Events about fires: one for each that was made and for each run of skipped ones, in the commit that decided it."""

from __future__ import annotations

from typing import Any

from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import MINUTE, Instant, iso
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import Fate
from rota.model.trigger.skipped import Skipped, SkipReason
from tests.contracts.timetables import NAME, backfill, by_hand, events, keep, standing, step, tick
from tests.contracts.world import ALICE, BOB, PLENTY, World


async def told(world: World, kind: str) -> list[dict[str, Any]]:
    return [data for found, _, subject, data in await events(world) if found == kind and subject == NAME]


def about(fire: Instant, job: str, kind: str) -> dict[str, Any]:
    return {"fire_time": iso(fire), "job": job, "kind": kind, "queue": "default", "task": "true"}


async def test_each_fire_is_told_with_its_time_and_job(world: World) -> None:
    info = await keep(world)
    _, (first,) = await tick(world)
    _, (second, third) = await tick(world, minutes=2)
    full = info.handled // MINUTE * MINUTE
    rule = [about(full + n * MINUTE, job, "rule") for n, job in enumerate((first, second, third), 1)]
    assert await told(world, "schedule.fired") == rule
    world.clock.advance(1)
    _, job = await by_hand(world)
    assert (await told(world, "schedule.fired"))[3:] == [about(world.clock.now(), job, "manual")]
    assert await backfill(world, 30) == [Fate.MADE]
    (made,) = (await told(world, "schedule.fired"))[4:]
    assert (made["kind"], made["fire_time"]) == ("backfill", iso(world.clock.now() // MINUTE * MINUTE - 30 * MINUTE))


async def test_a_fire_that_was_made_before_is_not_told_again(world: World) -> None:
    await keep(world)
    await tick(world)
    await by_hand(world)  # at the instant of the fire by rule
    world.clock.advance(1)
    assert await backfill(world, 0) == [Fate.ALREADY]
    assert len(await told(world, "schedule.fired")) == 1


async def test_a_skipped_fire_is_told_with_the_reason(world: World) -> None:
    await keep(world, overlap=Overlap.SKIP)
    await tick(world)
    fates, _ = await tick(world)
    assert fates == [Fate.SKIPPED]
    now = world.clock.now()
    assert await told(world, "schedule.skipped") == [
        {"fire_time": iso(now), "last": iso(now), "count": 1, "reason": "overlap"}
    ]
    assert len(await told(world, "schedule.fired")) == 1


async def test_a_run_of_skipped_fires_is_told_once(world: World) -> None:
    info = await keep(world)
    first, last = info.handled + MINUTE, info.handled + 60 * MINUTE
    world.clock.advance(3600)
    missed = Skipped(first, last, 60, SkipReason.MISSED)
    (fates,) = await world.store.advance(SYSTEM, [step(info, skips=[missed], handled=last)])
    assert fates == []
    run = {"fire_time": iso(first), "last": iso(last), "count": 60, "reason": "missed"}
    assert await told(world, "schedule.skipped") == [run]
    info = await standing(world)
    assert await world.store.remove_schedule(LOCAL, NAME, info.revision, info.handled, [missed])
    assert await told(world, "schedule.skipped") == [run], "a run that was recorded before is not told again"


async def test_a_fire_that_waits_for_another_is_told_when_it_is_made(world: World) -> None:
    await keep(world, overlap=Overlap.QUEUE)
    _, (first,) = await tick(world)
    fates, (second,) = await tick(world)
    assert fates == [Fate.QUEUED]
    assert [one["job"] for one in await told(world, "schedule.fired")] == [first, second]


async def test_a_step_that_does_not_count_tells_nothing(world: World) -> None:
    info = await keep(world)
    late = step(info, info.handled + MINUTE)
    await world.store.pause_schedule(LOCAL, NAME, "")
    world.clock.advance(60)
    assert await world.store.advance(SYSTEM, [late]) == [None]
    assert await told(world, "schedule.fired") == []


async def test_only_the_owner_is_told(world: World) -> None:
    await keep(world, who=ALICE)
    info = await standing(world, who=ALICE)
    world.clock.advance(60)
    assert await world.store.advance(SYSTEM, [step(info, info.handled + MINUTE)]) == [[Fate.MADE]]
    assert "schedule.fired" in {one.kind for one in await world.store.events(ALICE, 0, PLENTY)}
    assert await world.store.events(BOB, 0, PLENTY) == []
