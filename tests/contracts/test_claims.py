"""Claims: the best first, never more than asked, never twice, and never what may not run."""

from __future__ import annotations

import asyncio
import random

import pytest

from rota.model.job import Claimed, Kind, Spec, Verdict
from rota.model.lifecycle import State
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM
from rota.model.rank import AGEING_STEP, rank
from rota.model.retry import Retry
from rota.model.times import HOUR, SECOND, aware
from rota.store.base import Store
from tests.contracts.shelves import stand
from tests.contracts.world import BOOM, FATAL, NAP, STOPPED, World, offer, settled


def names(claimed: list[Claimed]) -> list[str]:
    return [one.job_id for one in claimed]


# -- who goes first ---------------------------------------------------------------------------------------------------


async def test_equals_go_in_the_order_of_acceptance(world: World) -> None:
    expected = await world.several(30)
    assert names(await (await world.node()).claim()) == expected


async def test_the_urgent_goes_first(world: World) -> None:
    by_priority = {priority: await world.one(priority=priority) for priority in (5, 9, 0, 7, 2)}
    claimed = await (await world.node()).claim()
    assert names(claimed) == [by_priority[priority] for priority in (0, 2, 5, 7, 9)]


async def test_waiting_makes_up_for_priority(world: World) -> None:
    """Nine steps of waiting are worth nine levels of priority, and not a microsecond less."""
    steps = 9 * AGEING_STEP
    patient = await world.one(priority=9)
    world.clock.advance((steps - 1) / 1e6)
    faster = await world.one(priority=0)
    world.clock.advance(1 / 1e6)
    equal = await world.one(priority=0)
    world.clock.advance(1 / 1e6)
    slower = await world.one(priority=0)
    assert names(await (await world.node()).claim()) == [faster, patient, equal, slower]


async def test_any_mixture_is_claimed_by_rank(world: World) -> None:
    dice = random.Random(7)
    expected: list[tuple[int, int, str]] = []
    for place in range(60):
        world.clock.advance(dice.choice([0, 1, 30, 200]))
        priority, delay = dice.randrange(10), dice.choice([0, 0, 5, 300]) * SECOND
        job_id = await world.one(priority=priority, delay=delay)
        expected.append((rank(world.clock.now() + delay, priority), place, job_id))
    world.clock.advance(3600)
    await world.promote()
    actor = await world.node()
    found: list[str] = []
    while batch := await actor.claim(7):
        found += names(batch)
        assert [one.rank for one in batch] == sorted(one.rank for one in batch)
    assert found == [job_id for _, _, job_id in sorted(expected)]


async def test_what_became_due_earlier_goes_first_whenever_it_was_promoted(world: World) -> None:
    late = await world.one(delay=20 * SECOND)
    early = await world.one(delay=10 * SECOND)
    world.clock.advance(30)
    fresh = await world.one()
    await world.promote()
    assert names(await (await world.node()).claim()) == [early, late, fresh]


async def test_coming_back_unfinished_keeps_the_place_in_line(world: World) -> None:
    actor = await world.node()
    first = await world.one()
    for _ in range(3):
        world.clock.advance(1)
        await world.one()
    assert await actor.hand_back((await actor.ahead(first)).ref) == [Verdict.APPLIED]
    await actor.run(STOPPED, first)
    doomed = await world.node()
    await doomed.take(first)
    await doomed.die()
    assert (await actor.take()).job_id == first


@pytest.mark.parametrize("result", [BOOM, NAP], ids=["retry", "snooze"])
async def test_coming_back_later_means_a_place_by_that_time(world: World, result: object) -> None:
    actor = await world.node()
    first = await world.one(retry=Retry(3, "30s", 0))
    await actor.run(result, first)  # type: ignore[arg-type]
    world.clock.advance(20)
    before = await world.one()
    world.clock.advance(20)
    after = await world.one()
    await world.promote()
    assert names(await actor.claim()) == [before, first, after]


# -- how many, of which queue and kind ---------------------------------------------------------------------------------


async def test_each_queue_gives_as_many_as_wanted(world: World) -> None:
    jobs = {queue: await world.several(5, queue=queue) for queue in ("a", "b", "c")}
    claimed = await (await world.node()).claim(wants={"a": 2, "b": 4, "nothing-here": 9})
    found = {queue: [one.job_id for one in claimed if one.queue == queue] for queue in jobs}
    assert found == {"a": jobs["a"][:2], "b": jobs["b"][:4], "c": []}


@pytest.mark.parametrize("count", [0, -1])
async def test_who_wants_nothing_gets_nothing(world: World, count: int) -> None:
    await world.one()
    actor = await world.node()
    async with world.unchanged():
        assert await actor.claim(wants={"default": count}) == []
        assert await world.store.claim(SYSTEM, actor.incarnation, {}, [Kind.COMMAND], {}) == []
        assert await world.store.claim(SYSTEM, actor.incarnation, {"default": 1}, [], {"default": 1}) == []


