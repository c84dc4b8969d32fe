"""Wake-ups by NOTIFY: how many, how late, and what is left when the connection that listens has died."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from rota.clock import ManualClock
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import SECOND
from rota.store.postgres import PostgresStore, session
from rota.store.postgres.session import PROOF, PROOF_LIMIT
from rota.store.values import OF_ORDERS, Topic
from tests.contracts.test_wakeups import Alarm
from tests.contracts.world import World
from tests.servers.postgres import shared_server
from tests.servers.proxy import Connection, Proxy
from tests.store.postgres.ranking import LIMIT, Place

READY, DUE, CANCEL, NEWS, DEAF = Topic.READY, Topic.DUE, Topic.CANCEL, Topic.NEWS, Topic.DEAF


class Ear:
    """Someone else who listens."""

    def __init__(self) -> None:
        self.payloads: list[tuple[float, str]] = []
        self._news = asyncio.Condition()

    async def heard(self, payload: str) -> None:
        async with self._news:
            self.payloads.append((time.monotonic(), payload))
            self._news.notify_all()

    def times(self, topic: Topic) -> list[float]:
        return [at for at, payload in self.payloads if topic in payload.partition("/")[0]]

    async def until(self, payload: str) -> None:
        async with asyncio.timeout(LIMIT), self._news:
            await self._news.wait_for(lambda: payload in [text for _, text in self.payloads])

    async def until_topic(self, topic: Topic) -> None:
        async with asyncio.timeout(LIMIT), self._news:
            await self._news.wait_for(lambda: self.times(topic))

    async def marked(self, place: Place) -> None:
        """All that was sent before this has been heard: the server delivers in the order of commits."""
        place.notify("-/mark")
        await self.until("-/mark")


@pytest.fixture
async def ear(place: Place, store: PostgresStore) -> AsyncIterator[Ear]:
    ear = Ear()
    connection = await asyncpg.connect(place.url.partition("?")[0])
    tasks: set[asyncio.Task[None]] = set()

    def hear(_connection: object, _pid: int, _channel: str, payload: str) -> None:
        tasks.add(asyncio.create_task(ear.heard(payload)))

    await connection.add_listener(place.schema, hear)
    yield ear
    await connection.close()


async def test_orders_that_follow_each_other_are_all_announced(world: World, place: Place, ear: Ear) -> None:
    """How many topics share a notification: see test_notifier. Each is told of after its commit."""
    for _ in range(100):
        await world.one()
    last = time.monotonic()
    await world.store.close()  # what is pending goes out first
    await ear.marked(place)
    rung = ear.times(READY)
    assert 1 <= len(rung) <= 100
    assert rung[-1] >= last - 0.001, "the last order was announced too, after it was made"
    assert not ear.times(DUE)


@pytest.mark.sampled
@pytest.mark.parametrize("order", ["asyncio.run(nothing.submit())", "nothing.submit_sync()"])
async def test_a_script_that_ends_after_its_order_has_rung(place: Place, ear: Ear, order: str) -> None:
    """It closes nothing."""
    text = f"""
