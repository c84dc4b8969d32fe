"""The admission service: gates bite and open, and lines move, without anyone claiming; and it does not press the
store."""

from __future__ import annotations

from typing import cast

import pytest

from rota.clock import ManualClock
from rota.control import admission as admitting
from rota.control.admission import FOLLOWERS_WAIT, LONGEST_SLEEP, PART, PAUSE, AdmissionSweep
from rota.errors import StoreUnavailable
from rota.model.feedback import Feedback
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import HOUR, SECOND
from rota.store.admission import Admitted
from rota.store.base import Store
from tests.contracts.admission import HELD, READY, close, gate_info, mutex, names, rated
from tests.contracts.world import World
from tests.control.stage import Troubled, let_pass


def service(world: World, leads: bool = True, store: Store | None = None) -> AdmissionSweep:
    return AdmissionSweep(store or world.store, world.clock, lambda: leads)


async def test_while_there_is_nothing_to_do_it_sleeps_long(world: World) -> None:
    await world.several(3)
    assert await service(world).tick() == LONGEST_SLEEP


async def test_it_moves_aside_what_a_gate_fits_and_lets_it_go_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admitting, "BATCH", 10)
    admission = service(world)
    jobs = await world.several(35)
    gate = await close(world, task="true")
    await let_pass(world.clock, 1, admission)
    assert (await gate_info(world, gate)).held == 35
    await world.store.open_gate(LOCAL, gate.id)
    await let_pass(world.clock, 1, service(world))
    assert set(await world.states(*jobs)) == {READY}
    assert await world.store.gates(SYSTEM) == []


async def test_it_wakes_when_a_gate_opens_by_itself(world: World) -> None:
    job = await world.one()
    await close(world, task="true", until=world.clock.now() + 10 * SECOND)
    admission = service(world)
    await admission.tick()
    world.clock.advance(PAUSE)
    assert await admission.tick() == pytest.approx(10 - PAUSE)
    await let_pass(world.clock, 9.9, admission)
    assert await world.state(job) is HELD
    await let_pass(world.clock, 0.2, admission)
    assert await world.state(job) is READY


async def test_it_wakes_when_a_token_comes_back(world: World) -> None:
    actor = await world.node()
    jobs = await world.several(3, requirements=rated(1, 10 * SECOND))
    admission = service(world)
    for job in jobs:
        (claimed,) = await actor.claim()
        assert (claimed.job_id, await actor.claim()) == (job, [])
        await actor.finish(claimed)
        await let_pass(world.clock, 10.6, admission)


async def test_it_wakes_for_the_boost(world: World) -> None:
    await world.store.set_feedback(LOCAL, "default", Feedback(SECOND, 5, 30 * SECOND))
    await world.store.charge(SYSTEM, {("default", "local/true"): HOUR})
    await let_pass(world.clock, 29, admission := service(world))
    assert await world.store.flows(LOCAL, 5) != []
    await let_pass(world.clock, 1.1, admission)
    assert await world.store.flows(LOCAL, 5) == []


async def test_a_queue_without_nodes_does_not_keep_a_key_from_others(world: World) -> None:
    actor = await world.node()
    stuck = await world.one(requirements=mutex("m"), queue="nobody's")
    free = await world.one(requirements=mutex("m"))
    admission = service(world)
    for _ in range(3):
        if claimed := await actor.claim():
            assert names(claimed) == [free]
            assert await world.state(stuck) is READY
            return
        await let_pass(world.clock, 2, admission)
    raise AssertionError("it never got the key")


# -- how often --------------------------------------------------------------------------------------------------------


class Slow:
    """A store whose looks take their time."""

    def __init__(self, clock: ManualClock, took: float, *answers: Admitted) -> None:
        self.clock, self.took, self.answers = clock, took, list(answers)
        self.looks = 0

    def now(self) -> int:
        return self.clock.now()

    async def admit(self, who: object, limit: int) -> Admitted:
        self.looks += 1
        self.clock.advance(self.took)
        return self.answers.pop(0) if self.answers else Admitted(0, False)


def on(store: Slow, leads: bool = True) -> AdmissionSweep:
    return AdmissionSweep(cast("Store", store), store.clock, lambda: leads)


@pytest.mark.parametrize("took", [0.0, 0.125, 0.5])
async def test_it_rests_for_longer_than_it_works(clock: ManualClock, took: float) -> None:
    store = Slow(clock, took, *[Admitted(1, True)] * 100)
    admission = on(store)
    await let_pass(clock, 20, admission)
    assert store.looks <= 20 / (took + max(PAUSE, PART * took)) + 1


async def test_woken_while_it_rests_it_says_how_long_and_does_not_look(clock: ManualClock) -> None:
    store = Slow(clock, 0.1, Admitted(1, True))
    admission = on(store)
    rest = await admission.tick()
    assert rest == pytest.approx(PART * 0.1)
    for _ in range(10):
        assert await admission.tick() == pytest.approx(rest)
    assert store.looks == 1
    clock.advance(rest)
    assert await admission.tick() == LONGEST_SLEEP


async def test_followers_leave_it_to_the_leader(clock: ManualClock) -> None:
    store = Slow(clock, 0.0, *[Admitted(1, True)] * 100)
    assert await on(store, leads=False).tick() == FOLLOWERS_WAIT


@pytest.mark.parametrize("late", [-HOUR, 0, 5 * SECOND, 10 * HOUR])
async def test_it_sleeps_until_there_is_something_to_do(clock: ManualClock, late: int) -> None:
    store = Slow(clock, 0.0, Admitted(0, False, clock.now() + late))
    assert await on(store).tick() == pytest.approx(min(max(PAUSE, late / SECOND), LONGEST_SLEEP))


async def test_an_error_of_the_store_loses_nothing(world: World) -> None:
    job = await world.one()
    await close(world, task="true")
    store = Troubled(world.store)
    store.fails["admit"] = 1
    admission = service(world, store=store.face)
    with pytest.raises(StoreUnavailable):
        await admission.tick()
    await admission.tick()
    assert await world.state(job) is HELD
