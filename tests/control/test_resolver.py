"""The resolver: what waited for earlier fires runs when they have ended, and while nothing waits it sleeps."""

from __future__ import annotations

import pytest

from rota.control import resolver as resolving
from rota.control.resolver import PAUSE, POLL, Resolver
from rota.errors import StoreUnavailable
from rota.model.lifecycle import State
from rota.model.trigger.policies import Overlap
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
    news = resolver.when_some_wait(lambda: woken.append(1))
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
    news = resolver.when_some_wait(lambda: woken.append(1))
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
    assert store.calls == ["release"]
    world.clock.advance(PAUSE)
    await resolver.tick()
    assert store.calls == ["release"] * 2


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
    monkeypatch.setattr(resolving, "BATCH", 3)
    actor = await world.node()
    rows = [await queued(world, 2, f"s{n}") for n in range(10)]
    for claimed in await actor.claim():
        await actor.finish(claimed)
    await let_pass(world.clock, POLL, Resolver(world.store, world.clock))
    assert {await world.state(second) for _, second in rows} == {State.READY}


async def test_long_ones_don_t_keep_the_others_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "BATCH", 3)
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
