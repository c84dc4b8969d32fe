"""Wake-ups: every verb rings for the right topics, here and in other stores on the same place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL
from rota.model.retry import Retry
from rota.model.times import HOUR, SECOND
from rota.store.base import Store, Topic
from tests.contracts.world import ALICE, BOOM, DONE, FATAL, NAP, STOPPED, World

READY, DUE, CANCEL, NEWS = Topic.READY, Topic.DUE, Topic.CANCEL, Topic.NEWS
LIMIT = 20.0  # seconds for what should happen at once


class Ears:
    """Hears each topic apart."""

    def __init__(self, store: Store) -> None:
        self.heard: set[Topic] = set()
        self._ends = [store.listen(frozenset({topic}), self._ear(topic)) for topic in Topic]

    def _ear(self, topic: Topic) -> Callable[[], None]:
        return lambda: self.heard.add(topic)

    def end(self) -> None:
        for end in self._ends:
            end()


@pytest.fixture
async def ears(world: World) -> Iterator[Ears]:  # type: ignore[misc]
    ears = Ears(world.store)
    yield ears
    ears.end()


async def heard(ears: Ears, act: Awaitable[object]) -> set[Topic]:
    ears.heard.clear()
    await act
    return set(ears.heard)


async def test_orders(world: World, ears: Ears) -> None:
    assert await heard(ears, world.one()) == {READY}
    assert await heard(ears, world.one(delay=SECOND)) == {DUE}
    assert await heard(ears, world.one(expires=SECOND)) == {READY, DUE}
    assert await heard(ears, world.submit(world.job(), world.job(delay=SECOND))) == {READY, DUE}
    assert await heard(ears, world.one(key="k")) == {READY}
    assert await heard(ears, world.one(key="k")) == set(), "it was there before"
    assert await heard(ears, world.store.submit(LOCAL, [[world.job(key="k", priority=1)]])) == set()


async def test_changes(world: World, ears: Ears) -> None:
    actor = await world.node()
    running = await world.one()
    claimed = await actor.take()
    waiting, later = await world.one(), await world.one(delay=HOUR)
    assert await heard(ears, world.store.cancel(LOCAL, [running], "stop")) == {CANCEL}
    assert await heard(ears, world.store.hurry(LOCAL, [later])) == {DUE}
    assert await heard(ears, world.store.cancel(LOCAL, [waiting], "stop")) == {NEWS}
    assert await heard(ears, world.store.cancel(LOCAL, [waiting], "again")) == set()
    assert await heard(ears, world.store.replay(LOCAL, [waiting])) == {DUE}
    assert await heard(ears, world.store.cancel(ALICE, [later], "not hers")) == set()
    await actor.finish(claimed)


async def test_attempts(world: World, ears: Ears) -> None:
    actor = await world.node()
    await world.several(6, retry=Retry(1, "1s", 0))
    *started, ahead = await actor.claim(start=5)
    assert await heard(ears, actor.say(started[0].ref, 0)) == {NEWS}
    assert await heard(ears, actor.finish(started[0], DONE)) == {NEWS}
    assert await heard(ears, actor.finish(started[0], DONE)) == set(), "a repeat is no news"
    assert await heard(ears, actor.finish(started[1], BOOM)) >= {DUE}
    assert await heard(ears, actor.finish(started[2], NAP)) >= {DUE}
    assert await heard(ears, actor.finish(started[3], STOPPED)) >= {READY}
    assert await heard(ears, actor.finish(started[4], FATAL)) == {NEWS}
    assert await heard(ears, actor.hand_back(ahead.ref)) >= {READY}
    assert await heard(ears, actor.say(started[0].ref, 9)) == set(), "stale"


async def test_a_cancelled_job_that_goes_back_has_ended(world: World, ears: Ears) -> None:
    actor = await world.node()
    job_id = await world.one()
    ahead = await actor.ahead()
    await world.store.cancel(LOCAL, [job_id], "stop")
    assert NEWS in await heard(ears, actor.hand_back(ahead.ref))


async def test_shelves(world: World, ears: Ears) -> None:
    await world.one(delay=SECOND)
    await world.one(expires=SECOND)
    assert await heard(ears, world.promote()) == set()
    world.clock.advance(1)
    assert await heard(ears, world.promote()) == {READY, NEWS}


async def test_nodes(world: World, ears: Ears) -> None:
    leaves, crashes = await world.node(), await world.node()
    twice = await world.one()
    await leaves.take(twice)
    assert READY in await heard(ears, leaves.leave())
    await crashes.take(twice)
    assert READY in await heard(ears, crashes.die())
    second = await world.node()
    await second.take(twice)
    assert DUE in await heard(ears, second.die())
    world.clock.advance(5)
    await world.promote()
    third = await world.node()
    await third.take(twice)
    assert NEWS in await heard(ears, third.die(CrashRule(limit=3)))


async def test_a_renewal_wakes_those_who_have_missed_something(world: World, ears: Ears) -> None:
    """It is the backstop for wake-ups that got lost."""
    actor = await world.node()
    assert await heard(ears, actor.renew()) == set()
    await world.one(delay=SECOND)
    assert await heard(ears, actor.renew()) == set()
    world.clock.advance(1)
    assert await heard(ears, actor.renew()) == {DUE}
    await world.promote()
    assert await heard(ears, actor.renew()) == {READY}


async def test_whoever_has_stopped_listening_hears_nothing(world: World) -> None:
    ears = Ears(world.store)
    ears.end()
    ears.end()
    assert await heard(ears, world.one()) == set()


async def test_one_listener_may_want_several_topics(world: World) -> None:
    rung: list[int] = []
    end = world.store.listen(frozenset({READY, DUE}), lambda: rung.append(1))
    await world.one()
    assert rung
    rung.clear()
    await world.one(delay=SECOND)
    assert rung
    rung.clear()
    await world.store.cancel(LOCAL, list(await world.all()), "neither")
    assert not rung
    end()


# -- across stores ----------------------------------------------------------------------------------------------------


class Alarm:
    """Waits for the next ring."""

    def __init__(self, store: Store, *topics: Topic) -> None:
        self._rung = asyncio.Event()
        self.end = store.listen(frozenset(topics), self._rung.set)

    async def next(self) -> None:
        async with asyncio.timeout(LIMIT):
            await self._rung.wait()
        self._rung.clear()

    @property
    def rung(self) -> bool:
        return self._rung.is_set()


async def test_another_store_hears_it_too(world: World, another: Store) -> None:
    alarm = Alarm(another, READY)
    other = Alarm(another, DUE)
    for _ in range(3):
        await world.one()
        await alarm.next()
    await world.one(delay=SECOND)
    await other.next()
    assert not alarm.rung
    alarm.end()
    other.end()


async def test_all_listeners_of_another_store_hear_it(world: World, another: Store) -> None:
    alarms = [Alarm(another, READY) for _ in range(5)]
    await world.one()
    for alarm in alarms:
        await alarm.next()
    for alarm in alarms:
        alarm.end()


async def test_listeners_that_come_and_go_do_not_disturb_each_other(world: World, another: Store) -> None:
    first, second = Alarm(another, NEWS), Alarm(another, NEWS)
    first.end()
    third = Alarm(another, NEWS)
    actor = await world.node()

    async def news() -> None:
        await world.one()
        await actor.run()

    await news()
    await second.next()
    await third.next()
    third.end()
    await news()
    await second.next()
    second.end()


async def test_a_store_without_listeners_does_not_mind(world: World, another: Store) -> None:
    alarm = Alarm(another, READY)
    alarm.end()
    await world.one()
    assert not alarm.rung
