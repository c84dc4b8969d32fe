"""Queues: paused ones start nothing, priority never starves anyone for longer than its bound, and one can see why."""

from __future__ import annotations

import random

import pytest

from rota.model.feedback import LEVELS, Feedback, flow_name
from rota.model.job import FunctionSpec, Kind, Spec, Verdict
from rota.model.limits import Key, Rate
from rota.model.principal import LOCAL, SYSTEM
from rota.model.rank import AGEING_STEP, STRICT, rank
from rota.model.task import TaskInfo
from rota.model.times import DAY, HOUR, MINUTE, SECOND, Duration, aware, instant, timedelta_or_none
from rota.store.admission import LATELY
from tests.contracts.admission import (
    HELD,
    READY,
    admitted,
    close,
    comes_back,
    drain,
    finish_all,
    limit,
    mutex,
    names,
    needs,
    open_again,
    queue_info,
    why,
)
from tests.contracts.world import ALICE, BOB, BOOM, LEASE, OLGA, World

# -- paused -----------------------------------------------------------------------------------------------------------


async def test_of_a_paused_queue_nothing_is_claimed_whoever_ordered_it(world: World) -> None:
    actor = await world.node()
    await world.store.pause_queue(OLGA, "mail", "too much mail")
    paused = [await world.one(who, queue="mail") for who in (ALICE, BOB)]
    free = await world.one()
    assert names(await actor.claim(wants={"mail": 5, "default": 5})) == [free]
    assert names(await actor.claim(wants={"mail": 5}, start=0)) == []
    assert await world.states(*paused) == [READY, READY], "nothing of it was moved"
    info = await queue_info(world, "mail")
    assert (info.paused_at, info.paused_by, info.note) == (aware(world.clock.now()), "olga", "too much mail")
    assert await world.store.resume_queue(OLGA, "mail")
    assert names(await actor.claim(queue="mail")) == paused


async def test_pausing_twice_keeps_the_first_instant_and_the_last_note(world: World) -> None:
    began = world.clock.now()
    await world.store.pause_queue(LOCAL, "mail", "one")
    world.clock.advance(5)
    await world.store.pause_queue(OLGA, "mail", "two")
    info = await queue_info(world, "mail")
    assert (info.paused_at, info.paused_by, info.note) == (aware(began), "olga", "two")
    assert [await world.store.resume_queue(LOCAL, name) for name in ("mail", "mail", "other")] == [True, False, False]


async def test_what_runs_in_a_paused_queue_goes_on_and_comes_back(world: World) -> None:
    actor = await world.node()
    claimed = await actor.take(await world.one())
    await world.store.pause_queue(LOCAL, "default", "")
    await actor.finish(claimed, BOOM)
    world.clock.advance(3600)
    await world.promote()
    assert (await actor.claim(), await world.state(claimed.job_id)) == ([], READY)
    await world.store.resume_queue(LOCAL, "default")
    await actor.run(job_id=claimed.job_id)


async def test_what_was_claimed_ahead_of_a_pause_goes_back(world: World) -> None:
    actor = await world.node()
    kept, free = await world.one(), await world.one(queue="mail")
    ahead = await actor.claim(wants={"default": 1, "mail": 1}, start=0)
    await world.store.pause_queue(LOCAL, "default", "")
    starts = await world.store.start(SYSTEM, [one.ref for one in ahead])
    assert {one.job_id: start.verdict for one, start in zip(ahead, starts, strict=True)} == {
        kept: Verdict.STALE,
        free: Verdict.APPLIED,
    }
    assert [ref.job_id for ref in (await actor.renew()).holds] == [free]
    info = await world.info(kept)
    assert (info.state, info.node, info.attempts) == (READY, None, [])
    await world.store.resume_queue(LOCAL, "default")
    again = await actor.take(kept)
    assert (again.number, again.fence) == (1, 2)


# -- as they stand ----------------------------------------------------------------------------------------------------


