"""The resolver: what waited for parents or for earlier fires goes on when they have ended; else it sleeps."""

from __future__ import annotations

from typing import cast

import pytest

from rota.control import resolver as resolving
from rota.control.resolver import PAUSE, POLL, SOON, Resolver
from rota.errors import StoreUnavailable
from rota.model.lifecycle import State
from rota.model.trigger.policies import Overlap
from rota.store.base import Store
from rota.store.graph import Settled
from tests.contracts.timetables import keep, tick
from tests.contracts.world import World
from tests.control.stage import Troubled, let_pass

NOTHING = resolving.LONGEST_SLEEP


async def queued(world: World, count: int, name: str = "s") -> list[str]:
    """Fires of one schedule of which the first may run."""
    await keep(world, name, overlap=Overlap.QUEUE)
    _, jobs = await tick(world, name, minutes=count)
    return jobs


async def test_while_nothing_waits_it_sleeps_long_and_news_of_jobs_don_t_wake_it(world: World) -> None:
    resolver = Resolver(world.store, world.clock)
    woken: list[int] = []
    resolver.wake = lambda: woken.append(1)
    news = resolver.when_ended
    news()
    assert woken, "until it has looked it can't know"
    assert await resolver.tick() == NOTHING
    woken.clear()
    news()
    assert not woken


async def test_while_some_wait_news_of_jobs_wake_it_and_it_looks_by_itself(world: World) -> None:
    actor = await world.node()
    first, second = await queued(world, 2)
    resolver = Resolver(world.store, world.clock)
    woken: list[int] = []
    resolver.wake = lambda: woken.append(1)
    news = resolver.when_ended
    assert await resolver.tick() == POLL
    news()
    assert woken
    await actor.run(job_id=first)
    await let_pass(world.clock, POLL, resolver)
    assert await world.state(second) is State.READY
    assert await resolver.tick() in (NOTHING, pytest.approx(PAUSE))


async def test_it_does_not_look_more_often_than_it_should(world: World) -> None:
    store = Troubled(world.store)
    resolver = Resolver(store.face, world.clock)
    await queued(world, 2)
    for _ in range(100):  # jobs end by the thousand
        assert 0 < await resolver.tick() <= POLL
    assert store.calls == ["settle", "release"], "each once: nothing was left, and the fires can wait"
    world.clock.advance(PAUSE)
    await resolver.tick()
    assert store.calls == ["settle", "release", "release"]


async def test_a_long_row_is_let_go_one_by_one_as_each_ends(world: World) -> None:
    actor = await world.node()
    jobs = await queued(world, 5)
    resolver = Resolver(world.store, world.clock)
    for job in jobs:
        await let_pass(world.clock, 2 * POLL, resolver)
        (claimed,) = await actor.claim()
        assert claimed.job_id == job
        await actor.finish(claimed)


async def test_more_schedules_than_one_write_goes_through_are_let_go_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "SCHEDULES", 3)
    actor = await world.node()
    rows = [await queued(world, 2, f"s{n}") for n in range(10)]
    for claimed in await actor.claim():
        await actor.finish(claimed)
    await let_pass(world.clock, POLL, Resolver(world.store, world.clock))
    assert {await world.state(second) for _, second in rows} == {State.READY}


async def test_long_ones_don_t_keep_the_others_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "SCHEDULES", 3)
    actor = await world.node()
    rows = dict([await queued(world, 2, f"s{n}") for n in range(6)])
    claimed = {one.job_id: one for one in await actor.claim()}
    *_, last = rows
    await actor.finish(claimed[last])
    await let_pass(world.clock, 3 * POLL, Resolver(world.store, world.clock))
    assert await world.state(rows[last]) is State.READY


async def test_an_error_of_the_store_loses_nothing(world: World) -> None:
    actor = await world.node()
    first, second = await queued(world, 2)
    await actor.run(job_id=first)
    store = Troubled(world.store)
    store.fails["release"] = 1
    resolver = Resolver(store.face, world.clock)
    with pytest.raises(StoreUnavailable):
        await resolver.tick()
    await resolver.tick()
    assert await world.state(second) is State.READY


