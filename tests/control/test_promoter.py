"""The promoter: jobs become ready at their instant, whoever leads; expired ones end."""

from __future__ import annotations

import pytest

from rota.control import promoter
from rota.control.promoter import FOLLOWERS_WAIT, LONGEST_SLEEP, Promoter
from rota.model.lifecycle import State
from rota.model.times import SECOND
from tests.contracts.world import World
from tests.control.stage import let_pass


def leader(world: World) -> Promoter:
    return Promoter(world.store, lambda: True)


async def test_a_job_is_ready_at_its_instant_and_not_before(world: World) -> None:
    service, job = leader(world), await world.one(delay=10 * SECOND)
    await let_pass(world.clock, 9.999999, service)
    assert await world.state(job) is State.SCHEDULED
    await let_pass(world.clock, 0.000001, service)
    assert await world.state(job) is State.READY


async def test_it_sleeps_to_the_next_instant_and_no_longer_than_a_minute(world: World) -> None:
    service = leader(world)
    assert await service.tick() == LONGEST_SLEEP
    await world.one(delay=3600 * SECOND)
    assert await service.tick() == LONGEST_SLEEP
    await world.one(delay=7 * SECOND)
    assert await service.tick() == 7.0
    world.clock.advance(6.5)
    assert await service.tick() == pytest.approx(0.5)


async def test_a_follower_waits_for_the_leader_and_then_acts(world: World) -> None:
    follower, job = Promoter(world.store, lambda: False), await world.one(delay=SECOND)
    await let_pass(world.clock, 1.0 + FOLLOWERS_WAIT / SECOND - 0.001, follower)
    assert await world.state(job) is State.SCHEDULED
    await let_pass(world.clock, 0.001, follower)
    assert await world.state(job) is State.READY


async def test_leader_and_followers_promote_each_job_once(world: World) -> None:
    jobs = [await world.one(delay=n * SECOND) for n in range(20)]
    await let_pass(world.clock, 30, leader(world), Promoter(world.store, lambda: False), leader(world))
    assert set(await world.states(*jobs)) == {State.READY}


async def test_more_than_fit_into_one_write_are_promoted_one_after_the_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promoter, "BATCH", 3)
    jobs = await world.several(10, delay=SECOND)
    service = leader(world)
    world.clock.advance(1)
    assert await service.tick() == 0.0, "there is more to do"
    assert (await world.states(*jobs)).count(State.READY) == 3
    while await service.tick() == 0.0:
        pass
    assert set(await world.states(*jobs)) == {State.READY}


async def test_what_expired_before_it_started_ends(world: World) -> None:
    service, job = leader(world), await world.one(expires=5 * SECOND)
    assert await world.state(job) is State.READY
    await let_pass(world.clock, 5.1, service)
    assert await world.state(job) is State.CANCELLED
