"""Sealed output leaves with its jobs, or before them by its age or the space that it takes."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from rota.model.retry import Retry
from rota.model.times import DAY, SECOND
from rota.store.values import CUT, Position
from tests.contracts.test_sealing import kept, printed, prune, seal, told
from tests.contracts.world import BOOM, World
from tests.store.sealing import KEPT


async def test_segments_go_with_their_jobs_and_dead_letters_stay(world: World) -> None:
    actor = await world.node()
    good = await printed(world, actor, b"good")
    bad = await actor.take(await world.one(retry=Retry(0)))
    await actor.say(bad.ref, 0, b"bad")
    await actor.finish(bad, BOOM)
    await seal(world)
    assert kept(world) == (0, 2)
    for _ in range(3):
        world.clock.advance(4 * DAY / SECOND)
        await prune(world)
        await seal(world)
    assert kept(world) == (0, 1)
    assert await told(world, good.job_id) == []
    assert [chunk.body for chunk in await told(world, bad.job_id)] == [b"bad"]
    for _ in range(3):
        world.clock.advance(40 * DAY / SECOND)
        await prune(world)
        await seal(world)
    assert kept(world) == (0, 0)


@pytest.mark.parametrize(("limits", "why"), [({"age": DAY}, "log_retention"), ({"space": 10}, "log_space")])
async def test_removed_output_leaves_a_mark(world: World, limits: dict[str, int], why: str) -> None:
    actor = await world.node()
    one = await printed(world, actor, b"gone")
    quiet = await printed(world, actor)
    await seal(world)
    world.clock.advance(2 * DAY / SECOND)
    await seal(world, retention=replace(KEPT, **limits))
    (mark,) = await told(world, one.job_id)
    assert (mark.stream, why in mark.body.decode()) == (CUT, True)
    assert await told(world, one.job_id, Position(mark.fence, mark.number)) == [], "a follower sees it once"
    assert await told(world, quiet.job_id) == [], "there was nothing to remove"
    world.clock.advance(8 * DAY / SECOND)
    await prune(world)
    await seal(world)
    assert kept(world) == (0, 0)


async def test_the_oldest_output_leaves_first(world: World) -> None:
    actor = await world.node()
    bits = random.Random(3)
    jobs = []
    for _ in range(4):
        jobs.append(await printed(world, actor, bits.randbytes(20_000)))
        await seal(world)
        world.clock.advance(60)
    await seal(world, retention=replace(KEPT, space=70_000))
    streams = [[chunk.stream for chunk in await told(world, one.job_id)] for one in jobs]
    assert streams == [[CUT], [CUT], ["stdout"], ["stdout"]]


# -- quotas, joining, damage -----------------------------------------------------------------------------------------
