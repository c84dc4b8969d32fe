"""Fences: a write with the right one is applied once, with an old one it changes nothing."""

from __future__ import annotations

import pytest

from rota.errors import IllegalEvent
from rota.model.job import Claimed, Ref, Verdict
from rota.model.lifecycle import JobEvent, State
from rota.model.outcome import Ending, Outcome, Settlement
from rota.model.principal import SYSTEM
from rota.model.retry import Retry
from rota.model.times import instant
from rota.store.values import Position, Start
from tests.contracts.world import BOOM, BROKEN, DONE, FATAL, GIVEN_UP, NAP, STOPPED, Actor, World, settled

APPLIED, ALREADY, STALE = Verdict.APPLIED, Verdict.ALREADY, Verdict.STALE
ENDINGS = {
    "success": DONE,
    "retry": BOOM,
    "fail": FATAL,
    "snooze": NAP,
    "cancel": GIVEN_UP,
    "interrupt": STOPPED,
    "set aside": BROKEN,
}
NOBODY = Ref("00000000-0000-7000-8000-000000000000", 1)


async def replaced(world: World, actor: Actor) -> tuple[Claimed, Claimed]:
    """An attempt that was taken for dead, and the one that runs in its place."""
    await world.one()
    old = await actor.take()
    await actor.die()
    return old, await (await world.node()).take(old.job_id)


# -- start ------------------------------------------------------------------------------------------------------------


