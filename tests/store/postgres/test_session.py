"""The session that holds the locks of nodes: who is found dead by it, and who is not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rota.clock import Chance, ManualClock
from rota.errors import InvalidInput
from rota.model.lifecycle import State
from rota.model.node import NewNode
from rota.model.outcome import CrashRule
from rota.model.principal import SYSTEM
from rota.model.times import SECOND, Duration
from rota.store.base import Store
from rota.store.postgres import PostgresStore, session
from rota.store.postgres.session import GRACE, lock_number
from rota.store.values import Topic
from tests.contracts.world import Actor, World
from tests.servers.postgres import Server
from tests.store.postgres.backends import Postgres
from tests.store.postgres.ranking import LIMIT, Place, until, until_so

RULE = CrashRule()
WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s"  # others may wait on the same server
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"


@pytest.fixture
async def mine(place: Place, clock: ManualClock) -> PostgresStore:
    """The store of the node that is about to have bad luck; `world.store` is the one of those who look on."""
    return await place.store(clock=clock)


@pytest.fixture
async def actor(world: World, mine: PostgresStore) -> Actor:
    return await world.node(store=mine)


async def sign(observer: Store, incarnation: str) -> tuple[bool, Duration | None]:
    """What others see of a node: gone, fading."""
    (found,) = [node for node in await observer.nodes(SYSTEM) if node.incarnation == incarnation]
    return found.gone, found.fading


async def taken(observer: Store, actor: Actor) -> list[str] | None:
    """Tries to take over a node as one whose process is gone."""
    return await observer.take_over(SYSTEM, actor.incarnation, None, RULE)


# -- death ------------------------------------------------------------------------------------------------------------


async def test_a_node_that_lives_is_never_taken_for_gone(
    world: World, clock: ManualClock, actor: Actor, place: Place
) -> None:
    assert place.row_server(actor.incarnation) is not None
    clock.advance(3600)
    assert await sign(world.store, actor.incarnation) == (False, None)
    assert await taken(world.store, actor) is None
    assert (await actor.renew()).known


async def test_a_dead_node_fades_and_is_gone_after_the_grace(
    world: World, clock: ManualClock, actor: Actor, mine: PostgresStore, place: Place
) -> None:
    job = await world.one()
    await actor.take(job)
    clock.advance(0.5)
    await mine.close()
    await place.free(actor.incarnation)
    assert await sign(world.store, actor.incarnation) == (False, GRACE - SECOND // 2)
    assert await taken(world.store, actor) is None
    clock.advance(GRACE / SECOND - 0.5 - 0.000001)
    assert await sign(world.store, actor.incarnation) == (False, 1)
    assert await taken(world.store, actor) is None
    clock.advance(0.000001)
    assert await sign(world.store, actor.incarnation) == (True, None)
    assert await taken(world.store, actor) == [job]
    assert (await world.info(job)).crashes == 1
    assert await taken(world.store, actor) is None, "once is enough"


async def test_a_renewal_that_is_under_way_counts(
    world: World, clock: ManualClock, actor: Actor, mine: PostgresStore, place: Place
) -> None:
    job = await world.one()
    await actor.take(job)
    await mine.close()
    await place.free(actor.incarnation)
    clock.advance(GRACE / SECOND + 1)
    with place.connect() as db:
        db.execute("BEGIN")
        db.execute(
            "UPDATE nodes SET beats = beats + 1, seen_at = %s WHERE incarnation = %s", [clock.now(), actor.incarnation]
        )
        trying = asyncio.create_task(taken(world.store, actor))
        await until(lambda: place.value(WAITING, f"%{place.schema}.nodes%"))
        db.execute("COMMIT")
    assert await trying is None
    assert await world.state(job) is State.RUNNING


async def test_the_grace_is_counted_by_the_servers_clock(world: World, place: Place) -> None:
    observer, mine = await place.store(), await place.store()
    actor = await world.node(store=mine)
    await actor.renew()
    await mine.close()
    await place.free(actor.incarnation)
    gone, fading = await sign(observer, actor.incarnation)
    assert not gone
    assert fading is not None
    assert 0 < fading <= GRACE
    assert await taken(observer, actor) is None
    await asyncio.sleep(fading / SECOND)  # that is what it says
    assert await sign(observer, actor.incarnation) == (True, None)
    assert await taken(observer, actor) == []


async def test_those_who_look_do_not_take_each_other_for_the_owner(
    world: World, clock: ManualClock, actor: Actor, mine: PostgresStore, place: Place
) -> None:
    """Several look at once, in transactions that last, and still all of them see a free lock."""
    observers = [await place.store(clock=clock) for _ in range(3)]
    await mine.close()
    await place.free(actor.incarnation)
    clock.advance(2)
    with place.connect() as db, db.transaction():
        tried = db.execute("SELECT pg_try_advisory_xact_lock_shared(lock) FROM nodes").fetchall()
        assert tried == [(True,)], "someone who looks, and takes his time"
        for signs in await asyncio.gather(*(sign(observer, actor.incarnation) for observer in observers)):
            assert signs == (True, None)
        moved = await asyncio.gather(*(taken(observer, actor) for observer in observers))
    assert sorted(moved, key=repr) == [None, None, []] or sorted(moved, key=repr) == [[], None, None]


async def test_a_node_does_not_take_over_itself(world: World, clock: ManualClock, actor: Actor, place: Place) -> None:
    """On its own session the lock would be free for it."""
    clock.advance(3600)
    assert await sign(actor.store, actor.incarnation) == (False, None)
    assert await taken(actor.store, actor) is None


async def test_whoever_was_taken_over_hears_it(
    world: World, clock: ManualClock, actor: Actor, mine: PostgresStore, place: Place
) -> None:
    """Its session was lost for longer than the grace, and it did not renew."""
    async with lock_denied(place, actor.incarnation):
        await until(lambda: mine.exposed(actor.incarnation) == GRACE)  # it has tried, and will again in some seconds
        clock.advance(2)
    assert await sign(world.store, actor.incarnation) == (True, None)
    assert await taken(world.store, actor) == []
    assert not (await actor.renew()).known


# -- a session lost by a node that lives ------------------------------------------------------------------------------


@asynccontextmanager
async def lock_denied(place: Place, incarnation: str) -> AsyncIterator[None]:
    """Ends the session of a node, and holds its lock so that it can't take it again."""
    with place.connect() as db:
        number = lock_number(place.schema, incarnation)
        with place.connect() as other:
            other.execute("SET deadlock_timeout = '1h'")
            waiting = asyncio.create_task(asyncio.to_thread(db.execute, "SELECT pg_advisory_lock(%s)", (number,)))
            await until(lambda: place.value(WAITS, db.info.backend_pid))
            before = place.end_session(incarnation)
            await waiting
        assert await place.held(incarnation, apart_from=before) == db.info.backend_pid
        yield


