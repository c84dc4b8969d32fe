"""How attempts end: every ending, what is counted, what is kept, and the cancel that wins."""

from __future__ import annotations

import json

import msgspec
import pytest

from rota.model import outcome
from rota.model.job import AttemptInfo, Verdict
from rota.model.lifecycle import State
from rota.model.limits import Key
from rota.model.outcome import Crashed, CrashRule, Ending, Outcome, Problem, Usage
from rota.model.principal import LOCAL, SYSTEM
from rota.model.requirements import Requirements
from rota.model.retry import Retry
from rota.model.times import HOUR, MINUTE, SECOND, aware, instant
from rota.views.jobs import JobView, UsageView
from tests.contracts.world import BOOM, BROKEN, DONE, FATAL, GIVEN_UP, NAP, STOPPED, World, settled


async def test_a_success_keeps_its_result(world: World) -> None:
    actor = await world.node("box")
    job_id = await world.one()
    started = world.clock.now()
    claimed = await actor.take()
    world.clock.advance(2)
    result = json.dumps({"text": "naïve ☃", "list": [1, None, 2.5]})
    assert await actor.finish(claimed, outcome.Succeeded(result, exit_code=0)) is Verdict.APPLIED
    info = await world.info(job_id)
    assert (info.state, info.result, info.error) == (State.SUCCEEDED, json.loads(result), None)
    assert (info.started_at, info.finished_at) == (aware(started), aware(world.clock.now()))
    assert (info.node, info.reason) == (None, None)
    assert info.attempts == [
        AttemptInfo(1, 1, "box", aware(started), aware(world.clock.now()), Ending.SUCCEEDED, 0, None)
    ]
    assert (info.failures, info.crashes, info.interruptions, info.replays) == (0, 0, 0, 0)


@pytest.mark.parametrize("result", ["null", "0", '""', "[]", "{}", "false", "1e300", '"' + "x" * 100_000 + '"'])
async def test_any_json_may_be_a_result(world: World, result: str) -> None:
    actor = await world.node()
    job_id = await world.one()
    await actor.run(outcome.Succeeded(result))
    assert (await world.info(job_id)).result == json.loads(result)


async def test_a_failure_is_tried_again_after_its_back_off(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(3, "10s..1m", 0), priority=3)
    claimed = await actor.take()
    world.clock.advance(2)
    await actor.finish(claimed, BOOM)
    info = await world.info(job_id)
    assert (info.state, instant(info.run_at)) == (State.SCHEDULED, world.clock.now() + 10 * SECOND)
    assert info.finished_at is None
    assert (info.failures, info.crashes, info.interruptions) == (1, 0, 0)
    assert (info.error, info.reason, info.node) == (BOOM.problem, "boom", None)
    (attempt,) = info.attempts
    assert (attempt.outcome, attempt.exit_code, attempt.error) == (Ending.FAILED, 1, BOOM.problem)
    world.clock.advance(9.999_999)
    assert await world.promote() == 0
    world.clock.advance(0.000_001)
    assert await world.promote() == 1
    claimed = await actor.take(job_id)
    assert (claimed.number, claimed.failures, claimed.rank) == (2, 1, world.clock.now() + 3 * MINUTE)


async def test_the_last_failure_goes_to_the_dead_letters(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(2, "1s", 0))
    for _ in range(3):
        await actor.run(BOOM, job_id)
        world.clock.advance(1)
        await world.promote()
    info = await world.info(job_id)
    assert (info.state, info.failures, info.error, info.reason) == (State.FAILED, 3, BOOM.problem, "boom")
    assert [(a.number, a.fence, a.outcome) for a in info.attempts] == [(n, n, Ending.FAILED) for n in (1, 2, 3)]
    assert await actor.claim() == []


async def test_a_success_after_failures_shows_the_success(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(2, "1s", 0))
    await actor.run(BOOM, job_id)
    world.clock.advance(1)
    await world.promote()
    await actor.run(outcome.Succeeded("42"), job_id)
    info = await world.info(job_id)
    assert (info.state, info.result, info.error, info.reason) == (State.SUCCEEDED, 42, None, None)
    assert (info.failures, [a.error for a in info.attempts]) == (1, [BOOM.problem, None])


SLOW = outcome.TimedOut(Problem("rota.Timeout", "timed out after 1s"), exit_code=-9)
TABLE: list[tuple[Outcome, State, Ending, tuple[int, int], str | None]] = [
    (DONE, State.SUCCEEDED, Ending.SUCCEEDED, (0, 0), None),
    (BOOM, State.SCHEDULED, Ending.FAILED, (1, 0), "boom"),
    (FATAL, State.FAILED, Ending.FAILED, (1, 0), "hopeless"),
    (SLOW, State.SCHEDULED, Ending.TIMED_OUT, (1, 0), "timed out after 1s"),
    (NAP, State.SCHEDULED, Ending.SNOOZED, (0, 0), "not yet"),
    (GIVEN_UP, State.CANCELLED, Ending.CANCELLED, (0, 0), "the task gave up"),
    (STOPPED, State.READY, Ending.INTERRUPTED, (0, 1), "its node stopped"),
    (BROKEN, State.FAILED, Ending.SET_ASIDE, (0, 0), "no task of that name"),
]