import asyncio, rota, rota.connections, rota.sync_bridge, rota.store.notifier
rota.connections.IN_PASSING = rota.sync_bridge.LAST_STEPS = rota.store.notifier.LAST_LIMIT = {LIMIT}
app = rota.App({place.url!r})
@app.task
def nothing() -> None: ...
{order}
"""
    script = await asyncio.create_subprocess_exec(sys.executable, "-c", text)
    assert await script.wait() == 0
    await ear.marked(place)
    assert 1 <= len(ear.times(READY)) <= 2, "one that is under way at the end is sent again"


def ear_payload(world: World, *topics: Topic) -> str:
    store = world.store
    assert isinstance(store, PostgresStore)
    return f"{''.join(topics)}/{store._session.name}"


async def test_topics_do_not_wait_for_each_other(world: World, place: Place, ear: Ear) -> None:
    for _ in range(50):
        await world.one()  # more than its share
    await world.one(delay=SECOND)
    await ear.until_topic(DUE)


async def test_one_that_does_not_notify_is_silent(world: World, place: Place, ear: Ear, clock: ManualClock) -> None:
    silent = await place.store(clock=clock, notify=False)
    woken = asyncio.Event()
    silent.listen(frozenset({READY}), woken.set)
    await silent.submit(LOCAL, [[world.job()]])
    assert woken.is_set(), "its own process is told all the same"
    await silent.close()
    await ear.marked(place)
    assert [payload for _, payload in ear.payloads] == ["-/mark"]


async def test_a_rolled_back_order_rings_for_nobody(world: World, place: Place, ear: Ear) -> None:
    await world.one(key="k")
    await ear.until(ear_payload(world, READY))
    ear.payloads.clear()
    await world.store.submit(LOCAL, [[world.job(key="k", priority=1)]])
    await world.store.close()
    await ear.marked(place)
    assert [payload for _, payload in ear.payloads] == ["-/mark"]


async def test_nobody_is_woken_twice_by_his_own_doing(world: World, place: Place, ear: Ear) -> None:
    woken: list[Topic] = []
    marked = asyncio.Event()
    world.store.listen(frozenset({READY}), lambda: woken.append(READY))
    world.store.listen(frozenset({CANCEL}), marked.set)
    await world.one()
    assert woken == [READY]
    await ear.until(ear_payload(world, READY))
    place.notify("c/somebody")  # comes after the own one
    async with asyncio.timeout(LIMIT):
        await marked.wait()
    assert woken == [READY]


@pytest.mark.parametrize("payload", ["", "/", "xyz/somebody", "c", "rdcn/" + "x" * 7000, "\N{SNOWMAN}/x"])
async def test_strange_payloads_do_no_harm(world: World, place: Place, payload: str) -> None:
    alarm = Alarm(world.store, DUE)
    place.notify(payload)
    place.notify("d/somebody")
    await alarm.next()


# -- wake-ups that somebody else carries -----------------------------------------------------------------------------


async def test_what_somebody_else_carries_is_not_notified(world: World, place: Place, ear: Ear) -> None:
    asked: list[set[Topic]] = []
    carried = {READY}

    def carry(topics: set[Topic]) -> bool:
        asked.append(set(topics))
        return topics <= carried

    world.store.carry_wakes(carry)
    await world.one()
    await world.one(delay=SECOND)
    await ear.until(ear_payload(world, DUE))
    assert asked == [{READY}, {DUE}]
    carried.clear()
    await world.one()
    await ear.until(ear_payload(world, READY))
    await ear.marked(place)
    assert [payload for _, payload in ear.payloads][:2] == [ear_payload(world, DUE), ear_payload(world, READY)]


async def test_what_is_told_goes_by_notify_whoever_carries(world: World, ear: Ear) -> None:
    asked: list[set[Topic]] = []
    world.store.carry_wakes(lambda topics: not asked.append(topics))  # type: ignore[func-returns-value]
    await world.store.tell({DEAF})
    await ear.until(ear_payload(world, DEAF))
    await world.store.tell()
    await ear.until(ear_payload(world, *sorted(OF_ORDERS)))
    assert asked == []


async def test_what_was_heard_another_way_is_told_to_nobody(world: World, place: Place, ear: Ear) -> None:
    world.store.heard({READY})
    await ear.marked(place)
    assert [payload for _, payload in ear.payloads] == ["-/mark"]


# -- a listener that has died without a word --------------------------------------------------------------------------


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async with Proxy("127.0.0.1", shared_server().port) as proxy:
        yield proxy


async def listening(place: Place, proxy: Proxy) -> tuple[PostgresStore, Connection]:
    """A store behind the proxy, and its connection that listens."""
    store = await place.store(place.through(proxy.port), opened=False)
    await store.nodes(SYSTEM)  # a connection for reading
    others = set(proxy.connections)
    await store.open()
    (listener,) = proxy.connections - others
    return store, listener


def stand_still(connection: Connection) -> None:
    """This one and no other: neither side is told."""
    connection.proxy = Proxy(*connection.proxy.target)
    connection.proxy.freeze()


def test_a_dead_listener_is_noticed_within_ten_seconds() -> None:
    """The times that the next test shortens."""
    assert PROOF + PROOF_LIMIT < 10


async def test_it_connects_again_when_it_gets_no_answer(
    world: World, place: Place, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PROOF", 0.2)
    monkeypatch.setattr(session, "PROOF_LIMIT", 0.2)
    store, listener = await listening(place, proxy)
    stand_still(listener)
    for alarm in [Alarm(store, topic) for topic in Topic]:
        await alarm.next()  # it may have missed something
    alarm = Alarm(store, DUE)
    await world.one(delay=SECOND)
    await alarm.next()


async def test_meanwhile_work_is_found_by_the_next_renewal(world: World, place: Place, proxy: Proxy, ear: Ear) -> None:
    store, listener = await listening(place, proxy)
    actor = await world.node(store=store)
    await actor.renew()
    stand_still(listener)
    alarm = Alarm(store, READY)
    job = await world.one()
    await ear.until(ear_payload(world, READY))
    assert not alarm.rung
    await actor.renew()
    assert alarm.rung
    await actor.take(job)