async def test_a_queue_as_it_stands(world: World) -> None:
    actor = await world.node(tasks=())
    running = await actor.take(await world.one())
    ended = await actor.take(await world.one())
    await actor.finish(ended)
    world.clock.advance(3)
    oldest = world.clock.now()
    await world.several(2)
    world.clock.advance(2)
    await world.one(ALICE)
    await world.one(delay=HOUR)
    await world.submit(world.child(running.job_id))
    await world.one(task="gated")
    await close(world, task="gated")
    await admitted(world)
    info = await queue_info(world)
    assert (info.ready, info.held, info.scheduled, info.blocked, info.running) == (2, 1, 1, 1, 1)
    assert (info.oldest, info.ended, info.nodes, info.slots) == (aware(oldest), 1, 1, 4)
    everyone = await queue_info(world, who=SYSTEM)
    assert everyone.ready == 3
    world.clock.advance(LATELY / SECOND)
    later = await queue_info(world)
    assert later.ended == 0


async def test_queues_are_those_with_jobs_those_that_are_served_and_those_that_were_set(world: World) -> None:
    assert await world.store.queues(LOCAL) == []
    actor = await world.node()
    await world.one(queue="with jobs")
    await world.store.pause_queue(LOCAL, "paused", "")
    found = await world.store.queues(LOCAL)
    assert [info.name for info in found] == ["default", "paused", "with jobs"]
    assert [info.nodes for info in found] == [1, 0, 0]
    await actor.leave()
    assert "default" not in [info.name for info in await world.store.queues(LOCAL)]


# -- priority ---------------------------------------------------------------------------------------------------------


async def test_another_priority_takes_its_place_in_line(world: World) -> None:
    first, second, third = await world.several(3)
    scheduled = await world.one(delay=MINUTE)
    assert await world.store.reprioritise(LOCAL, [third, scheduled], 0) == [True, True]
    assert await world.store.reprioritise(LOCAL, [first], 9) == [True]
    world.clock.advance(60)
    await world.promote()
    assert names(await (await world.node()).claim()) == [third, scheduled, second, first]
    assert [(await world.info(job)).priority for job in (first, second, third)] == [9, 5, 0]


async def test_only_those_that_wait_and_are_one_s_own(world: World) -> None:
    actor = await world.node()
    running, ended = await actor.take(await world.one()), await actor.run(job_id=await world.one())
    mine, theirs = await world.one(), await world.one(ALICE)
    unknown = world.chance.job_id(world.clock.now())
    wanted = [running.job_id, ended.job_id, theirs, mine, unknown, "no id"]
    assert await world.store.reprioritise(LOCAL, wanted, 1) == [False, False, False, True, False, False]
    assert (await world.info(theirs)).priority == 5


async def test_there_and_back_is_where_it_was(world: World) -> None:
    dice = random.Random(1)
    jobs = await world.several(20)
    for _ in range(100):
        await world.store.reprioritise(LOCAL, [dice.choice(jobs)], dice.randrange(10))
    await world.store.reprioritise(LOCAL, jobs, 5)
    assert names(await (await world.node()).claim()) == jobs


async def test_one_in_line_for_a_key_and_one_behind_a_gate_go_by_their_new_priority(world: World) -> None:
    actor = await world.node()
    running = await actor.take(await world.one(requirements=mutex("m")))
    first, second = await world.several(2, requirements=mutex("m"))
    assert await actor.claim() == []
    await world.store.reprioritise(LOCAL, [second], 0)
    await actor.finish(running)
    assert names(await actor.claim()) == [second]
    assert await world.state(first) is HELD


async def starts_within_its_bound(world: World, steps: int, step: Duration = AGEING_STEP) -> None:
    """One of priority 9, and a stream of others of priority 0: of those that became due more than so many steps later
    none goes first."""
    actor = await world.node()
    patient = await world.one(priority=9, task="patient")
    bound = world.clock.now() + steps * step
    while True:
        world.clock.advance(step / SECOND / 2)
        await world.several(2, priority=0, task="urgent")
        await admitted(world)
        (claimed,) = await actor.claim(1)
        if claimed.job_id == patient:
            break
        assert instant((await world.info(claimed.job_id)).run_at) <= bound
        await actor.finish(claimed)
    assert world.clock.now() > bound - 9 * step


