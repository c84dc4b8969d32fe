"""What a store does when the server, or the way to it, fails: clear errors, and it goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from rota.clock import Chance, ManualClock
from rota.errors import StoreDenied, StoreError, StoreReadOnly, StoreUnavailable
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.model.outcome import CrashRule, Succeeded
from rota.model.principal import LOCAL, SYSTEM
from rota.store.postgres import PostgresStore, database
from rota.store.postgres.database import TRIES, Unit
from tests.contracts.attempts import perform
from tests.contracts.world import BOOM, World
from tests.servers.ports import bound_socket
from tests.servers.postgres import Mode, Server, shared_server
from tests.servers.proxy import Proxy
from tests.store.postgres.backends import Postgres
from tests.store.postgres.ranking import LIMIT, Place, settled, until

pytestmark = pytest.mark.slow
MODES: list[Mode] = ["fast", "immediate"]


@pytest.fixture
async def away(own: Place, tmp_path: Path, clock: ManualClock) -> World:
    """A store on the server that may fail."""
    return World(await own.store(clock=clock), Postgres(tmp_path, clock), clock, Chance())


def blocked(place: Place) -> Callable[[], object]:
    """Whether a call of the store waits for someone else's lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rota' AND wait_event_type = 'Lock'"
    return lambda: place.value(query) == 1


# -- the server goes and comes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_a_restart_between_calls(created: Server, away: World, mode: Mode) -> None:
    actor = await away.node()
    before = await away.several(3)
    await actor.renew()
    await away.info(before[0])
    created.restart(mode)
    after = await settled(away.one)
    claimed = await settled(actor.claim)
    assert {one.job_id for one in claimed} == {*before, after}
    assert (await settled(actor.renew)).known
    assert len(await settled(away.all)) == 4


@pytest.mark.parametrize("mode", MODES)
async def test_a_restart_during_a_call(created: Server, own: Place, away: World, mode: Mode) -> None:
    actor = await away.node()
    job = await away.one()
    claimed = await actor.take(job)
    with own.connect() as db, suppress(Exception), db.transaction():
        db.execute("SELECT * FROM jobs FOR UPDATE")
        finishing = asyncio.create_task(actor.finish(claimed))
        await until(blocked(own))
        await asyncio.to_thread(created.restart, mode)
        raise RuntimeError  # so that the lost connection is not spoken to
    # Whoever is ended first: if it is the one that blocks, the call may be carried out in the server's last moments.
    (first,) = await asyncio.gather(finishing, return_exceptions=True)
    refused = isinstance(first, StoreUnavailable) and first.passing
    assert refused or first is Verdict.APPLIED
    again = await settled(lambda: actor.finish(claimed))
    assert again is Verdict.ALREADY or (refused and again is Verdict.APPLIED)
    info = await away.info(job)
    assert (info.state, len(info.attempts)) == (State.SUCCEEDED, 1)


async def test_a_server_that_is_down(created: Server, away: World) -> None:
    await away.one()
    created.stop("fast")
    try:
        for call in (away.one, away.promote, away.all, away.node):
            with pytest.raises(StoreUnavailable, match="PostgreSQL at postgres@127") as caught:
                await asyncio.wait_for(call(), LIMIT)
            assert caught.value.passing
            assert "\n" not in str(caught.value)
    finally:
        created.start()
    await settled(away.one)


async def test_a_closed_store_says_so(away: World) -> None:
    await away.store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await away.one()


async def test_close_ends_calls_that_are_under_way(own: Place, away: World) -> None:
    job = await away.one()
    with own.connect() as db, db.transaction():
        db.execute("SELECT * FROM jobs FOR UPDATE")
        call = asyncio.create_task(away.store.cancel(LOCAL, [job], "stop"))
        await until(blocked(own))
        await asyncio.wait_for(away.store.close(), LIMIT)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(call, LIMIT)


# -- others stand in the way ------------------------------------------------------------------------------------------


