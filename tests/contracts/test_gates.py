"""Gates: what fits a closed one is never started, however it came to be ready; the rest never notices."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rota.errors import NotAllowed
from rota.model.gates import Effect
from rota.model.graph import Need
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.rank import rank
from rota.model.times import HOUR, MINUTE, SECOND, aware
from rota.store.values import Cancelling
from tests.contracts.admission import (
    DROP,
    DROPPED,
    HELD,
    PAUSE,
    READY,
    RUNNING,
    WHY,
    admitted,
    all_settled,
    close,
    gate_info,
    labelled,
    mutex,
    names,
    open_again,
)
from tests.contracts.world import ALICE, BOB, BOOM, DONE, Actor, World

both_effects = pytest.mark.parametrize("effect", [PAUSE, DROP])
WANTS = {"default": 1_000, "mail": 1_000}


def stopped(effect: Effect) -> State:
    return HELD if effect is PAUSE else DROPPED


async def other(world: World, **changes: Any) -> str:
    """One that no gate of these tests fits."""
    return await world.one(task="other", **changes)


# -- whom it fits -----------------------------------------------------------------------------------------------------

Job = dict[str, Any]
EVE = Principal("eve")
PLAIN: Job = {"task": "mail.send", "queue": "default", "who": ALICE}
FITS: dict[str, tuple[dict[str, Any], list[Job], list[Job]]] = {
    "task": ({"task": "mail.send"}, [PLAIN], [{**PLAIN, "task": "mail.send2"}, {**PLAIN, "task": "Mail.send"}]),
    "a glob": (
        {"task": "mail.*_?"},
        [{**PLAIN, "task": "mail.a_b"}, {**PLAIN, "task": "mail.%_%"}, {**PLAIN, "task": "mail._ö"}],
        [{**PLAIN, "task": "mailxa_b"}, {**PLAIN, "task": "mail.a_"}, {**PLAIN, "task": "mail.axb"}],
    ),
    "signs of other languages": (
        {"task": r"50%_[a]\*"},
        [{**PLAIN, "task": r"50%_[a]\x"}],
        [{**PLAIN, "task": r"50x_[a]\x"}, {**PLAIN, "task": r"50%xa\x"}, {**PLAIN, "task": r"50%_a\x"}],
    ),
    "queue": ({"queue": "mail"}, [{**PLAIN, "queue": "mail"}], [PLAIN]),
    "user": ({"user": "eve"}, [{**PLAIN, "who": EVE}], [PLAIN, {**PLAIN, "who": BOB}]),
    "label": (
        {"label": "db"},
        [{**PLAIN, "requirements": labelled("a", "db")}],
        [PLAIN, {**PLAIN, "requirements": labelled("dbx")}, {**PLAIN, "requirements": mutex("db")}],
    ),
    "all of it": (
        {"task": "mail.*", "queue": "mail", "user": "eve", "label": "db"},
        [{"task": "mail.x", "queue": "mail", "who": EVE, "requirements": labelled("db")}],
        [
            {"task": "nail.x", "queue": "mail", "who": EVE, "requirements": labelled("db")},
            {"task": "mail.x", "queue": "default", "who": EVE, "requirements": labelled("db")},
            {"task": "mail.x", "queue": "mail", "who": ALICE, "requirements": labelled("db")},
            {"task": "mail.x", "queue": "mail", "who": EVE, "requirements": labelled("dc")},
        ],
    ),
    "everything": ({"everything": True}, [PLAIN, {**PLAIN, "queue": "mail", "who": EVE}], []),
}


@both_effects
@pytest.mark.parametrize("swept", [False, True], ids=["claimed", "swept"])
@pytest.mark.parametrize("what", FITS)
async def test_it_stops_what_fits_and_nothing_else(world: World, what: str, swept: bool, effect: Effect) -> None:
    fits, caught, free = FITS[what]
    await close(world, effect, SYSTEM, **fits)
    within = [await world.one(**job) for job in caught]
    without = [await world.one(**job) for job in free]
    if swept:
        await admitted(world)
        assert await world.states(*within, *without) == [stopped(effect)] * len(within) + [READY] * len(without)
    claimed = await (await world.node()).claim(wants=WANTS)
    assert sorted(names(claimed)) == sorted(without)
    assert await world.states(*within) == [stopped(effect)] * len(within)
    assert {(await world.info(job)).reason for job in within} == {WHY}


# -- however it came to be ready --------------------------------------------------------------------------------------

Way = Callable[[World, Actor, Effect], Awaitable[str]]


async def ready(world: World, actor: Actor, effect: Effect) -> str:
    job = await world.one()
    await close(world, effect, task="true")
    return job


async def newly_submitted(world: World, actor: Actor, effect: Effect) -> str:
    await close(world, effect, task="true")
    await admitted(world)
    return await world.one()


async def promoted(world: World, actor: Actor, effect: Effect) -> str:
    job = await world.one(delay=MINUTE)
    await close(world, effect, task="true")
    if effect is PAUSE:
        await admitted(world)
        assert await world.state(job) is State.SCHEDULED
    world.clock.advance(60)
    await world.promote()
    return job


async def released(world: World, actor: Actor, effect: Effect) -> str:
    parent = await other(world)
    (job,) = await world.submit(world.child(parent))
    await close(world, effect, task="true")
    if effect is PAUSE:
        await admitted(world)
    await actor.run(job_id=parent)
    return job


async def retried(world: World, actor: Actor, effect: Effect) -> str:
    claimed = await actor.take(await world.one())
    await close(world, effect, task="true")
    await admitted(world)
    assert await world.state(claimed.job_id) is RUNNING
    assert await actor.finish(claimed, BOOM) is Verdict.APPLIED
    world.clock.advance(3600)
    await world.promote()
    return claimed.job_id


async def interrupted(world: World, actor: Actor, effect: Effect) -> str:
    neighbour = await world.node()
    claimed = await neighbour.take(await world.one())
    await close(world, effect, task="true")
    await neighbour.leave()
    return claimed.job_id


async def handed_back(world: World, actor: Actor, effect: Effect) -> str:
    claimed = await actor.ahead(await world.one())
    await close(world, effect, task="true")
    assert await actor.hand_back(claimed.ref) == [Verdict.APPLIED]
    return claimed.job_id


async def let_go_by_a_key(world: World, actor: Actor, effect: Effect) -> str:
    first, job = await other(world, requirements=mutex("m")), await world.one(requirements=mutex("m"))
    (claimed,) = await actor.claim()
    assert (claimed.job_id, await world.state(job)) == (first, HELD)
    await close(world, effect, task="true")
    await actor.finish(claimed)
    return job


async def let_go_by_another_gate(world: World, actor: Actor, effect: Effect) -> str:
    before, job = await close(world, label="x"), await world.one(requirements=labelled("x"))
    await admitted(world)
    await close(world, effect, task="true")
    await open_again(world, before)
    return job


async def hurried(world: World, actor: Actor, effect: Effect) -> str:
    job = await world.one(delay=HOUR)
    await close(world, effect, task="true")
    assert await world.store.hurry(LOCAL, [job]) == [True]
    await world.promote()
    return job


async def replayed(world: World, actor: Actor, effect: Effect) -> str:
    job = await world.one()
    await actor.run(job_id=job)
    await close(world, effect, task="true")
    assert await world.store.replay(LOCAL, [job], again=True) == [True]
    await world.promote()
    return job


WAYS: list[Way] = [
    ready, newly_submitted, promoted, released, retried, interrupted, handed_back, let_go_by_a_key,
    let_go_by_another_gate, hurried, replayed,
]  # fmt: skip


@both_effects
@pytest.mark.parametrize("swept", [False, True], ids=["claimed", "swept"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_whatever_makes_it_ready_it_is_not_started(world: World, way: Way, swept: bool, effect: Effect) -> None:
    actor = await world.node()
    job = await way(world, actor, effect)
    fence = (await world.info(job)).fence
    if swept:
        await admitted(world)
    free = await other(world)
    assert names(await actor.claim()) == [free]
    await admitted(world)
    info = await world.info(job)
    assert (info.state, info.reason, info.fence) == (stopped(effect), WHY, fence)


@both_effects
async def test_one_that_runs_goes_on(world: World, effect: Effect) -> None:
    actor = await world.node()
    claimed = await actor.take(await world.one())
    await close(world, effect, everything=True)
    await admitted(world)
    assert (await actor.renew()).cancels == ()
    assert await actor.finish(claimed) is Verdict.APPLIED
    assert await world.state(claimed.job_id) is State.SUCCEEDED


# -- claimed ahead ----------------------------------------------------------------------------------------------------


@both_effects
async def test_one_that_was_claimed_ahead_is_not_started(world: World, effect: Effect) -> None:
    actor = await world.node()
    gated, free = await world.one(), await other(world)
    ahead = await actor.claim(start=0)
    await close(world, effect, task="true")
    await admitted(world)
    starts = {one.job_id: (await world.store.start(SYSTEM, [one.ref]))[0] for one in ahead}
    assert (starts[gated].verdict, starts[free].verdict) == (Verdict.STALE, Verdict.APPLIED)
    assert await actor.claim() == []
    info = await world.info(gated)
    assert (info.state, info.node, info.attempts) == (stopped(effect), None, [])
    assert [ref.job_id for ref in (await actor.renew()).holds] == [free]


async def test_held_at_its_start_it_runs_when_the_gate_opens(world: World) -> None:
    actor = await world.node()
    ahead = await actor.ahead(await world.one())
    gate = await close(world, task="true")
    await world.store.start(SYSTEM, [ahead.ref])
    await open_again(world, gate)
    again = await actor.take(ahead.job_id)
    assert (again.number, again.fence > ahead.fence) == (1, True)


async def test_nothing_that_fits_is_claimed_ahead(world: World) -> None:
    await close(world, task="true")
    await world.one()
    free = await other(world)
    assert names(await (await world.node()).claim(10, start=0)) == [free]


# -- dropping ---------------------------------------------------------------------------------------------------------


async def test_all_that_wait_are_dropped_and_their_children_skipped(world: World) -> None:
    actor = await world.node()
    running = await actor.take(await world.one(requirements=mutex("m")))
    waiting = {
        "ready": await world.one(),
        "scheduled": await world.one(delay=HOUR),
        "blocked": (await world.submit(world.child(running.job_id)))[0],
        "held by a key": await world.one(requirements=mutex("m")),
        "held by a gate": await world.one(requirements=labelled("x")),
    }
    await close(world, label="x")
    await admitted(world)
    children = [(await world.submit(world.child(job, task="child")))[0] for job in waiting.values()]
    finishers = [(await world.submit(world.child(job, need=Need.FINISH, task="child")))[0] for job in waiting.values()]
    gate = await close(world, DROP, task="true")
    await admitted(world, 2)
    await all_settled(world)
    assert await world.states(*waiting.values()) == [DROPPED] * len(waiting)
    assert await world.states(*children) == [State.SKIPPED] * len(children)
    assert await world.states(*finishers) == [READY] * len(finishers)
    assert (await gate_info(world, gate)).dropped == len(waiting)
    assert await actor.finish(running, DONE) is Verdict.APPLIED
    late = await world.one(delay=HOUR)
    await admitted(world)
    assert await world.state(late) is DROPPED
    assert (await gate_info(world, gate)).dropped == len(waiting) + 1


# -- opening ----------------------------------------------------------------------------------------------------------


async def test_it_opens_by_itself(world: World) -> None:
    actor = await world.node()
    until = world.clock.now() + 10 * SECOND
    gate = await close(world, task="true", until=until)
    held = await world.one()
    answer = await admitted(world)
    assert answer.next_at == until
    world.clock.advance(9.999999)
    unmet = await world.one()
    assert (await actor.claim(), len(await world.store.gates(LOCAL))) == ([], 1)
    world.clock.advance(0.000001)
    assert gate.until == aware(world.clock.now())
    assert await world.store.gates(LOCAL) == []
    await admitted(world)
    assert names(await actor.claim()) == [held, unmet]


async def test_opening_lets_go_by_rank_also_in_pieces(world: World) -> None:
    dice = random.Random(3)
    gate = await close(world, task="true")
    waiting = []
    for place in range(40):
        world.clock.advance(dice.choice([0, 5, 100]))
        priority = dice.randrange(10)
        waiting.append((rank(world.clock.now(), priority), place, await world.one(priority=priority)))
    expected = [job for _, _, job in sorted(waiting)]
    await admitted(world)
    assert (await gate_info(world, gate)).held == 40
    assert await world.store.open_gate(LOCAL, gate.id)
    actor, found = await world.node(), []
    for _ in range(10):
        await world.store.admit(SYSTEM, 7)
        found += names(await actor.claim())
    assert found == expected


async def test_a_second_gate_keeps_holding(world: World) -> None:
    actor = await world.node()
    jobs = await world.several(5)
    first, second = await close(world, task="true"), await close(world, queue="default", reason="also")
    await admitted(world)
    assert [(await gate_info(world, gate)).held for gate in (first, second)] == [5, 0]
    await open_again(world, first)
    assert await actor.claim() == []
    await admitted(world)
    assert (await gate_info(world, second)).held == 5
    assert {(await world.info(job)).reason for job in jobs} == {"also"}
    await open_again(world, second)
    assert names(await actor.claim()) == jobs


async def test_what_opened_is_gone_and_opens_only_once(world: World) -> None:
    gate = await close(world, task="true")
    assert not await world.store.open_gate(LOCAL, world.chance.job_id(world.clock.now()))
    assert not await world.store.open_gate(LOCAL, "no id")
    await open_again(world, gate)
    assert not await world.store.open_gate(LOCAL, gate.id)
    assert await world.store.gates(LOCAL) == []
    assert (await admitted(world)).next_at is None


# -- people -----------------------------------------------------------------------------------------------------------


@both_effects
async def test_a_gate_of_one_user_is_none_for_others(world: World, effect: Effect) -> None:
    gate = await close(world, effect, ALICE, everything=True)
    mine, theirs = await world.one(ALICE), await world.one(BOB)
    await admitted(world)
    assert names(await (await world.node()).claim()) == [theirs]
    assert await world.state(mine) is stopped(effect)
    assert (await world.store.gates(BOB), await world.store.open_gate(BOB, gate.id)) == ([], False)
    (seen,) = await world.store.gates(ALICE)
    assert (seen.author, seen.reason, seen.effect, seen.held + seen.dropped) == ("alice", WHY, effect, 1)
    assert [one.id for one in await world.store.gates(SYSTEM)] == [gate.id]
    assert await world.store.open_gate(SYSTEM, gate.id)


async def test_a_gate_of_one_user_that_names_another_fits_nobody(world: World) -> None:
    await close(world, who=ALICE, user="bob")
    jobs = [await world.one(ALICE), await world.one(BOB)]
    await admitted(world)
    assert names(await (await world.node()).claim()) == jobs


async def test_only_services_may_look_after_gates(world: World) -> None:
    with pytest.raises(NotAllowed):
        await world.store.admit(LOCAL, 10)


async def test_one_that_is_held_can_be_cancelled_and_expires(world: World) -> None:
    actor = await world.node()
    gate = await close(world, task="true")
    job, mortal = await world.one(), await world.one(expires=MINUTE)
    await admitted(world)
    assert await world.store.cancel(LOCAL, [job], "enough") == [Cancelling.CANCELLED]
    world.clock.advance(61)
    await world.promote()
    assert [(await world.info(one)).reason for one in (job, mortal)] == ["enough", "expired"]
    assert await world.store.purge(LOCAL, [job, mortal]) == [True, True]
    await open_again(world, gate)
    assert await actor.claim() == []
    assert (await admitted(world)).next_at is None


# -- many -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("count", "effect"), [(1, PAUSE), (20, DROP), (1, DROP), (20, PAUSE)])
async def test_thousands_behind_a_gate_keep_nobody_waiting(world: World, count: int, effect: Effect) -> None:
    await world.several(3_000)
    free = [await other(world) for _ in range(3)]
    gate = await close(world, effect, task="true")
    actor = await world.node()
    assert names(await actor.claim(count)) == free[:count]
    await admitted(world, 1_000)
    seen = await gate_info(world, gate)
    assert (seen.held, seen.dropped) == ((3_000, 0) if effect is PAUSE else (0, 3_000))
