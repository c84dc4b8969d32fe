"""What people change about jobs that exist: cancel, replay, hurry, purge, on every shelf."""

from __future__ import annotations

import pytest

from rota.model.job import Verdict
from rota.model.lifecycle import INITIAL, TERMINAL, State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import HOUR, SECOND, aware, instant
from rota.store.values import Cancelling, Position
from tests.contracts.shelves import stand
from tests.contracts.world import BOOM, FATAL, World

NOBODY = "00000000-0000-7000-8000-000000000000"


# -- cancel -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(INITIAL))
async def test_what_waits_ends_at_once(world: World, state: State) -> None:
    ref = await stand(world, await world.node(), state)
    world.clock.advance(5)
    assert await world.store.cancel(LOCAL, [ref.job_id], "not needed") == [Cancelling.CANCELLED]
    info = await world.info(ref.job_id)
    assert (info.state, info.reason, instant(info.finished_at)) == (State.CANCELLED, "not needed", world.clock.now())
    assert not info.attempts
    assert not info.cancelling


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_what_has_ended_stays_as_it_is(world: World, state: State) -> None:
    ref = await stand(world, await world.node(), state)
    async with world.unchanged():
        assert await world.store.cancel(LOCAL, [ref.job_id], "too late") == [Cancelling.ENDED]


