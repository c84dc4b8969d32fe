"""Sealed output: every chunk is in one place at each moment, and is read as before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from rota.clock import Chance
from rota.control.sealer import REST, WAITS, Rules, Sealer
from rota.lines.segment import Packed, pack, unpack
from rota.model.job import Claimed
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.quotas import quotas
from rota.model.retry import Retry
from rota.model.times import DAY, SECOND
from rota.store.base import Store
from rota.store.log_store import LogRetention, Run, Sealing
from rota.store.values import CUT, Chunk, Position, Retention
from tests.contracts.world import BOOM, Actor, World
from tests.store.sealing import AT_ONCE, KEPT, inline, make_sealer, run

START = Position()
ANN = Principal("ann")
PLENTY = 100


def sealer(world: World, retention: LogRetention = KEPT, rules: Rules = AT_ONCE, store: Store | None = None) -> Sealer:
    return make_sealer(store or world.store, retention, rules)


async def seal(world: World, retention: LogRetention = KEPT, rules: Rules = AT_ONCE) -> None:
    await run(sealer(world, retention, rules))


async def told(world: World, job: str, after: Position = START, limit: int = 1000) -> list[Chunk]:
    return await world.store.output(SYSTEM, job, after, limit)


async def printed(world: World, actor: Actor, *bodies: bytes, who: Principal = LOCAL, **changes: Any) -> Claimed:
    """A job that has printed this and ended."""
    claimed = await actor.take(await world.one(who, **changes))
    for number, body in enumerate(bodies):
        await actor.say(claimed.ref, number, body)
    await actor.finish(claimed)
    return claimed


async def prune(world: World) -> None:
    while await world.store.prune(SYSTEM, Retention(7 * DAY, 90 * DAY, 7 * DAY, DAY), PLENTY):
        pass


def kept(world: World) -> tuple[int, int]:
    """The chunks and the segments in the store."""
    found = world.backend.contents("output", "segments")
    return len(found["output"]), len(found["segments"])


async def test_sealed_output_reads_as_before(world: World) -> None:
    actor = await world.node()
    jobs = [await printed(world, actor, b"one\n", b"\xff\0 two", b"") for _ in range(5)]
    before = [await told(world, one.job_id) for one in jobs]
    assert kept(world) == (15, 0)
    await seal(world)
    assert kept(world) == (0, 1), "many jobs make one segment"
    assert [await told(world, one.job_id) for one in jobs] == before
    async with world.unchanged():
        await seal(world)


async def test_what_runs_stays_open(world: World) -> None:
    actor = await world.node()
    ended = await printed(world, actor, b"over")
    running = await actor.take(await world.one())
    await actor.say(running.ref, 0, b"early")
    await seal(world)
    assert kept(world) == (1, 1)
    await actor.say(running.ref, 1, b"late")
    assert [one.body for one in await told(world, running.job_id)] == [b"early", b"late"]
    await actor.finish(running)
    await seal(world)
    assert kept(world) == (0, 2)
    assert [one.body for one in await told(world, running.job_id)] == [b"early", b"late"]
    assert [one.body for one in await told(world, ended.job_id)] == [b"over"]


@pytest.mark.parametrize("page", [1, 2, 3, 100])
async def test_a_follower_goes_on_over_sealing(world: World, page: int) -> None:
    """Attempts that were sealed one by one, and a last one that runs."""
    actor = await world.node()
    job = await world.one(retry=Retry(9, "1s", 0))
    expected = []
    for attempt in range(4):
        claimed = await actor.take(job)
        for number in range(5):
            await actor.say(claimed.ref, number)
            expected.append((claimed.fence, number))
        if attempt < 3:
            await actor.finish(claimed, BOOM)
            world.clock.advance(1)
            await world.promote()
    position, found = START, []
    while chunks := await told(world, job, position, page):
        assert len(chunks) <= page
        found += [(chunk.fence, chunk.number) for chunk in chunks]
        position = Position(*found[-1])
        await seal(world)
    assert found == expected
    position, found = START, []
    while chunks := await told(world, job, position, page):
        found += [(chunk.fence, chunk.number) for chunk in chunks]
        position = Position(*found[-1])
    assert found == expected
    assert kept(world) == (5, 1)


async def test_a_large_output_in_many_segments(world: World) -> None:
    actor = await world.node()
    bits = random.Random(7)
    bodies = [bits.randbytes(1000) for _ in range(60)]
    one = await printed(world, actor, *bodies)
    await seal(world, rules=Rules(target=5_000, settled=0, wait=0))
    assert kept(world) == (0, 12)
    assert [chunk.body for chunk in await told(world, one.job_id)] == bodies
    position, found = START, []
    while chunks := await told(world, one.job_id, position, 7):
        found += [chunk.body for chunk in chunks]
        position = Position(chunks[-1].fence, chunks[-1].number)
    assert found == bodies


async def test_small_jobs_are_gathered_by_owner_task_and_end(world: World) -> None:
    actor = await world.node()
    await printed(world, actor, b"a", task="one")
    await printed(world, actor, b"b", task="two")
    await printed(world, actor, b"c", task="one", who=ANN)
    await printed(world, actor, b"d", task="one")
    waiting = Rules(settled=0, wait=60 * SECOND)
    service = sealer(world, rules=waiting)
    await run(service)
    assert kept(world) == (4, 0), "more may come"
    world.clock.advance(60)
    await run(service)
    assert kept(world) == (0, 3)


# -- races -----------------------------------------------------------------------------------------------------------
async def sealings(world: World, store: Store | None = None) -> list[Sealing]:
    """All that can be sealed, as one segment."""
    store = store or world.store
    page = await store.runs(SYSTEM, None, 0, PLENTY)
    found = await store.read_runs(SYSTEM, page.runs, 1 << 20)
    assert found.rest == []
    one = found.runs[0]
    return [Sealing(await sealer(world, store=store)._pack(found.chunks, one.owner, one.task, one.dead), found.runs)]


def changed(sealing: Sealing, **changes: Any) -> Sealing:
    """With another segment."""
    assert sealing.segment is not None
    return replace(sealing, segment=replace(sealing.segment, **changes))


async def test_a_tick_seals_for_a_bounded_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood that waits to be sealed must not look like a service that hangs."""
    monkeypatch.setattr("rota.control.sealer.SLICE", 0.0)
    actor = await world.node()
    jobs = [await printed(world, actor, b"%d" % number, b"x" * 30) for number in range(7)]
    before = [await told(world, one.job_id) for one in jobs]
    service = sealer(world, rules=Rules(target=30, settled=0, wait=0))
    left = [kept(world)[0]]
    while await service.tick() != REST:
        left.append(kept(world)[0])
        assert left[-2] - left[-1] <= 2, "the chunks of a job"
    assert len(left) > 5
    assert kept(world)[0] == 0
    assert [await told(world, one.job_id) for one in jobs] == before


