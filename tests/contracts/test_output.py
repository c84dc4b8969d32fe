"""Output: every byte, in order, once."""

from __future__ import annotations

import random

import pytest

from rota.errors import RotaError
from rota.model.job import Verdict
from rota.model.principal import LOCAL, SYSTEM
from rota.model.retry import Retry
from rota.store.values import Chunk, Position
from tests.contracts.world import BOOM, DONE, World

START = Position()


async def test_output_is_read_as_it_was_written(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    now = world.clock.now()
    chunks = [
        Chunk(job_id, 1, 0, now, "stdout", b"one\n"),
        Chunk(job_id, 1, 1, now + 5, "stderr", b"two\n"),
        Chunk(job_id, 1, 2, now + 9, "log", b"three"),
    ]
    assert await world.store.append_output(SYSTEM, chunks) == [Verdict.APPLIED] * 3
    assert await world.store.output(LOCAL, job_id, START, 10) == chunks
    await actor.finish(claimed, DONE)
    assert await world.store.output(LOCAL, job_id, START, 10) == chunks


BODIES = {
    "empty": b"",
    "nul": b"\0",
    "every byte": bytes(range(256)),
    "broken utf-8": b"\xff\xfe half \xe2\x98",
    "quotes": b"'; DROP TABLE jobs; --",
    "256 KiB": random.Random(1).randbytes(1 << 18),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_output_is_bytes(world: World, body: bytes) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    await actor.say(claimed.ref, 0, body)
    (chunk,) = await world.store.output(LOCAL, job_id, START, 10)
    assert chunk.body == body


async def test_chunks_are_read_in_their_order_however_they_arrived(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    for number in (2, 0, 10, 1, 9):
        await actor.say(claimed.ref, number)
    assert [chunk.number for chunk in await world.store.output(LOCAL, job_id, START, 10)] == [0, 1, 2, 9, 10]


async def test_a_repeat_is_ignored_and_the_rest_of_its_batch_is_kept(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    await actor.say(claimed.ref, 0, b"first")
    repeat = [actor.chunk(claimed.ref, 0, b"again"), actor.chunk(claimed.ref, 1, b"second")]
    await world.store.append_output(SYSTEM, repeat)
    await world.store.append_output(SYSTEM, repeat)
    assert [c.body for c in await world.store.output(LOCAL, job_id, START, 10)] == [b"first", b"second"]


async def test_the_first_of_two_chunks_with_one_number_is_kept(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    chunks = [actor.chunk(claimed.ref, 0, b"first"), actor.chunk(claimed.ref, 0, b"second")]
    assert (await world.store.append_output(SYSTEM, chunks))[0] is Verdict.APPLIED
    assert [chunk.body for chunk in await world.store.output(LOCAL, job_id, START, 10)] == [b"first"]


async def test_a_mark_takes_the_place_of_what_was_cut(world: World) -> None:
    actor = await world.node()
    one, other = await world.several(2)
    first, second = await actor.claim()
    for number in range(6):
        await actor.say(first.ref, number)
        await actor.say(second.ref, number)
    for place, left in ((3, b"a little"), (4, b"more")):
        mark = Chunk(one, first.fence, place, world.clock.now(), "cut", left, since=2)
        news = actor.chunk(first.ref, place + 3, b"new")
        for _ in range(2):  # as after a lost answer
            verdicts = await world.store.append_output(SYSTEM, [mark, news])
            assert verdicts[0] is Verdict.APPLIED
    found = await world.store.output(LOCAL, one, START, 10)
    assert [(chunk.number, chunk.stream) for chunk in found] == [
        (0, "stdout"), (1, "stdout"), (4, "cut"), (5, "stdout"), (6, "stdout"), (7, "stdout"),
    ]  # fmt: skip
    assert found[2].body == b"more"
    assert len(await world.store.output(LOCAL, other, START, 10)) == 6


async def test_a_stale_attempt_cuts_nothing(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(2, "1s", 0))
    claimed = await actor.take(job_id)
    await actor.say(claimed.ref, 0)
    await actor.finish(claimed, BOOM)
    world.clock.advance(1)
    await world.promote()
    again = await actor.take(job_id)
    await actor.say(again.ref, 0)
    async with world.unchanged():
        for fence in (claimed.fence, again.fence + 1):
            mark = Chunk(job_id, fence, 1, world.clock.now(), "cut", b"", since=0)
            assert await world.store.append_output(SYSTEM, [mark]) == [Verdict.STALE]


async def test_attempts_follow_each_other(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(2, "1s", 0))
    for body in (b"a", b"b", b"c"):
        claimed = await actor.take(job_id)
        await actor.say(claimed.ref, 0, body)
        await actor.say(claimed.ref, 1, body * 2)
        await actor.finish(claimed, BOOM)
        world.clock.advance(1)
        await world.promote()
    found = await world.store.output(LOCAL, job_id, START, 10)
    assert [(c.fence, c.number, c.body) for c in found] == [
        (1, 0, b"a"), (1, 1, b"aa"), (2, 0, b"b"), (2, 1, b"bb"), (3, 0, b"c"), (3, 1, b"cc"),
    ]  # fmt: skip


@pytest.mark.parametrize("page", [1, 2, 3, 100])
async def test_reading_goes_on_from_where_it_was(world: World, page: int) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(2, "1s", 0))
    expected = []
    for _ in range(2):
        claimed = await actor.take(job_id)
        for number in range(5):
            await actor.say(claimed.ref, number)
            expected.append((claimed.fence, number))
        await actor.finish(claimed, BOOM)
        world.clock.advance(1)
        await world.promote()
    position, found = START, []
    while chunks := await world.store.output(LOCAL, job_id, position, page):
        assert len(chunks) <= page
        found += [(chunk.fence, chunk.number) for chunk in chunks]
        position = Position(chunks[-1].fence, chunks[-1].number)
    assert found == expected


async def test_a_follower_gets_what_comes_later(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    await actor.say(claimed.ref, 0, b"early")
    (first,) = await world.store.output(LOCAL, job_id, START, 10)
    here = Position(first.fence, first.number)
    assert await world.store.output(LOCAL, job_id, here, 10) == []
    await actor.say(claimed.ref, 1, b"late")
    assert [chunk.body for chunk in await world.store.output(LOCAL, job_id, here, 10)] == [b"late"]


async def test_jobs_are_not_mixed_up(world: World) -> None:
    actor = await world.node()
    one, two = await world.several(2)
    first, second = await actor.claim()
    chunks = [actor.chunk(second.ref, 0, b"2"), actor.chunk(first.ref, 0, b"1")]
    await world.store.append_output(SYSTEM, chunks)
    assert [chunk.body for chunk in await world.store.output(LOCAL, one, START, 10)] == [b"1"]
    assert [chunk.body for chunk in await world.store.output(LOCAL, two, START, 10)] == [b"2"]


async def test_what_is_claimed_ahead_or_waits_says_nothing(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.ahead()
    await actor.hand_back(claimed.ref)
    async with world.unchanged():
        assert await actor.say(claimed.ref, 0) is Verdict.STALE
    assert await world.store.output(LOCAL, job_id, START, 10) == []
    assert await world.store.output(LOCAL, "no-such-job", START, 10) == []
    assert await world.store.append_output(SYSTEM, []) == []


async def test_what_a_mark_replaces_stays_if_the_mark_does_not_come(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take(job_id)
    for number in range(4):
        await actor.say(claimed.ref, number, b"x")
    mark = Chunk(job_id, claimed.fence, 2, world.clock.now(), "cut", b"", since=1)
    impossible = actor.chunk(claimed.ref, 4, b"x", "\udcff")
    with pytest.raises((RotaError, UnicodeError)):
        await world.store.append_output(SYSTEM, [mark, impossible])
    assert [one.number for one in await world.store.output(LOCAL, job_id, Position(), 10)] == [0, 1, 2, 3]