async def test_the_least_urgent_waits_for_nine_steps_at_most(world: World) -> None:
    await starts_within_its_bound(world, 9)


async def test_with_feedback_it_waits_for_four_steps_more(world: World) -> None:
    await world.store.set_feedback(LOCAL, "default", Feedback(SECOND, LEVELS, DAY))
    await world.store.charge(SYSTEM, {("default", flow_name("local", "patient")): HOUR})
    await starts_within_its_bound(world, 9 + LEVELS - 1)


@pytest.mark.parametrize("step", [SECOND, HOUR])
async def test_with_a_step_of_its_own(world: World, step: Duration) -> None:
    await world.store.set_step(LOCAL, "default", step)
    await starts_within_its_bound(world, 9, step)


# -- steps ------------------------------------------------------------------------------------------------------------


async def test_step_0_is_first_come_first_served(world: World) -> None:
    await world.store.set_step(LOCAL, "default", 0)
    dice = random.Random(2)
    jobs = []
    for _ in range(20):
        world.clock.advance(1)
        jobs.append(await world.one(priority=dice.randrange(10)))
    assert await drain(world, await world.node()) == jobs


async def test_strict_is_the_most_urgent_first_however_late(world: World) -> None:
    await world.store.set_step(LOCAL, "default", STRICT)
    patient = await world.one(priority=9)
    middle = await world.one(priority=5)
    world.clock.advance(30 * DAY / SECOND)
    urgent = await world.one(priority=0)
    assert await drain(world, await world.node()) == [urgent, middle, patient]


@pytest.mark.parametrize("kind", Kind)
async def test_steps_count_for_every_kind_of_job(world: World, kind: Kind) -> None:
    specs = {
        Kind.FUNCTION: Spec.function("f"), Kind.COMMAND: Spec.command(["true"]),
        Kind.HTTP: Spec.http("GET", "http://a/"),
    }  # fmt: skip
    task = TaskInfo("f")
    actor = await world.node(tasks=[task])
    await world.store.set_step(LOCAL, "default", STRICT)
    patient = await world.one(priority=9, task="f", spec=specs[kind])
    world.clock.advance(30 * DAY / SECOND)
    urgent = await world.one(priority=0, task="f", spec=specs[kind])
    await admitted(world)
    assert names(await actor.claim(kinds=list(Kind))) == [urgent, patient]


async def test_steps_of_other_queues_are_their_own(world: World) -> None:
    await world.store.set_step(LOCAL, "strict", STRICT)
    late = {}
    for queue in ("strict", "default"):
        late[queue] = await world.one(priority=9, queue=queue)
    world.clock.advance(HOUR / SECOND)
    soon = {queue: await world.one(priority=0, queue=queue) for queue in late}
    actor = await world.node()
    assert names(await actor.claim(queue="strict")) == [soon["strict"], late["strict"]]
    assert names(await actor.claim()) == [late["default"], soon["default"]]


@pytest.mark.parametrize("seed", range(3))
async def test_another_step_ranks_those_that_wait_anew(world: World, seed: int) -> None:
    dice = random.Random(seed)
    actor = await world.node()
    waiting: dict[str, tuple[int, int, int]] = {}  # when it was due, its priority, its place
    steps: list[Duration | None] = [None, 0, STRICT, SECOND, HOUR]
    for step in [*dice.sample(steps, 5), None]:
        await world.store.set_step(LOCAL, "default", step)
        assert (await queue_info(world)).step == timedelta_or_none(step)
        await admitted(world)
        for _ in range(8):
            world.clock.advance(dice.choice([0, 1, 100, 5000]))
            priority = dice.randrange(10)
            job = await world.one(priority=priority)
            waiting[job] = (world.clock.now(), priority, len(waiting))
        chosen = dice.choice(sorted(waiting))
        due, _, place = waiting[chosen]
        waiting[chosen] = (due, 3, place)
        await world.store.reprioritise(LOCAL, [chosen], 3)
        await admitted(world)
        used = AGEING_STEP if step is None else step
        line = sorted(waiting, key=lambda job: (rank(waiting[job][0], waiting[job][1], used), waiting[job][2]))
        claimed = await actor.claim(5)
        assert names(claimed) == line[:5]
        for job in line[:5]:
            waiting.pop(job)
        await finish_all(actor, claimed)


