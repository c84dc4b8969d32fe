"""What people see of running jobs, from the hot tier and past it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.clock import ManualClock
from rota.hot.redis import RedisLane
from rota.hot.store import HotStore
from rota.model.job import JobInfo
from rota.model.lifecycle import State
from rota.model.principal import SYSTEM
from rota.model.retry import Retry
from tests.contracts.world import ALICE, BOB, BOOM, DONE, settled
from tests.hot.hot_world import PATIENCE, HotWorld, hot_world
from tests.servers.valkey import Valkey


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HotWorld]:
    async with hot_world(ManualClock(), tmp_path) as world:
        yield world


@pytest.fixture
async def other(world: HotWorld) -> AsyncIterator[HotStore]:
    """Another process."""
    store = await world.process()
    yield store
    await store.side().close()


async def truth(world: HotWorld, job: str) -> JobInfo | None:
    (info,) = await world.watched.inner.get_many(SYSTEM, [job])
    return info


async def test_a_running_job_is_read_from_the_store_once(world: HotWorld, other: HotStore) -> None:
    job = await world.one(ALICE)
    await (await world.node()).take(job)
    for store in (world.store, other, world.store):
        for who in (ALICE, SYSTEM):
            assert await world.shown(job, who, store) == await truth(world, job)
    assert world.watched.reads == 1
    assert (world.store.hot_counts.status_hits, world.store.hot_counts.status_misses) == (3, 1)


async def test_jobs_that_do_not_run_are_read_from_the_store(world: HotWorld) -> None:
    waiting = await world.one(ALICE, delay=99)
    done = await world.one(ALICE)
    await (await world.node()).run(job_id=done)
    for job in (waiting, done):
        for _ in range(2):
            assert await world.shown(job) == await truth(world, job)
    assert world.watched.reads == 4


async def test_jobs_of_others_are_not_there(world: HotWorld) -> None:
    job = await world.one(ALICE)
    await (await world.node()).take(job)
    assert await world.shown(job, BOB) is None
    assert await world.shown(job, ALICE) is not None
    assert await world.shown(job, BOB) is None, "neither from the store nor from the hot tier"
    mine = await world.one(BOB)
    found = await world.store.glance(BOB, [job, mine, "nothing", job, mine, "é\n", ""])
    assert [info and info.id for info in found] == [None, mine, None, None, mine, None, None]


async def test_the_end_of_a_job_is_seen_at_once_also_in_other_processes(world: HotWorld, other: HotStore) -> None:
    actor = await world.node()
    job = await world.one(retry=Retry(5, "1s", 0))
    claimed = await actor.take(job)
    await world.shown(job, store=other)
    await actor.finish(claimed, BOOM)
    await world.side.status.settled()
    for store in (world.store, other):
        shown = await world.shown(job, store=store)
        assert shown == await truth(world, job)
        assert shown is not None
        assert shown.state is State.SCHEDULED
    world.after(1)
    await world.promote()
    again = await actor.take(job)
    for store in (other, world.store):
        shown = await world.shown(job, store=store)
        assert shown is not None
        assert (shown.state, shown.fence) == (State.RUNNING, again.fence)


async def test_a_read_that_was_slow_does_not_bring_back_what_has_ended(world: HotWorld, other: HotStore) -> None:
    actor = await world.node()
    job = await world.one()
    claimed = await actor.take(job)
    await other.glance(SYSTEM, ["nothing"])  # so that others say what they change
    world.watched.go_on.clear()
    world.watched.reached.clear()
    slow = asyncio.create_task(world.shown(job, store=other))
    await world.watched.reached.wait()
    await actor.finish(claimed)
    world.watched.go_on.set()
    await world.side.status.settled()
    seen = await slow
    assert seen is not None
    assert seen.state is State.RUNNING, "it ran when it was read"
    for store in (world.store, other):
        shown = await world.shown(job, store=store)
        assert shown is not None
        assert shown.state is State.SUCCEEDED


@pytest.mark.parametrize("change", ["cancel", "take over", "rescue", "leave"])
async def test_other_changes_are_seen_within_two_seconds_and_by_most_at_once(
    world: HotWorld, other: HotStore, change: str
) -> None:
    actor = await world.node()
    job = await world.one(ALICE, retry=Retry(5, "1s", 0))
    await actor.take(job)
    await world.shown(job, store=other)
    world.after(0.001)
    if change == "cancel":
        await world.store.cancel(ALICE, [job], "enough")
    elif change == "take over":
        await actor.die()
    elif change == "rescue":
        world.after(0.5)
        await actor.die()
    else:
        await actor.leave()
        world.after(2)
    await world.side.status.settled()
    for store in (world.store, other):
        assert await world.shown(job, store=store) == await truth(world, job)


@pytest.mark.parametrize("how", ["away", "full", "mute", "flush"])
async def test_if_nobody_can_be_told_it_is_seen_after_two_seconds(world: HotWorld, other: HotStore, how: str) -> None:
    actor = await world.node()
    job = await world.one()
    claimed = await actor.take(job)
    await world.shown(job, store=other)
    assert (await world.shown(job, store=world.store)) is not None
    if how == "flush":
        world.server.flush()
    else:
        setattr(world.server, how, True)
    await actor.finish(claimed)
    await world.side.status.settled()
    if how != "flush":
        setattr(world.server, how, False)
    shown = await world.shown(job)
    assert shown is not None
    assert shown.state is State.SUCCEEDED, "this process knows what it did"
    world.after(2.000001)
    assert await world.shown(job, store=other) == await truth(world, job)


async def test_a_snapshot_that_is_restored_brings_nothing_back(world: HotWorld, other: HotStore) -> None:
    actor = await world.node()
    job = await world.one()
    claimed = await actor.take(job)
    await world.told(claimed, 1, 0.1)
    await world.shown(job)
    snapshot = world.server.snapshot()
    world.after(1)
    progress = await world.told(claimed, 2, 0.2)
    await actor.finish(claimed)
    await world.side.status.settled()
    world.server.restore(snapshot)
    shown = await world.shown(job)
    assert shown is not None
    assert (shown.state, shown.progress) == (State.SUCCEEDED, progress)
    world.after(1.000001)
    assert await world.shown(job, store=other) == await truth(world, job)


async def test_progress_that_comes_back_from_a_snapshot_is_not_shown_for_newer_progress_of_the_store(
    world: HotWorld,
) -> None:
    job = await world.one()
    claimed = await (await world.node()).take(job)
    await world.told(claimed, 1, 0.1)
    snapshot = world.server.snapshot()
    world.after(1)
    progress = await world.told(claimed, 2, 0.2)
    await world.side.behind.flush()
    world.server.restore(snapshot)
    shown = await world.shown(job)
    assert shown is not None
    assert shown.progress == progress


async def test_the_wrong_clock_of_a_server_changes_nothing(world: HotWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What should have died there lives on; readers look at the store's clock."""
    job = await world.one()
    claimed = await (await world.node()).take(job)
    await world.shown(job)
    monkeypatch.setattr(world.server, "kept", lambda: world.server.memory.reports)
    await world.watched.inner.finish(SYSTEM, [settled(claimed, DONE)])  # by a process without a hot tier
    world.after(2)
    shown = await world.shown(job)
    assert shown is not None
    assert shown.state is State.RUNNING
    world.after(0.000001)
    assert await world.shown(job) == await truth(world, job)