async def test_it_comes_back_by_itself_takes_its_locks_and_tells_everyone(
    world: World, clock: ManualClock, actor: Actor, mine: PostgresStore, place: Place
) -> None:
    second = await world.node(store=mine)
    woken: list[tuple[Topic, Duration | None]] = []
    everything = asyncio.Event()

    def wake(topic: Topic) -> None:
        woken.append((topic, mine.exposed(actor.incarnation)))
        if {topic for topic, _ in woken} == set(Topic):
            everything.set()

    for topic in Topic:
        mine.listen(frozenset({topic}), lambda topic=topic: wake(topic))  # type: ignore[misc]
    before = place.end_session(actor.incarnation)
    async with asyncio.timeout(LIMIT):
        await everything.wait()
    assert woken[0][0] is Topic.CANCEL, "the heartbeat is told first, so that it renews at once"
    assert woken[-1][1] is None, "and now it has its lock again"
    after = await place.held(actor.incarnation, apart_from=before)
    assert place.holder(second.incarnation) == after
    clock.advance(3600)
    for each in (actor, second):
        assert await sign(world.store, each.incarnation) == (False, None)
        assert await taken(world.store, each) is None

    heard = asyncio.Event()
    mine.listen(frozenset({Topic.DUE}), heard.set)
    await world.one(delay=SECOND)  # from another store
    async with asyncio.timeout(LIMIT):
        await heard.wait()


