"""The quota for running jobs: never more of a user's jobs run than it allows, and those of others go on."""

from __future__ import annotations

import asyncio

import pytest

from rota.model.gates import Effect
from rota.model.limits import RUNNING_QUOTA, Key, Policy
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.quotas import NO_QUOTAS, quotas
from rota.model.retry import Retry
from rota.model.times import MINUTE
from rota.model.trigger.records import Fate, FireKind, NewFire
from rota.store.base import Store
from tests.contracts.admission import (
    ENDS,
    HELD,
    READY,
    RUNNING,
    admitted,
    close,
    drain,
    finish_all,
    lone,
    mutex,
    names,
    needs,
    open_again,
)
from tests.contracts.timetables import NAME, keep
from tests.contracts.world import World

ANN, BOB = Principal("ann"), Principal("bob")
REASON = "waits for the quota of running jobs"


async def allow(world: World, running: int | None, user: str = "ann") -> None:
    text = f"running={'none' if running is None else running}"
    if not await world.store.put_user(LOCAL, user, quotas(text), new=True):
        assert await world.store.put_user(LOCAL, user, quotas(text), new=False)


async def running(world: World, user: str = "ann") -> list[str]:
    return [job.id for job in (await world.all()).values() if job.owner == user and job.state is RUNNING]


async def test_as_many_run_as_it_allows_and_the_others_wait_by_rank(world: World) -> None:
    await allow(world, 2)
    actor = await world.node()
    jobs = await world.several(5, ANN)
    others = await world.several(3, BOB, priority=9)
    claimed = await actor.claim()
    assert names(claimed) == [*jobs[:2], *others], "the others are not hidden behind those that wait"
    assert await world.states(*jobs[2:]) == [HELD] * 3, "they are out of the index that claims read"
    assert {(await world.info(job)).reason for job in jobs[2:]} == {REASON}
    await actor.finish(claimed[0])
    assert await world.states(*jobs[2:]) == [READY, HELD, HELD], "its end hands the place on, in the same write"
    assert names(await actor.claim()) == jobs[2:3]
    assert (await world.store.quota_use(ANN)).running == 2
    assert (await world.store.quota_use(BOB)).running == 3


@pytest.mark.parametrize("how", ENDS)
async def test_whatever_ends_an_attempt_frees_its_place(world: World, how: str) -> None:
    await allow(world, 1, "local")
    end, again = ENDS[how]
    holder, actor = await world.node(), await world.node()
    claimed = await holder.take(await world.one(retry=Retry(retries=3)))
    following = await world.one(priority=4)
    assert await actor.claim() == []
    await end(world, holder, claimed)
    (taken,) = await actor.claim()
    assert taken.job_id == following
    assert await running(world, "local") == [following]
    await actor.finish(taken)
    assert await drain(world, actor) == ([claimed.job_id] if again else [])


async def test_two_stores_claim_at_once(world: World, another: Store) -> None:
    await allow(world, 1)
    jobs = await world.several(20, ANN)
    actors = [await world.node(), await world.node(store=another)]
    seen: list[str] = []
    for _ in range(len(jobs)):
        found = await asyncio.gather(*(actor.claim() for actor in actors for _ in range(2)))
        claimed = [(actor, one) for actor, some in zip([a for a in actors for _ in range(2)], found, strict=True)
                   for one in some]  # fmt: skip
        assert len(claimed) <= 1
        assert len(await running(world)) <= 1
        for actor, one in claimed:
            seen.append(one.job_id)
            await actor.finish(one)
        await admitted(world)
    assert sorted(seen) == sorted(jobs)


async def test_a_quota_is_set_and_lowered_while_jobs_run(world: World) -> None:
    actor = await world.node()
    jobs = await world.several(6, ANN)
    claimed = await actor.claim(4)
    await allow(world, 2)
    assert await actor.claim() == []
    for place, one in enumerate(claimed):
        await actor.finish(one)
        more = await actor.claim()
        assert len(more) == (1 if place >= 2 else 0), place
    assert sorted(await running(world)) == sorted(jobs[4:])


async def test_a_claimed_ahead_job_counts_too(world: World) -> None:
    actor = await world.node()
    job, second = await world.several(2, ANN)
    ahead = await actor.ahead(job)
    await allow(world, 1)
    assert await actor.claim() == []
    await actor.hand_back(ahead.ref)
    assert names(await actor.claim()) == [job]
    assert await world.state(second) is HELD


async def test_a_raised_quota_lets_more_in_and_a_lifted_one_all(world: World) -> None:
    await allow(world, 1)
    actor = await world.node()
    jobs = await world.several(6, ANN)
    first = await actor.claim()
    await allow(world, 3)
    assert names(await actor.claim()) == jobs[1:3]
    await allow(world, None)
    assert names(await actor.claim()) == jobs[3:]
    await finish_all(actor, first)
    await allow(world, 1)
    more = await world.one(ANN)
    assert await actor.claim() == []
    assert await world.store.remove_user(LOCAL, "ann") == 0
    assert names(await actor.claim()) == [more]