@pytest.mark.parametrize("behind_a_gate", [False, True])
async def test_also_those_that_nobody_has_looked_at_for_long(world: World, behind_a_gate: bool) -> None:
    """All nodes may have been away when the step was changed, and a gate may hold jobs for days."""
    await world.store.set_step(LOCAL, "default", STRICT)
    first, patient = await world.several(2, priority=9)
    actor = await world.node()
    await actor.run(job_id=first)
    gate = await close(world, task="true") if behind_a_gate else None
    await admitted(world)
    await world.store.set_step(LOCAL, "default", None)
    world.clock.advance(DAY / SECOND)
    if gate is not None:
        await open_again(world, gate)
    late = await world.one(priority=0)
    await admitted(world)
    assert await drain(world, actor) == [patient, late]


async def test_a_retry_in_a_strict_queue_goes_by_its_priority(world: World) -> None:
    actor = await world.node()
    await world.store.set_step(LOCAL, "default", STRICT)
    claimed = await actor.take(await world.one(priority=0))
    other = await world.one(priority=1)
    await actor.finish(claimed, BOOM)
    world.clock.advance(HOUR / SECOND)
    await world.promote()
    assert await drain(world, actor) == [claimed.job_id, other]


# -- why it waits -----------------------------------------------------------------------------------------------------


async def test_waiting_tells_of_line_rank_and_queue(world: World) -> None:
    first, job = await world.one(), await world.one()
    await world.one(queue="mail", priority=0)
    told = await why(world, job)
    assert (told.ahead, told.rank, told.gate, told.keys) == (1, rank(world.clock.now(), 5), None, ())
    assert (told.offered, told.node, told.now) == (False, None, world.clock.now())
    assert told.queue == await queue_info(world, who=SYSTEM)
    actor = await world.node()
    await actor.take(first)
    told, running = await why(world, job), await why(world, first)
    assert (told.ahead, told.offered) == (0, True)
    assert (running.node, running.lease_until) == (actor.name, world.clock.now() + LEASE)


async def test_waiting_tells_of_the_gate_and_the_keys(world: World) -> None:
    actor = await world.node()
    requirements = needs(Key("m", 1), Key("set"), Key("r", None, Rate(1, MINUTE)))
    holder = await actor.take(await world.one(requirements=requirements))
    await limit(world, "set", 7)
    job = await world.one(requirements=requirements)
    await actor.claim()
    gate = await close(world, task="true")
    told = await why(world, job)
    assert told.gate is not None
    assert told.gate.id == gate.id
    keys = {info.key: info for info in told.keys}
    assert (keys["m"].concurrency, [one.job for one in keys["m"].holders]) == (1, [holder.job_id])
    assert (keys["set"].concurrency, keys["r"].rate) == (7, Rate(1, MINUTE))
    assert keys["r"].next_start == aware(comes_back(world.clock.now(), MINUTE))
    assert sum(info.waiting for info in told.keys) == 1


async def test_waiting_is_told_to_its_owner_and_only_while_it_lives(world: World) -> None:
    job = await world.one(ALICE)
    assert await world.store.waiting(BOB, job) is None
    assert (await why(world, job, SYSTEM)).rank
    assert await world.store.waiting(ALICE, "no id") is None
    await (await world.node()).run(job_id=job)
    assert await world.store.waiting(ALICE, job) is None


async def test_a_function_is_offered_by_those_who_know_it(world: World) -> None:
    names = ("report", "other")
    job, other = [await world.one(task=name, spec=Spec.of(Kind.FUNCTION, FunctionSpec(name))) for name in names]
    actor = await world.node(tasks=[TaskInfo("other")])
    assert [(await why(world, one)).offered for one in (job, other)] == [False, True]
    await actor.die()
    assert [(await why(world, one)).offered for one in (job, other)] == [False, False]