# -- jobs with parents ------------------------------------------------------------------------------------------------


async def family(world: World, count: int) -> list[str]:
    """Children whose parent has succeeded; so many that its end was not settled by one write."""
    actor = await world.node()
    parent = world.job(queue="parents")
    children = await world.submit(parent, *(world.child(parent.id) for _ in range(count)))
    (claimed,) = await actor.claim(queue="parents")
    await actor.finish(claimed)
    return children[1:]


async def states(world: World, jobs: list[str]) -> set[State]:
    return {info.state for job, info in (await world.all()).items() if job in set(jobs)}


async def test_a_large_family_is_let_go_without_a_pause(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "EDGES", 100)
    children = await family(world, 900)
    assert await states(world, children) == {State.BLOCKED, State.READY}
    resolver = Resolver(world.store, world.clock)
    ticks = 0
    while (wait := await resolver.tick()) != NOTHING:
        assert wait == 0.0
        ticks += 1
        assert ticks < 20
    assert await states(world, children) == {State.READY}


async def test_it_looks_once_and_then_only_when_it_is_told(world: World) -> None:
    store = Troubled(world.store)
    resolver = Resolver(store.face, world.clock)
    woken: list[int] = []
    resolver.wake = lambda: woken.append(1)
    tied = resolver.when_tied
    for _ in range(3):
        assert await resolver.tick() == NOTHING
    assert store.calls == ["settle", "release"]
    tied()
    assert woken == [1]
    await resolver.tick()
    await resolver.tick()
    assert store.calls == ["settle", "release", "settle"]


async def test_news_of_jobs_don_t_wake_it_because_of_jobs_with_parents(world: World) -> None:
    resolver = Resolver(world.store, world.clock)
    woken: list[int] = []
    resolver.wake = lambda: woken.append(1)
    news = resolver.when_ended
    await world.submit(world.child(await world.one()))
    assert await resolver.tick() == NOTHING, "the write that ends the parent will see to it"
    news()
    assert not woken


async def test_fires_that_begin_to_wait_wake_it(world: World) -> None:
    resolver = Resolver(world.store, world.clock)
    woken: list[int] = []
    resolver.wake = lambda: woken.append(1)
    await resolver.tick()
    await queued(world, 2)
    resolver.when_fires_wait()
    assert woken == [1]
    world.clock.advance(PAUSE)
    assert await resolver.tick() == POLL
    resolver.when_ended()
    assert woken == [1, 1]


async def test_what_is_told_while_it_looks_counts(world: World) -> None:
    store = Troubled(world.store)
    resolver = Resolver(store.face, world.clock)
    store.after["settle"] = resolver.when_tied
    await resolver.tick()
    store.after.clear()
    await resolver.tick()
    assert store.calls.count("settle") == 2


@pytest.mark.parametrize("when", ["fails", "fails_after"])
async def test_an_error_of_the_store_loses_no_child(world: World, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    monkeypatch.setattr(resolving, "EDGES", 100)
    children = await family(world, 900)
    store = Troubled(world.store)
    getattr(store, when)["settle"] = 1
    resolver = Resolver(store.face, world.clock)
    with pytest.raises(StoreUnavailable):
        await resolver.tick()
    while await resolver.tick() != NOTHING:
        pass
    assert await states(world, children) == {State.READY}


class Held:
    """A store in which a child is in someone else's hands for a while."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    async def settle(self, who: object, limit: int) -> Settled:
        self.left -= 1
        return Settled(0, self.left > 0, True)

    async def release(self, who: object, limit: int) -> tuple[int, int]:
        return 0, 0


async def test_what_someone_else_holds_is_looked_at_again_soon_and_not_at_once(world: World) -> None:
    resolver = Resolver(cast("Store", Held(3)), world.clock)
    assert [await resolver.tick() for _ in range(4)] == [SOON, SOON, NOTHING, NOTHING]
