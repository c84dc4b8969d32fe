"""Feedback levels: flows that use much fall behind those that use little; nobody is lost, and the boost forgives."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from rota.errors import NotAllowed
from rota.model.feedback import Feedback, level
from rota.model.job import NO_RETRY
from rota.model.limits import Key
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.rank import rank
from rota.model.requirements import Requirements
from rota.model.times import HOUR, MINUTE, SECOND, Duration, as_duration, as_timedelta, instant
from tests.contracts.admission import (
    admitted,
    close,
    drain,
    finish_all,
    mutex,
    names,
    open_again,
    queue_info,
    why,
)
from tests.contracts.world import ALICE, BOB, BOOM, World, command

RULE = Feedback(quantum=SECOND, levels=5, boost=HOUR)


async def charge(world: World, used: Duration, task: str = "flood", who: Principal = LOCAL) -> None:
    await world.store.charge(SYSTEM, {("default", f"{who.user}/{task}"): used})


async def switch_on(world: World, rule: Feedback = RULE) -> None:
    await world.store.set_feedback(LOCAL, "default", rule)


async def levels(world: World) -> dict[str, tuple[int, Duration]]:
    return {one.flow: (one.level, as_duration(one.used)) for one in await world.store.flows(SYSTEM, 1_000)}


# -- who has used what ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_levels_follow_from_what_was_used(world: World, count: int) -> None:
    rule = Feedback(SECOND, count, HOUR)
    await switch_on(world, rule)
    used = [0, 1, SECOND, SECOND + 1, 3 * SECOND, 3 * SECOND + 1, 7 * SECOND + 1, 15 * SECOND, 15 * SECOND + 1, HOUR]
    for number, span in enumerate(used):
        await charge(world, span, f"at once {number}")
        await charge(world, span // 2, f"in two {number}")
        await charge(world, span - span // 2, f"in two {number}")
    found = await levels(world)
    for number, span in enumerate(used):
        for way in ("at once", "in two"):
            assert found.get(f"local/{way} {number}", (0, 0)) == (level(span, rule), span)


async def test_what_several_nodes_report_adds_up(world: World) -> None:
    await switch_on(world)
    for _ in range(7):
        await world.store.charge(SYSTEM, {("default", "local/a"): SECOND, ("default", "alice/b"): SECOND // 2})
    assert await levels(world) == {"local/a": (2, 7 * SECOND), "alice/b": (2, 7 * SECOND // 2)}


async def test_queues_without_feedback_are_not_counted(world: World) -> None:
    await charge(world, HOUR)
    await switch_on(world)
    await world.store.charge(SYSTEM, {("other", "local/a"): HOUR})
    await world.store.charge(SYSTEM, {})
    assert await levels(world) == {}
    with pytest.raises(NotAllowed):
        await world.store.charge(LOCAL, {("default", "local/a"): HOUR})


async def test_flows_are_shown_to_their_users_the_lowest_first(world: World) -> None:
    await switch_on(world)
    for user, used in ((ALICE, 2 * SECOND), (BOB, MINUTE), (ALICE, MINUTE + 1)):
        await charge(world, used, f"t{used}", user)
    found = await world.store.flows(SYSTEM, 10)
    assert [one.used for one in found] == [as_timedelta(span) for span in (MINUTE + 1, MINUTE, 2 * SECOND)]
    assert [one.flow for one in await world.store.flows(ALICE, 10)] == [f"alice/t{MINUTE + 1}", f"alice/t{2 * SECOND}"]
    assert len(await world.store.flows(SYSTEM, 2)) == 2
    assert await world.store.flows(Principal("ali"), 10) == []


async def test_nodes_hear_which_queues_are_to_be_counted(world: World) -> None:
    actor = await world.node()
    assert (await actor.renew()).feedback == ()
    await switch_on(world)
    assert (await actor.renew()).feedback == ("default",)
    assert (await queue_info(world)).feedback == RULE
    await world.store.set_feedback(LOCAL, "default", None)
    assert (await actor.renew()).feedback == ()
    assert (await queue_info(world)).feedback is None


# -- who goes first ---------------------------------------------------------------------------------------------------


async def test_jobs_that_were_waiting_already_are_put_back_too(world: World) -> None:
    actor = await world.node()
    await switch_on(world)
    flood = await world.several(300, task="flood")
    world.clock.advance(3)
    short = await world.several(5, ALICE, task="short")
    assert names(await actor.claim(10)) == flood[:10]
    await charge(world, 8 * SECOND)
    assert names(await actor.claim(10)) == [*short, *flood[10:15]]
    assert names(await actor.claim(10)) == flood[15:25]
    assert (await why(world, flood[-1])).level == 3


async def test_each_level_counts_like_one_of_priority(world: World) -> None:
    actor = await world.node()
    await switch_on(world)
    await charge(world, 4 * SECOND)  # level 2
    fallen = await world.one(task="flood", priority=3)
    world.clock.advance(1)
    equal, better = await world.one(task="short", priority=5), await world.one(task="short", priority=4)
    worse = await world.one(task="short", priority=6)
    assert await drain(world, actor) == [better, fallen, equal, worse]


async def test_the_boost_lifts_all(world: World) -> None:
    actor = await world.node()
    await switch_on(world, Feedback(SECOND, 5, MINUTE))
    flood = await world.several(20, task="flood")
    await charge(world, HOUR)
    world.clock.advance(1)
    await world.several(3, ALICE, task="short")
    assert [one.task for one in await actor.claim(5)] == ["short"] * 3 + ["flood"] * 2
    boosted = world.clock.now() + 59 * SECOND
    assert (await admitted(world)).next_at == boosted
    world.clock.advance(58.9)
    await admitted(world)
    assert await levels(world) != {}
    world.clock.advance(0.1)
    late = await world.one(ALICE, task="short")
    await admitted(world)
    assert await levels(world) == {}
    assert names(await actor.claim()) == [*flood[2:], late]


async def test_switched_off_all_is_as_if_it_had_never_been(world: World) -> None:
    dice = random.Random(4)
    actor = await world.node()
    await switch_on(world)
    expected: list[tuple[int, int, str]] = []
    for place in range(60):
        world.clock.advance(dice.choice([0, 1, 30]))
        task, priority = dice.choice("abc"), dice.randrange(10)
        job = await world.one(task=task, priority=priority)
        expected.append((rank(world.clock.now(), priority), place, job))
        await charge(world, dice.choice([0, SECOND, 3 * SECOND]), task)
        if place % 10 == 9:
            await finish_all(actor, claimed := await actor.claim(3))
            expected = [one for one in expected if one[2] not in names(claimed)]
    await world.store.set_feedback(LOCAL, "default", None)
    await admitted(world, 7)
    assert await levels(world) == {}
    assert names(await actor.claim()) == [job for _, _, job in sorted(expected)]


async def test_a_retry_is_put_back_by_the_level_of_its_flow_and_no_further(world: World) -> None:
    actor = await world.node()
    await switch_on(world)
    await charge(world, 2 * SECOND)  # level 1
    claimed = await actor.take(await world.one(task="flood"))
    assert claimed.rank == rank(world.clock.now(), 6)
    await actor.finish(claimed, BOOM)
    world.clock.advance(HOUR / SECOND / 2)
    await world.promote()
    again = await actor.take(claimed.job_id)
    assert again.rank == rank(instant((await world.info(again.job_id)).run_at), 6)


async def test_with_gates_and_keys(world: World) -> None:
    actor = await world.node()
    await switch_on(world)
    gate = await close(world, task="flood")
    flood = await world.several(3, task="flood", requirements=mutex("m"))
    await admitted(world)
    await actor.claim()
    await charge(world, 8 * SECOND)
    world.clock.advance(1)
    short = await world.several(2, task="short", requirements=mutex("m"))
    await open_again(world, gate)
    assert sorted(await drain(world, actor)) == sorted([*flood, *short])
    assert await world.store.flows(LOCAL, 1) != []


# -- flows that jobs name ---------------------------------------------------------------------------------------------
BULK = Requirements(flow="bulk")


async def test_a_claim_names_the_flow_that_is_to_be_charged(world: World) -> None:
    actor = await world.node()
    jobs = [
        await world.one(task="short"), await world.one(task="short", requirements=BULK),
        await world.one(task="flood", requirements=Requirements(flow="bulk", labels=("l",))),
        await world.one(task="flood", requirements=Requirements(flow="keyed", keys=(Key("k", 1),))),
    ]  # fmt: skip
    found = {one.job_id: one.flow for one in await actor.claim()}
    assert [found[job] for job in jobs] == ["short", "bulk", "bulk", "keyed"]
    assert (await world.info(jobs[1])).requirements.flow == "bulk"


async def test_a_named_flow_has_one_level_whatever_its_tasks_are(world: World) -> None:
    actor = await world.node()
    await switch_on(world)
    bulk = [await world.one(task=task, requirements=BULK) for task in ("flood", "short", "flood", "short")]
    shell = await world.one(task="sh", spec=command(), requirements=BULK)
    own = [await world.one(task=task) for task in ("flood", "short")]
    others = await world.one(ALICE, task="short", requirements=BULK)
    await charge(world, 8 * SECOND, "bulk")
    assert await drain(world, actor) == [*own, others, *bulk, shell]


async def test_a_named_flow_leaves_that_of_its_task_alone(world: World) -> None:
    actor = await world.node()
    await switch_on(world)
    plain = await world.several(3, task="flood")
    bulk = await world.several(3, task="flood", requirements=BULK)
    await charge(world, 8 * SECOND, "flood")
    assert await drain(world, actor) == [*bulk, *plain]
    assert (await levels(world)).keys() == {"local/flood"}


async def test_a_job_may_join_the_flow_of_another_task(world: World) -> None:
    actor = await world.node()
    await switch_on(world)
    joined = await world.one(task="short", requirements=Requirements(flow="flood"))
    later = await world.one(task="short")
    await charge(world, 8 * SECOND, "flood")
    assert (await why(world, joined)).level == 3
    assert await drain(world, actor) == [later, joined]


async def test_the_boost_lifts_named_flows_one_by_one(world: World) -> None:
    actor = await world.node()
    await switch_on(world, Feedback(SECOND, 5, MINUTE))
    jobs = [await world.one(task="flood", requirements=Requirements(flow=name)) for name in ("a", "b", "a", "b")]
    for name in ("a", "b", "flood"):
        await charge(world, HOUR, name)
    plain = await world.one(task="flood")
    last = await world.one(task="short")
    assert names(await actor.claim(1)) == [last], "all others were put back"
    world.clock.advance(60)
    await admitted(world)
    assert await levels(world) == {}
    await charge(world, 4 * SECOND, "a")
    late = await world.one(task="short")
    assert names(await actor.claim()) == [jobs[1], jobs[3], plain, late, jobs[0], jobs[2]]


async def test_a_replay_keeps_its_flow(world: World) -> None:
    actor = await world.node()
    claimed = await actor.take(await world.one(task="flood", requirements=BULK, retry=NO_RETRY))
    await actor.finish(claimed, BOOM)
    assert (await world.info(claimed.job_id)).requirements == BULK
    assert await world.store.replay(LOCAL, [claimed.job_id]) == [True]
    await world.promote()
    assert (await actor.take(claimed.job_id)).flow == "bulk"


async def test_nobody_is_starved_or_lost_while_levels_change(world: World) -> None:
    """Every job starts within the bound of its priority and the lowest level, whatever flows do meanwhile."""
    dice = random.Random(6)
    actor = await world.node()
    await switch_on(world, Feedback(SECOND, 5, 10 * MINUTE))
    due: dict[str, tuple[int, int]] = {}
    seen: Counter[str] = Counter()
    for _ in range(120):
        world.clock.advance(dice.choice([1, 20, 60]))
        for _ in range(dice.randint(0, 3)):
            priority = dice.randrange(10)
            due[await world.one(task=dice.choice("abc"), priority=priority)] = (world.clock.now(), priority)
        await charge(world, dice.choice([0, SECOND, 10 * SECOND]), dice.choice("abc"))
        if dice.random() < 0.3:
            await admitted(world, dice.choice([1, 1_000]))
        claimed = await actor.claim(dice.randint(0, 2))
        for one in claimed:
            at, priority = due.pop(one.job_id)
            seen[one.job_id] += 1
            for other, (their_at, theirs) in due.items():
                assert rank(at, priority) <= rank(their_at, theirs + 4), f"{one.job_id} before {other}"
        await finish_all(actor, claimed)
    rest = await drain(world, actor)
    assert sorted(rest) == sorted(due)
    assert set(seen.values()) == {1}


async def test_flows_of_many_kinds_of_jobs_stay_in_their_order(world: World) -> None:
    actor = await world.node()
    await switch_on(world)
    jobs = {task: await world.several(4, task=task) for task in "abcd"}
    for number, task in enumerate("abcd"):
        await charge(world, (2**number - 1) * SECOND + 1, task)
    assert await levels(world) == {f"local/{t}": (n, (2**n - 1) * SECOND + 1) for n, t in enumerate("abcd")}
    found: list[str] = []
    while batch := await actor.claim(3):
        found += names(batch)
    assert found == [job for task in "abcd" for job in jobs[task]]
