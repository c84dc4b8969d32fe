"""Jobs that run alone: nothing of their scope runs beside them or starts while they wait, and none waits for ever."""

from __future__ import annotations

from typing import Any

import pytest

from rota.model.job import Claimed, Verdict
from rota.model.lifecycle import State
from rota.model.limits import Key, Rate
from rota.model.principal import LOCAL, SYSTEM
from rota.model.requirements import Requirements
from rota.model.times import HOUR, SECOND
from rota.store.values import Cancelling, Topic
from tests.contracts.admission import (
    ENDS,
    HELD,
    READY,
    admitted,
    close,
    finish_all,
    labelled,
    lone,
    mutex,
    names,
    open_again,
)
from tests.contracts.world import ALICE, BOB, BOOM, Actor, World

# How long one that is alone may take to be sure of it.
SURE = 0.6


async def pass_by(world: World, seconds: float = SURE) -> None:
    world.clock.advance(seconds)
    await world.promote()
    await admitted(world)


async def alone(world: World, actor: Actor, job: str) -> Claimed:
    """Runs by itself at last, and nothing else does."""
    for _ in range(4):
        claimed = await actor.claim()
        if claimed:
            assert names(claimed) == [job]
            assert await actor.claim() == []
            return claimed[0]
        await pass_by(world)
    raise AssertionError("it never runs")


async def running(world: World, actor: Actor, count: int = 2, **changes: Any) -> list[Claimed]:
    await world.several(count, **changes)
    claimed = await actor.claim()
    assert len(claimed) == count
    return claimed


async def waits(world: World, actor: Actor, requirements: Requirements | None = None) -> str:
    """It has been met, and has closed its gate."""
    job = await world.one(task="lone", requirements=requirements or lone())
    assert await actor.claim() == []
    return job


# -- nothing beside it ------------------------------------------------------------------------------------------------


async def test_in_an_empty_house_it_runs_soon(world: World) -> None:
    actor = await world.node()
    await alone(world, actor, await world.one(requirements=lone()))


async def test_it_waits_for_those_that_run_and_nothing_starts_meanwhile(world: World) -> None:
    actor = await world.node()
    before = await running(world, actor)
    job = await waits(world, actor)
    later = await world.several(3, priority=0)
    for one in before:
        await pass_by(world)
        assert (await actor.claim(), await world.state(job)) == ([], HELD)
        await actor.finish(one)
    claimed = await alone(world, actor, job)
    assert (await actor.renew()).cancels == ()
    await pass_by(world, 60)
    assert await actor.claim() == [], "nothing starts beside it either"
    await actor.finish(claimed)
    await pass_by(world)
    assert names(await actor.claim()) == later


async def test_what_is_outside_its_scope_goes_on(world: World) -> None:
    actor = await world.node()
    await running(world, actor, task="other")
    job = await waits(world, actor, lone("task:db.*"))
    within, without = await world.one(task="db.dump"), await world.one(task="mail")
    theirs = await world.one(ALICE, task="db.dump")
    assert names(await actor.claim()) == [without, theirs]
    await pass_by(world)
    assert names(await actor.claim()) == [job], "others' jobs are none of its business"
    assert await world.state(within) is HELD


@pytest.mark.parametrize("where", ["queue:default", "label:db", "all", "task:true", "user:local"])
async def test_scopes_of_all_kinds(world: World, where: str) -> None:
    actor = await world.node()
    (before,) = await running(world, actor, 1, requirements=labelled("db"))
    job = await waits(world, actor, lone(where))
    await pass_by(world)
    assert await actor.claim() == []
    await actor.finish(before)
    await alone(world, actor, job)


async def test_one_that_was_claimed_ahead_does_not_start_beside_it(world: World) -> None:
    actor = await world.node()
    ahead = await actor.ahead(await world.one())
    job = await waits(world, actor)
    (start,) = await world.store.start(SYSTEM, [ahead.ref])
    assert start.verdict is Verdict.STALE
    await alone(world, actor, job)


async def test_it_is_never_claimed_ahead(world: World) -> None:
    actor = await world.node()
    await world.one(requirements=lone())
    for _ in range(3):
        assert await actor.claim(5, start=0) == []
        await pass_by(world)