async def test_it_binds_jobs_of_schedules_workflows_and_replays(world: World) -> None:
    await allow(world, 1)
    actor = await world.node()
    parent = await world.one(ANN)
    child = world.child(parent)
    await world.submit(child, who=ANN)
    await actor.run(job_id=parent)
    await world.settle()
    await keep(world, who=ANN)
    fire = NewFire(world.store.now(), world.job())
    assert await world.store.make_fires(ANN, NAME, FireKind.MANUAL, [fire]) == [Fate.MADE]
    assert await world.store.replay(ANN, [parent], again=True) == [True]
    await world.promote()
    seen = []
    while found := await actor.claim():
        assert len(found) == 1
        seen += names(found)
        await finish_all(actor, found)
        await admitted(world)
    assert sorted(seen) == sorted([parent, child.id, fire.job.id])


async def test_beside_keys_of_the_job(world: World) -> None:
    await allow(world, 2)
    actor = await world.node()
    first, second = [await world.one(ANN, requirements=mutex("m")) for _ in range(2)]
    free = await world.one(ANN)
    await admitted(world)
    claimed = await actor.claim()
    assert names(claimed) == [first, free], "the place in the quota does not lie idle for one that waits for a key"
    assert (await world.info(second)).reason == "waits for key m"
    await actor.finish(claimed[1])
    assert await actor.claim() == []
    await actor.finish(claimed[0])
    assert names(await actor.claim()) == [second]


async def test_a_job_replaces_the_holder_of_its_key_although_the_quota_is_used_up(world: World) -> None:
    await allow(world, 1)
    actor = await world.node()
    old = await actor.take(await world.one(ANN, requirements=mutex("m", policy=Policy.REPLACE)))
    new = await world.one(ANN, requirements=mutex("m", policy=Policy.REPLACE))
    assert await actor.claim() == []
    assert (await world.info(old.job_id)).cancelling
    await actor.finish(old)
    assert names(await actor.claim()) == [new]


async def test_gates_and_jobs_that_run_alone(world: World) -> None:
    await allow(world, 1)
    actor = await world.node()
    gate = await close(world, Effect.PAUSE, ANN, everything=True)
    jobs = await world.several(3, ANN)
    assert await actor.claim() == []
    await open_again(world, gate, ANN)
    claimed = await actor.claim()
    assert names(claimed) == jobs[:1]
    alone = await world.one(ANN, requirements=lone(), priority=0)
    assert await actor.claim() == []
    await finish_all(actor, claimed)
    order = await drain(world, actor)
    assert sorted(order) == sorted([alone, *jobs[1:]])


async def test_a_job_that_is_let_go_and_cancelled_leaves_its_place(world: World) -> None:
    await allow(world, 1)
    actor = await world.node()
    claimed = await actor.take(await world.one(ANN))
    second, third = await world.several(2, ANN)
    await actor.claim()
    await actor.finish(claimed)
    await world.store.cancel(ANN, [second], "enough")
    await admitted(world)
    assert names(await actor.claim()) == [third]


async def test_nobody_sees_or_names_its_key(world: World) -> None:
    await allow(world, 1)
    await world.several(2, ANN)
    await (await world.node()).claim()
    assert await world.store.limits(ANN) == []
    assert await world.store.limits(SYSTEM) == []
    assert await world.store.limits(SYSTEM, [RUNNING_QUOTA]) == []


async def test_a_key_of_that_name_that_was_written_by_hand_is_the_same(world: World) -> None:
    await allow(world, 2)
    actor = await world.node()
    jobs = await world.several(3, ANN, requirements=needs(Key(RUNNING_QUOTA, 1)))
    await admitted(world)
    assert names(await actor.claim()) == jobs[:2]


async def test_why_a_job_waits(world: World) -> None:
    await allow(world, 1)
    first, second = await world.several(2, ANN)
    await (await world.node()).claim()
    waiting = await world.store.waiting(ANN, second)
    assert waiting is not None
    (key,) = waiting.keys
    assert (key.key, key.concurrency, [one.job for one in key.holders], key.waiting) == (RUNNING_QUOTA, 1, [first], 1)


async def test_many_that_wait_are_passed_and_expire(world: World) -> None:
    await allow(world, 1)
    actor = await world.node()
    await world.several(3_000, ANN, expires=MINUTE)
    mine = await world.one(BOB, priority=9)
    found: list[str] = []
    for _ in range(5):
        found += names(await actor.claim(2))
    assert mine in found
    assert len(found) == 2
    world.clock.advance(61)
    while await world.promote():
        pass
    assert await running(world)
    assert len(await world.store.users(SYSTEM)) == 1
    assert (await world.store.users(SYSTEM))[0].quotas != NO_QUOTAS
