"""Output that comes when its node is gone: kept in its place if the attempt ended for that, and refused otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rota.model.job import Claimed, Ref, Verdict
from rota.model.outcome import Cancelled, CrashRule, Outcome
from rota.model.output_marks import LimitMark, left_out
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.quotas import quotas
from rota.model.retry import Retry
from rota.store.base import Store
from rota.store.values import CUT, Chunk, Position, Topic
from tests.contracts.world import BOOM, DONE, Actor, World
from tests.store.sealing import make_sealer, run

APPLIED, ALREADY, STALE, EARLY = Verdict.APPLIED, Verdict.ALREADY, Verdict.STALE, Verdict.EARLY
START = Position()


async def late(world: World, chunks: Sequence[Chunk]) -> list[Verdict]:
    return await world.store.append_output(SYSTEM, chunks, late=True)


async def said(world: World, job_id: str) -> list[tuple[int, int, bytes]]:
    return [(one.fence, one.number, one.body) for one in await world.store.output(LOCAL, job_id, START, 100)]


async def taken_over(world: World, retry: Retry | None = None) -> tuple[Actor, Claimed]:
    """An attempt that has said one thing, and whose node has died."""
    actor = await world.node()
    job_id = await world.one(retry=retry or Retry(3, "1s", 0))
    claimed = await actor.take(job_id)
    await actor.say(claimed.ref, 0, b"zero")
    await actor.die()
    return actor, claimed


async def test_it_stands_in_its_place(world: World) -> None:
    actor, old = await taken_over(world)
    other = await world.node()
    world.clock.advance(5)
    await world.promote()
    new = await other.take(old.job_id)
    await other.say(new.ref, 0, b"again")
    assert await late(world, [actor.chunk(old.ref, 1, b"one"), actor.chunk(old.ref, 2, b"two")]) == [APPLIED] * 2
    kept = [(old.fence, 0, b"zero"), (old.fence, 1, b"one"), (old.fence, 2, b"two"), (new.fence, 0, b"again")]
    assert await said(world, old.job_id) == kept


async def test_a_repeat_changes_nothing(world: World) -> None:
    actor, claimed = await taken_over(world)
    chunks = [actor.chunk(claimed.ref, number, b"x") for number in range(3)]
    assert await late(world, chunks) == [ALREADY, APPLIED, APPLIED]
    async with world.unchanged():
        assert await late(world, chunks) == [ALREADY] * 3


async def test_a_repeat_of_what_is_sealed_changes_nothing(world: World) -> None:
    actor, claimed = await taken_over(world, Retry(0))
    chunks = [actor.chunk(claimed.ref, number, b"x") for number in range(3)]
    assert await late(world, chunks[:2]) == [ALREADY, APPLIED]
    world.clock.advance(5)
    await world.store.cancel(LOCAL, [claimed.job_id], "no more")  # so that it has ended
    await run(make_sealer(world.store))
    assert not world.backend.contents("output")["output"]
    assert await late(world, chunks) == [ALREADY, ALREADY, APPLIED]
    assert await said(world, claimed.job_id) == [
        (claimed.fence, 0, b"zero"),
        *((claimed.fence, n, b"x") for n in (1, 2)),
    ]


async def test_while_the_attempt_runs_it_is_too_early(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.take()
    async with world.unchanged():
        assert await late(world, [actor.chunk(claimed.ref, 0)]) == [EARLY]


async def test_a_mark_that_comes_too_early_is_not_lost(world: World) -> None:
    actor = await world.node()
    await world.one(retry=Retry(3, "1s", 0))
    claimed = await actor.take()
    for number in range(3):
        await actor.say(claimed.ref, number, b"x")
    mark = Chunk(claimed.job_id, claimed.fence, 1, world.clock.now(), CUT, b"mark", since=0)
    chunks = [mark, actor.chunk(claimed.ref, 3, b"tail")]
    async with world.unchanged():
        assert await late(world, chunks) == [EARLY] * 2
    await actor.die()
    assert await late(world, chunks) == [APPLIED] * 2
    assert [body for _, _, body in await said(world, claimed.job_id)] == [b"mark", b"x", b"tail"]


@pytest.mark.parametrize("end", [DONE, BOOM], ids=["succeeded", "failed"])
async def test_an_attempt_that_its_node_has_ended_says_no_more(world: World, end: Outcome) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(3, "1s", 0))
    claimed = await actor.take(job_id)
    await actor.say(claimed.ref, 0, b"zero")
    await actor.finish(claimed, end)
    async with world.unchanged():
        assert await late(world, [actor.chunk(claimed.ref, 0), actor.chunk(claimed.ref, 1)]) == [ALREADY, STALE]


async def test_the_last_attempt_of_a_job_that_failed_by_it(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take(job_id)
    assert await actor.die(CrashRule(limit=1)) == [job_id]
    assert await late(world, [actor.chunk(claimed.ref, 0, b"last words")]) == [APPLIED]
    assert await said(world, job_id) == [(claimed.fence, 0, b"last words")]


async def test_a_node_that_left(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take(job_id)
    await actor.leave()
    assert await late(world, [actor.chunk(claimed.ref, 0)]) == [APPLIED]


async def test_a_job_that_was_to_be_cancelled(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take(job_id)
    await world.store.cancel(LOCAL, [job_id], "enough")
    await actor.die()
    assert await late(world, [actor.chunk(claimed.ref, 0)]) == [APPLIED]
    other = await world.node()
    again = await other.take(await world.one())
    await other.finish(again, Cancelled("told"))
    assert await late(world, [actor.chunk(again.ref, 0)]) == [APPLIED]  # it can't be told apart


async def test_each_chunk_by_itself(world: World) -> None:
    actor, old = await taken_over(world)
    other = await world.node()
    await other.take(old.job_id)
    running = await other.take(await world.one())
    chunks = [
        actor.chunk(old.ref, 1), actor.chunk(running.ref, 0), actor.chunk(Ref(old.job_id, old.fence + 7), 0),
        actor.chunk(Ref("01890000-0000-7000-8000-000000000000", 1), 0), actor.chunk(old.ref, 2),
        actor.chunk(old.ref, 1),
    ]  # fmt: skip
    verdicts = await late(world, chunks)
    assert verdicts[:5] == [APPLIED, EARLY, STALE, STALE, APPLIED]
    assert await said(world, running.job_id) == []
    assert [number for _, number, _ in await said(world, old.job_id)] == [0, 1, 2]


async def test_a_mark_replaces_what_it_stands_for(world: World) -> None:
    actor, claimed = await taken_over(world)
    await late(world, [actor.chunk(claimed.ref, number, b"x") for number in range(1, 5)])
    mark = Chunk(claimed.job_id, claimed.fence, 3, world.clock.now(), "cut", b"cut", since=2)
    assert await late(world, [mark, actor.chunk(claimed.ref, 5, b"end")]) == [APPLIED, APPLIED]
    assert [(number, body) for _, number, body in await said(world, claimed.job_id)] == [
        (0, b"zero"), (1, b"x"), (3, b"cut"), (4, b"x"), (5, b"end"),
    ]  # fmt: skip


def limit_mark(claimed: Claimed, number: int, since: int, size: int, lines: int) -> Chunk:
    text = LimitMark(size, lines, True, 1000).text()
    return Chunk(claimed.job_id, claimed.fence, number, 7, CUT, text.encode(), since)


def accounted(chunks: Sequence[Chunk]) -> int:
    """The bytes that are there, and those that marks stand for."""
    return sum(left_out(one.body)[0] if one.stream == CUT else len(one.body) for one in chunks)


async def test_a_mark_counts_only_what_is_not_there(world: World) -> None:
    """The window has moved on, but the chunks that it left are sealed meanwhile."""
    actor, claimed = await taken_over(world, Retry(0))
    line = b"nine byte\n"
    early = [actor.chunk(claimed.ref, number, line) for number in range(2, 6)]
    await late(world, [limit_mark(claimed, 1, 1, 50, 5), *early])
    world.clock.advance(5)
    await run(make_sealer(world.store))
    assert not world.backend.contents("output")["output"]
    # 50 bytes that were left out before, 40 that are there all the same, and 70 more.
    again = [limit_mark(claimed, 7, 1, 160, 16), actor.chunk(claimed.ref, 8, line)]
    assert await late(world, again) == [APPLIED, APPLIED]
    found = await world.store.output(LOCAL, claimed.job_id, START, 100)
    await late(world, again)
    assert await world.store.output(LOCAL, claimed.job_id, START, 100) == found
    assert [(one.number, one.stream == CUT) for one in found] == [
        (0, False), (1, True), *((number, False) for number in range(2, 6)), (7, True), (8, False),
    ]  # fmt: skip
    assert accounted(found) == 4 + 160 + 10
    assert left_out(found[6].body) == (70, 7)


async def test_a_mark_for_what_is_all_there_is_not_needed(world: World) -> None:
    actor, claimed = await taken_over(world, Retry(0))
    line = b"nine byte\n"
    await late(world, [actor.chunk(claimed.ref, number, line) for number in range(2, 6)])
    world.clock.advance(5)
    await run(make_sealer(world.store))
    again = [limit_mark(claimed, 3, 1, 20, 2), actor.chunk(claimed.ref, 6, line)]
    assert await late(world, again) == [ALREADY, APPLIED]
    found = await world.store.output(LOCAL, claimed.job_id, START, 100)
    assert [one.number for one in found] == [0, 2, 3, 4, 5, 6]
    assert CUT not in {one.stream for one in found}


@pytest.mark.parametrize("turn", range(8))
async def test_sealing_and_late_output_at_once(world: World, another: Store, turn: int) -> None:
    actor, claimed = await taken_over(world, Retry(0))
    line = b"nine byte\n"
    await late(world, [actor.chunk(claimed.ref, number, line) for number in range(2, 6)])
    world.clock.advance(5)
    again = [limit_mark(claimed, 8, 1, 60, 6), actor.chunk(claimed.ref, 9, line)]

    async def comes() -> None:
        for _ in range(turn):
            await asyncio.sleep(0)
        assert await another.append_output(SYSTEM, again, late=True) == [APPLIED, APPLIED]

    await asyncio.gather(run(make_sealer(world.store)), comes(), run(make_sealer(another)))
    await run(make_sealer(world.store))
    found = await world.store.output(LOCAL, claimed.job_id, START, 100)
    assert not world.backend.contents("output")["output"]
    assert accounted(found) == 4 + 60 + 10
    assert [one.number for one in found] in ([0, 8, 9], [0, 2, 3, 4, 5, 8, 9])


async def test_a_quota_holds(world: World) -> None:
    assert await world.store.put_user(LOCAL, "ann", quotas("output=12"), new=True)
    actor = await world.node()
    job_id = await world.one(Principal("ann"), retry=Retry(3, "1s", 0))
    claimed = await actor.take(job_id)
    await actor.die()
    await late(world, [actor.chunk(claimed.ref, number, b"12345") for number in range(5)])
    await late(world, [actor.chunk(claimed.ref, number, b"12345") for number in range(5)])
    found = await world.store.output(SYSTEM, claimed.job_id, START, 100)
    assert [one.body for one in found[:2]] == [b"12345"] * 2
    assert [one.stream for one in found[2:]] == ["cut"]
    assert b"15 bytes" in found[2].body


async def test_followers_are_told(world: World) -> None:
    actor, claimed = await taken_over(world)
    heard: list[int] = []
    end = world.store.listen(frozenset({Topic.NEWS}), lambda: heard.append(1))
    before = len(heard)
    await late(world, [actor.chunk(claimed.ref, 1)])
    end()
    assert len(heard) > before


async def test_what_was_purged_stays_away(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take(job_id)
    await actor.die(CrashRule(limit=1))
    assert await world.store.purge(LOCAL, [job_id]) == [True]
    async with world.unchanged():
        assert await late(world, [actor.chunk(claimed.ref, 0)]) == [STALE]