async def test_its_gate_is_seen(world: World) -> None:
    actor = await world.node()
    await running(world, actor)
    job = await waits(world, actor, lone("task:t*"))
    (gate,) = await world.store.gates(LOCAL)
    assert (gate.job, gate.match.task, gate.author) == (job, "t*", "local")
    assert (await world.info(job)).reason == "waits until it is alone"


# -- two of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scopes", [("all", "all"), ("queue:default", "all"), ("task:lone", "task:true"),
                                    ("task:other", "task:lone"), ("label:a", "label:b")])  # fmt: skip
async def test_two_with_scopes_that_overlap_run_one_after_the_other(world: World, scopes: tuple[str, str]) -> None:
    actor = await world.node()
    before = await running(world, actor, 1, requirements=labelled("a", "b"))
    jobs = [await world.one(task="lone", requirements=lone(where)) for where in scopes]
    assert await actor.claim() == []
    rest = await world.several(2)
    await finish_all(actor, before)
    ended: list[str] = []
    for _ in range(10):
        await pass_by(world)
        claimed = await actor.claim()
        await finish_all(actor, claimed)
        ended += names(claimed)
    assert sorted(ended) == sorted([*jobs, *rest])


async def test_many_with_one_scope_never_run_together(world: World) -> None:
    actor, neighbour = await world.node(), await world.node()
    jobs = await world.several(4, task="lone", requirements=lone("all", drain=60 * SECOND))
    ended: list[str] = []
    for _ in range(40):
        claimed = [*await actor.claim(), *await neighbour.claim()]
        assert len(claimed) <= 1
        await finish_all(actor, claimed)
        ended += names(claimed)
        await pass_by(world)
    assert sorted(ended) == sorted(jobs)


# -- when it takes too long -------------------------------------------------------------------------------------------


async def test_at_its_deadline_it_yields_and_tries_again(world: World) -> None:
    actor = await world.node()
    (before,) = await running(world, actor, 1)
    job = await waits(world, actor, lone(drain=5 * SECOND))
    later = await world.one()
    await pass_by(world, 4.9)
    assert await actor.claim() == []
    await pass_by(world, 0.2)
    assert await world.state(job) is State.SCHEDULED
    await admitted(world)
    following = await actor.take(later)
    await finish_all(actor, [before, following])
    await pass_by(world, 5)
    await alone(world, actor, job)


async def test_at_its_deadline_it_has_the_others_cancelled(world: World) -> None:
    actor = await world.node()
    (before,) = await running(world, actor, 1)
    theirs = (await running(world, actor, 1, who=ALICE))[0]
    job = await waits(world, actor, lone(drain=5 * SECOND, cancel=True))
    await pass_by(world, 4.9)
    assert (await actor.renew()).cancels == ()
    await pass_by(world, 0.2)
    assert [ref for ref, _ in (await actor.renew()).cancels] == [before.ref]
    heard: list[int] = []
    end = world.store.listen(frozenset({Topic.CANCEL}), lambda: heard.append(1))
    await pass_by(world, 0.3)
    end()
    assert not heard, "those were told; telling them again would wake admission again and again"
    await actor.finish(before, BOOM)
    assert await world.states(before.job_id, theirs.job_id) == [State.CANCELLED, State.RUNNING]
    await alone(world, actor, job)


# -- whatever becomes of it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ENDS)
async def test_whatever_ends_it_the_others_go_on(world: World, how: str) -> None:
    end, again = ENDS[how]
    holder, actor = await world.node(), await world.node()
    claimed = await alone(world, holder, await world.one(requirements=lone()))
    later = await world.several(2)
    assert await actor.claim() == []
    await end(world, holder, claimed)
    await admitted(world)
    others = await actor.claim()  # which may meet it too, and it waits for them again
    assert names(others) == later
    await finish_all(actor, others)
    if again:
        await actor.finish(await alone(world, actor, claimed.job_id))
    await admitted(world)
    assert await world.store.gates(LOCAL) == []


async def test_one_that_is_cancelled_while_it_waits_leaves_no_gate(world: World) -> None:
    actor = await world.node()
    await running(world, actor)
    job = await waits(world, actor)
    later = await world.one()
    await admitted(world)
    assert await world.store.cancel(LOCAL, [job], "enough") == [Cancelling.CANCELLED]
    await admitted(world)
    assert names(await actor.claim()) == [later]
    assert await world.store.gates(LOCAL) == []