async def test_what_was_claimed_ahead_is_started_once(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.ahead()
    world.clock.advance(3)
    now = world.clock.now()
    assert await world.store.start(SYSTEM, [claimed.ref]) == [Start(APPLIED, now)]
    info = await world.info(job_id)
    assert (info.state, instant(info.started_at)) == (State.RUNNING, now)
    assert [(a.number, instant(a.started_at)) for a in info.attempts] == [(1, now)]
    world.clock.advance(3)
    async with world.unchanged():
        assert await world.store.start(SYSTEM, [claimed.ref]) == [Start(ALREADY, now)]


async def test_what_was_started_by_its_claim_is_started_already(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.take()
    async with world.unchanged():
        assert await world.store.start(SYSTEM, [claimed.ref]) == [Start(ALREADY, claimed.started_at)]


async def test_an_old_fence_starts_nothing(world: World) -> None:
    actor = await world.node()
    await world.one()
    old = await actor.ahead()
    await actor.hand_back(old.ref)
    async with world.unchanged():
        assert await world.store.start(SYSTEM, [old.ref]) == [Start(STALE)]
    await actor.ahead(old.job_id)
    async with world.unchanged():
        assert await world.store.start(SYSTEM, [old.ref, NOBODY]) == [Start(STALE), Start(STALE)]


async def test_one_bad_start_does_not_hurt_the_others(world: World) -> None:
    actor = await world.node()
    await world.several(2)
    first, second = await actor.claim(start=0)
    answers = await world.store.start(SYSTEM, [first.ref, NOBODY, Ref(second.job_id, 7), second.ref])
    assert [answer.verdict for answer in answers] == [APPLIED, STALE, STALE, APPLIED]


async def test_the_same_start_twice_in_one_batch_counts_once(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.ahead()
    answers = await world.store.start(SYSTEM, [claimed.ref, claimed.ref])
    assert [answer.verdict for answer in answers] == [APPLIED, ALREADY]
    assert answers[0].started_at == answers[1].started_at == world.clock.now()
    assert [attempt.number for attempt in (await world.info(job_id)).attempts] == [1]


# -- hand back --------------------------------------------------------------------------------------------------------


async def test_what_was_not_started_goes_back_as_if_never_claimed(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    before = await world.info(job_id)
    claimed = await actor.ahead()
    world.clock.advance(3)
    assert await actor.hand_back(claimed.ref) == [APPLIED]
    after = await world.info(job_id)
    assert after.fence == before.fence + 1, "but for the fence, which never resets"
    assert (after.state, after.attempts, after.run_at, after.node) == (State.READY, [], before.run_at, None)
    assert (after.failures, after.crashes, after.interruptions) == (0, 0, 0)
    assert (await (await world.node()).take()).rank == claimed.rank


async def test_handing_back_keeps_the_history(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(3, "1s", 0))
    await actor.run(BOOM, job_id)
    world.clock.advance(1)
    await world.promote()
    before = await world.info(job_id)
    await actor.hand_back((await actor.ahead(job_id)).ref)
    after = await world.info(job_id)
    assert (after.attempts, after.error, after.failures) == (before.attempts, before.error, 1)


async def test_handing_back_again_changes_nothing(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.ahead()
    await actor.hand_back(claimed.ref)
    async with world.unchanged():
        assert await actor.hand_back(claimed.ref) == [ALREADY]


async def test_what_has_started_is_not_handed_back(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.take()
    async with world.unchanged():
        assert await actor.hand_back(claimed.ref) == [STALE]


async def test_an_old_fence_hands_nothing_back(world: World) -> None:
    actor = await world.node()
    await world.one()
    old = await actor.ahead()
    await actor.hand_back(old.ref)
    await actor.ahead(old.job_id)
    async with world.unchanged():
        assert await actor.hand_back(old.ref, NOBODY) == [STALE, STALE]


async def test_an_interrupted_attempt_was_not_handed_back(world: World) -> None:
    """Both leave a ready job with the same fence; only one of them was the answer to this question."""
    actor = await world.node()
    await world.one()
    claimed = await actor.run(STOPPED)
    async with world.unchanged():
        assert await actor.hand_back(claimed.ref) == [STALE]


async def test_one_bad_hand_back_does_not_hurt_the_others(world: World) -> None:
    actor = await world.node()
    await world.several(3)
    started, first, second = await actor.claim(start=1)
    refs = [first.ref, NOBODY, started.ref, Ref(second.job_id, 9), second.ref, first.ref]
    assert await actor.hand_back(*refs) == [APPLIED, STALE, STALE, STALE, APPLIED, ALREADY]
    assert await world.states(started.job_id, first.job_id, second.job_id) == [
        State.RUNNING,
        State.READY,
        State.READY,
    ]


# -- finish -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", ENDINGS.values(), ids=ENDINGS)
async def test_a_finish_is_applied_once(world: World, result: Outcome) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.take()
    assert await actor.finish(claimed, result) is APPLIED
    world.clock.advance(1)
    async with world.unchanged():
        assert await actor.finish(claimed, result) is ALREADY


@pytest.mark.parametrize("result", [BOOM, NAP, STOPPED], ids=["retry", "snooze", "interrupt"])
async def test_a_repeat_is_known_even_when_the_next_attempt_runs(world: World, result: Outcome) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.run(result)
    world.clock.advance(60)
    await world.promote()
    await actor.take(claimed.job_id)
    async with world.unchanged():
        assert await actor.finish(claimed, result) is ALREADY


@pytest.mark.parametrize("result", ENDINGS.values(), ids=ENDINGS)
async def test_an_old_fence_finishes_nothing(world: World, result: Outcome) -> None:
    actor = await world.node()
    old, new = await replaced(world, actor)
    before = await world.info(old.job_id)
    async with world.unchanged():
        assert await actor.finish(old, result) is STALE
    assert await world.info(old.job_id) == before
    assert await actor.finish(new) is APPLIED
    async with world.unchanged():
        assert await actor.finish(old, result) is STALE


async def test_an_attempt_ends_one_way_only(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.run(DONE)
    async with world.unchanged():
        assert await actor.finish(claimed, FATAL) is STALE
        assert await actor.finish(claimed, BOOM) is STALE


async def test_a_fence_that_is_yet_to_come_finishes_nothing(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.take()
    early = Settlement(claimed.job_id, claimed.fence + 1, JobEvent.SUCCEED, Ending.SUCCEEDED)
    async with world.unchanged():
        assert await world.store.finish(SYSTEM, [early]) == [STALE]


async def test_one_bad_finish_does_not_hurt_the_others(world: World) -> None:
    actor = await world.node()
    old, _ = await replaced(world, actor)
    other = await world.node()
    await world.several(3)
    first, second, third = await other.claim()
    unknown = Settlement(NOBODY.job_id, 1, JobEvent.SUCCEED, Ending.SUCCEEDED)
    batch = [settled(first, DONE), settled(old, DONE), settled(second, BOOM), unknown, settled(third, FATAL)]
    assert await world.store.finish(SYSTEM, batch) == [APPLIED, STALE, APPLIED, STALE, APPLIED]
    assert await world.states(first.job_id, old.job_id, second.job_id, third.job_id) == [
        State.SUCCEEDED,
        State.RUNNING,
        State.SCHEDULED,
        State.FAILED,
    ]
    assert await world.store.finish(SYSTEM, []) == []


async def test_the_first_ending_in_a_batch_counts(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    batch = [settled(claimed, BOOM), settled(claimed, BOOM), settled(claimed, DONE)]
    assert await world.store.finish(SYSTEM, batch) == [APPLIED, ALREADY, STALE]
    info = await world.info(job_id)
    assert (info.state, info.failures, len(info.attempts)) == (State.SCHEDULED, 1, 1)


async def test_an_event_that_ends_no_attempt_raises_and_nothing_is_written(world: World) -> None:
    actor = await world.node()
    await world.several(2)
    first, second = await actor.claim()
    nonsense = Settlement(second.job_id, second.fence, JobEvent.PROMOTE, Ending.SUCCEEDED)
    async with world.unchanged():
        with pytest.raises(IllegalEvent):
            await world.store.finish(SYSTEM, [settled(first, DONE), nonsense])


async def test_a_set_aside_before_the_start_is_known_when_repeated(world: World) -> None:
    """An order that makes no sense may be noticed before anything of it runs."""
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.ahead()
    assert await actor.finish(claimed, BROKEN) is APPLIED
    assert (await world.info(job_id)).state is State.FAILED
    async with world.unchanged():
        assert await actor.finish(claimed, BROKEN) is not APPLIED


# -- output -----------------------------------------------------------------------------------------------------------


async def test_output_is_kept_once(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.take()
    assert await actor.say(claimed.ref, 0) is APPLIED
    async with world.unchanged():
        assert await actor.say(claimed.ref, 0) is ALREADY
        assert await actor.say(claimed.ref, 0, b"other words") is not APPLIED


async def test_a_repeat_of_output_is_known_after_the_end(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.take()
    await actor.say(claimed.ref, 0)
    await actor.finish(claimed)
    async with world.unchanged():
        assert await actor.say(claimed.ref, 0) is ALREADY
        assert await actor.say(claimed.ref, 1) is STALE


async def test_an_old_fence_says_nothing(world: World) -> None:
    actor = await world.node()
    old, new = await replaced(world, actor)
    async with world.unchanged():
        assert await actor.say(old.ref, 0) is STALE
    chunks = [actor.chunk(new.ref, 0), actor.chunk(old.ref, 1), actor.chunk(NOBODY, 0), actor.chunk(new.ref, 1)]
    assert await world.store.append_output(SYSTEM, chunks) == [APPLIED, STALE, STALE, APPLIED]
    kept = await world.store.output(SYSTEM, old.job_id, Position(), 10)
    assert [(chunk.fence, chunk.number) for chunk in kept] == [(new.fence, 0), (new.fence, 1)]
