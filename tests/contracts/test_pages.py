"""Pages of jobs: a walk finds each job once that fits all the time, whatever comes and goes; and the other filters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.job import JobInfo, Membership
from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.requirements import Requirements
from rota.model.times import SECOND
from rota.store.values import JobFilter
from tests.contracts.timetables import NAME, keep, move_on
from tests.contracts.world import ALICE, DONE, FATAL, World

FAILED = (State.FAILED,)


async def walk(world: World, who: Principal = LOCAL, limit: int = 3, **conditions: Any) -> AsyncIterator[list[JobInfo]]:
    query = JobFilter(limit=limit, **conditions)
    while True:
        page = await world.store.page(who, query)
        yield page.jobs
        if page.last is None:
            return
        query = replace(query, after=page.last)


async def all_of(world: World, **conditions: Any) -> list[str]:
    return [job.id async for page in walk(world, **conditions) for job in page]


async def count(world: World, **conditions: Any) -> int:
    return await world.store.count(LOCAL, JobFilter(**conditions))


async def kill(world: World, jobs: list[str], apart: float = 0) -> None:
    actor = await world.node()
    for job in jobs:
        await actor.run(FATAL, job)
        world.clock.advance(apart)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
async def test_a_walk_finds_all_in_order(world: World, limit: int) -> None:
    jobs = await world.several(7)
    pages = [[job.id for job in page] async for page in walk(world, limit=limit)]
    assert [job for page in pages for job in page] == jobs[::-1]
    assert all(len(page) <= limit for page in pages)


async def test_a_walk_goes_through_live_and_ended_jobs(world: World) -> None:
    jobs = await world.several(8)
    await (await world.node()).run(DONE, jobs[0])
    await world.store.cancel(LOCAL, jobs[2::3], "not needed")
    assert await all_of(world) == jobs[::-1]


async def test_what_comes_and_goes_neither_doubles_nor_hides_others(world: World) -> None:
    jobs = await world.several(9)
    found: list[str] = []
    async for page in walk(world):
        found += [job.id for job in page]
        await world.several(4)  # they are newer
        last = [job.id for job in page[-1:]]  # the cursor
        await world.store.cancel(LOCAL, last, "not needed")
        await world.store.purge(LOCAL, last)
    assert found == jobs[::-1]


@pytest.mark.parametrize("apart", [0, 1])
async def test_a_walk_over_dead_letters_finds_each_once(world: World, apart: float) -> None:
    """Several may have ended at the same instant; one that fails again while the walk goes on is newer than all."""
    jobs = await world.several(8)
    await kill(world, jobs, apart)
    found: list[str] = []
    async for page in walk(world, states=FAILED):
        found += [job.id for job in page]
        if not page:
            break
        assert await world.store.replay(LOCAL, [page[0].id]) == [True]
        world.clock.advance(1)
        await world.store.promote(SYSTEM, 10)
        await kill(world, [page[0].id])
    assert found == jobs[::-1]


async def test_a_walk_keeps_to_the_principal(world: World) -> None:
    hers = [await world.one(ALICE) for _ in range(4)]
    await world.several(4)
    assert [job.id async for page in walk(world, ALICE) for job in page] == hers[::-1]


async def test_the_count_knows_no_limit(world: World) -> None:
    jobs = await world.several(6)
    await kill(world, jobs[:2])
    assert await count(world, limit=1) == 6
    assert await count(world, states=FAILED) == 2
    assert await count(world, states=(State.READY, State.FAILED)) == 6
    assert await count(world, states=()) == 0
    assert await count(world, ids=(jobs[0], jobs[5], "no-such-job")) == 2
    assert await world.store.count(ALICE, JobFilter()) == 0


async def test_by_the_time_of_the_order(world: World) -> None:
    early = await world.one()
    world.clock.advance(1)
    late = await world.one()
    now = world.clock.now()
    assert await all_of(world, created_after=now) == [late]
    assert await all_of(world, created_before=now) == [early]
    assert await all_of(world, created_after=now - SECOND, created_before=now + 1) == [late, early]


async def test_by_the_time_of_the_end(world: World) -> None:
    early, late, _ = await world.several(3)
    await kill(world, [early, late], apart=1)
    end = world.clock.now() - SECOND
    assert await all_of(world, ended_after=end) == [late]
    assert await all_of(world, ended_after=end, states=FAILED) == [late]
    assert await all_of(world, ended_after=end + 1) == []
    assert await count(world, ended_after=0) == 2


async def test_by_label(world: World) -> None:
    both = await world.one(requirements=Requirements(labels=("nightly", "large")))
    one = await world.one(requirements=Requirements(labels=("nightly",)))
    await world.one()
    assert await all_of(world, label="nightly") == [one, both]
    assert await all_of(world, label="large") == [both]
    assert await all_of(world, label="night") == []
    await kill(world, [both])
    assert await all_of(world, label="nightly", states=FAILED) == [both]


async def test_by_workflow(world: World) -> None:
    flow = Membership(world.chance.job_id(world.clock.now()), "night")
    jobs = await world.submit(*(world.job(workflow=flow) for _ in range(5)))
    await world.one()
    assert await all_of(world, workflow=flow.id) == jobs[::-1]
    assert await all_of(world, workflow="no-such-workflow") == []
    await kill(world, jobs[:1])
    assert await all_of(world, workflow=flow.id, states=FAILED) == jobs[:1]


async def test_by_schedule(world: World) -> None:
    await keep(world)
    await keep(world, who=ALICE)
    await world.one()
    for _ in range(2):
        world.clock.advance(60)
        await move_on(world)
    await move_on(world, who=ALICE)
    made = [job.id for job in (await world.all()).values() if job.schedule == NAME and job.owner == LOCAL.user]
    assert len(made) == 2
    assert sorted(await all_of(world, schedule=NAME)) == sorted(made)
    assert await all_of(world, schedule="no-such-schedule") == []
    assert await world.store.count(SYSTEM, JobFilter(schedule=NAME)) > len(made)