async def test_only_the_kinds_that_were_asked_for(world: World) -> None:
    actor = await world.node()
    functions = await world.several(2, spec=Spec.function("f"))
    commands = await world.several(2)
    assert names(await actor.claim(kinds=[Kind.COMMAND])) == commands
    assert names(await actor.claim(kinds=[Kind.COMMAND])) == []
    assert names(await actor.claim(kinds=[Kind.FUNCTION])) == functions


async def test_kinds_stand_in_one_line(world: World) -> None:
    expected = [await world.one(spec=Spec.function("f") if n % 3 else Spec.command(["true"])) for n in range(12)]
    actor = await world.node()
    assert names(await actor.claim(5)) == expected[:5]
    assert names(await actor.claim(kinds=[Kind.COMMAND, Kind.FUNCTION])) == expected[5:]


async def test_functions_of_another_app_are_left_to_its_nodes(world: World) -> None:
    mail, shop = await world.node(tasks=offer("mail", "both")), await world.node(tasks=offer("shop", "both"))
    of_shop = await world.one(task="shop", spec=Spec.function("shop"))
    of_both = await world.one(task="both", spec=Spec.function("both"))
    of_mail = await world.one(task="mail", spec=Spec.function("mail"))
    plain = await world.one(task="shop")
    assert names(await mail.claim()) == [of_both, of_mail, plain], "a command of that name is a command"
    assert names(await shop.claim()) == [of_shop]


async def test_they_wait_while_their_app_is_away(world: World) -> None:
    shop, mail = await world.node(tasks=offer("shop")), await world.node(tasks=offer("mail"))
    await shop.leave()
    job_id = await world.one(task="shop", spec=Spec.function("shop"))
    async with world.unchanged():
        assert await mail.claim() == []
    back = await world.node(tasks=offer("shop"))
    assert names(await back.claim()) == [job_id]


async def test_no_more_than_wanted_are_taken_past_those_of_another_app(world: World) -> None:
    await world.node(tasks=offer("shop"))
    mail = await world.node(tasks=offer("mail"))
    await world.several(5, task="shop", spec=Spec.function("shop"))
    mine = await world.several(5, task="mail", spec=Spec.function("mail"))
    assert names(await mail.claim(3)) == mine[:3]


async def test_the_best_are_started_and_the_rest_is_claimed_ahead(world: World) -> None:
    actor = await world.node()
    jobs = await world.several(5)
    world.clock.advance(1)
    claimed = await world.store.claim(SYSTEM, actor.incarnation, {"default": 4}, [Kind.COMMAND], {"default": 2})
    assert names(claimed) == jobs[:4]
    now = world.clock.now()
    assert [one.started_at for one in claimed] == [now, now, None, None]
    infos = [await world.info(job) for job in jobs]
    assert [info.state for info in infos] == [State.RUNNING] * 4 + [State.READY]
    assert [info.started_at for info in infos] == [aware(now), aware(now), None, None, None]
    assert [len(info.attempts) for info in infos] == [1, 1, 0, 0, 0], "claimed is not started"


async def test_each_queue_has_its_own_count_of_starts(world: World) -> None:
    actor = await world.node()
    for queue in ("a", "b"):
        await world.several(3, queue=queue)
    claimed = await world.store.claim(SYSTEM, actor.incarnation, {"a": 3, "b": 3}, [Kind.COMMAND], {"a": 1})
    started = {(one.queue, one.started_at is not None) for one in claimed}
    assert started == {("a", True), ("a", False), ("b", False)}
    assert sum(one.started_at is not None for one in claimed) == 1


async def test_a_claim_hands_over_all_that_the_attempt_needs(world: World) -> None:
    actor = await world.node()
    policy = Retry(2, "5s", 0.0, {"KeyError": "fatal"})
    job = world.job(
        task="t", spec=Spec.function("t"), args='{"a": "ü"}', queue="default", priority=3, retry=policy, timeout=HOUR
    )
    await world.submit(job)
    now = world.clock.now()
    claimed = await actor.take()
    assert claimed == Claimed(
        job_id=job.id,
        fence=1,
        owner="local",
        queue="default",
        kind="function",
        task="t",
        priority=3,
        rank=rank(now, 3),
        number=1,
        failures=0,
        started_at=now,
        spec=job.spec.body,
        args=job.args,
        retry=claimed.retry,
        timeout=HOUR,
        flow="t",
    )
    assert settled(claimed, BOOM).delay == 5 * SECOND, "the policy travels with it"


async def test_a_claim_shows_where_the_job_runs(world: World) -> None:
    actor = await world.node("box-7")
    job_id = await world.one()
    claimed = await actor.take()
    info = await world.info(job_id)
    assert (info.node, info.fence, info.reason, info.cancelling) == ("box-7", claimed.fence, None, False)
    (attempt,) = info.attempts
    assert (attempt.number, attempt.fence, attempt.node, attempt.outcome) == (1, 1, "box-7", None)
    assert (attempt.started_at, attempt.finished_at) == (aware(world.clock.now()), None)


