"""Jobs that wait for others, run again: replays, reopened children, whole graphs."""

from __future__ import annotations

from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.model.outcome import Succeeded
from rota.model.principal import LOCAL
from rota.model.times import HOUR, instant
from rota.store.values import Position
from tests.contracts.graphs import FAILURE, FINISH, all_settled
from tests.contracts.world import DONE, FATAL, World

# -- again ------------------------------------------------------------------------------------------------------------


async def test_a_replay_reopens_what_was_skipped_because_of_it(world: World) -> None:
    actor = await world.node()
    top = world.job()
    middle, other = world.child(top.id), world.job()
    bottom, joint = world.child(middle.id), world.child(middle.id, other.id)
    finish, failed = world.child(top.id, need=FINISH), world.child(top.id, need=FAILURE)
    await world.submit(top, other, middle, bottom, joint, finish, failed)
    await actor.run(FATAL, top.id)
    for _ in range(3):  # the other, and those for which the failure was right
        await actor.run(DONE)
    assert await world.states(middle.id, bottom.id, joint.id) == [State.SKIPPED] * 3
    world.clock.advance(100)
    assert await world.store.replay(LOCAL, [top.id]) == [True]
    assert await world.states(top.id, middle.id, bottom.id, joint.id) == [State.SCHEDULED, *[State.BLOCKED] * 3]
    assert await world.states(other.id, finish.id, failed.id) == [State.SUCCEEDED] * 3, "what went on stays"
    info = await world.info(middle.id)
    assert (info.reason, info.finished_at, info.replays, (await world.info(top.id)).replays) == (None, None, 0, 1)
    await world.promote()
    assert (await actor.run(DONE, top.id)).fence == 2
    await actor.run(DONE, middle.id)
    assert await world.states(bottom.id, joint.id) == [State.READY, State.READY], "the other had ended before"


async def test_what_was_skipped_for_two_reasons_is_skipped_again_for_the_other(world: World) -> None:
    actor = await world.node()
    first, second = await world.several(2)
    (child,) = await world.submit(world.child(first, second))
    (grandchild,) = await world.submit(world.child(child))
    await actor.run(FATAL, first)
    await actor.run(FATAL, second)
    assert await world.store.replay(LOCAL, [first]) == [True]
    await all_settled(world)
    info = await world.info(child)
    assert (info.state, info.reason) == (State.SKIPPED, f"its parent {second} (true) failed")
    assert await world.state(grandchild) is State.SKIPPED
    assert await world.store.replay(LOCAL, [second]) == [True]
    await world.promote()
    assert await world.states(child, grandchild) == [State.BLOCKED, State.BLOCKED]
    await actor.run(DONE)
    await actor.run(DONE)
    assert await world.state(child) is State.READY


async def test_a_skip_for_nobody_else_stays_when_another_is_replayed(world: World) -> None:
    actor = await world.node()
    first, second = await world.several(2)
    (child,) = await world.submit(world.child(first))
    await actor.run(FATAL, first)
    await actor.run(FATAL, second)
    await world.store.replay(LOCAL, [second])
    assert await world.state(child) is State.SKIPPED


async def test_a_replayed_child_counts_its_ended_parents_at_once(world: World) -> None:
    actor = await world.node()
    first, second = await world.several(2)
    (child,) = await world.submit(world.child(first, second))
    await actor.run(DONE, first)
    await actor.run(DONE, second)
    await actor.run(FATAL, child)
    world.clock.advance(9)
    assert await world.store.replay(LOCAL, [child]) == [True]
    await all_settled(world)
    info = await world.info(child)
    assert (info.state, instant(info.run_at), info.replays) == (State.READY, world.clock.now(), 1)
    claimed = await actor.take(child)
    assert (claimed.fence, claimed.number, claimed.parents) == (2, 2, 2)


async def test_a_dead_letter_is_replayed_after_its_parents_were_purged(world: World) -> None:
    """Dead letters are kept for longer than what succeeded."""
    actor = await world.node()
    parent = await world.one()
    (child,) = await world.submit(world.child(parent))
    await actor.run(DONE, parent)
    await actor.run(FATAL, child)
    await world.store.purge(LOCAL, [parent])
    assert await world.store.replay(LOCAL, [child]) == [True]
    await all_settled(world)
    await world.promote()
    await actor.run(DONE, child)


async def test_a_child_that_was_cancelled_waits_again_for_what_still_runs(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    claimed = await actor.take(parent)
    (child,) = await world.submit(world.child(parent))
    await world.store.cancel(LOCAL, [child], "no")
    assert await world.store.replay(LOCAL, [child]) == [True]
    assert await world.state(child) is State.BLOCKED
    await actor.finish(claimed)
    assert await world.state(child) is State.READY


async def test_a_skipped_one_alone_is_not_replayed(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    (child,) = await world.submit(world.child(parent))
    await actor.run(FATAL, parent)
    async with world.unchanged():
        assert await world.store.replay(LOCAL, [child]) == [False]
    assert await world.store.replay(LOCAL, [child], again=True) == [True]
    await all_settled(world)
    assert await world.state(child) is State.SKIPPED, "its parent has still failed"


async def test_a_whole_graph_runs_again_in_its_order(world: World) -> None:
    actor = await world.node()
    top = world.job()
    left, right = world.child(top.id), world.child(top.id)
    bottom = world.child(left.id, right.id)
    graph = [job.id for job in (top, left, right, bottom)]
    await world.submit(top, left, right, bottom)
    for fence in (1, 2, 3):
        ran: list[str] = []
        while claimed := await actor.claim():
            for one in claimed:
                assert one.fence == fence
                assert await actor.finish(one, Succeeded(str(fence))) is Verdict.APPLIED
            ran += sorted(one.job_id for one in claimed)
        assert ran == [top.id, *sorted((left.id, right.id)), bottom.id]
        assert set(await world.states(*graph)) == {State.SUCCEEDED}
        assert await world.store.replay(LOCAL, graph, again=True) == [True] * 4
        assert await world.states(*graph) == [State.SCHEDULED, *[State.BLOCKED] * 3]
        await world.promote()
    info = await world.info(bottom.id)
    assert (info.fence, info.replays, [one.outcome for one in info.attempts]) == (3, 3, ["succeeded"] * 3)


async def test_a_parent_alone_runs_again_and_its_children_stay_as_they_are(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    (done,) = await world.submit(world.child(parent))
    await actor.run(DONE, parent)
    await actor.run(DONE, done)
    (waits,) = await world.submit(world.child(parent, delay=HOUR))
    await world.store.replay(LOCAL, [parent], again=True)
    await world.promote()
    await actor.run(FATAL, parent)
    await all_settled(world)
    assert await world.states(done, waits) == [State.SUCCEEDED, State.SCHEDULED]


async def test_words_of_an_old_attempt_are_stale_after_a_rerun(world: World) -> None:
    actor = await world.node()
    parent = await world.one()
    (child,) = await world.submit(world.child(parent))
    old = await actor.run(DONE, parent)
    await actor.run(DONE, child)
    await world.store.replay(LOCAL, [parent, child], again=True)
    await world.promote()
    new = await actor.take(parent)
    assert new.fence == old.fence + 1
    assert await actor.finish(old, FATAL) is Verdict.STALE
    assert await actor.say(old.ref, 0) is Verdict.STALE
    assert await world.states(parent, child) == [State.RUNNING, State.BLOCKED]
    assert await world.store.output(LOCAL, parent, Position(), 9) == []
