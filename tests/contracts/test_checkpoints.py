"""What an attempt saves for those after it."""

from __future__ import annotations

import msgspec
import pytest

from rota.model.job import Claimed, Verdict
from rota.model.limits import Key
from rota.model.outcome import Settlement
from rota.model.principal import LOCAL, SYSTEM
from rota.model.progress import Progress
from rota.model.requirements import Requirements
from rota.model.retry import Retry
from rota.store.values import Note
from tests.contracts.world import BOOM, DONE, FATAL, STOPPED, Actor, World, settled

AGAIN = Retry(9, "1s", 0)


async def save(world: World, claimed: Claimed, number: int, state: str) -> Verdict:
    (verdict,) = await world.store.note(SYSTEM, [Note(claimed.job_id, claimed.fence, number, None, state)])
    return verdict


async def again(world: World, actor: Actor) -> Claimed:
    world.clock.advance(2)
    await world.promote()
    return await actor.take()


STATES = ["null", '{"page": 7}', '"\\u0000 ü ☃"', '"' + "x" * 300_000 + '"']


@pytest.mark.parametrize("state", STATES, ids=["null", "object", "text", "long"])
async def test_a_saved_state_comes_with_the_next_claim(world: World, state: str) -> None:
    actor = await world.node()
    await world.one(retry=AGAIN)
    first = await actor.take()
    assert first.state is None
    assert await save(world, first, 0, "0") is Verdict.APPLIED
    assert await save(world, first, 1, state) is Verdict.APPLIED
    await actor.finish(first, BOOM)
    second = await again(world, actor)
    assert second.state == state


async def test_it_stays_until_another_is_saved(world: World) -> None:
    """Through retries that save nothing, an interruption, a hand-back and the death of a node."""
    actor, other = await world.node(), await world.node()
    job_id = await world.one(retry=AGAIN)
    first = await actor.take()
    await save(world, first, 5, '"one"')
    await actor.finish(first, BOOM)
    second = await again(world, actor)
    await actor.finish(second, STOPPED)
    third = await actor.ahead(job_id)
    await actor.hand_back(third.ref)
    fourth = await other.take(job_id)
    await other.die()
    fifth = await again(world, actor)
    assert [one.state for one in (second, third, fourth, fifth)] == ['"one"'] * 4
    assert await save(world, fifth, 0, '"two"') is Verdict.APPLIED, "numbers begin anew with each attempt"
    await actor.finish(fifth, BOOM)
    assert (await again(world, actor)).state == '"two"'


async def test_what_was_saved_later_stays(world: World) -> None:
    actor = await world.node()
    await world.one(retry=AGAIN)
    first = await actor.take()
    await save(world, first, 1, "1")
    async with world.unchanged():
        assert await save(world, first, 1, "1") is Verdict.ALREADY
        assert await save(world, first, 0, "0") is Verdict.ALREADY
    await actor.finish(first, BOOM)
    async with world.unchanged():
        assert await save(world, first, 1, "1") is Verdict.ALREADY, "it was applied then"
        assert await save(world, first, 2, "2") is Verdict.STALE
    second = await again(world, actor)
    async with world.unchanged():
        assert await save(world, first, 2, "2") is Verdict.STALE
    assert second.state == "1"


async def test_progress_and_state_may_come_in_one_or_apart(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=AGAIN)
    first = await actor.take()
    half = Progress.told(0.5, "half", world.clock.now())
    assert await world.store.note(SYSTEM, [Note(job_id, 1, 3, half, "1")]) == [Verdict.APPLIED]
    assert await save(world, first, 4, "2") is Verdict.APPLIED
    assert (await world.info(job_id)).progress == half, "a save leaves it as it is"
    late = Progress.told(0.6, "late", world.clock.now())
    assert await world.store.note(SYSTEM, [Note(job_id, 1, 5, late)]) == [Verdict.APPLIED]
    await actor.finish(first, BOOM)
    assert (await again(world, actor)).state == "2", "and progress leaves the state"


async def test_a_success_has_no_more_use_for_it(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    first = await actor.take()
    await save(world, first, 0, "1")
    await world.store.finish(SYSTEM, [_saved(first)])
    assert world.backend.contents()["checkpoints"] == []
    await world.store.replay(LOCAL, [job_id], again=True)
    assert (await again(world, actor)).state is None


async def test_a_success_that_is_refused_takes_nothing_away(world: World) -> None:
    actor = await world.node()
    await world.one(retry=AGAIN)
    first = await actor.take()
    await save(world, first, 0, "1")
    await actor.finish(first, BOOM)
    second = await again(world, actor)
    assert await world.store.finish(SYSTEM, [_saved(first)]) == [Verdict.STALE]
    await actor.finish(second, BOOM)
    assert (await again(world, actor)).state == "1"


def _saved(claimed: Claimed) -> Settlement:
    return msgspec.structs.replace(settled(claimed, DONE), saved=True)


async def test_a_replay_from_the_dead_letters_goes_on_from_it(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    first = await actor.take()
    await save(world, first, 0, '"page 7"')
    await actor.finish(first, FATAL)
    assert await world.store.replay(LOCAL, [job_id]) == [True]
    assert (await again(world, actor)).state == '"page 7"'


async def test_a_job_that_needs_keys_gets_it_too(world: World) -> None:
    """Those are claimed in another way."""
    actor = await world.node()
    await world.one(retry=AGAIN, requirements=Requirements(keys=(Key("k", 1),)))
    first = await actor.take()
    await save(world, first, 0, "[1]")
    await actor.finish(first, BOOM)
    second = await again(world, actor)
    assert (second.fence, second.state) == (2, "[1]")


async def test_each_job_gets_its_own(world: World) -> None:
    actor = await world.node()
    await world.several(3, retry=AGAIN)
    claimed = await actor.claim()
    notes = [Note(one.job_id, one.fence, 0, None, f'"{one.job_id}"') for one in claimed[:2]]
    await world.store.note(SYSTEM, notes)
    await world.store.finish(SYSTEM, [settled(one, BOOM) for one in claimed])
    await world.one()
    world.clock.advance(2)
    await world.promote()
    found = {one.job_id: one.state for one in await actor.claim()}
    expected = {one.job_id: f'"{one.job_id}"' for one in claimed[:2]}
    assert {job: state for job, state in found.items() if state is not None} == expected
    assert len(found) == 4
