"""Wake-ups: every verb rings for the right topics, here and in other stores on the same place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest_asyncio
from msgspec.structs import replace

from rota.model.feedback import Feedback
from rota.model.gates import Effect, match
from rota.model.graph import Need
from rota.model.lifecycle import State
from rota.model.limits import Key, Limit, Rate
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM
from rota.model.requirements import Requirements
from rota.model.retry import Retry
from rota.model.times import HOUR, MINUTE, SECOND
from rota.store.admission import NewGate
from rota.store.base import Store
from rota.store.values import Topic
from tests.contracts.world import ALICE, BOOM, DONE, FATAL, NAP, PLENTY, STOPPED, World, settled

READY, DUE, CANCEL, NEWS, TIES, GATE = Topic.READY, Topic.DUE, Topic.CANCEL, Topic.NEWS, Topic.TIES, Topic.GATE
SCHEDULE = Topic.SCHEDULE
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


@pytest_asyncio.fixture(loop_scope="session")
async def ears(world: World) -> AsyncIterator[Ears]:
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


async def test_jobs_that_wait_for_others(world: World, ears: Ears) -> None:
    actor = await world.node()
    parent = await world.one()
    child, later, failing = world.child(parent), world.child(parent, delay=HOUR), world.child(parent, need=Need.FAILURE)
    assert await heard(ears, world.submit(child)) == {TIES}
    assert await heard(ears, world.submit(later)) == {TIES}
    await world.submit(failing)
    claimed = await actor.take(parent)
    assert await heard(ears, actor.finish(claimed)) == {READY, DUE, NEWS}, "all is settled: no word to the resolver"
    assert await heard(ears, world.submit(world.child(parent))) >= {READY}, "it goes on at once"
    assert await heard(ears, world.submit(world.child(parent, need=Need.FAILURE))) >= {NEWS}, "it is skipped at once"
    assert await heard(ears, world.settle()) == set()


async def test_what_a_write_leaves_is_for_the_resolver(world: World, ears: Ears) -> None:
    actor = await world.node()
    parent = await world.one()
    await world.submit(*(world.child(parent) for _ in range(900)))
    claimed = await actor.take(parent)
    assert await heard(ears, actor.finish(claimed)) == {READY, NEWS, TIES}
    assert await heard(ears, world.settle(100)) >= {READY}


async def test_a_renewal_tells_of_what_is_left(world: World, ears: Ears) -> None:
    actor = await world.node()
    parents = await world.several(3)
    await world.submit(*(world.child(*parents) for _ in range(900)))
    for one in await actor.claim():
        await actor.finish(one, DONE)
    if world.backend.contents()["settling"]:
        assert TIES in await heard(ears, actor.renew())


async def test_a_replay_that_leaves_something_tells_so(world: World, ears: Ears) -> None:
    actor = await world.node()
    parents = await world.several(1_300)
    (child,) = await world.submit(world.child(*parents))
    await world.store.finish(SYSTEM, [settled(one, DONE) for one in await actor.claim()])
    while (await world.settle()).unsettled:
        pass
    await actor.run(FATAL, child)
    assert await heard(ears, world.store.replay(LOCAL, [child])) >= {DUE, TIES}


async def test_gates(world: World, ears: Ears) -> None:
    gate = NewGate("01900000-0000-7000-8000-000000000001", match(everything=True), Effect.PAUSE, "why")
    await world.several(2)
    actor = await world.node()
    assert await heard(ears, world.store.close_gate(LOCAL, gate)) == {GATE}
    assert GATE in await heard(ears, actor.renew()), "someone has to sweep"
    assert READY not in await heard(ears, actor.claim())
    assert await heard(ears, world.store.open_gate(LOCAL, gate.id)) == {GATE}
    assert await heard(ears, world.store.open_gate(LOCAL, gate.id)) == set()
    assert READY in await heard(ears, world.store.admit(SYSTEM, PLENTY))
    await world.store.close_gate(LOCAL, replace(gate, effect=Effect.DROP, id=gate.id[:-1] + "2"))
    assert NEWS in await heard(ears, world.store.admit(SYSTEM, PLENTY)), "of some it was the end"


async def test_keys(world: World, ears: Ears) -> None:
    actor = await world.node()
    keyed = Requirements(keys=(Key("k", 1),))
    assert READY in await heard(ears, world.one(requirements=keyed)), (
        "it is free: whoever is first in line goes on at once"
    )
    first = await actor.take()
    assert READY not in await heard(ears, world.one(requirements=keyed))
    assert READY in await heard(ears, actor.finish(first)), "the next goes on"
    await actor.take()
    await world.one(requirements=keyed)
    assert {READY, GATE} <= await heard(ears, world.store.set_limit(LOCAL, Limit("k", 2)))
    assert GATE in await heard(ears, world.store.remove_limit(LOCAL, "k"))
    assert await heard(ears, world.store.remove_limit(LOCAL, "k")) == set()


async def test_a_key_that_is_full_for_some_time_is_for_admission(world: World, ears: Ears) -> None:
    actor = await world.node()
    paced = Requirements(keys=(Key("k", None, Rate(1, MINUTE)),))
    await world.several(2, requirements=paced)
    assert GATE in await heard(ears, actor.claim()), "there is a time to wait for"
    assert GATE in await heard(ears, actor.renew())
    assert READY not in await heard(ears, world.store.admit(SYSTEM, PLENTY))
    world.clock.advance(61)
    assert READY in await heard(ears, world.store.admit(SYSTEM, PLENTY))


async def test_queues(world: World, ears: Ears) -> None:
    job = await world.one(delay=HOUR)
    assert READY not in await heard(ears, world.store.pause_queue(LOCAL, "default", ""))
    assert READY in await heard(ears, world.store.resume_queue(LOCAL, "default"))
    assert GATE in await heard(ears, world.store.set_step(LOCAL, "default", SECOND))
    assert GATE in await heard(ears, world.store.set_feedback(LOCAL, "default", Feedback()))
    assert await heard(ears, world.store.reprioritise(LOCAL, [job], 0)) == {READY}
    assert await heard(ears, world.store.reprioritise(LOCAL, ["no-such-job"], 0)) == set()


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


async def test_someone_else_has_ordered(world: World, another: Store, ears: Ears) -> None:
    alarms = [Alarm(another, topic) for topic in (READY, DUE, TIES, GATE, SCHEDULE)]
    assert await heard(ears, world.store.tell()) == {READY, DUE, TIES, GATE, SCHEDULE}
    for alarm in alarms:
        await alarm.next()
        alarm.end()


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


async def test_whoever_looks_only_when_woken_finds_everything(world: World, another: Store) -> None:
    """However orders and wake-ups fall together: the last wake-up comes after the last commit."""
    jobs = 120

    async def order(count: int) -> None:
        for _ in range(count):
            await world.one()

    alarm = Alarm(another, READY)
    orders = asyncio.gather(*(order(jobs // 4) for _ in range(4)))
    found = 0
    while found < jobs:
        await alarm.next()
        found = (await another.counts(LOCAL)).get(State.READY, 0)
    await orders
    alarm.end()


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
