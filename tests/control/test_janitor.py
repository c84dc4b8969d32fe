"""The janitor: what is older than its retention is deleted, in small steps, by the leader alone."""

from __future__ import annotations

import itertools

import pytest

from rota.control import janitor
from rota.control.janitor import BREATH, PERIOD, SOON, Janitor
from rota.model.times import DAY, HOUR, SECOND
from rota.store.values import Retention
from tests.contracts.world import FATAL, World
from tests.control.stage import let_pass

KEEP = Retention(ended=HOUR, dead=DAY, events=DAY, nodes=DAY)


def cleaning(world: World, leads: bool = True, keep: Retention = KEEP) -> Janitor:
    return Janitor(world.store, keep, lambda: leads)


async def end(world: World, count: int = 1) -> list[str]:
    actor, jobs = await world.node(), await world.several(count)
    for job in jobs:
        await actor.run(job_id=job)
    return jobs


async def test_ended_jobs_are_deleted_when_their_time_is_over(world: World) -> None:
    (job,) = await end(world)
    await let_pass(world.clock, HOUR // SECOND - 2 * PERIOD, cleaning(world))
    assert job in await world.all()
    await let_pass(world.clock, 4 * PERIOD, cleaning(world))
    assert job not in await world.all()


async def test_dead_letters_are_kept_for_longer(world: World) -> None:
    dead = await world.one()
    await (await world.node()).run(FATAL, dead)
    (job,) = await end(world)
    world.clock.advance(2 * HOUR // SECOND)
    service = cleaning(world)
    while await service.tick() == BREATH:
        pass
    assert list(await world.all()) == [dead]
    assert job != dead
    world.clock.advance(DAY // SECOND)
    while await service.tick() == BREATH:
        pass
    assert not await world.all()


async def test_a_job_that_has_not_ended_stays_however_old_it_is(world: World) -> None:
    waiting, later = await world.one(), await world.one(delay=300 * DAY)
    world.clock.advance(200 * DAY // SECOND)
    while await cleaning(world).tick() == BREATH:
        pass
    assert {waiting, later} <= (await world.all()).keys()


async def test_followers_delete_nothing_and_ask_again_soon(world: World) -> None:
    (job,) = await end(world)
    world.clock.advance(10 * DAY // SECOND)
    assert await cleaning(world, leads=False).tick() == SOON
    assert job in await world.all()


async def test_it_goes_in_small_steps_and_gives_others_their_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor, "BATCH", 2)
    await end(world, 7)
    world.clock.advance(2 * HOUR // SECOND)
    service, steps, left = cleaning(world), 0, [7]
    while await service.tick() == BREATH:
        steps += 1
        left.append(len(await world.all()))
    assert left[-1] == 0
    assert steps >= 4
    assert all(before - after <= 2 for before, after in itertools.pairwise(left))
    assert await service.tick() == PERIOD
