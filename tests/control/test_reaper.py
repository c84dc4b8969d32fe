"""The reaper: the work of dead nodes goes to others, that of living ones never does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from rota.control.reaper import ALONE, PERIOD, RESCUE_EVERY, SOON, Reaper
from rota.errors import StoreUnavailable
from rota.model.lifecycle import State
from rota.model.node import NodeInfo
from rota.model.outcome import CrashRule
from rota.model.principal import Principal
from rota.store.base import Store
from rota.telemetry.events import Bus, Event, JobsRescued, NodeDied, ServiceFailed
from tests.contracts.world import LEASE, Actor, World
from tests.control.stage import Troubled, let_pass

SECONDS = LEASE // 1_000_000


class Watchman(Reaper):
    def __init__(self, world: World, actor: Actor, store: Store | None = None, rule: CrashRule | None = None) -> None:
        self.told: list[Event] = []
        self.healthy = 0.0
        bus = Bus()
        bus.subscribe(self.told.append)
        super().__init__(
            store or world.store, world.clock, bus, actor.incarnation, lambda: self.healthy, rule or CrashRule()
        )


@pytest.fixture
async def watchman(world: World) -> Watchman:
    return Watchman(world, await world.node("me"))


async def test_a_node_that_is_silent_for_a_whole_lease_loses_its_work(world: World, watchman: Watchman) -> None:
    other, job = await world.node("other"), await world.one()
    await other.take(job)
    await let_pass(world.clock, SECONDS, watchman)
    assert await world.state(job) is State.RUNNING, "it may still renew"
    await let_pass(world.clock, 0.1, watchman)
    info = await world.info(job)
    assert (info.state, info.crashes) == (State.READY, 1)
    assert watchman.told == [NodeDied("other", "silent for a whole lease", 1)]
    assert not (await other.renew()).known


async def test_a_node_that_renews_keeps_its_work(world: World, watchman: Watchman) -> None:
    other, job = await world.node("other"), await world.one()
    await other.take(job)
    for _ in range(10):
        await let_pass(world.clock, SECONDS / 2, watchman)
        await other.renew()
    assert await world.state(job) is State.RUNNING
    assert not watchman.told


class Interrupted:
    """A store on which something happens between a look at the nodes and what follows from it."""

    def __init__(self, store: Store, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._store, self._meanwhile = store, meanwhile

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)

    async def nodes(self, who: Principal) -> list[NodeInfo]:
        found = await self._store.nodes(who)
        await self._meanwhile()
        return found


async def test_a_node_that_renews_in_the_last_moment_keeps_its_work(world: World) -> None:
    me, other, job = await world.node("me"), await world.node("other"), await world.one()
    await other.take(job)
    watchman = Watchman(world, me)
    await watchman.tick()
    world.clock.advance(SECONDS + 1)
    watchman._store = cast("Store", Interrupted(world.store, other.renew))
    assert await watchman.tick() == SOON, "it is looked at again soon"
    assert await world.state(job) is State.RUNNING
    assert not watchman.told


async def test_a_node_that_could_not_renew_itself_declares_nobody_dead(world: World, watchman: Watchman) -> None:
    other, job = await world.node("other"), await world.one()
    await other.take(job)
    await watchman.tick()
    world.clock.advance(10 * SECONDS)
    watchman.healthy = world.clock.monotonic()  # only now: nobody could renew before
    await watchman.tick()
    assert await world.state(job) is State.RUNNING
    await let_pass(world.clock, SECONDS + 0.1, watchman)
    assert await world.state(job) is State.READY


async def test_trouble_with_one_does_not_keep_the_others_waiting(world: World) -> None:
    me, jobs = await world.node("me"), await world.several(2)
    for name in ("one", "two"):
        await (await world.node(name)).take()
    troubled = Troubled(world.store)
    watchman = Watchman(world, me, troubled.face)
    await watchman.tick()
    world.clock.advance(SECONDS + 1)
    troubled.fails["take_over"] = 1
    await watchman.tick()
    assert sorted(await world.states(*jobs)) == [State.READY, State.RUNNING]
    failed, died = watchman.told
    assert isinstance(failed, ServiceFailed)
    assert isinstance(died, NodeDied)
    await watchman.tick()
    assert await world.states(*jobs) == [State.READY, State.READY]


async def test_a_job_that_was_lost_too_often_goes_to_the_dead_letters(world: World) -> None:
    watchman, other = Watchman(world, await world.node("me"), rule=CrashRule(limit=1)), await world.node("other")
    job = await world.one()
    await other.take(job)
    await let_pass(world.clock, SECONDS + 0.1, watchman)
    assert await world.state(job) is State.FAILED


async def test_running_jobs_that_nobody_holds_move_on(world: World, watchman: Watchman) -> None:
    other, job = await world.node("other"), await world.one()
    await other.take(job)
    world.backend.bury_node(other.incarnation)  # and nobody took its work over
    await watchman.tick()
    assert watchman.told == [JobsRescued(1)]
    assert await world.state(job) is State.READY


async def test_it_looks_for_such_jobs_at_the_first_tick_and_then_now_and_then(world: World) -> None:
    troubled = Troubled(world.store)
    watchman = Watchman(world, await world.node("me"), troubled.face)
    for _ in range(RESCUE_EVERY + 1):
        await watchman.tick()
    assert troubled.calls.count("rescue") == 2


async def test_it_rests_longer_while_it_is_alone_and_looks_at_the_instant_when_a_lease_ends(
    world: World, watchman: Watchman
) -> None:
    assert await watchman.tick() == ALONE
    await world.node("other")
    assert await watchman.tick() == PERIOD
    world.clock.advance(SECONDS - 1)
    assert await watchman.tick() == pytest.approx(1.0, abs=0.01)


async def test_a_store_that_is_away_is_no_news(world: World) -> None:
    troubled = Troubled(world.store)
    watchman = Watchman(world, await world.node("me"), troubled.face)
    troubled.fails["nodes"] = 1
    with pytest.raises(StoreUnavailable):  # its loop tells of it and tries again
        await watchman.tick()
    assert not watchman.told