async def test_one_that_expires_while_it_waits_leaves_no_gate(world: World) -> None:
    actor = await world.node()
    await running(world, actor)
    job = await world.one(requirements=lone(drain=100 * SECOND), expires=10 * SECOND)
    assert await actor.claim() == []
    later = await world.one()
    await pass_by(world, 11)
    assert await world.state(job) is State.CANCELLED
    await admitted(world)
    assert names(await actor.claim()) == [later]


async def test_a_gate_over_it_holds_it_and_it_goes_on_afterwards(world: World) -> None:
    actor = await world.node()
    gate = await close(world, task="lone")
    job, other = await world.one(task="lone", requirements=lone()), await world.one()
    (claimed,) = await actor.claim()
    assert claimed.job_id == other, "one that may not run keeps nobody waiting"
    await actor.finish(claimed)
    await open_again(world, gate)
    await alone(world, actor, job)


async def test_with_keys_it_takes_them_when_it_is_alone(world: World) -> None:
    actor = await world.node()
    before = await actor.take(await world.one(requirements=mutex("m"), queue="default", task="other"))
    requirements = Requirements(keys=(Key("m", 1),), alone=lone("task:true").alone)
    job = await world.one(requirements=requirements)
    for _ in range(3):
        assert await actor.claim() == []
        await pass_by(world)
    await actor.finish(before)
    assert await world.state(job) in (HELD, READY)
    await pass_by(world)
    await alone(world, actor, job)


async def test_of_two_users_each_is_alone_among_its_own(world: World) -> None:
    actor = await world.node()
    jobs = [await world.one(who, requirements=lone("all")) for who in (ALICE, BOB)]
    started: list[str] = []
    for _ in range(3):
        started += names(await actor.claim())
        await pass_by(world)
    assert sorted(started) == sorted(jobs)


# -- when something else holds it -------------------------------------------------------------------------------------


async def test_while_it_waits_for_a_key_the_others_run(world: World) -> None:
    actor = await world.node()
    requirements = Requirements(keys=(Key("d", None, Rate(1, HOUR)),), alone=lone().alone)
    await actor.finish(await alone(world, actor, await world.one(requirements=requirements)))
    job = await world.one(requirements=requirements)
    for _ in range(5):
        await pass_by(world, 600)
        plain = await world.one()
        claimed = await actor.claim()
        assert names(claimed) == [plain], "it may not start within the hour"
        await finish_all(actor, claimed)
    await pass_by(world, 650)
    await alone(world, actor, job)


async def test_one_that_finds_its_key_taken_when_it_is_alone_lets_the_others_run(world: World) -> None:
    actor = await world.node()
    (before,) = await running(world, actor, 1, task="other")
    job = await waits(world, actor, Requirements(keys=(Key("m", 1),), alone=lone("task:other").alone))
    holder = await actor.take(await world.one(requirements=mutex("m")))
    await actor.finish(before)
    await pass_by(world)
    assert (await actor.claim(), (await world.info(job)).reason) == ([], "waits for key m")
    others = await running(world, actor, 1, task="other")
    await finish_all(actor, [holder, *others])
    await alone(world, actor, job)


@pytest.mark.parametrize("swept", [True, False])
async def test_while_a_person_s_gate_holds_it_the_others_run(world: World, swept: bool) -> None:
    actor = await world.node()
    job = await waits(world, actor)
    await pass_by(world)
    assert await world.state(job) is READY
    gate = await close(world, task="lone")
    if swept:
        await admitted(world)
    await actor.claim()
    assert (await world.state(job), (await world.info(job)).reason) == (HELD, gate.reason)
    await admitted(world)
    await finish_all(actor, await running(world, actor, 2))
    await open_again(world, gate)
    await alone(world, actor, job)


async def test_it_does_not_wait_for_work_outside_its_scope(world: World) -> None:
    """However busy the node that could run it."""
    actor = await world.node()
    job = await world.one(queue="repair", requirements=lone("queue:mail"))
    for _ in range(8):
        plain = await world.one()
        claimed = await actor.claim(wants={"default": 1, "repair": 1})
        assert plain in names(claimed)
        if job in names(claimed):
            return
        await finish_all(actor, claimed)
        await pass_by(world)
    raise AssertionError("it never runs")
