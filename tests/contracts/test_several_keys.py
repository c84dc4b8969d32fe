"""Jobs that need several keys: whoever else is about, each of them runs at last."""

from __future__ import annotations

import pytest

from rota.model.job import Claimed
from rota.model.lifecycle import State
from rota.model.limits import Key, Rate
from rota.model.principal import LOCAL, SYSTEM
from rota.model.rank import AGEING_STEP
from rota.model.requirements import Requirements
from rota.model.times import MINUTE, SECOND
from tests.contracts.admission import HELD, WHY, admitted, close, holders, mutex, names, needs
from tests.contracts.world import Actor, World

A, B = Key("a", 1), Key("b", 1)
# Rounds of the streams below until a step of ageing is over.
ROUND = 10.0
STEP = round(AGEING_STEP / SECOND / ROUND)


class Streams:
    """Two streams of jobs, each with a key of its own that becomes free in turn: never are both free at once."""

    def __init__(self, world: World, actor: Actor, a: Key = A, b: Key = B) -> None:
        self._world, self.actor, self._keys = world, actor, (a, b)
        self.running: dict[str, Claimed] = {}
        self._rounds = 0

    async def round(self) -> set[str]:
        world, actor = self._world, self.actor
        for key in self._keys if self._rounds == 0 else ():
            await world.several(2, requirements=needs(key))
        claimed = {one.job_id: one for one in await actor.claim(8)}
        self.running |= claimed
        key = self._keys[self._rounds % 2]
        for holder in (await holders(world, key.name))[:1]:
            await world.one(requirements=needs(key))  # there is always one more
            await actor.finish(self.running.pop(holder))
        self._rounds += 1
        world.clock.advance(ROUND)
        await world.store.admit(SYSTEM, 1_000)
        return set(claimed)

    async def until(self, job: str, most: int) -> int:
        for number in range(most):
            if job in await self.round():
                return number
        raise AssertionError(f"{job} has not run in {most} rounds")


@pytest.mark.parametrize("priority", [0, 5, 9])
@pytest.mark.slow
async def test_between_two_busy_keys_it_waits_for_a_bounded_time(world: World, priority: int) -> None:
    streams = Streams(world, await world.node())
    for _ in range(3):
        await streams.round()
    job = await world.one(requirements=mutex("a", "b"), priority=priority)
    # Those that rank more than nine steps behind it leave it room; they have priority 5. Then the last ones run out.
    assert await streams.until(job, (9 + priority - 5) * STEP + 8) > 0


async def test_of_a_key_with_several_places_one_is_left_to_it(world: World) -> None:
    wide = Key("a", 3)
    streams = Streams(world, await world.node(), wide)
    for _ in range(3):
        await streams.round()
    job = await world.one(requirements=needs(wide, Key("b", 1)), priority=0)
    await streams.until(job, 9 * STEP + 8)


async def test_a_rate_and_a_mutex(world: World) -> None:
    rated = Key("a", None, Rate(1, 15 * SECOND))
    streams = Streams(world, await world.node(), rated)
    for _ in range(3):
        await streams.round()
    job = await world.one(requirements=needs(rated, Key("b", 1)), priority=0)
    await streams.until(job, 12 * STEP)


async def test_one_after_the_other(world: World) -> None:
    streams = Streams(world, await world.node())
    jobs = [await world.one(requirements=mutex("a", "b"), priority=0) for _ in range(3)]
    waiting = set(jobs)
    for _ in range(12 * STEP):
        waiting -= await streams.round()
        for job in set(jobs) - waiting:
            if await world.state(job) is State.RUNNING:
                await streams.actor.finish(streams.running.pop(job))
    assert waiting == set()


async def overdue(world: World, actor: Actor, requirements: Requirements) -> tuple[str, Claimed]:
    """A job that waits for two keys for longer than anyone has to, and the one that holds the second."""
    holder = await actor.take(await world.one(requirements=mutex("b")))
    job = await world.one(requirements=requirements, priority=0, task="both")
    await admitted(world)
    assert (await actor.claim(), await world.state(job)) == ([], HELD)
    world.clock.advance(20 * AGEING_STEP / SECOND)
    return job, holder


async def test_a_free_key_is_left_to_one_that_has_waited_too_long_for_both(world: World) -> None:
    actor = await world.node()
    job, holder = await overdue(world, actor, mutex("a", "b"))
    late = await world.one(requirements=mutex("a"))
    await admitted(world)
    assert (await actor.claim(), await world.state(late)) == ([], HELD)
    await actor.finish(holder)
    claimed = await actor.take(job)
    await actor.finish(claimed)
    await admitted(world)
    assert names(await actor.claim()) == [late]


@pytest.mark.parametrize("how", ["cancelled", "gated", "hurried"])
async def test_one_that_does_not_wait_for_keys_any_more_keeps_none(world: World, how: str) -> None:
    actor = await world.node()
    job, holder = await overdue(world, actor, mutex("a", "b"))
    late = await world.one(requirements=mutex("a"))
    await admitted(world)
    assert await actor.claim() == []
    if how == "cancelled":
        await world.store.cancel(LOCAL, [job], "enough")
    elif how == "gated":
        await close(world, task="both")
        await actor.finish(holder)
        await actor.claim(1)
        assert (await world.info(job)).reason == WHY
    else:
        await actor.finish(holder)
        claimed = await actor.take(job)
        world.clock.advance(MINUTE / SECOND)
        await actor.finish(claimed)
    await admitted(world)
    assert names(await actor.claim()) == [late]
    assert world.backend.contents("wanted")["wanted"] == [] or how == "gated"