async def test_it_is_exposed_until_it_has_renewed(
    world: World, clock: ManualClock, actor: Actor, mine: PostgresStore, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PROOF", 0.1)
    assert mine.exposed(actor.incarnation) is None
    async with lock_denied(place, actor.incarnation):
        await until(lambda: mine.exposed(actor.incarnation) is not None)
        assert mine.exposed(actor.incarnation) == GRACE
        assert (await actor.renew()).known
        assert mine.exposed(actor.incarnation) is None
        assert place.row_server(actor.incarnation) is None, "it holds no lock, so nobody may look for it"
    clock.advance(3600)
    assert await sign(world.store, actor.incarnation) == (False, None)
    assert await taken(world.store, actor) is None
    await place.held(actor.incarnation)  # it is tried again now and then
    await until(lambda: len(mine.guards(actor.incarnation)) == 1)
    await actor.renew()
    assert place.row_server(actor.incarnation) is not None
    assert mine.exposed(actor.incarnation) is None


async def test_a_take_over_by_silence_needs_no_lock(world: World, actor: Actor) -> None:
    beats = (await actor.seen()).beats
    assert await world.store.take_over(SYSTEM, actor.incarnation, beats, RULE) == []


async def test_nodes_of_one_process_can_join_at_once(world: World, mine: PostgresStore, place: Place) -> None:
    actors = await asyncio.gather(*(world.node(store=mine) for _ in range(8)))
    assert {place.holder(actor.incarnation) for actor in actors} == {place.holder(actors[0].incarnation)}
    assert place.holder(actors[0].incarnation) is not None
    await asyncio.gather(*(actor.leave() for actor in actors))
    assert [place.holder(actor.incarnation) for actor in actors] == [None] * 8


async def test_a_node_that_joins_while_the_session_proves_itself_does_not_break_it(
    world: World, place: Place, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PROOF", 0.0)  # it does nothing else
    mine = await place.store(clock=clock)
    first = await world.node(store=mine)
    holder = place.holder(first.incarnation)
    for _ in range(30):
        actor = await world.node(store=mine)
        assert place.holder(actor.incarnation) == holder
        await actor.leave()
        assert place.holder(actor.incarnation) is None
    assert place.holder(first.incarnation) == holder


# -- names ------------------------------------------------------------------------------------------------------------


async def test_the_id_of_a_living_node_is_refused(world: World, actor: Actor, clock: ManualClock, place: Place) -> None:
    clock.advance(5)  # longer than the grace and shorter than the lease
    with pytest.raises(InvalidInput, match="node id"):
        await world.node(actor.name)
    assert (await actor.renew()).known


async def test_the_id_of_a_dead_node_is_free_when_it_is_certainly_gone(
    world: World, actor: Actor, mine: PostgresStore, clock: ManualClock, place: Place
) -> None:
    await mine.close()
    await place.free(actor.incarnation)
    with pytest.raises(InvalidInput, match="node id"):
        await world.node(actor.name)
    clock.advance(GRACE / SECOND)
    again = await world.node(actor.name)
    assert (await again.renew()).known


async def test_a_refused_node_leaves_no_lock_behind(world: World, actor: Actor, place: Place) -> None:
    with pytest.raises(InvalidInput, match="node id"):
        await world.node(actor.name)
    assert place.value("SELECT count(*) FROM nodes") == 1
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s"
    (mine,) = {place.holder(actor.incarnation)}
    others = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> %s AND database = "
    others += "(SELECT oid FROM pg_database WHERE datname = current_database())"
    assert (place.value(held, mine), place.value(others, mine)) == (1, 0)


# -- processes --------------------------------------------------------------------------------------------------------

# Joins as a node, starts a child that holds the guards as a keeper does, says who both are, and hangs.
NODE = """
import asyncio, subprocess, sys
from rota.clock import Chance, SystemClock
from rota.model.node import NewNode
from rota.model.principal import SYSTEM
from rota.store.postgres import PostgresStore

async def main():
    store = PostgresStore(sys.argv[1], SystemClock(), Chance())
    await store.open()
    await store.register(SYSTEM, NewNode("doomed", "incarnation", ("worker",), {"default": 1}, "1", 10_000_000), [])
    child = subprocess.Popen(["sleep", "60"], pass_fds=store.guards("incarnation"))
    print(child.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_the_lock_is_free_when_the_last_process_that_holds_a_guard_has_ended(
    world: World, clock: ManualClock, place: Place
) -> None:
    process = subprocess.Popen([sys.executable, "-c", NODE, place.url], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    with process.stdout:
        child = int(await asyncio.to_thread(process.stdout.readline))
    holder = place.holder("incarnation")
    assert holder is not None
    try:
        process.kill()
        process.wait()
        # The server would have been told in the same instant; it is asked something in order to see that it was not.
        assert place.value("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", holder) == 1
        assert place.holder("incarnation") == holder
        assert (await sign(world.store, "incarnation"))[1] is None
    finally:
        os.kill(child, signal.SIGKILL)
    await place.free("incarnation")


# -- the server -------------------------------------------------------------------------------------------------------


def own_world(store: Store, tmp_path: Path, clock: ManualClock) -> World:
    return World(store, Postgres(tmp_path, clock), clock, Chance())


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.slow
async def test_after_a_restart_a_free_lock_says_nothing_until_it_is_renewed(
    created: Server, own: Place, tmp_path: Path, clock: ManualClock, mode: str
) -> None:
    observer, mine, dead = [await own.store(clock=clock) for _ in range(3)]
    world = own_world(observer, tmp_path, clock)
    actor, unlucky = await world.node(store=mine), await world.node(store=dead)
    before = own.row_server(actor.incarnation)
    await dead.close()
    created.restart("immediate" if mode == "immediate" else "fast")
    await own.held(actor.incarnation)
    clock.advance(5)
    for each in (actor, unlucky):
        assert await sign(observer, each.incarnation) == (False, None)
        assert await taken(observer, each) is None
    assert own.holder(unlucky.incarnation) is None
    # So it is not exposed either, although its row still names the server of before.
    await until(lambda: len(mine.guards(actor.incarnation)) == 1)
    assert own.row_server(actor.incarnation) == before
    assert mine.exposed(actor.incarnation) is None
    await actor.renew()
    assert own.row_server(actor.incarnation) not in (before, None)
    await mine.close()
    await own.free(actor.incarnation)
    assert await sign(observer, actor.incarnation) == (False, GRACE)


@pytest.mark.slow
async def test_while_nobody_answers_nothing_is_exposed(
    created: Server, own: Place, tmp_path: Path, clock: ManualClock
) -> None:
    mine = await own.store(clock=clock)
    actor = await own_world(mine, tmp_path, clock).node()
    created.stop("immediate")
    try:
        await until(lambda: not mine.guards(actor.incarnation))
        await until(lambda: mine.exposed(actor.incarnation) is None)
    finally:
        created.start()
    exposed = set()

    async def back() -> bool:
        exposed.add(mine.exposed(actor.incarnation))
        return own.holder(actor.incarnation) is not None

    await until_so(back)
    assert exposed == {None}


@pytest.mark.slow
async def test_a_promoted_standby_is_another_server(
    created: Server, own: Place, tmp_path: Path, clock: ManualClock
) -> None:
    standby = Server.standby(tmp_path / "standby", created, synchronous=False)
    try:
        await own.store(clock=clock)
        hosts = f"127.0.0.1:{standby.port},127.0.0.1:{created.port}"
        both = Place(f"postgresql://postgres@{hosts}/postgres")
        after = Place(standby.url())
        observer, mine = [await both.store(clock=clock) for _ in range(2)]
        world = own_world(observer, tmp_path, clock)
        actor = await world.node(store=mine)
        position = created.value("SELECT pg_current_wal_lsn()::text")
        await until(lambda: standby.value("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", position))
        created.kill()
        # One is down, and the other can't be written: nobody can take anything over.
        await until(lambda: not mine.guards(actor.incarnation))
        await until(lambda: mine.exposed(actor.incarnation) is None)
        standby.promote()
        await after.held(actor.incarnation)
        clock.advance(5)
        assert await sign(observer, actor.incarnation) == (False, None)
        assert await taken(observer, actor) is None
        assert mine.exposed(actor.incarnation) is None
        assert (await actor.renew()).known
        await mine.close()
        await after.free(actor.incarnation)
        assert await sign(observer, actor.incarnation) == (False, GRACE)
        await both.close()
    finally:
        standby.kill()
        if not created.running:
            created.start()


async def test_a_crash_of_the_server_within_is_another_server(created: Server, own: Place) -> None:
    """When one backend is killed, the server starts anew in place: all locks are gone, and its start says nothing of
    it."""
    store = await own.store()
    await store.register(SYSTEM, NewNode("box", "inc", ("worker",), {}, "1", 10 * SECOND), [])
    before = store._session.server_of("inc")
    assert before is not None
    victim = own.connect()
    os.kill(victim.info.backend_pid, signal.SIGKILL)
    await until(lambda: store._session.server_of("inc") not in (None, before))
    victim.close()