async def test_one_that_stops_in_the_middle_of_a_transaction_loses_its_locks(
    world: World, place: Place, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped must not keep others from taking over. With a shorter time than the real one:"""
    assert database.SERVER_SIDE["idle_in_transaction_session_timeout"] == "5s"
    monkeypatch.setitem(database.SERVER_SIDE, "idle_in_transaction_session_timeout", "500ms")
    stopped = await place.store(clock=clock)
    actor = await world.node(store=stopped)
    job = await world.one()
    await actor.take(job)
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def half(unit: Unit) -> None:
        await unit.begin()
        await unit.rows("lock_jobs", ids=[job], sees=None)
        inside.set()
        await go_on.wait()
        await unit.rows("lock_jobs", ids=[job], sees=None)

    halting = asyncio.create_task(stopped._database.call(stopped._database.pools().work, half))
    await inside.wait()
    beats = (await actor.seen()).beats
    async with asyncio.timeout(LIMIT):
        assert await world.store.take_over(SYSTEM, actor.incarnation, beats, CrashRule()) == [job]
    go_on.set()
    with pytest.raises(StoreUnavailable) as caught:
        await halting
    assert caught.value.passing
    assert not (await actor.renew()).known


async def test_a_call_that_is_cancelled_here_ends_there_and_harms_nobody(world: World, place: Place) -> None:
    actor = await world.node()
    job = await world.one()
    claimed = await actor.take(job)
    with place.connect() as db, db.transaction():
        db.execute("SELECT * FROM jobs FOR UPDATE")
        finishing = asyncio.create_task(actor.finish(claimed))
        await until(blocked(place))
        finishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await finishing
        assert (await actor.renew()).known
        others = await world.several(20)
        await until(lambda: not blocked(place)())
    assert await world.state(job) is State.RUNNING
    assert len(await actor.claim()) == len(others)
    assert await actor.finish(claimed) is Verdict.APPLIED


async def test_many_calls_cancelled_at_every_point_leave_a_store_that_works(world: World) -> None:
    loop = asyncio.get_running_loop()
    for step in range(60):
        task = asyncio.create_task(world.several(2))
        loop.call_later(step * 0.0001, task.cancel)
        with suppress(asyncio.CancelledError):
            await task
    calls = await asyncio.gather(*(world.one() for _ in range(20)))
    assert set(calls) <= set(await world.all())


async def test_a_statement_that_is_cancelled_on_the_server(world: World, place: Place) -> None:
    actor = await world.node()
    claimed = await actor.take(await world.one())
    with place.connect() as db, db.transaction():
        db.execute("SELECT * FROM jobs FOR UPDATE")
        finishing = asyncio.create_task(actor.finish(claimed, BOOM))
        await until(blocked(place))
        place.value("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        with pytest.raises(StoreUnavailable) as caught:
            await finishing
        assert caught.value.passing
    assert await actor.finish(claimed, BOOM) is Verdict.APPLIED


async def test_two_units_that_lock_each_other_up_both_succeed(
    world: World, place: Place, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends one of them, and it is tried again."""
    monkeypatch.setitem(database.SERVER_SIDE, "deadlock_timeout", "100ms")  # the server's own is a second
    store = await place.store(clock=clock)
    jobs = await world.several(2)
    tries: list[str] = []
    meeting, done = asyncio.Barrier(2), asyncio.Event()

    async def lock(unit: Unit, *order: str) -> str:
        tries.append(order[0])
        if len(tries) > 2:  # else it may take the free row before the other has woken up, and they meet again
            await done.wait()
        await unit.begin()
        await unit.rows("lock_jobs", ids=[order[0]], sees=None)
        if len(tries) <= 2:
            await meeting.wait()
        await unit.rows("lock_jobs", ids=[order[1]], sees=None)
        done.set()
        return order[0]

    pool = store._database.pools().work
    async with asyncio.timeout(LIMIT):
        answers = await asyncio.gather(
            store._database.call(pool, lock, *jobs), store._database.call(pool, lock, *reversed(jobs))
        )
    assert [answer for answer, _ in answers] == jobs
    assert len(tries) == 3


async def test_a_unit_that_is_locked_up_every_time_gives_up(store: PostgresStore) -> None:
    tries: list[int] = []

    async def unlucky(unit: Unit) -> None:
        tries.append(1)
        raise asyncpg.DeadlockDetectedError("deadlock detected")

    with pytest.raises(StoreUnavailable, match="deadlock detected") as caught:
        await store._database.call(store._database.pools().work, unlucky)
    assert caught.value.passing
    assert len(tries) == TRIES


# -- the server is full, or only reads --------------------------------------------------------------------------------


async def test_a_full_server_is_shared(created: Server, own: Place, away: World) -> None:
    actor = await away.node()
    await actor.renew()
    await away.all()
    with ExitStack() as stack:
        with suppress(Exception):
            while True:
                stack.enter_context(own.connect())
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(*(away.one() for _ in range(40)), *(actor.renew() for _ in range(5)))
            assert len(await asyncio.gather(*(away.all() for _ in range(10)))) == 10
        another = await own.store(clock=away.clock, opened=False)
        with pytest.raises(StoreUnavailable, match=r"too many|slots") as caught:
            await asyncio.gather(*(another.nodes(SYSTEM) for _ in range(10)))
        assert caught.value.passing
    await until(lambda: created.value("SELECT count(*) FROM pg_stat_activity") < 25)
    await another.nodes(SYSTEM)


@pytest.fixture
async def reading(created: Server) -> AsyncIterator[Callable[[bool], Awaitable[None]]]:
    """Makes the server one that only reads, or not."""

    async def reading(only: bool) -> None:
        created.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if only else 'off'}")
        created.execute("SELECT pg_reload_conf()")
        await until(lambda: created.value("SHOW default_transaction_read_only") == ("on" if only else "off"))

    yield reading
    with created.connect() as db:
        db.execute("SET default_transaction_read_only = off")
        db.execute("ALTER SYSTEM RESET default_transaction_read_only")
        db.execute("SELECT pg_reload_conf()")
    await until(lambda: created.value("SHOW default_transaction_read_only") == "off")