async def test_sealing_gives_way_while_the_machine_is_busy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    sleep = asyncio.sleep

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        await sleep(0)

    async def seal_more(busy: bool) -> int:
        await printed(world, actor, b"line")
        service = Sealer(world.store, Chance(), KEPT, lambda: True, inline, AT_ONCE, busy=lambda: busy)
        rests.clear()
        monkeypatch.setattr("rota.control.sealer.asyncio.sleep", rest)
        await run(service)
        monkeypatch.undo()
        assert kept(world)[0] == 0
        return sum(seconds > 0 for seconds in rests)

    actor = await world.node()
    assert await seal_more(busy=True) > 0
    assert await seal_more(busy=False) == 0
    await printed(world, actor, b"old")
    world.clock.advance(WAITS // SECOND + 1)
    assert await seal_more(busy=True) == 0, "it has waited for too long"


async def test_two_sealers_write_each_chunk_once(world: World, another: Store) -> None:
    actor = await world.node()
    jobs = [await printed(world, actor, b"x" * 50, b"y") for _ in range(20)]
    both = await sealings(world), await sealings(world, another)
    done = await asyncio.gather(world.store.seal(SYSTEM, both[0]), another.seal(SYSTEM, both[1]))
    assert sorted(done) == [[False], [True]]
    assert kept(world) == (0, 1)
    for one in jobs:
        assert [chunk.body for chunk in await told(world, one.job_id)] == [b"x" * 50, b"y"]


async def test_a_segment_is_not_written_if_a_chunk_is_gone_or_changed(world: World) -> None:
    actor = await world.node()
    one, two = await printed(world, actor, b"one"), await printed(world, actor, b"two")
    (both,) = await sealings(world)
    first = [run for run in both.runs if run.job_id == one.job_id]
    alone = replace(changed(both, id=world.chance.job_id(world.clock.now())), runs=first)
    other = replace(alone, runs=[replace(first[0], size=17)])
    async with world.unchanged():
        assert await world.store.seal(SYSTEM, [other]) == [False]
    await world.store.purge(LOCAL, [two.job_id])
    assert await world.store.seal(SYSTEM, [both, alone]) == [False, True], "the others are written"
    assert kept(world) == (0, 1)
    assert [chunk.body for chunk in await told(world, one.job_id)] == [b"one"]


async def test_a_repeat_that_comes_after_sealing_is_shown_once(world: World) -> None:
    """As of a shipper whose first try had gone through without an answer."""
    actor = await world.node()
    job = await world.one(retry=Retry(2, "1s", 0))
    claimed = await actor.take(job)
    chunk = actor.chunk(claimed.ref, 0, b"said once")
    await world.store.append_output(SYSTEM, [chunk])
    run = Run(job, claimed.fence, 0, 0, 1, len(chunk.body), 0, LOCAL.user, claimed.task, False)
    segment = await sealer(world)._pack([chunk], run.owner, run.task, False)
    assert await world.store.seal(SYSTEM, [Sealing(segment, [run])]) == [True]
    await world.store.append_output(SYSTEM, [chunk])
    assert await told(world, job) == [chunk]
    await actor.finish(claimed, BOOM)
    await seal(world)
    assert await told(world, job) == [chunk]


async def test_a_failed_write_leaves_everything_as_it_was(world: World) -> None:
    actor = await world.node()
    one = await printed(world, actor, b"kept")
    (sealing,) = await sealings(world)
    broken = changed(sealing, lines=1 << 70)
    async with world.unchanged():
        with pytest.raises(Exception):  # noqa: B017, PT011 - each engine has its own
            await world.store.seal(SYSTEM, [broken])
    assert [chunk.body for chunk in await told(world, one.job_id)] == [b"kept"]


# -- purge, replay, retention ----------------------------------------------------------------------------------------
async def test_a_purge_removes_the_output_from_its_segment(world: World) -> None:
    actor = await world.node()
    one, two = await printed(world, actor, b"secret"), await printed(world, actor, b"other")
    await seal(world)
    assert await world.store.purge(LOCAL, [one.job_id]) == [True]
    assert await told(world, one.job_id) == []
    await seal(world)
    contents = world.backend.contents("segments", "purged")
    assert contents["purged"] == []
    (row,) = contents["segments"]
    bodies = [cell for cell in row if isinstance(cell, bytes | memoryview) and len(cell) > 40]
    assert any(b"other" in _unpacked(body) for body in bodies)
    assert not any(b"secret" in _unpacked(body) for body in bodies)
    assert [chunk.body for chunk in await told(world, two.job_id)] == [b"other"]
    await world.store.purge(LOCAL, [two.job_id])
    await seal(world)
    assert kept(world) == (0, 0), "a segment without jobs goes"


def _unpacked(body: Any) -> bytes:
    try:
        return b"".join(chunk.body for chunk in unpack(bytes(body)))
    except Exception:
        return b""


async def test_a_job_that_runs_again_keeps_its_sealed_attempts(world: World) -> None:
    actor = await world.node()
    one = await actor.take(await world.one(retry=Retry(0)))
    await actor.say(one.ref, 0, b"first")
    await actor.finish(one, BOOM)
    await seal(world)
    assert await world.store.replay(LOCAL, [one.job_id]) == [True]
    await world.promote()
    again = await actor.take(one.job_id)
    await actor.say(again.ref, 0, b"second")
    assert [chunk.body for chunk in await told(world, one.job_id)] == [b"first", b"second"]
    await actor.finish(again)
    world.clock.advance(8 * DAY / SECOND)
    await seal(world)
    assert [chunk.body for chunk in await told(world, one.job_id)] == [b"first", b"second"], "as long as the job"
    await prune(world)
    world.clock.advance(2 * DAY / SECOND)
    await seal(world)
    world.clock.advance(9 * DAY / SECOND)
    await seal(world)
    assert kept(world) == (0, 0)


async def test_sealed_output_counts_for_the_quota(world: World) -> None:
    await world.store.put_user(LOCAL, "ann", quotas("output=1000"), new=True)
    await world.store.count_output(SYSTEM)
    actor = await world.node()
    one = await printed(world, actor, b"a" * 90, who=ANN)
    two = await printed(world, actor, b"b" * 60, who=ANN)
    await seal(world)
    world.clock.advance(601)
    assert await world.store.count_output(SYSTEM) == 1
    assert (await world.store.quota_use(ANN)).output == 150
    await world.store.purge(ANN, [one.job_id])
    await seal(world)
    world.clock.advance(601)
    await world.store.count_output(SYSTEM)
    assert (await world.store.quota_use(ANN)).output == 60
    assert [chunk.body for chunk in await told(world, two.job_id)] == [b"b" * 60]


async def test_small_segments_are_joined(world: World) -> None:
    actor = await world.node()
    jobs = []
    for number in range(8):
        jobs.append(await printed(world, actor, b"%d" % number))
        assert await world.store.seal(SYSTEM, await sealings(world)) == [True]
    assert kept(world) == (0, 8)
    await seal(world)
    assert kept(world) == (0, 1)
    for number, one in enumerate(jobs):
        assert [chunk.body for chunk in await told(world, one.job_id)] == [b"%d" % number]


async def test_a_damaged_segment_is_set_aside(world: World) -> None:
    actor = await world.node()
    one = await printed(world, actor, b"lost")
    (sealing,) = await sealings(world)
    await world.store.seal(SYSTEM, [changed(sealing, body=b"not a segment")])
    two = await printed(world, actor, b"fine")
    (mark,) = await told(world, one.job_id)
    assert (mark.stream, b"damaged" in mark.body) == (CUT, True)
    await world.store.purge(LOCAL, [one.job_id])
    await seal(world)
    assert [chunk.body for chunk in await told(world, two.job_id)] == [b"fine"], "the loop goes on"
    assert world.backend.contents("purged")["purged"] == []
    assert any(not finding.ok and "damaged" in finding.text for finding in await world.store.examine())


async def test_output_that_cannot_be_sealed_does_not_hold_up_the_rest(world: World) -> None:
    actor = await world.node()
    jobs = [await printed(world, actor, b"%d" % number) for number in range(4)]
    service = sealer(world)

    async def packer(chunks: Sequence[Chunk]) -> Packed:
        if jobs[2].job_id in {chunk.job_id for chunk in chunks}:
            raise ValueError("a bug")
        return pack(chunks)

    service._packer = packer
    await run(service)
    assert kept(world) == (1, 3)
    async with world.unchanged():
        await run(service)
    for number, one in enumerate(jobs):
        assert [chunk.body for chunk in await told(world, one.job_id)] == [b"%d" % number]


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_the_walk_goes_through_all_pages(world: World, limit: int) -> None:
    actor = await world.node()
    jobs = [(await printed(world, actor, b"x", b"yy")).job_id for _ in range(7)]
    running = await actor.take(await world.one())
    await actor.say(running.ref, 0)
    found: list[Run] = []
    page = await world.store.runs(SYSTEM, None, 0, limit)
    found += page.runs
    while page.last:
        page = await world.store.runs(SYSTEM, page.last, 0, limit)
        found += page.runs
    assert {one.job_id for one in found} == set(jobs)
    assert (sum(one.count for one in found), sum(one.size for one in found)) == (14, 21)
    assert (await world.store.runs(SYSTEM, None, 1, limit)).runs == [], "too young"


async def test_runs_are_read_as_far_as_there_is_room(world: World) -> None:
    actor = await world.node()
    one = await printed(world, actor, *[b"%04d" % number for number in range(10)])
    two = await printed(world, actor, b"last")
    rest = (await world.store.runs(SYSTEM, None, 0, PLENTY)).runs
    bodies, counts = [], []
    while rest:
        read = await world.store.read_runs(SYSTEM, rest, 9)
        bodies += [chunk.body for chunk in read.chunks]
        counts.append([(run.job_id, run.low, run.high, run.count, run.size) for run in read.runs])
        rest = read.rest
    assert bodies == [b"%04d" % number for number in range(10)] + [b"last"]
    assert counts == [
        [(one.job_id, 0, 2, 3, 12)], [(one.job_id, 3, 5, 3, 12)], [(one.job_id, 6, 8, 3, 12)],
        [(one.job_id, 9, 9, 1, 4), (two.job_id, 0, 0, 1, 4)],
    ]  # fmt: skip


def test_packed_sizes_leave_marks_out() -> None:
    chunks = [Chunk("0199aaaa-0000-7000-8000-000000000001", 1, n, 5, s, b"x") for n, s in enumerate(["stdout", CUT])]
    assert len(unpack(pack(chunks).body)) == 2
