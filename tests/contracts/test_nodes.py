"""Nodes: joining, renewing, leaving, and what becomes of the work of those that died."""

from __future__ import annotations

import pytest

from rota.errors import InvalidInput
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.model.node import NewNode, News, NodeInfo, NodeState
from rota.model.outcome import CrashRule, Ending
from rota.model.principal import LOCAL, SYSTEM
from rota.model.retry import Retry
from rota.model.task import TaskInfo
from rota.model.times import HOUR, SECOND, aware, instant
from rota.store.base import Store
from tests.contracts.world import BOOM, DONE, LEASE, STOPPED, World

RULE = CrashRule(limit=3, delay=5 * SECOND)


# -- joining and leaving ----------------------------------------------------------------------------------------------


async def test_a_node_is_shown_as_it_registered(world: World) -> None:
    node = NewNode("box-1", "inc-1", ("control", "worker"), {"default": 8, "mail": 2}, "1.2.3", 10 * SECOND)
    await world.store.register(SYSTEM, node, [])
    now = world.clock.now()
    assert await world.store.nodes(SYSTEM) == [
        NodeInfo(
            id="box-1",
            incarnation="inc-1",
            roles=("control", "worker"),
            queues={"default": 8, "mail": 2},
            version="1.2.3",
            state=NodeState.LIVE,
            started_at=aware(now),
            seen_at=aware(now),
            lease=10 * SECOND,
            beats=0,
        )
    ]


async def test_an_id_that_a_living_node_uses_is_refused(world: World) -> None:
    await world.node("box")
    async with world.unchanged():
        with pytest.raises(InvalidInput, match="box"):
            await world.node("box")
    await world.node("another-box")


async def test_a_stopping_node_still_uses_its_id(world: World) -> None:
    await (await world.node("box")).renew(stopping=True)
    with pytest.raises(InvalidInput):
        await world.node("box")


async def reborn(world: World, name: str, *replaces: str) -> NewNode:
    node = NewNode(name, world.chance.token(), ("worker",), {"default": 4}, "1.0", LEASE)
    await world.store.register(SYSTEM, node, [], replaces)
    return node


async def test_an_incarnation_may_replace_the_one_before_it(world: World) -> None:
    """The same process has lost its lease or its way, has stopped all work and starts anew."""
    before, bystander = await world.node("box"), await world.node("other")
    await world.several(3)
    started, ahead = await before.claim(2, start=1)
    (theirs,) = await bystander.claim()
    node = await reborn(world, "box", before.incarnation, "never-seen")
    assert (await before.seen()).state is NodeState.LEFT
    assert (await world.info(started.job_id)).interruptions == 1
    assert await world.states(started.job_id, ahead.job_id, theirs.job_id) == [
        State.READY,
        State.READY,
        State.RUNNING,
    ]
    assert (await world.store.renew(SYSTEM, node.incarnation)).known
    assert not (await before.renew()).known
    assert await before.finish(started) is Verdict.STALE


async def test_one_that_was_declared_dead_may_be_replaced_too(world: World) -> None:
    before = await world.node("box")
    await before.die()
    await reborn(world, "box", before.incarnation)
    assert (await before.seen()).state is NodeState.DEAD, "it can not leave any more"


async def test_a_refused_replacement_changes_nothing(world: World) -> None:
    before, _ = await world.node("box"), await world.node("taken")
    await world.one()
    await before.take()
    async with world.unchanged():
        with pytest.raises(InvalidInput, match="taken"):
            await reborn(world, "taken", before.incarnation)
    assert (await before.renew()).known


@pytest.mark.parametrize("how", ["left", "died"])
async def test_an_id_can_come_back(world: World, how: str) -> None:
    first = await world.node("box")
    await (first.leave() if how == "left" else first.die())
    second = await world.node("box")
    assert [node.incarnation for node in await world.store.nodes(SYSTEM)] == [second.incarnation]


async def test_the_refused_is_not_a_node(world: World) -> None:
    first = await world.node("box")
    await world.one()
    with pytest.raises(InvalidInput):
        await world.store.register(SYSTEM, NewNode("box", "second", ("worker",), {}, "1", LEASE), [])
    assert await world.store.renew(SYSTEM, "second") == News(known=False)
    assert not world.store.guards("second")
    assert (await first.renew()).known