@pytest.mark.parametrize(("result", "state", "ending", "counted", "reason"), TABLE, ids=[row[2] for row in TABLE])
async def test_every_ending_has_its_state_its_word_and_its_count(
    world: World, result: Outcome, state: State, ending: Ending, counted: tuple[int, int], reason: str | None
) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    world.clock.advance(1)
    await actor.finish(claimed, result)
    info = await world.info(job_id)
    assert (info.state, info.reason) == (state, reason)
    assert (info.failures, info.interruptions, info.crashes) == (*counted, 0)
    (attempt,) = info.attempts
    assert (attempt.outcome, attempt.error) == (ending, getattr(result, "problem", None))
    assert attempt.exit_code == getattr(result, "exit_code", None)
    assert (instant(attempt.started_at), instant(attempt.finished_at)) == (claimed.started_at, world.clock.now())
    assert info.error == attempt.error
    assert info.finished_at == (aware(world.clock.now()) if info.ended else None)


async def test_a_snooze_comes_back_when_it_said(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(0))
    for nap in range(1, 4):
        await actor.run(NAP, job_id)
        info = await world.info(job_id)
        assert (info.state, instant(info.run_at)) == (State.SCHEDULED, world.clock.now() + NAP.delay)
        assert (info.failures, len(info.attempts)) == (0, nap), "it uses up no retries"
        world.clock.advance(30)
        assert await world.promote() == 1


async def test_an_interruption_makes_it_ready_at_once_and_uses_up_no_retries(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(0))
    before = await world.info(job_id)
    for count in (1, 2, 3):
        world.clock.advance(5)
        await actor.run(STOPPED, job_id)
        info = await world.info(job_id)
        assert (info.state, info.interruptions, info.failures) == (State.READY, count, 0)
        assert info.run_at == before.run_at


async def test_failures_interruptions_and_crashes_are_counted_apart(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(9, "1s", 0))
    for result in (BOOM, STOPPED, BOOM, NAP):
        await actor.run(result, job_id)
        world.clock.advance(60)
        await world.promote()
    await actor.take(job_id)
    await actor.die()
    info = await world.info(job_id)
    assert (info.failures, info.interruptions, info.crashes) == (2, 1, 1)
    words = [attempt.outcome for attempt in info.attempts]
    assert words == [Ending.FAILED, Ending.INTERRUPTED, Ending.FAILED, Ending.SNOOZED, Ending.CRASHED]
    assert [attempt.number for attempt in info.attempts] == [1, 2, 3, 4, 5]


async def test_crashes_of_executors_count_with_those_of_nodes(world: World) -> None:
    """And the next claim tells how many there were, with keys or without."""
    crashed = Crashed(Problem("rota.ExecutorCrashed", "killed by SIGSEGV"))
    for requirements in (Requirements(), Requirements(keys=(Key("mutex", 1),))):
        job_id = await world.one(requirements=requirements)
        first, second = await world.node(), await world.node()
        claimed = await first.take(job_id)
        assert claimed.crashes == 0
        assert await first.store.finish(SYSTEM, [settled(claimed, crashed)]) == [Verdict.APPLIED]
        claimed = await first.take(job_id)
        assert claimed.crashes == 1
        await first.die()
        world.clock.advance(10)
        await world.store.promote(SYSTEM, 10)
        claimed = await second.take(job_id)
        assert claimed.crashes == 2
        settlement = outcome.settle(job_id, claimed.fence, Retry(9), 0, crashed, 0.0, claimed.crashes, CrashRule(3))
        assert await second.store.finish(SYSTEM, [settlement]) == [Verdict.APPLIED]
        info = await world.info(job_id)
        assert (info.state, info.crashes, info.failures) == (State.FAILED, 3, 0)


async def test_a_job_that_started_in_time_does_not_expire_between_its_attempts(world: World) -> None:
    """`expires` gives up on what has *not started* by then; a retry or a crash is no reason to lose it."""
    actor = await world.node()
    failed, crashed = await world.several(2, expires=MINUTE, retry=Retry(3, "2m", 0))
    await actor.run(BOOM, failed)
    await actor.take(crashed)
    world.clock.advance(300)
    await actor.die()
    await world.promote()
    assert await world.states(failed, crashed) == [State.READY, State.READY]
    second = await world.node()
    assert {one.job_id for one in await second.claim()} == {failed, crashed}


