"""A pooler between rota and the server: sessions are not ours, and neither are prepared statements."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.clock import ManualClock, SystemClock
from rota.errors import SchemaMissing, StoreUnavailable
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import SECOND
from rota.store.postgres import PostgresStore, work
from rota.store.postgres import database as database_module
from rota.store.postgres.database import Unit
from rota.store.postgres.scan_floor import ScanFloor
from tests.contracts.admission import mutex
from tests.contracts.world import BOOM, BOTH, PLENTY, World
from tests.servers.postgres import database, shared_server
from tests.servers.proxy import Proxy
from tests.store.postgres.pooler import Pooler
from tests.store.postgres.ranking import LIMIT, Place, until, until_so

pytestmark = pytest.mark.slow


@pytest.fixture(params=[False, True], ids=["lenient", "strict"])
async def pooler(request: pytest.FixtureRequest) -> AsyncIterator[Pooler]:
    """Strict ones refuse settings that they do not know; with the others only the number of the process is made up."""
    async with Pooler("127.0.0.1", shared_server().port, strict=request.param) as pooler:
        yield pooler


@pytest.fixture
async def pooled(place: Place, store: PostgresStore, pooler: Pooler, clock: ManualClock) -> PostgresStore:
    return await place.store(place.through(pooler.port), clock=clock)


async def test_it_is_detected_and_the_doctor_says_so(pooled: PostgresStore, store: PostgresStore) -> None:
    (finding,) = [one for one in await pooled.examine() if one.name == "sessions"]
    assert not finding.ok
    assert "pooler" in finding.text
    (finding,) = [one for one in await store.examine() if one.name == "sessions"]
    assert (finding.ok, finding.text) == (True, "listening")


async def test_jobs_live_as_they_do_without(world: World, pooled: PostgresStore, pooler: Pooler) -> None:
    actor = await world.node(store=pooled)
    few, keyed, many = [world.job()], [world.job(key="k")], [world.job() for _ in range(100)]
    await pooled.submit(LOCAL, [few])
    for _ in range(2):
        await pooled.submit(LOCAL, [keyed])
    await pooled.submit(LOCAL, [many])
    claimed = await actor.claim()
    assert len(claimed) == 102
    news = await actor.renew()
    assert {ref.job_id for ref in news.holds} == {one.job_id for one in claimed}
    assert await actor.say(claimed[0].ref, 0) is Verdict.APPLIED
    assert await actor.finish(claimed[0], BOOM) is Verdict.APPLIED
    for one in claimed[1:10]:
        assert await actor.finish(one) is Verdict.APPLIED
    assert await actor.finish(claimed[1]) is Verdict.ALREADY
    assert (await pooled.counts(SYSTEM))[State.SUCCEEDED] == 9
    await pooled.cancel(LOCAL, [claimed[20].job_id], "stop")
    await actor.leave()
    assert (await pooled.counts(SYSTEM))[State.READY] == 91


async def test_many_at_once(world: World, pooled: PostgresStore) -> None:
    """More calls than the pooler has connections: each transaction runs on whichever is free."""
    actor = await world.node(store=pooled)
    await asyncio.gather(*(pooled.submit(LOCAL, [[world.job()]]) for _ in range(100)))
    claims = await asyncio.gather(*(actor.claim(10) for _ in range(15)))
    # How many each gets is chance: rows that another has just locked are passed over. But each job is claimed once.
    claimed = [one for batch in claims for one in batch] + await actor.claim()
    assert len(claimed) == len({one.job_id for one in claimed}) == 100
    verdicts = await asyncio.gather(*(actor.finish(one) for one in claimed))
    assert verdicts == [Verdict.APPLIED] * 100


async def test_no_lock_is_taken_and_only_silence_counts(
    world: World, pooled: PostgresStore, place: Place, clock: ManualClock
) -> None:
    actor = await world.node(store=pooled)
    job = await world.one()
    await actor.take(job)
    assert place.row_server(actor.incarnation) is None
    assert place.holder(actor.incarnation) is None
    assert pooled.guards(actor.incarnation) == ()
    await actor.renew()
    assert place.row_server(actor.incarnation) is None
    await pooled.close()
    clock.advance(3600)
    (seen,) = await world.store.nodes(SYSTEM)
    assert (seen.gone, seen.fading) == (False, None)
    assert await world.store.take_over(SYSTEM, actor.incarnation, None, CrashRule()) is None
    assert await world.store.take_over(SYSTEM, actor.incarnation, seen.beats, CrashRule()) == [job]


async def test_a_pooled_node_sees_the_death_of_others(world: World, pooled: PostgresStore, clock: ManualClock) -> None:
    """Whoever looks needs no session for it."""
    store = world.store
    actor = await world.node()
    clock.advance(2)
    assert await pooled.take_over(SYSTEM, actor.incarnation, None, CrashRule()) is None
    await store.close()

    async def gone() -> bool:
        return (await pooled.nodes(SYSTEM))[0].gone

    await until_so(gone)
    assert await pooled.take_over(SYSTEM, actor.incarnation, None, CrashRule()) == []


async def test_shelves(world: World, pooled: PostgresStore, clock: ManualClock) -> None:
    later = world.job(delay=SECOND)
    await pooled.submit(LOCAL, [[later]])
    clock.advance(1)
    moved, _ = await pooled.promote(SYSTEM, PLENTY)
    assert moved == 1
    assert await world.state(later.id) is State.READY


async def test_a_database_can_be_set_up_through_it(pooler: Pooler, clock: ManualClock) -> None:
    with database(shared_server()) as url:
        place = Place(url)
        raw = await place.store(place.through(pooler.port), clock=clock, opened=False)
        try:
            with pytest.raises(SchemaMissing):
                await raw.open()
            assert [one.name for one in await raw.examine() if not one.ok] == ["schema", "sessions"]
            before, after = await raw.migrate()
            assert (before, after > 0) == (0, True)
            await raw.open()
            assert [one.name for one in await raw.examine() if not one.ok] == ["sessions"]
        finally:
            await place.close()


async def test_one_that_appears_later_is_not_run_up_against(place: Place, world: World, clock: ManualClock) -> None:
    """The session is lost, and where the server was there is a pooler now."""
    port = shared_server().port
    async with Pooler("127.0.0.1", port, strict=False) as pooler, Proxy("127.0.0.1", port) as way:
        mine = await place.store(place.through(way.port), clock=clock)
        actor = await world.node(store=mine)
        way.target = "127.0.0.1", pooler.port
        place.end_session(actor.incarnation)
        await until(lambda: mine._database.pooled)
        await actor.renew()
        connected = pooler.clients
        for _ in range(20):
            await actor.renew()
            await asyncio.sleep(0.01)
        assert pooler.clients - connected < 5
        assert place.holder(actor.incarnation) is None
        assert place.row_server(actor.incarnation) is None
        assert mine.exposed(actor.incarnation) is None
        await mine.close()


# -- what holds on the server although sessions are not ours ----------------------------------------------------------


async def test_each_transaction_brings_its_limits_along(pooled: PostgresStore) -> None:
    async def asked(unit: Unit) -> list[str]:
        names = [*database_module.SERVER_SIDE, "transaction_isolation", "enable_seqscan"]
        return [await unit.connection.fetchval(f"SHOW {name}") for name in names]

    database = pooled._database
    for pool, scans in (
        (database.pools().work, "off"),
        (database.pools().vital, "off"),
        (database.pools().reads, "on"),
    ):
        answer, _ = await database.call(pool, asked)
        assert answer == [*database_module.SERVER_SIDE.values(), "read committed", scans]
    async with database.unit(database.pools().work) as unit:  # and nothing stays behind for whoever comes next
        await unit.connection.execute("COMMIT")
        assert await unit.connection.fetchval("SHOW statement_timeout") == "0"


async def test_a_node_that_stops_in_the_middle_of_a_claim_is_thrown_out(
    world: World, pooled: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the lock of admission, its own row and its jobs: others must come by all of them."""
    assert database_module.SERVER_SIDE["idle_in_transaction_session_timeout"] == "5s"
    monkeypatch.setitem(database_module.SERVER_SIDE, "idle_in_transaction_session_timeout", "2s")
    stopped, other = await world.node("stopped", store=pooled), await world.node("other")
    first, second = await world.one(requirements=mutex("a")), await world.one(requirements=mutex("b"))
    claimed, go_on = asyncio.Event(), asyncio.Event()

    async def half(unit: Unit) -> None:
        await work.claim(unit, stopped.incarnation, {"default": 1}, BOTH, {"default": 1}, ScanFloor(SystemClock()))
        await unit.rows("lock_jobs", ids=[first], sees=None)
        claimed.set()
        await go_on.wait()
        await unit.rows("lock_jobs", ids=[first], sees=None)

    halting = asyncio.create_task(pooled._database.call(pooled._database.pools().work, half))
    async with asyncio.timeout(LIMIT):
        await claimed.wait()
        assert [one.job_id for one in await other.claim()] == [second]
        beats = (await stopped.seen()).beats
        assert await world.store.take_over(SYSTEM, stopped.incarnation, beats, CrashRule()) == []
        assert [one.job_id for one in await other.claim()] == [first]
        go_on.set()
        with pytest.raises(StoreUnavailable):
            await halting
        assert not (await stopped.renew()).known