async def test_the_past_is_shown_only_when_asked_for(world: World) -> None:
    living, left, dead = await world.node("living"), await world.node("left"), await world.node("dead")
    await left.leave()
    await dead.die()
    assert [node.incarnation for node in await world.store.nodes(SYSTEM)] == [living.incarnation]
    states = {node.id: node.state for node in await world.store.nodes(SYSTEM, past=True)}
    assert states == {"living": NodeState.LIVE, "left": NodeState.LEFT, "dead": NodeState.DEAD}


async def test_a_node_shows_how_much_it_runs(world: World) -> None:
    busy, idle = await world.node(), await world.node()
    await world.several(3)
    await busy.claim(2)
    assert ((await busy.seen()).running, (await idle.seen()).running) == (2, 0)


async def test_a_node_of_this_process_is_not_gone(world: World) -> None:
    assert not (await (await world.node()).seen()).gone


async def test_tasks_are_offered_with_their_options(world: World) -> None:
    old = TaskInfo("mail", ("to",), ("to",))
    retry = Retry(5, "1s..1m", 0.2, {"KeyError": "fatal"})
    new = TaskInfo("mail", ("to", "cc"), queue="mail", priority=2, retry=retry, timeout=30 * SECOND)
    other = TaskInfo("any", open=True)
    await world.node(tasks=[old])
    assert await world.store.tasks(LOCAL) == [old]
    await world.node(tasks=[new, other])
    assert await world.store.tasks(LOCAL) == [other, new]


# -- renewing ---------------------------------------------------------------------------------------------------------


async def test_renewing_counts_and_is_seen(world: World) -> None:
    actor = await world.node()
    for beats in (1, 2, 3):
        world.clock.advance(1)
        assert await actor.renew() == News(known=True)
        seen = await actor.seen()
        assert (seen.beats, seen.seen_at, seen.state) == (beats, aware(world.clock.now()), NodeState.LIVE)


async def test_a_node_that_stops_says_so_and_never_takes_it_back(world: World) -> None:
    actor = await world.node()
    await actor.renew(stopping=True)
    assert (await actor.seen()).state is NodeState.STOPPING
    assert (await actor.renew()).known
    assert (await actor.seen()).state is NodeState.STOPPING


@pytest.mark.parametrize("how", ["left", "died", "unknown"])
async def test_who_is_not_alive_is_told_so(world: World, how: str) -> None:
    actor = await world.node()
    if how == "left":
        await actor.leave()
    elif how == "died":
        await actor.die()
    else:
        actor.incarnation = "never-seen"
    async with world.unchanged():
        assert await actor.renew() == News(known=False)


async def test_a_node_hears_of_its_own_cancels_only(world: World) -> None:
    one, two = await world.node(), await world.node()
    await world.several(4)
    mine, his = await one.claim(2), await two.claim(2)
    await world.store.cancel(LOCAL, [mine[1].job_id, his[0].job_id], "enough")
    assert (await one.renew()).cancels == ((mine[1].ref, "enough"),)
    assert (await two.renew()).cancels == ((his[0].ref, "enough"),)
    await one.finish(mine[1], STOPPED)
    assert (await one.renew()).cancels == (), "it is over"


async def test_a_node_hears_what_it_holds(world: World) -> None:
    """So that it can tell what was taken away from it, or given to it by a claim whose answer got lost."""
    one, two = await world.node(), await world.node()
    await world.several(4)
    started, ahead = await one.claim(2, start=1)
    (his, _) = await two.claim()
    assert set((await one.renew()).holds) == {started.ref, ahead.ref}
    assert his.ref in (await two.renew()).holds
    await one.hand_back(ahead.ref)
    await one.finish(started)
    assert (await one.renew()).holds == ()


# -- leaving ----------------------------------------------------------------------------------------------------------


async def test_what_a_leaving_node_still_holds_goes_back_as_interrupted(world: World) -> None:
    actor = await world.node()
    await world.several(2)
    started, ahead = await actor.claim(start=1)
    await actor.leave()
    info = await world.info(started.job_id)
    assert (info.state, info.interruptions, info.crashes, info.failures) == (State.READY, 1, 0, 0)
    assert [attempt.outcome for attempt in info.attempts] == [Ending.INTERRUPTED]
    other = await world.info(ahead.job_id)
    assert (other.state, other.interruptions, other.attempts) == (State.READY, 0, [])
    assert (await actor.seen()).state is NodeState.LEFT


