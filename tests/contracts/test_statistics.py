"""Statistics: every end of a job is counted once, whoever counts and whenever; nobody sees the counts of others."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from rota.model.outcome import Outcome
from rota.model.principal import LOCAL, SYSTEM
from rota.model.statistics import JobTally, Statistics, Window
from rota.model.times import DAY, HOUR, MINUTE, SECOND
from rota.store.base import Store
from rota.store.carriers import statistics as carrier
from rota.store.statistics import SETTLED
from tests.contracts.world import ALICE, BOB, DONE, FATAL, OLGA, PLENTY, World

HOURLY = Window(HOUR)
MINUTELY = Window(HOUR, MINUTE)


async def tally(world: World, limit: int = PLENTY) -> None:
    while await world.store.tally(SYSTEM, limit):
        pass


def counts(found: Statistics) -> tuple[int, int, int, int]:
    rates = found.rates
    return rates.ordered.count, rates.started.count, rates.ended.count, rates.failed.count


async def run_some(world: World) -> None:
    """Alice: four jobs, of which two succeed after 2 s, one fails, one waits. Bob: one job that succeeds."""
    actor = await world.node()
    fine = await world.several(2, ALICE)
    bad, _waits = await world.one(ALICE, task="t"), await world.one(ALICE, delay=DAY)
    his = await world.one(BOB, queue="mail")
    world.clock.advance(1)
    claimed = [await actor.take(job) for job in (*fine, bad)]
    world.clock.advance(2)
    results: list[Outcome] = [DONE, DONE, FATAL]
    for one, result in zip(claimed, results, strict=True):
        await actor.finish(one, result)
    one = (await actor.claim(queue="mail"))[0]
    assert one.job_id == his
    await actor.finish(one, DONE)


async def test_counts_and_latencies_are_the_same_before_and_after_counting(world: World) -> None:
    await run_some(world)
    before = await world.store.statistics(ALICE, HOURLY)
    assert counts(before) == (4, 3, 3, 1)
    assert (before.states.scheduled, before.states.succeeded, before.states.failed) == (1, 2, 1)
    assert before.run.count == 3
    assert before.run.mean == pytest.approx(2)
    assert before.run.p95 == pytest.approx(2, rel=0.05)
    assert before.wait.p50 == pytest.approx(1, rel=0.05)
    history = await world.store.history(ALICE, MINUTELY)
    world.clock.advance(SETTLED / SECOND)
    await tally(world)
    after = await world.store.statistics(ALICE, HOURLY)
    assert counts(after) == (4, 3, 3, 1)
    assert (after.states, after.run, after.wait) == (before.states, before.run, before.wait)
    later = await world.store.history(ALICE, MINUTELY)
    ends = [
        (one.since, one.ordered, one.succeeded, one.failed, one.run_p95) for one in history.buckets if one.succeeded
    ]
    assert ends == [(o.since, o.ordered, o.succeeded, o.failed, o.run_p95) for o in later.buckets if o.succeeded]


async def test_small_steps_and_several_nodes_count_each_end_once(world: World, another: Store) -> None:
    actor = await world.node()
    for _ in range(5):
        for job in await world.several(3):
            await actor.run(DONE, job)
        world.clock.advance(7)
    world.clock.advance(SETTLED / SECOND)
    while await world.store.tally(SYSTEM, 2) or await another.tally(SYSTEM, 4):
        pass
    assert await world.store.tally(SYSTEM, 2) is False
    found = await another.statistics(LOCAL, HOURLY)
    assert counts(found) == (15, 15, 15, 0)


async def test_nodes_that_count_at_once_count_once(world: World, another: Store) -> None:
    actor = await world.node()
    for _ in range(3):
        await actor.run(DONE, await world.one())
        world.clock.advance(SETTLED / SECOND)
        await asyncio.gather(*(store.tally(SYSTEM, PLENTY) for store in (world.store, another) * 3))
    assert counts(await world.store.statistics(LOCAL, HOURLY)) == (3, 3, 3, 0)


async def test_others_never_count(world: World) -> None:
    await run_some(world)
    for _ in range(2):
        bobs = await world.store.statistics(BOB, HOURLY)
        assert counts(bobs) == (1, 1, 1, 0)
        assert [queue.queue for queue in bobs.queues] == ["mail"]
        assert bobs.everyone is False
        assert sum(one.ordered for one in (await world.store.history(BOB, MINUTELY)).buckets) == 1
        everyone = await world.store.statistics(OLGA, HOURLY)
        assert counts(everyone) == (5, 4, 4, 1)
        assert [queue.queue for queue in everyone.queues] == ["default", "mail"]
        assert counts(await world.store.statistics(OLGA, Window(HOUR, own=True))) == (0, 0, 0, 0)
        world.clock.advance(SETTLED / SECOND)
        await tally(world)


async def test_filters_by_queue_and_task(world: World) -> None:
    await run_some(world)
    for _ in range(2):
        assert counts(await world.store.statistics(OLGA, Window(HOUR, queue="mail"))) == (1, 1, 1, 0)
        assert counts(await world.store.statistics(OLGA, Window(HOUR, task="t"))) == (1, 1, 1, 1)
        assert counts(await world.store.statistics(OLGA, Window(HOUR, task="t", queue="mail"))) == (0, 0, 0, 0)
        world.clock.advance(SETTLED / SECOND)
        await tally(world)


async def test_a_replayed_job_was_ordered_once_and_ends_twice(world: World) -> None:
    actor = await world.node()
    job = await world.one()
    await actor.run(FATAL, job)
    world.clock.advance(SETTLED / SECOND)
    await tally(world)
    await world.store.replay(LOCAL, [job])
    await world.promote()
    await actor.run(DONE, job)
    found = await world.store.statistics(LOCAL, HOURLY)
    assert (found.rates.ordered.count, found.rates.ended.count, found.rates.failed.count) == (1, 2, 1)


async def test_tallies_outlive_jobs_and_long_windows_read_longer_buckets(world: World) -> None:
    actor = await world.node()
    job = await world.one()
    await actor.run(DONE, job)
    world.clock.advance(SETTLED / SECOND)
    await tally(world)
    await world.store.purge(LOCAL, [job])
    world.clock.advance(3 * DAY / SECOND)
    await actor.run(FATAL, await world.one())
    world.clock.advance(SETTLED / SECOND)
    await tally(world)  # deletes the minutes of three days ago
    for step in (HOUR, 6 * HOUR, DAY):
        history = await world.store.history(LOCAL, Window(30 * DAY, step))
        assert sum(one.succeeded for one in history.buckets) == 1
    assert {grain for grain, *_ in world.backend.contents("tallies")["tallies"]} >= {HOUR, DAY}
    assert counts(await world.store.statistics(LOCAL, Window(30 * DAY)))[2] == 2


async def test_the_oldest_ready_job_of_each_queue(world: World) -> None:
    await world.one()
    world.clock.advance(5)
    await world.one()
    found = await world.store.statistics(LOCAL, HOURLY)
    assert [(queue.queue, queue.states.ready, queue.oldest_age) for queue in found.queues] == [("default", 2, 5.0)]


async def test_tasks_without_number_share_a_tally(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.store.carriers.statistics.MOST_TASKS", 3)
    actor = await world.node()
    for n in range(6):
        await actor.run(DONE, await world.one(task=f"name-{n}"))
    world.clock.advance(SETTLED / SECOND)
    await tally(world)
    assert counts(await world.store.statistics(LOCAL, HOURLY))[2] == 6
    own = [counts(await world.store.statistics(LOCAL, Window(HOUR, task=f"name-{n}")))[2] for n in range(6)]
    assert sum(own) == 3


async def test_tallies_of_all_tasks_count_what_those_of_each_task_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history of all tasks reads the former; nodes of an older version make only the latter, and see no others."""
    actor = await world.node()
    steps = [counting_as_ever, counting_by_task_only, counting_as_ever]
    for place, count in enumerate(steps):
        for task in ("true", "t"):
            await actor.run(DONE if place else FATAL, await world.one(ALICE, task=task))
        world.clock.advance(120)
        with monkeypatch.context() as patch:
            count(patch)
            await tally(world)
            by_task = [await ends(world, Window(HOUR, MINUTE, task=task)) for task in ("true", "t")]
            total = [(at, one + other) for (at, one), (_, other) in zip(*by_task, strict=True)]
            assert await ends(world, MINUTELY) == total
        assert await ends(world, MINUTELY) == total
        assert sum(count for _, count in total) == 2 * (place + 1)


def counting_as_ever(patch: pytest.MonkeyPatch) -> None: ...


def counting_by_task_only(patch: pytest.MonkeyPatch) -> None:
    made = carrier._in_grains

    def older(step: carrier.Step) -> dict[tuple[int, carrier.Place], JobTally]:
        return {key: one for key, one in made(step).items() if key[0] > 0}

    patch.setattr(carrier, "_in_grains", older)
    patch.setattr(carrier, "QUEUES", "not known")
    patch.setattr(carrier, "QUEUES_SINCE", "not known")


async def ends(world: World, window: Window) -> list[tuple[datetime, int]]:
    found = await world.store.history(ALICE, window)
    return [(one.since, one.succeeded + one.failed) for one in found.buckets]


async def test_nothing_to_count_writes_nothing(world: World) -> None:
    async with world.unchanged():
        assert await world.store.tally(SYSTEM, PLENTY) is False