async def test_a_server_that_only_reads(away: World, reading: Callable[[bool], Awaitable[None]]) -> None:
    job = await away.one()
    await reading(True)
    with pytest.raises(StoreReadOnly, match="can't be written at present") as caught:
        await until_read_only(away)
    assert caught.value.passing
    assert (await away.info(job)).state is State.READY
    await reading(False)

    async def written() -> str:
        try:
            return await away.one()
        except StoreReadOnly as error:
            raise StoreUnavailable(str(error)) from None

    await settled(written)


async def until_read_only(world: World) -> None:
    """The connections of the server hear of a new setting one after the other."""
    async with asyncio.timeout(LIMIT):
        while True:
            await world.one()


async def test_of_two_servers_the_one_that_can_be_written_is_found(
    created: Server, own: Place, store: PostgresStore, place: Place, clock: ManualClock,
    reading: Callable[[bool], Awaitable[None]], tmp_path: Path,
) -> None:  # fmt: skip
    """The second has the same schema, as a standby would that has been promoted."""
    first = Place(f"{created.url()}?schema={place.schema}")
    await first.store(clock=clock)
    hosts = f"127.0.0.1:{created.port},127.0.0.1:{shared_server().port}"
    both = Place(f"postgresql://postgres@{hosts}/postgres?schema={place.schema}")
    world = World(await both.store(clock=clock), Postgres(tmp_path, clock), clock, Chance())
    try:
        here = await world.one()
        assert first.value("SELECT count(*) FROM jobs") == 1
        await reading(True)
        with pytest.raises(StoreReadOnly):
            await until_read_only(world)
        there = await world.one()
        assert place.value("SELECT id::text FROM jobs") == there != here
    finally:
        await both.close()
        await first.close()
        with created.connect() as db:
            db.execute("SET default_transaction_read_only = off")
            db.execute(f"DROP SCHEMA {place.schema} CASCADE".encode())


async def test_a_server_that_does_not_answer_does_not_hide_the_other(place: Place, store: PostgresStore) -> None:
    """A machine that has lost its power says nothing at all."""
    async with Proxy("127.0.0.1", shared_server().port) as dead:
        dead.freeze()
        hosts = f"127.0.0.1:{dead.port},127.0.0.1:{shared_server().port}"
        both = Place(f"postgresql://postgres@{hosts}/postgres?schema={place.schema}")
        try:
            found = await both.store(opened=False)
            async with asyncio.timeout(15):
                assert await settled(lambda: found.nodes(SYSTEM)) == []
        finally:
            await both.close()