async def test_leaving_again_changes_nothing(world: World) -> None:
    actor = await world.node()
    await world.one()
    await actor.leave()
    await (await world.node()).take()
    async with world.unchanged():
        await actor.leave()


async def test_the_dead_can_not_leave(world: World) -> None:
    actor = await world.node()
    await world.one()
    await actor.take()
    await actor.die()
    async with world.unchanged():
        await actor.leave()


async def test_late_words_of_one_that_left_are_stale(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.take()
    await actor.leave()
    async with world.unchanged():
        assert await actor.finish(claimed, DONE) is Verdict.STALE
        assert await actor.say(claimed.ref, 0) is Verdict.STALE


# -- taking over ------------------------------------------------------------------------------------------------------


async def test_the_work_of_a_silent_node_is_moved_on(world: World) -> None:
    actor = await world.node("box")
    started, ahead = await world.several(2)
    await actor.claim(start=1)
    beats = (await actor.seen()).beats
    world.clock.advance(11)
    moved = await world.store.take_over(SYSTEM, actor.incarnation, beats, RULE)
    assert moved is not None
    assert sorted(moved) == sorted([started, ahead])
    assert (await actor.seen()).state is NodeState.DEAD
    info = await world.info(started)
    assert (info.state, info.crashes, info.failures, info.node) == (State.READY, 1, 0, None)
    (attempt,) = info.attempts
    assert (attempt.outcome, instant(attempt.finished_at), attempt.node) == (Ending.CRASHED, world.clock.now(), "box")
    assert attempt.error is not None
    assert "box" in attempt.error.message


async def test_one_that_has_renewed_meanwhile_keeps_its_work(world: World) -> None:
    actor = await world.node()
    await world.one()
    claimed = await actor.take()
    seen = (await actor.seen()).beats
    await actor.renew()
    async with world.unchanged():
        assert await world.store.take_over(SYSTEM, actor.incarnation, seen, RULE) is None
    assert await actor.finish(claimed) is Verdict.APPLIED


@pytest.mark.parametrize("how", ["left", "died", "unknown"])
async def test_only_the_living_are_taken_over(world: World, how: str) -> None:
    actor = await world.node()
    beats = 0
    if how == "left":
        await actor.leave()
    elif how == "died":
        await actor.die()
    else:
        actor.incarnation = "never-seen"
    async with world.unchanged():
        assert await world.store.take_over(SYSTEM, actor.incarnation, beats, RULE) is None


async def test_one_whose_process_lives_is_not_taken_for_gone(world: World) -> None:
    actor = await world.node()
    await world.one()
    await actor.take()
    async with world.unchanged():
        assert await world.store.take_over(SYSTEM, actor.incarnation, None, RULE) is None


async def test_only_one_of_two_takes_over(world: World, another: Store) -> None:
    actor = await world.node()
    job_id = await world.one()
    await actor.take()
    assert await world.store.take_over(SYSTEM, actor.incarnation, 0, RULE) == [job_id]
    assert await another.take_over(SYSTEM, actor.incarnation, 0, RULE) is None
    assert (await world.info(job_id)).crashes == 1


async def test_a_take_over_leaves_the_work_of_others_alone(world: World) -> None:
    doomed, healthy = await world.node(), await world.node()
    await world.several(4)
    await doomed.claim(2)
    theirs = await healthy.claim()
    before = [await world.info(one.job_id) for one in theirs]
    await doomed.die()
    assert [await world.info(one.job_id) for one in theirs] == before


async def test_the_first_crash_restarts_at_once_the_second_later_the_third_never(world: World) -> None:
    job_id = await world.one(retry=Retry(0), priority=1)
    place = (await world.info(job_id)).run_at
    for crash in (1, 2, 3):
        actor = await world.node(f"box-{crash}")
        await actor.take(job_id)
        world.clock.advance(1)
        assert await actor.die(RULE) == [job_id]
        info = await world.info(job_id)
        assert (info.crashes, info.failures, info.interruptions) == (crash, 0, 0)
        if crash == 1:
            assert (info.state, info.run_at) == (State.READY, place)
        elif crash == 2:
            assert (info.state, instant(info.run_at)) == (State.SCHEDULED, world.clock.now() + 5 * SECOND)
            world.clock.advance(4.999_999)
            assert await world.promote() == 0
            world.clock.advance(0.000_001)
            assert await world.promote() == 1
        else:
            assert (info.state, instant(info.finished_at)) == (State.FAILED, world.clock.now())
    assert [attempt.outcome for attempt in info.attempts] == [Ending.CRASHED] * 3
    assert info.error is not None
    assert info.error.type == "rota.Crash"
    assert "3" in info.error.message


async def test_crashes_do_not_use_up_the_retries(world: World) -> None:
    job_id = await world.one(retry=Retry(1, "1s", 0))
    for _ in range(2):
        doomed = await world.node()
        await doomed.take(job_id)
        await doomed.die(RULE)
        world.clock.advance(10)
        await world.promote()
    actor = await world.node()
    await actor.run(BOOM, job_id)
    assert (await world.info(job_id)).state is State.SCHEDULED


async def test_what_was_not_started_is_not_counted(world: World) -> None:
    job_id = await world.one()
    for fence in (1, 2, 3, 4):
        actor = await world.node()
        claimed = await actor.ahead(job_id)
        assert claimed.fence == fence
        assert await actor.die(CrashRule(limit=1)) == [job_id]
        info = await world.info(job_id)
        assert (info.state, info.crashes, info.interruptions, info.attempts) == (State.READY, 0, 0, [])


async def test_many_jobs_crash_together_each_by_its_own_count(world: World) -> None:
    fresh = await world.several(20)
    hardened: list[str] = []
    first = await world.node()
    await first.claim(10)
    await first.die(RULE)
    hardened = fresh[:10]
    second = await world.node()
    assert len(await second.claim()) == 20
    assert len(await second.die(RULE)) == 20
    infos = await world.all()
    assert {infos[job].state for job in hardened} == {State.SCHEDULED}
    assert {infos[job].state for job in fresh[10:]} == {State.READY}


async def test_late_words_of_the_dead_are_stale(world: World) -> None:
    actor = await world.node()
    await world.several(2)
    started, ahead = await actor.claim(start=1)
    await actor.die()
    async with world.unchanged():
        assert await actor.finish(started, DONE) is Verdict.STALE
        assert await actor.say(started.ref, 0) is Verdict.STALE
        assert [a.verdict for a in await world.store.start(SYSTEM, [ahead.ref])] == [Verdict.STALE]
        assert await actor.hand_back(started.ref) == [Verdict.STALE]
        assert await actor.claim() == []
    await (await world.node()).run(DONE)
    async with world.unchanged():
        assert await actor.finish(started, DONE) is Verdict.STALE


# -- rescue -----------------------------------------------------------------------------------------------------------


async def test_there_is_nothing_to_rescue_as_long_as_nobody_writes_by_hand(world: World) -> None:
    actor, left, dead = await world.node(), await world.node(), await world.node()
    await world.several(5)
    for one in (actor, left, dead):
        await one.claim(1)
    await left.leave()
    await dead.die()
    async with world.unchanged():
        assert await world.store.rescue(SYSTEM, RULE) == []


@pytest.mark.parametrize("how", ["lost", "dead"])
async def test_running_jobs_that_no_living_node_holds_are_rescued(world: World, how: str) -> None:
    lost, healthy = await world.node(), await world.node()
    await world.several(3)
    (started, ahead), (other,) = await lost.claim(2, start=1), await healthy.claim()
    before = await world.info(other.job_id)
    (world.backend.lose_node if how == "lost" else world.backend.bury_node)(lost.incarnation)
    assert sorted(await world.store.rescue(SYSTEM, RULE)) == sorted([started.job_id, ahead.job_id])
    info = await world.info(started.job_id)
    assert (info.state, info.crashes, [a.outcome for a in info.attempts]) == (State.READY, 1, [Ending.CRASHED])
    assert (await world.info(ahead.job_id)).state is State.READY
    assert await world.info(other.job_id) == before
    assert await world.store.finish(SYSTEM, []) == []
    assert await lost.finish(started) is Verdict.STALE


async def test_an_idle_store_takes_nobody_over(world: World) -> None:
    actor = await world.node()
    await world.one(delay=HOUR)
    assert await actor.die() == []