async def test_what_runs_is_asked_to_stop(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    assert await world.store.cancel(LOCAL, [job_id], "changed my mind") == [Cancelling.REQUESTED]
    info = await world.info(job_id)
    assert (info.state, info.cancelling, info.finished_at) == (State.RUNNING, True, None)
    assert (await actor.renew()).cancels == ((claimed.ref, "changed my mind"),)


async def test_the_first_reason_stays(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    await actor.take()
    await world.store.cancel(LOCAL, [job_id], "first")
    assert await world.store.cancel(LOCAL, [job_id], "second") == [Cancelling.REQUESTED]
    assert [why for _, why in (await actor.renew()).cancels] == ["first"]


async def test_what_is_claimed_ahead_is_not_started_any_more(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.ahead()
    assert await world.store.cancel(LOCAL, [job_id], "not needed") == [Cancelling.REQUESTED]
    (start,) = await world.store.start(SYSTEM, [claimed.ref])
    assert start.verdict is not Verdict.APPLIED
    assert (start.started_at, start.cancel) == (None, "not needed")
    assert await actor.hand_back(claimed.ref) == [Verdict.APPLIED]
    info = await world.info(job_id)
    assert (info.state, info.reason, instant(info.finished_at)) == (State.CANCELLED, "not needed", world.clock.now())
    assert not info.attempts


async def test_each_of_a_batch_gets_its_own_answer(world: World) -> None:
    actor = await world.node()
    running = await world.one()
    await actor.take()
    over = await world.one()
    await actor.run(FATAL)
    waiting, later = await world.one(), await world.one(delay=HOUR)
    answers = await world.store.cancel(LOCAL, [waiting, NOBODY, running, over, later], "all of it")
    assert answers == [
        Cancelling.CANCELLED,
        Cancelling.UNKNOWN,
        Cancelling.REQUESTED,
        Cancelling.ENDED,
        Cancelling.CANCELLED,
    ]
    assert await world.store.cancel(LOCAL, [], "nothing") == []


async def test_a_job_named_twice_is_cancelled_once(world: World) -> None:
    job_id = await world.one()
    answers = await world.store.cancel(LOCAL, [job_id, job_id], "twice")
    assert answers[0] is Cancelling.CANCELLED
    assert (await world.info(job_id)).state is State.CANCELLED


# -- replay -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
async def test_a_replay_starts_the_budget_again_and_the_fence_goes_on(world: World, state: State) -> None:
    actor = await world.node()
    ref = await stand(world, actor, state)
    before = await world.info(ref.job_id)
    world.clock.advance(7200)
    assert await world.store.replay(LOCAL, [ref.job_id]) == [True]
    info = await world.info(ref.job_id)
    assert (info.state, info.run_at, info.finished_at) == (State.SCHEDULED, aware(world.clock.now()), None)
    assert (info.failures, info.crashes, info.interruptions, info.replays) == (0, 0, 0, 1)
    assert (info.fence, info.attempts, info.reason) == (before.fence, before.attempts, None)
    assert await world.promote() == 1
    claimed = await actor.take(ref.job_id)
    assert (claimed.fence, claimed.number, claimed.failures) == (before.fence + 1, 2, 0)


@pytest.mark.parametrize("state", sorted(set(State) - {State.FAILED, State.CANCELLED}))
async def test_only_the_failed_and_the_cancelled_are_replayed(world: World, state: State) -> None:
    ref = await stand(world, await world.node(), state)
    async with world.unchanged():
        assert await world.store.replay(LOCAL, [ref.job_id, NOBODY]) == [False, False]


async def test_a_replayed_job_has_all_its_retries_again(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    for expected in (State.SCHEDULED, State.SCHEDULED, State.SCHEDULED, State.FAILED):
        await actor.run(BOOM, job_id)
        assert (await world.info(job_id)).state is expected
        world.clock.advance(600)
        await world.promote()
    assert (await world.info(job_id)).failures == 4
    await world.store.replay(LOCAL, [job_id])
    await world.promote()
    claimed = await actor.run(BOOM, job_id)
    assert (claimed.fence, claimed.number) == (5, 5)
    info = await world.info(job_id)
    assert (info.state, info.failures) == (State.SCHEDULED, 1)
    assert [attempt.number for attempt in info.attempts] == [1, 2, 3, 4, 5]


async def test_what_expired_can_be_replayed_and_runs(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(expires=SECOND)
    world.clock.advance(2)
    assert await world.promote() == 1
    assert await world.store.replay(LOCAL, [job_id]) == [True]
    world.clock.advance(3600)
    await world.promote()
    await actor.run(job_id=job_id)
    assert await world.state(job_id) is State.SUCCEEDED


async def test_a_replay_takes_its_place_in_line_by_the_time_of_the_replay(world: World) -> None:
    actor = await world.node()
    old = await world.one()
    await actor.run(FATAL, old)
    world.clock.advance(1)
    waiting = await world.one()
    world.clock.advance(1)
    await world.store.replay(LOCAL, [old])
    await world.promote()
    assert [claimed.job_id for claimed in await actor.claim()] == [waiting, old]


# -- hurry ------------------------------------------------------------------------------------------------------------


async def test_a_scheduled_job_can_be_hurried(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(delay=HOUR)
    world.clock.advance(5)
    assert await world.store.hurry(LOCAL, [job_id]) == [True]
    info = await world.info(job_id)
    assert (info.state, instant(info.run_at)) == (State.SCHEDULED, world.clock.now())
    assert await world.promote() == 1
    await actor.take(job_id)


async def test_a_retry_can_be_hurried_and_its_failures_still_count(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    await actor.run(BOOM, job_id)
    assert await world.store.hurry(LOCAL, [job_id]) == [True]
    assert await world.promote() == 1
    claimed = await actor.take(job_id)
    assert (claimed.failures, claimed.number, claimed.fence) == (1, 2, 2)


async def test_hurrying_what_is_due_does_not_cost_it_its_place(world: World) -> None:
    """It may be due and not yet promoted; the first instant at which it was due counts."""
    actor = await world.node()
    due = await world.one(delay=SECOND)
    world.clock.advance(2)
    later = await world.one()
    world.clock.advance(2)
    await world.store.hurry(LOCAL, [due])
    await world.promote()
    assert [claimed.job_id for claimed in await actor.claim()] == [due, later]


@pytest.mark.parametrize("state", sorted(set(State) - {State.SCHEDULED}))
async def test_only_the_scheduled_is_hurried(world: World, state: State) -> None:
    ref = await stand(world, await world.node(), state)
    async with world.unchanged():
        assert await world.store.hurry(LOCAL, [ref.job_id, NOBODY]) == [False, False]


# -- purge ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_what_has_ended_can_be_purged(world: World, state: State) -> None:
    ref = await stand(world, await world.node(), state)
    stays = await world.one(delay=HOUR)
    assert await world.store.purge(LOCAL, [ref.job_id, NOBODY]) == [True, False]
    assert set(await world.all()) == {stays}
    assert await world.store.purge(LOCAL, [ref.job_id]) == [False]


@pytest.mark.parametrize("state", sorted(set(State) - TERMINAL))
async def test_what_lives_is_not_purged(world: World, state: State) -> None:
    ref = await stand(world, await world.node(), state)
    async with world.unchanged():
        assert await world.store.purge(LOCAL, [ref.job_id]) == [False]


async def test_a_purge_takes_history_and_output_along(world: World) -> None:
    actor = await world.node()
    empty = world.backend.contents()
    job_id = await world.one()
    claimed = await actor.take()
    await actor.say(claimed.ref, 0)
    await actor.finish(claimed, FATAL)
    await world.store.purge(LOCAL, [job_id])
    assert await world.store.output(LOCAL, job_id, Position(), 10) == []
    left = {name: len(rows) for name, rows in world.backend.contents().items()}
    stays = {"outbox": left["outbox"], "audit": 1}  # the row of the purge itself
    assert left == {name: len(rows) for name, rows in empty.items()} | stays


async def test_a_new_job_inherits_nothing_from_a_purged_one(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    await actor.say(claimed.ref, 0)
    await actor.finish(claimed)
    await world.store.purge(LOCAL, [job_id])
    heir = await world.info(await world.one())
    assert (heir.fence, heir.attempts, heir.result) == (0, [], None)
    assert await world.store.output(LOCAL, heir.id, Position(), 10) == []
    assert await actor.say(claimed.ref, 1) is Verdict.STALE, "the late words of the purged one"
    assert await world.store.output(LOCAL, heir.id, Position(), 10) == []
