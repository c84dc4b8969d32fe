"""What a search reads: segments and unsealed chunks, of one's own jobs only."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.lines.segment import unpack
from rota.lines.words import probe_word
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.store.log_store import Extent, RawScan, Segment, SegmentScan
from rota.store.values import CUT, Chunk
from tests.contracts.test_sealing import printed, seal
from tests.contracts.world import World

ANN, BOB = Principal("ann"), Principal("bob")
CONNECTION, REFUSED, WELL, NO = map(probe_word, (b"connection", b"Refused", b"well", b"no"))


async def sealed(world: World, who: Principal, *bodies: bytes, **changes: object) -> str:
    """A job in a segment of its own."""
    job = (await printed(world, await world.node(), *bodies, who=who, **changes)).job_id
    await seal(world)
    world.clock.advance(10)
    return job


async def found(world: World, who: Principal, scan: SegmentScan) -> list[Segment]:
    """All pages."""
    all_of_it: list[Segment] = []
    while True:
        page = await world.store.segments(who, scan)
        all_of_it += page.segments
        if page.last is None:
            return all_of_it
        scan = replace(scan, after=page.last)


def jobs_of(segments: list[Segment]) -> list[str]:
    return [job for one in segments for job in dict.fromkeys(chunk.job_id for chunk in unpack(one.body))]


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_the_newest_come_first_in_pages(world: World, limit: int) -> None:
    jobs = [await sealed(world, ANN, b"line %d\n" % number) for number in range(5)]
    await sealed(world, BOB, b"his\n")
    scan = SegmentScan(limit=limit)
    assert jobs_of(await found(world, ANN, scan)) == jobs[::-1]
    assert len(await found(world, SYSTEM, scan)) == 6
    assert await found(world, Principal("eve"), scan) == []
    assert await world.store.segment_extent(ANN, scan) == Extent(5, 5 * 7)
    assert await world.store.segment_extent(Principal("eve"), scan) == Extent(0, 0)


async def test_conditions(world: World) -> None:
    begin = world.clock.now()
    one = await sealed(world, ANN, b"Connection refused\n", task="mail.send")
    middle = world.clock.now()
    two = await sealed(world, ANN, b"all is well\n", b"connection kept", task="mail.read")
    scans = {
        (one, two): [SegmentScan(), SegmentScan(since=begin), SegmentScan(tasks=("mail.*",)),
                     SegmentScan(jobs=(two, one)), SegmentScan(words=((CONNECTION,),)),
                     SegmentScan(words=((REFUSED, WELL), (CONNECTION,)))],
        (one,): [SegmentScan(until=middle), SegmentScan(tasks=("x", "mail.s*")), SegmentScan(jobs=(one, "no id")),
                 SegmentScan(words=((REFUSED,), (CONNECTION,))), SegmentScan(words=((NO, REFUSED),))],
        (two,): [SegmentScan(since=middle), SegmentScan(tasks=("mail.read",)), SegmentScan(jobs=(two,))],
        (): [SegmentScan(since=world.clock.now()), SegmentScan(until=begin), SegmentScan(tasks=()),
             SegmentScan(jobs=()), SegmentScan(words=((WELL,), (REFUSED,))),
             SegmentScan(words=((REFUSED, WELL), (NO, probe_word(b"yes"))))],
    }  # fmt: skip
    for jobs, some in scans.items():
        for scan in some:
            assert sorted(jobs_of(await found(world, ANN, scan))) == sorted(jobs), scan
            assert await found(world, BOB, scan) == [], scan


async def test_a_page_is_bounded_and_tells_how_far_it_came(world: World) -> None:
    jobs = [await sealed(world, ANN, b"needle\n" if number == 0 else b"straw\n" * 30) for number in range(6)]
    wanted = SegmentScan(words=((probe_word(b"needle"),),), look=2)
    page = await world.store.segments(ANN, wanted)
    assert (page.segments, page.looked, page.size) == ([], 2, 2 * 180)
    assert jobs_of(await found(world, ANN, wanted)) == [jobs[0]]
    tight = await world.store.segments(ANN, SegmentScan(room=1))
    assert jobs_of(tight.segments) == [jobs[-1]], "at least one"
    assert tight.looked == 1


async def chunks(world: World, who: Principal, scan: RawScan) -> list[Chunk]:
    all_of_it: list[Chunk] = []
    while (page := await world.store.unsealed(who, scan)).last is not None:
        assert len(page.tasks) == len(page.chunks) <= scan.limit
        all_of_it += page.chunks
        scan = replace(scan, after=page.last)
    return all_of_it


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_unsealed_chunks_in_both_directions(world: World, limit: int) -> None:
    actor = await world.node()
    expected = []
    for _ in range(3):
        one = await printed(world, actor, b"a", b"b", who=ANN, task="hers")
        expected += [(one.job_id, 0), (one.job_id, 1)]
        world.clock.advance(1)
    await printed(world, actor, b"his", who=BOB)
    for newest_first in (False, True):
        read = await chunks(world, ANN, RawScan(limit=limit, newest_first=newest_first))
        assert [(one.job_id, one.number) for one in read] == (expected[::-1] if newest_first else expected)
    assert len(await chunks(world, SYSTEM, RawScan(limit=limit))) == 7
    assert await chunks(world, Principal("eve"), RawScan()) == []
    first = expected[0][0]
    assert len(await chunks(world, ANN, RawScan(jobs=(first, "no id"), limit=limit))) == 2
    assert len(await chunks(world, ANN, RawScan(tasks=("h*",), limit=limit))) == 6
    assert await chunks(world, BOB, RawScan(tasks=("h*",))) == []
    later = world.clock.now() - 2_000_000
    assert len(await chunks(world, ANN, RawScan(since=later))) == 4
    assert len(await chunks(world, ANN, RawScan(until=later))) == 2


async def test_a_tail_reads_what_comes_after_a_place(world: World) -> None:
    actor = await world.node()
    one = await actor.take(await world.one())
    await actor.say(one.ref, 0, b"early")
    page = await world.store.unsealed(LOCAL, RawScan())
    assert [chunk.body for chunk in page.chunks] == [b"early"]
    world.clock.advance(1)
    await actor.say(one.ref, 1, b"late")
    page = await world.store.unsealed(LOCAL, RawScan(after=page.last))
    assert [chunk.body for chunk in page.chunks] == [b"late"]
    assert (await world.store.unsealed(LOCAL, RawScan(after=page.last))).last is None


async def test_marks_are_read_if_they_are_wanted(world: World) -> None:
    actor = await world.node()
    job = await actor.take(await world.one())
    await actor.say(job.ref, 0, b"said")
    await actor.say(job.ref, 1, b"[cut]", CUT)
    assert [chunk.body for chunk in (await world.store.unsealed(LOCAL, RawScan())).chunks] == [b"said"]
    page = await world.store.unsealed(LOCAL, RawScan(marks=True))
    assert [(chunk.stream, chunk.body) for chunk in page.chunks] == [("stdout", b"said"), (CUT, b"[cut]")]
