"""Rates when jobs bring different windows along for one key: each is held to its own, whoever started before; and what
is forgotten is of no use to anyone."""

from __future__ import annotations

import random

import pytest

from rota.model.limits import Rate, slack
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY, HOUR, MINUTE, SECOND, Duration, Instant, aware
from rota.store.values import Retention
from tests.contracts.admission import HELD, RUNNING, admitted, finish_all, key_info, limit, names, rated
from tests.contracts.world import STOPPED, Actor, World

AGES = Retention(DAY, DAY, DAY, DAY)


async def start(world: World, actor: Actor, count: int, window: Duration, jobs: int = 1) -> bool:
    """Did they start, all of them?"""
    wanted = await world.several(jobs, requirements=rated(count, window))
    await admitted(world)
    claimed = await actor.claim()
    await finish_all(actor, claimed)
    return names(claimed) == wanted


async def forget(world: World) -> None:
    while await world.store.prune(SYSTEM, AGES, 1_000):
        pass


async def pass_by(world: World, span: Duration) -> None:
    world.clock.advance(span / SECOND)
    await forget(world)
    await admitted(world)


async def test_starts_by_a_short_window_count_in_a_long_one(world: World) -> None:
    actor = await world.node()
    for _ in range(4):
        assert await start(world, actor, 5, SECOND, jobs=5)
        await pass_by(world, 1_100_000)
    last = world.clock.now() - 1_100_000
    late = await world.one(requirements=rated(10, MINUTE))
    await admitted(world)
    assert (await actor.claim(), await world.state(late)) == ([], HELD), "twenty have started in the last five seconds"
    back = last - 1_100_000 + slack(SECOND) + MINUTE  # then only the last five count
    assert (await admitted(world)).next_at == back
    await pass_by(world, back - world.clock.now() - 1)
    assert await actor.claim() == []
    await pass_by(world, 1)
    assert names(await actor.claim()) == [late]


async def test_starts_by_a_long_window_count_in_a_short_one_no_longer_than_it_is(world: World) -> None:
    actor = await world.node()
    assert await start(world, actor, 10, MINUTE, jobs=5)
    quick = await world.one(requirements=rated(5, SECOND))
    assert await actor.claim() == []
    await pass_by(world, SECOND + slack(MINUTE))
    assert names(await actor.claim()) == [quick]


async def test_a_limit_that_is_set_and_removed_leaves_no_gap(world: World) -> None:
    actor = await world.node()
    assert await start(world, actor, 1, HOUR)
    began = world.clock.now()
    await pass_by(world, 5 * SECOND)
    await limit(world, "r", rate=Rate(100, SECOND))
    assert await world.store.remove_limit(LOCAL, "r")
    second = await world.one(requirements=rated(1, HOUR))
    for _ in range(5):
        await admitted(world)
        assert (await actor.claim(), await world.state(second)) == ([], HELD)
        await pass_by(world, 10 * MINUTE)
    await pass_by(world, began + HOUR + slack(HOUR) - world.clock.now())
    assert names(await actor.claim()) == [second]


async def test_starts_are_kept_for_whoever_looks_back_furthest(world: World) -> None:
    actor = await world.node()
    assert await start(world, actor, 1, HOUR)
    await pass_by(world, 20 * MINUTE)
    assert await start(world, actor, 100, SECOND)
    short = world.clock.now()
    await pass_by(world, 45 * MINUTE)
    late = await world.one(requirements=rated(1, HOUR))
    await admitted(world)
    assert (await actor.claim(), await world.state(late)) == ([], HELD)
    await pass_by(world, short + HOUR + slack(SECOND) - world.clock.now())
    assert names(await actor.claim()) == [late]


async def test_starts_are_kept_for_whoever_waits_and_looks_back_far(world: World) -> None:
    actor = await world.node()
    assert await start(world, actor, 100, SECOND)
    began = world.clock.now()
    await pass_by(world, 5 * MINUTE)
    assert not await start(world, actor, 1, HOUR)
    await pass_by(world, 50 * MINUTE)
    assert await actor.claim() == []
    await pass_by(world, began + HOUR + slack(SECOND) - world.clock.now())
    assert len(await actor.claim()) == 1


async def test_what_nobody_looks_back_to_is_forgotten(world: World) -> None:
    actor = await world.node()
    assert await start(world, actor, 100, SECOND, jobs=20)
    await pass_by(world, 9 * MINUTE)
    assert len(world.backend.contents("starts")["starts"]) == 20
    await pass_by(world, 2 * MINUTE)
    assert world.backend.contents("starts")["starts"] == []


async def test_a_person_s_window_tells_when_the_next_may_start(world: World) -> None:
    actor = await world.node()
    assert await start(world, actor, 5, SECOND, jobs=5)
    began = world.clock.now()
    await limit(world, "r", rate=Rate(3, MINUTE))
    assert (await key_info(world, "r")).next_start == aware(began + slack(SECOND) + MINUTE)
    await limit(world, "r", rate=Rate(6, MINUTE))
    assert (await key_info(world, "r")).next_start is None


@pytest.mark.parametrize("seed", range(4))
async def test_each_is_held_to_its_own_window(world: World, seed: int) -> None:
    dice = random.Random(seed)
    rates = [(dice.randint(1, 6), window) for window in (SECOND, 5 * SECOND, MINUTE, 10 * MINUTE)]
    actor = await world.node()
    starts: list[Instant] = []
    held: dict[str, tuple[int, Duration]] = {}
    for _ in range(60):
        count, window = dice.choices(rates, (6, 4, 3, 1))[0]
        held[await world.one(requirements=rated(count, window))] = (count, window)
        await pass_by(world, dice.choice([0, 100_000, SECOND, 3 * SECOND, 30 * SECOND, 2 * MINUTE]))
        claimed = await actor.claim(dice.randint(1, 3))
        for one in claimed:
            count, window = held.pop(one.job_id)
            near = [at for at in starts if at > world.clock.now() - window]
            assert len(near) < count, f"{len(near)} of {count} in {window / SECOND} s"
            starts.append(world.clock.now())
        await finish_all(actor, claimed)
    assert len(starts) > 10, "and they are used"


async def test_whoever_came_too_late_gets_more_time(world: World) -> None:
    """Far from its store a node may never make it in the time that is usual."""
    actor = await world.node()
    job = await world.one(requirements=rated(1, SECOND))
    found: list[Duration | None] = []
    for _ in range(9):
        await admitted(world)
        claimed = await actor.take(job)
        began = world.clock.now()
        found.append(claimed.slack)
        await actor.finish(claimed, STOPPED)
        await pass_by(world, SECOND + (claimed.slack or 0) - 1)
        assert await actor.claim() == [], "a window counts from the last moment at which it may have started"
        assert (await admitted(world)).next_at == began + SECOND + (claimed.slack or 0)
        await pass_by(world, 1)
    assert found == [slack(SECOND, tries) for tries in range(9)]
    assert found[:3] == [50_000, 100_000, 200_000]
    assert found[-1] == 2 * SECOND


async def test_a_long_window_does_not_wait_for_those_that_are_none_of_its_business(world: World) -> None:
    actor = await world.node()
    assert await start(world, actor, 1, HOUR)
    other = await world.one(requirements=rated(1, HOUR, "other"))
    await actor.take(other)
    assert await world.state(other) is RUNNING