async def test_a_server_that_is_away_makes_reads_slower_not_wrong(world: HotWorld) -> None:
    job = await world.one()
    await (await world.node()).take(job)
    world.server.away = True
    for _ in range(3):
        assert await world.shown(job) == await truth(world, job)
    assert world.watched.reads == 3


async def test_the_truth_is_asked_of_the_store(world: HotWorld) -> None:
    job = await world.one()
    claimed = await (await world.node()).take(job)
    await world.shown(job)
    await world.watched.inner.finish(SYSTEM, [settled(claimed, DONE)])
    shown = await world.shown(job)
    assert shown is not None
    assert shown.state is State.RUNNING, "up to two seconds late"
    (info,) = await world.store.get_many(SYSTEM, [job])
    assert info == await truth(world, job)


async def test_a_real_server_keeps_the_same_promises(tmp_path: Path, server: Valkey) -> None:
    clock = ManualClock()
    async with hot_world(clock, tmp_path, lanes=lambda: [RedisLane(server.url(), PATIENCE)]) as world:
        actor, other = await world.node(), await world.process()
        job = await world.one(ALICE, retry=Retry(5, "1s", 0))
        claimed = await actor.take(job)
        for number in range(3):
            progress = await world.told(claimed, number, number / 10)
            for store in (world.store, other):
                shown = await world.shown(job, ALICE, store)
                assert shown is not None
                assert (shown.state, shown.progress) == (State.RUNNING, progress)
                assert await world.shown(job, BOB, store) is None
        assert world.watched.notes == []
        assert other.hot_counts.status_hits >= 3
        await actor.finish(claimed, BOOM)
        await world.side.status.settled()
        assert await world.shown(job, store=other) == await truth(world, job)
        clock.advance(1)
        await world.promote()
        claimed = await actor.take(job)
        server.call("FLUSHALL")
        shown = await world.shown(job, store=other)
        assert shown is not None
        assert (shown.fence, shown.progress) == (2, progress), "of the attempt before: it was written at its end"
        server.call("CONFIG", "SET", "maxmemory", "1")
        newer = await world.told(claimed, 1, 0.7)
        assert len(world.watched.notes) == 2, "a server that is full is away"
        server.call("CONFIG", "SET", "maxmemory", "0")
        clock.advance(3)
        shown = await world.shown(job, store=other)
        assert shown is not None
        assert shown.progress == newer
        await other.side().close()


async def test_a_process_does_not_keep_what_it_has_ended_itself(world: HotWorld) -> None:
    actor = await world.node()
    job = await world.one()
    claimed = await actor.take(job)
    await world.shown("nothing")
    world.watched.go_on.clear()
    world.watched.reached.clear()
    slow = asyncio.create_task(world.shown(job))
    await world.watched.reached.wait()
    await actor.finish(claimed)
    await world.side.status.settled()
    world.server.flush()  # nobody there knows of the end any more
    world.watched.go_on.set()
    await slow
    assert world.report(f"d/{job}") is None
