"""The quota for kept output: what is beyond it is left out, and marked; what is deleted gives room."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from rota.model.job import Claimed, Verdict
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.quotas import quotas
from rota.store.base import Store
from rota.store.values import CUT, Position
from tests.contracts.world import Actor, World

ANN, BOB = Principal("ann"), Principal("bob")
APPLIED, ALREADY, STALE = Verdict.APPLIED, Verdict.ALREADY, Verdict.STALE


async def allow(world: World, size: str, new: bool = True) -> None:
    assert await world.store.put_user(LOCAL, "ann", quotas(f"output={size}"), new=new)
    await world.store.count_output(SYSTEM)


async def attempt(world: World, who: Principal = ANN, actor: Actor | None = None) -> tuple[Actor, Claimed]:
    actor = actor or await world.node()
    return actor, await actor.take(await world.one(who))


async def told(world: World, job: str) -> list[tuple[int, str, str]]:
    chunks = await world.store.output(SYSTEM, job, Position(), 1_000)
    return [(chunk.number, chunk.stream, chunk.body.decode()) for chunk in chunks]


def mark(size: int, lines: int, allowed: str = "100B") -> str:
    why = f"the quota of user 'ann' for output, {allowed}, is used up"
    return f"\n[rota: {size:,} bytes ({lines:,} lines) of output are left out here: {why}]\n"


async def test_what_is_beyond_is_left_out_and_marked(world: World) -> None:
    await allow(world, "100")
    actor, one = await attempt(world)
    line = b"x" * 29 + b"\n"
    said = [await actor.say(one.ref, number, line) for number in range(5)]
    assert said == [APPLIED] * 5
    kept = [(number, "stdout", line.decode()) for number in range(3)]
    assert await told(world, one.job_id) == [*kept, (4, CUT, mark(60, 2))], "one mark for both"
    assert await actor.say(one.ref, 5, b"short\n") is APPLIED
    assert (await told(world, one.job_id))[-1] == (5, "stdout", "short\n"), "what fits is kept"
    assert await actor.say(one.ref, 6, line) is APPLIED
    assert [row[:2] for row in (await told(world, one.job_id))[-3:]] == [(4, CUT), (5, "stdout"), (6, CUT)]
    assert (await world.store.quota_use(ANN)).output == 96
    assert await actor.finish(one) is APPLIED, "the job goes on"


async def test_a_batch_of_several_users_and_attempts(world: World) -> None:
    await allow(world, "100")
    actor, one = await attempt(world)
    _, two = await attempt(world, actor=actor)
    _, others = await attempt(world, BOB, actor)
    body = b"y" * 40
    refs = (one.ref, others.ref, two.ref)
    batch = [actor.chunk(ref, number, body) for number in range(3) for ref in refs]
    stale = replace(batch[0], fence=77)
    assert await world.store.append_output(SYSTEM, [*batch, stale]) == [*[APPLIED] * 9, STALE]
    assert [row[2] for row in await told(world, others.job_id)] == [body.decode()] * 3
    assert [row[1:] for row in await told(world, one.job_id)] == [("stdout", body.decode()), (CUT, mark(80, 0))]
    assert [row[1:] for row in await told(world, two.job_id)] == [("stdout", body.decode()), (CUT, mark(80, 0))]
    again = await world.store.append_output(SYSTEM, batch)
    assert again == [ALREADY] * 9, "a repeat changes nothing"
    assert [row[1:] for row in await told(world, one.job_id)] == [("stdout", body.decode()), (CUT, mark(80, 0))]
    assert (await world.store.quota_use(ANN)).output == 80


async def test_what_marks_of_the_attempt_replace_gives_room(world: World) -> None:
    """An attempt that writes without end keeps its last part: what it replaces must not count."""
    await allow(world, "100")
    actor, one = await attempt(world)
    await actor.say(one.ref, 0, b"a" * 40)
    await actor.say(one.ref, 1, b"b" * 40)
    cut = replace(actor.chunk(one.ref, 1, b"[cut]", CUT), since=1)
    following = actor.chunk(one.ref, 2, b"c" * 40)
    assert await world.store.append_output(SYSTEM, [cut, following]) == [APPLIED, APPLIED]
    assert [row[:2] for row in await told(world, one.job_id)] == [(0, "stdout"), (1, CUT), (2, "stdout")]
    assert (await world.store.quota_use(ANN)).output == 80


async def test_a_purge_gives_room_at_the_next_count(world: World) -> None:
    actor, one = await attempt(world)
    await actor.say(one.ref, 0, b"a" * 90)
    await actor.finish(one)
    await allow(world, "100")
    assert (await world.store.quota_use(ANN)).output == 90, "what was kept before counts"
    _, two = await attempt(world, actor=actor)
    await actor.say(two.ref, 0, b"b" * 40)
    assert await told(world, two.job_id) == [(0, CUT, mark(40, 0))]
    assert await world.store.purge(ANN, [one.job_id]) == [True]
    await actor.say(two.ref, 1, b"c" * 40)
    assert await told(world, two.job_id) == [(1, CUT, mark(80, 0))]
    assert await world.store.count_output(SYSTEM) == 0, "not yet"
    world.clock.advance(10)
    assert await world.store.count_output(SYSTEM) == 1
    await actor.say(two.ref, 2, b"d" * 40)
    assert [row[1:] for row in await told(world, two.job_id)] == [(CUT, mark(80, 0)), ("stdout", "d" * 40)]


async def test_a_lifted_quota_and_other_users_are_not_bounded(world: World) -> None:
    await allow(world, "10")
    actor, one = await attempt(world)
    _, others = await attempt(world, BOB, actor)
    await actor.say(others.ref, 0, b"z" * 50)
    assert (await told(world, others.job_id))[0][1] == "stdout"
    await world.store.put_user(LOCAL, "ann", quotas("output=none"), new=False)
    await actor.say(one.ref, 0, b"z" * 50)
    assert (await told(world, one.job_id))[0][1] == "stdout"
    assert (await world.store.quota_use(ANN)).output == 0


async def test_nothing_is_allowed(world: World) -> None:
    await allow(world, "0")
    actor, one = await attempt(world)
    await actor.say(one.ref, 0, b"z")
    assert await told(world, one.job_id) == [(0, CUT, mark(1, 0, "0B"))]


async def test_two_stores_keep_no_more_than_allowed(world: World, another: Store) -> None:
    await allow(world, "1000")
    actors = [await world.node(), await world.node(store=another)]
    pairs = [await attempt(world, actor=actor) for actor in actors for _ in range(3)]
    await asyncio.gather(*(actor.say(one.ref, 0, b"w" * 90) for actor, one in pairs))
    for number in range(1, 5):
        await asyncio.gather(*(actor.say(one.ref, number, b"w" * 90) for actor, one in pairs))
    rows = [row for _, one in pairs for row in await told(world, one.job_id)]
    assert sum(len(body) for _, stream, body in rows if stream != CUT) == 990
    assert (await world.store.quota_use(ANN)).output == 990
