"""Write-behind of progress: what the store gets, when, and what is lost if a process dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.clock import ManualClock
from rota.errors import InvalidInput, StoreError
from rota.hot import behind
from rota.model.job import Claimed, Verdict
from rota.model.lifecycle import State
from rota.model.principal import SYSTEM
from rota.model.progress import Progress
from rota.model.retry import Retry
from rota.store.values import Note
from tests.contracts.world import BOOM, DONE, settled
from tests.hot.hot_world import PATIENCE, HotWorld, hot_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HotWorld]:
    async with hot_world(ManualClock(), tmp_path) as world:
        yield world


async def running(world: HotWorld) -> Claimed:
    job = await world.one(retry=Retry(5, "1s", 0))
    return await (await world.node()).take(job)


async def in_store(world: HotWorld, job: str) -> Progress | None:
    (info,) = await world.watched.inner.get_many(SYSTEM, [job])
    assert info is not None
    return info.progress


async def test_progress_is_shown_at_once_and_written_later(world: HotWorld) -> None:
    claimed = await running(world)
    for number in range(5):
        progress = await world.told(claimed, number, number / 10)
        shown = await world.shown(claimed.job_id)
        assert shown is not None
        assert shown.progress == progress
    assert world.watched.notes == []
    await world.side.behind.flush()
    assert [[note.number for note in notes] for notes in world.watched.notes] == [[4]]
    assert await in_store(world, claimed.job_id) == progress
    await world.side.behind.flush()
    assert len(world.watched.notes) == 1, "nothing is written twice"


async def test_many_jobs_are_one_write_that_comes_by_itself(world: HotWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "PERIOD", 0.001)
    claimed = [await running(world) for _ in range(3)]
    world.watched.reached.clear()
    notes = [Note(one.job_id, one.fence, 1, Progress.told(0.5, "", 1)) for one in claimed]
    assert await world.store.note(SYSTEM, notes) == [Verdict.APPLIED] * 3
    async with asyncio.timeout(PATIENCE):
        await world.watched.reached.wait()
    assert [len(notes) for notes in world.watched.notes] == [3]


async def test_what_came_in_the_wrong_order_does_not_count(world: HotWorld) -> None:
    claimed = await running(world)
    late = await world.told(claimed, 9, 0.9)
    await world.told(claimed, 3, 0.3)
    shown = await world.shown(claimed.job_id)
    assert shown is not None
    assert shown.progress == late
    await world.side.behind.flush()
    assert await in_store(world, claimed.job_id) == late


async def test_a_saved_state_is_durable_when_the_call_returns_and_its_progress_with_it(world: HotWorld) -> None:
    claimed = await running(world)
    progress = await world.told(claimed, 1, 0.6)
    assert await world.store.note(SYSTEM, [Note(claimed.job_id, 1, 2, None, '"half"')]) == [Verdict.APPLIED]
    assert await in_store(world, claimed.job_id) == progress
    await world.side.behind.flush()
    assert len(world.watched.notes) == 1, "nothing is left to be written"
    await world.store.note(SYSTEM, [Note(claimed.job_id, 1, 3, Progress.told(0.7, "", 5), '"more"')])
    shown = await world.shown(claimed.job_id)
    assert shown is not None
    assert shown.progress == Progress.told(0.7, "", 5)


async def test_a_save_that_the_store_does_not_take_fails(world: HotWorld) -> None:
    claimed = await running(world)
    await world.told(claimed, 1, 0.6)
    world.watched.away = True
    with pytest.raises(StoreError):
        await world.store.note(SYSTEM, [Note(claimed.job_id, 1, 2, None, '"half"')])
    world.watched.away = False
    await world.side.behind.flush()
    assert [note.number for notes in world.watched.notes for note in notes] == [1], "the progress waits on"


async def test_a_save_of_an_attempt_that_is_over_is_stale(world: HotWorld) -> None:
    claimed = await running(world)
    await world.store.finish(SYSTEM, [settled(claimed, DONE)])
    assert await world.store.note(SYSTEM, [Note(claimed.job_id, 1, 2, None, '"half"')]) == [Verdict.STALE]
    both = [Note(claimed.job_id, 1, 3, Progress.told(1, "", 1)), Note(claimed.job_id, 1, 4, None, '"late"')]
    assert await world.store.note(SYSTEM, both) == [Verdict.APPLIED, Verdict.STALE]
    await world.side.behind.flush()
    assert await in_store(world, claimed.job_id) is None


async def test_the_last_progress_is_written_before_the_end_in_one_call(world: HotWorld) -> None:
    claimed = [await running(world) for _ in range(3)]
    for one in claimed[:2]:
        progress = await world.told(one, 1, 0.9)
    world.watched.calls.clear()
    await world.store.finish(SYSTEM, [settled(one, DONE) for one in claimed])
    assert world.watched.calls == ["note", "finish"]
    assert [len(notes) for notes in world.watched.notes] == [2]
    assert await in_store(world, claimed[1].job_id) == progress
    world.watched.calls.clear()
    other = await running(world)
    await world.store.finish(SYSTEM, [settled(other, DONE)])
    assert world.watched.calls == ["finish"], "an attempt that told nothing costs nothing"


async def test_an_end_waits_for_the_write_that_is_under_way_and_for_no_other(world: HotWorld) -> None:
    one, other = await running(world), await running(world)
    await world.told(one, 1, 0.5)
    world.watched.go_on.clear()
    world.watched.reached.clear()
    flush = asyncio.create_task(world.side.behind.flush())
    await world.watched.reached.wait()
    await world.store.finish(SYSTEM, [settled(other, DONE)])
    finish = asyncio.create_task(world.store.finish(SYSTEM, [settled(one, DONE)]))
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.watched.calls.count("finish") == 1, "only the other has ended"
    world.watched.go_on.set()
    assert await finish == [Verdict.APPLIED]
    await flush
    assert (await in_store(world, one.job_id)) is not None


@pytest.mark.parametrize("error", [StoreError("odd"), InvalidInput("progress", 1, "2"), RuntimeError("bug")])
async def test_an_end_does_not_fail_because_of_progress(world: HotWorld, error: Exception) -> None:
    bad, good = await running(world), await running(world)
    for one in (bad, good):
        await world.told(one, 1, 0.5)
    world.watched.refuses, world.watched.error = bad.job_id, error
    verdicts = await world.store.finish(SYSTEM, [settled(one, DONE) for one in (bad, good)])
    assert verdicts == [Verdict.APPLIED] * 2
    assert await in_store(world, bad.job_id) is None
    if not getattr(error, "whole", False):
        assert await in_store(world, good.job_id) is not None
    world.watched.refuses = "none"
    await world.side.behind.flush()
    assert world.side.behind._pending == {}, "what came too late is forgotten"


async def test_what_the_store_can_not_take_now_is_written_later(world: HotWorld) -> None:
    claimed, other = await running(world), await running(world)
    for one in (claimed, other):
        await world.told(one, 1, 0.1)
    world.watched.away = True
    world.watched.calls.clear()
    await world.side.behind.flush()
    assert world.watched.calls == ["note"], "the store is away for all of them"
    newer = await world.told(claimed, 2, 0.2)
    await world.side.behind.flush()
    world.watched.away = False
    await world.side.behind.flush()
    assert [sorted(note.number for note in notes) for notes in world.watched.notes] == [[1, 2]]
    assert await in_store(world, claimed.job_id) == newer


async def test_a_caller_that_is_cancelled_loses_nothing(world: HotWorld) -> None:
    claimed = await running(world)
    progress = await world.told(claimed, 1, 0.1)
    world.watched.go_on.clear()
    world.watched.reached.clear()
    finish = asyncio.create_task(world.store.finish(SYSTEM, [settled(claimed, DONE)]))
    await world.watched.reached.wait()
    finish.cancel()
    await asyncio.wait([finish])
    world.watched.go_on.set()
    assert await world.store.finish(SYSTEM, [settled(claimed, DONE)]) == [Verdict.APPLIED]
    assert await in_store(world, claimed.job_id) == progress


@pytest.mark.parametrize("how", ["away", "full", "mute"])
async def test_without_the_hot_tier_progress_goes_to_the_store_at_once(world: HotWorld, how: str) -> None:
    claimed = await running(world)
    setattr(world.server, how, True)
    progress = await world.told(claimed, 1, 0.1)
    assert await in_store(world, claimed.job_id) == progress
    assert len(world.watched.notes) == 1
    assert await world.store.note(SYSTEM, [Note(claimed.job_id, 7, 2, progress)]) == [Verdict.STALE]


async def test_what_is_no_job_is_left_to_the_store(world: HotWorld) -> None:
    progress = Progress.told(0.5, "", 1)
    assert await world.store.note(SYSTEM, [Note("é\n", 1, 1, progress), Note("", 1, 1, None, "1")]) == [
        Verdict.STALE, Verdict.STALE,
    ]  # fmt: skip
    assert world.server.kept() == {}


async def test_a_process_that_dies_loses_what_was_not_written_and_others_show_it_for_a_while(world: HotWorld) -> None:
    claimed = await running(world)
    dying = await world.process()
    progress = await world.told(claimed, 1, 0.5, dying)
    dying.side().drop()
    shown = await world.shown(claimed.job_id)
    assert shown is not None
    assert shown.progress == progress
    world.after(behind.LIFE)
    shown = await world.shown(claimed.job_id)
    assert shown is not None
    assert shown.progress is None


async def test_what_is_pending_is_written_when_the_store_is_closed(world: HotWorld) -> None:
    claimed = await running(world)
    other = await world.process()
    progress = await world.told(claimed, 1, 0.5, other)
    await other.side().close()
    assert await in_store(world, claimed.job_id) == progress
    assert [task for task in asyncio.all_tasks() if "WriteBehind" in repr(task)] == []


async def test_a_node_that_leaves_writes_what_is_pending(world: HotWorld) -> None:
    actor = await world.node()
    job = await world.one(retry=Retry(5, "1s", 0))
    claimed = await actor.take(job)
    progress = await world.told(claimed, 1, 0.5)
    await actor.leave()
    assert await in_store(world, job) == progress
    assert await world.state(job) is not State.RUNNING


async def test_the_next_attempt_is_not_shown_with_the_progress_of_the_one_before(world: HotWorld) -> None:
    actor = await world.node()
    job = await world.one(retry=Retry(5, "1s", 0))
    first = await actor.take(job)
    await world.told(first, 5, 0.9)
    await actor.die()
    world.after(60)
    await world.promote()
    second = await (await world.node()).take(job)
    await world.told(first, 6, 0.95)  # it does not know yet
    shown = await world.shown(job)
    assert shown is not None
    assert shown.progress is None
    progress = await world.told(second, 0, 0.1)
    await world.told(first, 7, 0.99)
    await world.side.behind.flush()
    shown = await world.shown(job)
    assert shown is not None
    assert shown.progress == progress == await in_store(world, job)
    await actor.world.store.finish(SYSTEM, [settled(second, BOOM)])
    assert await in_store(world, job) == progress