# -- never twice ------------------------------------------------------------------------------------------------------


async def test_nobody_claims_what_another_has(world: World) -> None:
    jobs = await world.several(10)
    one, two = await world.node(), await world.node()
    first, second = await one.claim(6), await two.claim()
    assert names(first) == jobs[:6]
    assert names(second) == jobs[6:]
    async with world.unchanged():
        assert await one.claim() == await two.claim() == []


async def test_concurrent_claims_through_two_stores_never_share_a_job(world: World, another: Store) -> None:
    jobs = await world.several(400)
    actors = [await world.node(), await world.node(), await world.node(store=another), await world.node(store=another)]
    found: dict[str, list[str]] = {actor.incarnation: [] for actor in actors}

    async def drain(n: int) -> None:
        while batch := await actors[n].claim(7):
            found[actors[n].incarnation] += names(batch)

    await asyncio.gather(*(drain(n) for n in range(len(actors))))
    everything = [job for batch in found.values() for job in batch]
    assert len(everything) == len(set(everything)) == 400
    assert set(everything) == set(jobs)
    infos = await world.all()
    holders = {actor.name: sorted(found[actor.incarnation]) for actor in actors}
    assert {info.fence for info in infos.values()} == {1}
    assert {name: sorted(i.id for i in infos.values() if i.node == name) for name in holders} == holders


# -- never what may not run -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(set(State) - {State.READY}))
async def test_only_what_is_ready_is_claimed(world: World, state: State) -> None:
    await stand(world, await world.node(), state)
    actor = await world.node()
    async with world.unchanged():
        assert await actor.claim() == []


async def test_what_is_due_waits_for_its_promotion_not_longer(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(delay=SECOND)
    assert await world.promote() == 0
    assert await actor.claim() == []
    world.clock.advance(1)
    assert await world.promote() == 1
    await actor.take(job_id)


async def test_what_has_expired_is_not_claimed_even_before_it_is_cleared_away(world: World) -> None:
    actor = await world.node()
    await world.one(expires=SECOND, priority=0)
    lasts = await world.one(expires=HOUR)
    world.clock.advance(1)
    assert names(await actor.claim()) == [lasts]


async def test_what_expires_while_it_is_claimed_ahead_is_not_started(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(expires=SECOND)
    claimed = await actor.ahead()
    world.clock.advance(1)
    (start,) = await world.store.start(SYSTEM, [claimed.ref])
    assert start.verdict is not Verdict.APPLIED
    assert start.started_at is None
    assert (await world.info(job_id)).attempts == []
    await actor.hand_back(claimed.ref)
    await world.promote()
    info = await world.info(job_id)
    assert (info.state, info.reason) == (State.CANCELLED, "expired")


async def test_the_dead_the_left_and_the_unknown_get_nothing(world: World) -> None:
    await world.several(3)
    left, dead = await world.node(), await world.node()
    await left.leave()
    await dead.die()
    async with world.unchanged():
        assert await left.claim() == await dead.claim() == []
        assert await world.store.claim(SYSTEM, "nobody", {"default": 3}, [Kind.COMMAND], {}) == []


# -- the fence --------------------------------------------------------------------------------------------------------


async def test_the_fence_rises_by_one_with_every_claim_and_never_resets(world: World) -> None:
    job_id = await world.one(retry=Retry(5, "1s", 0))
    actor = await world.node()
    fences = [0]

    async def claimed(start: bool = True) -> Claimed:
        world.clock.advance(60)
        await world.promote()
        one = await actor.take(job_id, start)
        fences.append(one.fence)
        assert (await world.info(job_id)).fence == one.fence
        return one

    await actor.hand_back((await claimed(start=False)).ref)
    for result in (BOOM, NAP, STOPPED, BOOM, FATAL):
        await actor.finish(await claimed(), result)
    await world.store.replay(LOCAL, [job_id])
    assert (await world.info(job_id)).fence == fences[-1]
    await claimed()
    await actor.die(CrashRule())
    actor = await world.node()
    await claimed()
    await actor.leave()
    actor = await world.node()
    await actor.finish(await claimed())
    assert fences == list(range(10))


async def test_attempts_are_numbered_by_their_starts_not_by_their_claims(world: World) -> None:
    actor = await world.node()
    job_id = await world.one(retry=Retry(5, "1s", 0))
    for _ in range(3):
        await actor.hand_back((await actor.ahead(job_id)).ref)
    claimed = await actor.ahead(job_id)
    assert (claimed.fence, claimed.number) == (4, 1)
    await world.store.start(SYSTEM, [claimed.ref])
    await actor.finish(claimed, BOOM)
    world.clock.advance(1)
    await world.promote()
    again = await actor.take(job_id)
    assert (again.fence, again.number, again.failures) == (5, 2, 1)
    info = await world.info(job_id)
    assert [(attempt.number, attempt.fence) for attempt in info.attempts] == [(1, 4), (2, 5)]
