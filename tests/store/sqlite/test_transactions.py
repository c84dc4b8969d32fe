"""Transactions: readers don't hold up writers, writers take turns, and a failure takes everything back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import pytest

from rota.clock import Chance, ManualClock
from rota.errors import StoreUnavailable
from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.store.sqlite import SqliteStore, database, work
from rota.store.values import JobFilter, Topic
from tests.contracts.world import World

LIMIT = 20.0


@contextmanager
def locked(db: apsw.Connection) -> Iterator[None]:
    """Somebody else is writing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        db.execute("ROLLBACK")


async def test_a_reader_that_takes_its_time_holds_up_nobody(world: World, db: apsw.Connection) -> None:
    actor = await world.node()
    first = await world.one()
    db.execute("BEGIN")
    assert db.execute("SELECT count(*) FROM jobs").get == 1
    async with asyncio.timeout(LIMIT):
        second = await world.one()
        claimed = await actor.claim()
        for one in claimed:
            await actor.finish(one)
        await actor.renew()
    assert await world.states(first, second) == [State.SUCCEEDED, State.SUCCEEDED]
    assert db.execute("SELECT count(*) FROM jobs").get == 1, "it still sees the moment at which it began"
    db.execute("COMMIT")
    assert db.execute("SELECT count(*) FROM jobs").get == 2


async def test_a_writer_does_not_hold_up_readers(world: World, db: apsw.Connection) -> None:
    job_id = await world.one()
    with locked(db):
        db.execute("UPDATE jobs SET priority = 0")
        async with asyncio.timeout(LIMIT):
            info = await world.info(job_id)
            assert info.priority == 5
            assert len(await world.store.find(SYSTEM, JobFilter())) == 1
            assert await world.store.promote(SYSTEM, 10) == (0, None), "looking for due jobs takes no lock"


async def test_writers_take_turns(world: World, db: apsw.Connection) -> None:
    with locked(db):
        write = asyncio.create_task(world.one())
        await world.all()  # a whole read while the write waits
        assert not write.done()
    async with asyncio.timeout(LIMIT):
        job_id = await write
    assert await world.state(job_id) is State.READY


async def test_one_that_does_not_let_go_is_told_of_and_work_goes_on_afterwards(
    path: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, world: World, db: apsw.Connection
) -> None:
    monkeypatch.setattr(database, "BUSY_MS", 20)
    hasty = SqliteStore(path, clock, Chance(9))
    job = world.job()
    await hasty.open()
    with locked(db):
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="locked"):
                await hasty.submit(LOCAL, [[job]])
        assert await hasty.get(LOCAL, job.id) is None
    await hasty.submit(LOCAL, [[job]])
    assert await world.state(job.id) is State.READY
    await hasty.close()


async def test_whatever_goes_wrong_inside_a_verb_takes_all_of_it_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = await world.node()
    await world.several(3)
    (claimed, *_) = await actor.claim(1)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    rung: list[int] = []
    end = world.store.listen(frozenset(Topic), lambda: rung.append(1))
    async with world.unchanged():
        with monkeypatch.context() as patch:
            patch.setattr(work, "_taken", broken)
            with pytest.raises(RuntimeError, match="a bug"):
                await actor.claim()
            patch.setattr(database.Database, "insert", broken)
            with pytest.raises(RuntimeError, match="a bug"):
                await world.one()
    assert not rung, "nobody is woken for what did not happen"
    end()
    assert len(await actor.claim()) == 2
    await actor.finish(claimed)


async def test_a_call_that_is_given_up_is_carried_out_or_not_but_never_half(world: World, db: apsw.Connection) -> None:
    jobs = [world.job() for _ in range(50)]
    with locked(db):
        write = asyncio.create_task(world.store.submit(LOCAL, [jobs]))
        await world.all()
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
    later = await world.one()  # comes after it on the same thread
    found = set(await world.all()) - {later}
    assert found in (set(), {job.id for job in jobs})


async def test_closing_waits_for_what_is_under_way(path: str, clock: ManualClock, world: World) -> None:
    """A write that somebody has given up may still run on its thread when the store is closed."""
    closing = SqliteStore(path, clock, Chance(9))
    await closing.open()
    loop = asyncio.get_running_loop()
    begun, release = asyncio.Event(), threading.Event()

    def wait(*_: object) -> int:
        loop.call_soon_threadsafe(begun.set)
        assert release.wait(LIMIT)
        return 1

    def slow(db: database.Database) -> None:
        db.connection.create_scalar_function("wait", wait)
        assert db.connection.execute("SELECT wait()").get == 1

    write = asyncio.create_task(closing._write(slow))
    await begun.wait()
    write.cancel()
    await asyncio.gather(write, return_exceptions=True)
    loop.call_later(0.05, release.set)
    async with asyncio.timeout(LIMIT):
        await closing.close()


async def test_many_callers_at_once(world: World) -> None:
    actor = await world.node()
    await asyncio.gather(*(world.one(args=f'{{"n": {n}}}') for n in range(50)))
    reads = [world.store.counts(SYSTEM) for _ in range(20)]
    claims = [actor.claim(3) for _ in range(10)]
    await asyncio.gather(*reads, *claims, actor.renew())
    assert len(await world.all()) == 50
    counts = await world.store.counts(SYSTEM)
    assert counts == {State.RUNNING: 30, State.READY: 20}


async def test_every_commit_is_synced(store: SqliteStore) -> None:
    """What was acknowledged survives the loss of power: FULL syncs the log at every commit."""
    connection = store._write_side().connection
    assert store._threads is not None
    assert await store._threads.run(True, lambda: connection.pragma("synchronous")) == 2


async def test_the_reading_side_can_not_write(world: World, store: SqliteStore) -> None:
    await world.one()
    assert store._threads is not None
    reader = store._read_side()
    with pytest.raises(apsw.ReadOnlyError):
        await store._threads.run(False, lambda: reader.connection.execute("DELETE FROM jobs").fetchall())
    assert len(await world.all()) == 1