# -- a wrong address --------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(created: Server, own: Place) -> str:
    """An address that needs a password."""
    rules = created.folder / "pg_hba.conf"
    line = "host all guarded 127.0.0.1/32 scram-sha-256\n"
    if line not in rules.read_text():
        rules.write_text(line + rules.read_text())
        created.execute("CREATE ROLE guarded LOGIN PASSWORD 'sesame'")
        created.execute("SELECT pg_reload_conf()")
    return f"postgresql://guarded:sesame@127.0.0.1:{created.port}/postgres"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("sesame", "sesame-street"), "password authentication failed"),
        (("guarded:sesame", "nobody-sesame:sesame"), "role"),
        (("/postgres", "/nowhere"), "database .* does not exist"),
        (("guarded:sesame", "guarded"), "password"),
    ],
)
async def test_a_wrong_address_is_one_clear_line(guarded: str, change: tuple[str, str], says: str) -> None:
    url = guarded.replace("postgresql", "").replace(*change) if change[0] == "/postgres" else guarded.replace(*change)
    place = Place(url if url.startswith("postgresql") else f"postgresql{url}")
    store = await place.store(opened=False)
    with pytest.raises(StoreError, match=says) as caught:
        await store.open()
    said = str(caught.value)
    assert not caught.value.passing
    assert "\n" not in said
    assert "sesame" not in said.replace("nobody-sesame", "")
    await place.close()


async def test_the_right_password_needs_the_right_to_make_a_schema(guarded: str) -> None:
    store = await Place(guarded).store(opened=False)
    with pytest.raises(StoreError, match="permission denied") as caught:
        await store.migrate()
    assert not caught.value.passing
    assert "sesame" not in str(caught.value)
    await store.close()


@pytest.fixture
async def locked(created: Server, guarded: str, tmp_path: Path, clock: ManualClock) -> AsyncIterator[World]:
    """A world of that user."""
    created.execute("GRANT CREATE ON DATABASE postgres TO guarded")
    place = Place(guarded)
    yield World(await place.store(clock=clock), Postgres(tmp_path, clock), clock, Chance())
    created.execute("ALTER ROLE guarded PASSWORD 'sesame'")
    await place.close()
    created.execute("DROP SCHEMA IF EXISTS rota CASCADE")


async def test_a_password_that_is_changed_costs_no_call_while_a_connection_is_left(
    created: Server, locked: World
) -> None:
    actor = await locked.node()
    await locked.one()
    created.execute("ALTER ROLE guarded PASSWORD 'changed'")
    async with asyncio.timeout(LIMIT):
        jobs = await asyncio.gather(*(locked.one() for _ in range(20)))
        await actor.renew()
        assert set(jobs) <= set(await locked.all())


async def test_a_success_stays_one_while_the_password_is_another(
    created: Server, locked: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All connections are lost, and no new one can be made for a while: then the ends are written as they were."""
    jobs = await locked.several(5)
    actor = await locked.node()
    claimed = await actor.claim()
    finish, denied = locked.store.finish, 0

    async def watched(*args: Any) -> Any:
        nonlocal denied
        try:
            return await finish(*args)
        except StoreDenied:
            denied += 1
            if denied == 2:
                created.execute("ALTER ROLE guarded PASSWORD 'sesame'")
            raise

    monkeypatch.setattr(locked.store, "finish", watched)
    created.execute("ALTER ROLE guarded PASSWORD 'changed'")
    created.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guarded'")
    async with asyncio.timeout(LIMIT):
        await perform(locked.store, claimed, *[Succeeded()] * 5, talk=False)
    assert denied >= 2
    assert await locked.states(*jobs) == [State.SUCCEEDED] * 5


async def test_nobody_at_that_port() -> None:
    with bound_socket() as silent:
        port = silent.getsockname()[1]
        place = Place(f"postgresql://rota:sesame@127.0.0.1:{port}/shop")
        store = await place.store(opened=False)
        with pytest.raises(
            StoreUnavailable, match=f"PostgreSQL at rota@127.0.0.1:{port}/shop can't be reached"
        ) as caught:
            await store.open()
        assert "sesame" not in str(caught.value)
        await place.close()