async def test_a_batch_of_all_endings_is_settled_each_by_its_own(world: World) -> None:
    actor = await world.node()
    jobs = await world.several(40 * len(TABLE))
    claimed = await actor.claim()
    batch = [settled(one, TABLE[place % len(TABLE)][0]) for place, one in enumerate(claimed)]
    assert set(await world.store.finish(SYSTEM, batch)) == {Verdict.APPLIED}
    infos = await world.all()
    for place, job_id in enumerate(jobs):
        _, state, ending, counted, reason = TABLE[place % len(TABLE)]
        info = infos[job_id]
        assert (info.state, info.attempts[0].outcome, info.reason) == (state, ending, reason)
        assert (info.failures, info.interruptions) == counted


# -- the cancel that wins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [BOOM, SLOW, NAP, STOPPED, GIVEN_UP], ids=lambda result: type(result).__name__)
async def test_a_job_that_was_asked_to_stop_is_not_tried_again(world: World, result: Outcome) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    await world.store.cancel(LOCAL, [job_id], "changed my mind")
    world.clock.advance(1)
    assert await actor.finish(claimed, result) is Verdict.APPLIED
    info = await world.info(job_id)
    assert (info.state, instant(info.finished_at), info.cancelling) == (State.CANCELLED, world.clock.now(), False)
    if result is not GIVEN_UP:
        assert info.reason == "changed my mind"
    assert len(info.attempts) == 1
    assert await actor.finish(claimed, result) is Verdict.ALREADY
    world.clock.advance(3600)
    assert await world.promote() == 0
    assert await actor.claim() == []


async def test_work_that_was_done_before_the_cancel_reached_it_stays_done(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    await world.store.cancel(LOCAL, [job_id], "too late")
    assert await actor.finish(claimed, outcome.Succeeded("1")) is Verdict.APPLIED
    info = await world.info(job_id)
    assert (info.state, info.result, info.cancelling) == (State.SUCCEEDED, 1, False)


@pytest.mark.parametrize("started", [True, False], ids=["started", "claimed ahead"])
@pytest.mark.parametrize("crashes", [0, 1])
async def test_a_job_that_was_asked_to_stop_does_not_survive_its_node(
    world: World, started: bool, crashes: int
) -> None:
    job_id = await world.one()
    for _ in range(crashes):
        doomed = await world.node()
        await doomed.take(job_id)
        await doomed.die()
    actor = await world.node()
    await actor.take(job_id, started)
    await world.store.cancel(LOCAL, [job_id], "changed my mind")
    await actor.die()
    info = await world.info(job_id)
    assert (info.state, info.reason, info.cancelling) == (State.CANCELLED, "changed my mind", False)


async def test_a_job_that_was_asked_to_stop_does_not_outlast_its_node(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    await actor.take(job_id)
    await world.store.cancel(LOCAL, [job_id], "changed my mind")
    await actor.leave()
    assert (await world.info(job_id)).state is State.CANCELLED


async def test_a_cancel_does_not_haunt_a_replay(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(delay=HOUR)
    await world.store.hurry(LOCAL, [job_id])
    await world.promote()
    claimed = await actor.take(job_id)
    await world.store.cancel(LOCAL, [job_id], "changed my mind")
    await actor.finish(claimed, STOPPED)
    await world.store.replay(LOCAL, [job_id])
    await world.promote()
    claimed = await actor.take(job_id)
    assert (await actor.renew()).cancels == ()
    await actor.finish(claimed, BOOM)
    assert await world.state(job_id) is State.SCHEDULED


@pytest.mark.parametrize("usage", [None, Usage(), Usage(3_000_000, 1_200_000, 34 << 20, ("rlimits", "cgroup"))])
async def test_what_attempts_used_up_is_kept(world: World, usage: Usage | None) -> None:
    """Of the one that ends its job and of those that don't, also when the job comes back."""
    actor = await world.node()
    job_id = await world.one(retry=Retry(1, "1s", 0))
    for result in (BOOM, DONE):
        claimed = await actor.take()
        ending = msgspec.structs.replace(settled(claimed, result), usage=usage)
        assert await world.store.finish(SYSTEM, [ending]) == [Verdict.APPLIED]
        world.clock.advance(1)
        await world.promote()
    assert [one.usage for one in (await world.info(job_id)).attempts] == [usage, usage]
    await world.store.replay(LOCAL, [job_id], again=True)
    assert [one.usage for one in (await world.info(job_id)).attempts] == [usage, usage]


async def test_what_a_failure_for_good_used_up_is_kept(world: World) -> None:
    actor = await world.node()
    job_id = await world.one()
    claimed = await actor.take()
    usage = Usage(cpu_time=7, isolation=("none",))
    await world.store.finish(SYSTEM, [msgspec.structs.replace(settled(claimed, FATAL), usage=usage)])
    info = await world.info(job_id)
    assert [one.usage for one in info.attempts] == [usage]
    assert JobView.of(info).attempts[0].usage == UsageView(0, 7e-6, 0, ["none"])
