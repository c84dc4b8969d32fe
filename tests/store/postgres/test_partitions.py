"""History by days: made ahead, filled by day, dropped whole, and nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import psycopg
import pytest

from rota.clock import Chance, ManualClock
from rota.model.job import Submitted
from rota.model.lifecycle import State
from rota.model.outcome import CrashRule
from rota.model.principal import LOCAL, SYSTEM
from rota.model.progress import Progress
from rota.model.retry import Retry
from rota.model.times import DAY, HOUR, aware
from rota.store.postgres import PostgresStore, partitions
from rota.store.values import Note, Position, Retention
from tests.contracts.world import BOOM, DONE, FATAL, NAP, Actor, World, settled
from tests.store.postgres.backends import Postgres
from tests.store.postgres.ranking import LIMIT

EMPTY_SCHEMA = True  # see conftest.py

pytestmark = pytest.mark.slow
A_DAY = DAY // 1_000_000  # in seconds
WEEK = Retention(7 * DAY, 30 * DAY, 30 * DAY, 30 * DAY)
PATIENT = Retry(100)
Db = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
async def store(backend: Postgres) -> AsyncIterator[PostgresStore]:
    store = backend.store(Chance(2))
    await store.migrate()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def db(store: PostgresStore, backend: Postgres) -> Iterator[Db]:
    with backend.connection() as connection:
        yield connection


def days(db: Db, table: str) -> set[str]:
    rows = db.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = %s::regclass",
        (f"{table}_dated",),
    )
    return {name.removeprefix(f"{table}_") for (name,) in rows} - {"other"}


def names(*offsets: int, now: int) -> set[str]:
    return {partitions.name("", now + offset * DAY).removeprefix("_") for offset in offsets}


def where(db: Db, table: str, job: str, column: str = "job") -> list[str]:
    """The partitions in which a job's rows lie."""
    rows = db.execute(f"SELECT tableoid::regclass::text FROM {table} WHERE {column} = %s".encode(), (job,)).fetchall()
    return [name.rpartition(".")[2] for (name,) in rows]


def today(table: str, clock: ManualClock) -> str:
    return partitions.name(table, clock.now())


async def prune(world: World, retention: Retention = WEEK) -> int:
    return await world.store.prune(SYSTEM, retention, 1_000)


# -- made ahead -------------------------------------------------------------------------------------------------------


async def test_the_migration_makes_the_first_days(world: World, db: Db, clock: ManualClock) -> None:
    for table in partitions.TABLES:
        assert days(db, table) == names(-1, 0, 1, 2, 3, now=clock.now())


async def test_pruning_makes_the_next_ones_and_is_idempotent(world: World, db: Db, clock: ManualClock) -> None:
    clock.advance(2 * A_DAY)
    for _ in range(3):
        await prune(world)
        for table in partitions.TABLES:
            assert days(db, table) == names(-3, -2, -1, 0, 1, 2, 3, now=clock.now())


async def test_several_may_make_and_drop_them_at_once(
    world: World, db: Db, backend: Postgres, clock: ManualClock
) -> None:
    """The leader does it; but there may be two that believe to lead, and people."""
    async with AsyncExitStack() as stack:
        stores = [backend.store(Chance(n)) for n in range(10, 14)]
        for one in stores:
            stack.push_async_callback(one.close)
        for days_on in (2, 20):
            clock.advance(days_on * A_DAY)
            answers = await asyncio.gather(*(one.prune(SYSTEM, WEEK, 100) for one in stores), return_exceptions=True)
            wrong = [one for one in answers if isinstance(one, BaseException) and not getattr(one, "passing", False)]
            assert wrong == []
            await prune(world)
            for table in partitions.TABLES:
                found = days(db, table)
                assert found >= names(-1, 0, 1, 2, 3, now=clock.now())
                assert min(found) >= min(names(-8, now=clock.now()))


async def test_rows_land_in_their_day(world: World, db: Db, clock: ManualClock) -> None:
    actor = await world.node()
    job = await world.one(retry=PATIENT)
    claimed = await actor.take()
    await actor.say(claimed.ref, 0)
    await actor.finish(claimed, BOOM)
    first = {table: today(table, clock) for table in partitions.TABLES}
    clock.advance(A_DAY)
    await world.promote()
    await actor.run(DONE, job)
    assert where(db, "attempts", job) == [first["attempts"]]
    assert where(db, "output", job) == [first["output"]]
    assert where(db, "history", job, "id") == [today("history", clock)] != [first["history"]]
    dead = await world.one()
    await actor.run(FATAL, dead)
    assert where(db, "history", dead, "id") == ["history_lasting"]


@pytest.mark.parametrize(("offset", "expected"), [(-1, -1), (0, 0), (DAY - 1, 0), (DAY, 1)])
async def test_a_day_begins_at_midnight_in_utc(
    world: World, db: Db, clock: ManualClock, offset: int, expected: int
) -> None:
    midnight = clock.now() // DAY * DAY
    clock.jump((midnight + offset - clock.now()) / 1_000_000)
    assert clock.now() == midnight + offset
    actor = await world.node()
    job = await world.one()
    await actor.run(DONE, job)
    assert where(db, "history", job, "id") == [partitions.name("history", midnight + expected * DAY)]


async def test_a_row_without_a_day_goes_to_the_default_partition_and_is_seen(
    world: World, db: Db, clock: ManualClock
) -> None:
    actor = await world.node()
    job = await world.one(retry=PATIENT)
    clock.advance(10 * A_DAY)  # nobody has pruned for long
    claimed = await actor.take()
    await actor.say(claimed.ref, 0)
    await actor.finish(claimed, BOOM)
    clock.advance(3600)
    await world.promote()
    await actor.run(DONE, job)
    for table, column in (("history", "id"), ("attempts", "job"), ("output", "job")):
        assert where(db, table, job, column) == [f"{table}_other"]
    info = await world.info(job)
    assert (info.state, len(info.attempts)) == (State.SUCCEEDED, 2)
    assert len(await world.store.output(LOCAL, job, Position(), 10)) == 1
    # Those days can't be made any more; the others are, and nothing is moved or lost.
    await prune(world)
    for table in partitions.TABLES:
        made = days(db, table)
        assert made >= names(1, 2, 3, now=clock.now())
        if table != "segments":  # nothing was sealed on that day
            assert not made & names(0, now=clock.now())
    assert (await world.info(job)) == info


async def test_the_default_partition_does_not_keep_its_rows_for_ever(world: World, db: Db, clock: ManualClock) -> None:
    actor = await world.node()
    job = await world.one(retry=PATIENT)
    clock.advance(10 * A_DAY)
    claimed = await actor.take()
    await actor.say(claimed.ref, 0)
    await actor.finish(claimed, BOOM)
    clock.advance(3600)
    await world.promote()
    await actor.run(DONE, job)
    clock.advance(9 * A_DAY)
    for _ in range(3):
        await prune(world)
    assert await world.store.get(LOCAL, job) is None
    for table in partitions.TABLES:
        assert db.execute(f"SELECT count(*) FROM {table}_other".encode()).fetchone() == (0,), table


# -- dropped whole ----------------------------------------------------------------------------------------------------


async def test_only_days_that_are_wholly_old_are_dropped(world: World, db: Db, clock: ManualClock) -> None:
    actor = await world.node()
    jobs: list[str] = []
    for _ in range(10):
        jobs.append(await world.one())
        await actor.run(DONE, jobs[-1])
        clock.advance(A_DAY)
        await prune(world)
    # Ten days ago to yesterday; of the one seven days ago only a part is old, and it is kept whole.
    assert [job for job in jobs if await world.store.get(LOCAL, job)] == jobs[-7:]
    for table in partitions.TABLES:
        assert min(days(db, table)) >= min(names(-8, now=clock.now()))


@pytest.mark.parametrize("hour", [0, 1, 12, 23])
async def test_nothing_goes_before_its_time(world: World, clock: ManualClock, hour: int) -> None:
    clock.jump((clock.now() // DAY * DAY + hour * HOUR - clock.now()) / 1_000_000)
    actor = await world.node()
    job = await world.one()
    await actor.run(DONE, job)
    clock.advance(7 * A_DAY - 1)
    await prune(world)
    assert await world.store.get(LOCAL, job) is not None
    clock.advance(A_DAY + 2)
    await prune(world)
    assert await world.store.get(LOCAL, job) is None, "and not much later either"


async def aged(world: World, actor: Actor, clock: ManualClock) -> str:
    """A job with an attempt and output of long ago, that is due again."""
    job = await world.one(retry=PATIENT, queue="q")
    (claimed,) = await actor.claim(1, queue="q")
    assert claimed.job_id == job
    await actor.say(claimed.ref, 0, b"long ago\n")
    await actor.finish(claimed, BOOM)
    return job


async def test_what_must_outlive_its_day_does(world: World, db: Db, clock: ManualClock) -> None:
    """Attempts and output of jobs that live, that ended later, or that are dead letters."""
    actor = await world.node()
    waiting, ended, dead, running = [await aged(world, actor, clock) for _ in range(4)]
    gone = await world.one()
    claimed = await actor.take(gone)
    await actor.say(claimed.ref, 0)
    await actor.finish(claimed, DONE)
    clock.advance(6 * A_DAY)
    await prune(world)
    await world.promote()
    claims = {one.job_id: one for one in await actor.claim(queue="q")}
    await actor.finish(claims[ended], DONE)
    await actor.finish(claims[dead], FATAL)
    await actor.finish(claims[waiting], NAP)
    before = {job: await world.info(job) for job in (waiting, ended, dead, running)}
    assert [len(info.attempts) for info in before.values()] == [2, 2, 2, 2]
    clock.advance(3 * A_DAY)
    await prune(world)
    assert await world.store.get(LOCAL, gone) is None
    assert min(days(db, "output")) > min(names(-9, now=clock.now()))
    for job, info in before.items():
        assert await world.info(job) == info
        (chunk,) = await world.store.output(LOCAL, job, Position(), 10)
        assert chunk.body == b"long ago\n"
    # Twice over changes nothing.
    await prune(world)
    for job, info in before.items():
        assert await world.info(job) == info
        assert len(await world.store.output(LOCAL, job, Position(), 10)) == 1


async def test_what_outlived_its_day_goes_with_its_job(world: World, db: Db, clock: ManualClock) -> None:
    actor = await world.node()
    ended, dead = [await aged(world, actor, clock) for _ in range(2)]
    clock.advance(6 * A_DAY)
    await prune(world)
    await world.promote()
    claims = {one.job_id: one for one in await actor.claim(queue="q")}
    await world.store.note(
        SYSTEM, [Note(job, one.fence, 0, Progress(1, "", aware(1)), "{}") for job, one in claims.items()]
    )
    await world.store.finish(SYSTEM, [settled(claims[ended], DONE), settled(claims[dead], FATAL)])
    for _ in range(5):
        clock.advance(2 * A_DAY)
        await prune(world)
    assert await world.store.get(LOCAL, ended) is None
    assert [(one.state, one.progress) for one in [await world.info(dead)]] == [
        (State.FAILED, Progress(1, "", aware(1)))
    ]
    assert len(await world.store.output(LOCAL, dead, Position(), 10)) == 1
    for table in ("attempts", "output", "progress", "checkpoints"):
        assert where(db, table, ended) == [] != where(db, table, dead), table
    clock.advance(30 * A_DAY)
    for _ in range(3):
        await prune(world)
    assert await world.store.get(LOCAL, dead) is None
    for table in ("attempts", "output", "progress", "checkpoints"):
        assert db.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,), table


async def test_a_dead_letter_of_long_ago_comes_back_with_its_past(world: World, db: Db, clock: ManualClock) -> None:
    actor = await world.node()
    dead = await aged(world, actor, clock)
    await world.promote()
    clock.advance(A_DAY)
    await world.promote()
    (claimed,) = await actor.claim(queue="q")
    await actor.finish(claimed, FATAL)
    clock.advance(20 * A_DAY)
    await prune(world)
    assert await world.store.replay(LOCAL, [dead]) == [True]
    await world.promote()
    (claimed,) = await actor.claim(queue="q")
    assert (claimed.job_id, claimed.number) == (dead, 3)
    await actor.finish(claimed, DONE)
    info = await world.info(dead)
    assert [one.number for one in info.attempts] == [1, 2, 3]
    assert len(await world.store.output(LOCAL, dead, Position(), 10)) == 1
    clock.advance(20 * A_DAY)
    for _ in range(3):
        await prune(world)
    assert await world.store.get(LOCAL, dead) is None
    for table in ("attempts", "output"):
        assert where(db, table, dead) == [], table


async def test_a_short_retention_deletes_row_by_row(world: World, db: Db, clock: ManualClock) -> None:
    short = Retention(HOUR, 30 * DAY, 30 * DAY, 30 * DAY)
    actor = await world.node()
    old, dead = await world.several(2)
    claimed = await actor.take(old)
    await actor.say(claimed.ref, 0)
    await actor.finish(claimed, DONE)
    await actor.run(FATAL, dead)
    clock.advance(3_599)
    fresh = await world.one()
    await actor.run(DONE, fresh)
    clock.advance(2)
    await prune(world, short)
    assert await world.store.get(LOCAL, old) is None
    assert {info.id for info in (await world.all()).values()} == {dead, fresh}
    assert where(db, "output", old) == []
    assert days(db, "history") >= names(0, now=clock.now())
    # Empty days of long ago are not kept for ever either way.
    clock.advance(10 * A_DAY)
    await prune(world, WEEK)
    assert not days(db, "history") & names(-10, now=clock.now())


async def test_keys_outlive_the_days(world: World, clock: ManualClock) -> None:
    actor = await world.node()
    job = world.job(key="k")
    await world.submit(job)
    await actor.run(DONE, job.id)
    clock.advance(6 * A_DAY)
    short = Retention(2 * DAY, DAY, DAY, DAY)
    await prune(world, short)
    assert await world.store.get(LOCAL, job.id) is None
    again = world.job(key="k")
    assert await world.store.submit(LOCAL, [[again]]) == [[Submitted(job.id, False)]]
    clock.advance(2 * A_DAY)
    await prune(world, short)
    assert await world.store.submit(LOCAL, [[again]]) == [[Submitted(again.id, True)]]


# -- nobody waits -----------------------------------------------------------------------------------------------------


@contextmanager
def long_reader(backend: Postgres, *tables: str) -> Iterator[None]:
    """Somebody who has read these and has not ended the transaction."""
    with backend.connection() as reader:
        reader.execute("BEGIN")
        for table in tables:
            reader.execute(f"SELECT count(*) FROM {table}".encode())
        yield
        reader.execute("ROLLBACK")


@pytest.mark.parametrize("what", ["history", "an old day", "old output"])
async def test_a_long_reader_keeps_neither_the_janitor_nor_anyone_else(
    world: World, db: Db, backend: Postgres, clock: ManualClock, what: str
) -> None:
    actor = await world.node()
    await actor.run(DONE, await world.one())
    tables = ["history"] if what == "history" else [today("output" if what == "old output" else "history", clock)]
    await world.several(2_000)
    clock.advance(10 * A_DAY)
    loop = asyncio.get_running_loop()
    longest = 0.0
    over = asyncio.Event()

    async def work() -> None:
        nonlocal longest
        while not over.is_set():
            begun = loop.time()
            await actor.run(DONE)
            longest = max(longest, loop.time() - begun)

    with long_reader(backend, *tables):
        worker = asyncio.create_task(work())
        await asyncio.sleep(0.05)
        async with asyncio.timeout(LIMIT):  # without a limit of its own it would wait for the reader, and all for it
            await prune(world)
        await asyncio.sleep(0.05)
        over.set()
        await worker
    assert longest < 3, f"a claim and a finish took {longest:.1f} s while the days were to be dropped"
    await prune(world)
    for table in partitions.TABLES:
        assert not days(db, table) & names(-10, now=clock.now())


async def test_a_crowd_at_midnight(world: World, db: Db, backend: Postgres, clock: ManualClock) -> None:
    """Days are made and dropped while others claim, finish and look."""
    actor = await world.node()
    jobs = await world.several(300)
    clock.advance(9 * A_DAY)

    async def drain() -> int:
        done = 0
        while claimed := await actor.claim(5):
            done += len(claimed)
            for one in claimed:
                await actor.finish(one, DONE)
        return done

    async def look() -> None:
        for job in jobs[::10]:
            assert await world.store.get(LOCAL, job) is not None

    async def sweep() -> None:
        for _ in range(5):
            await prune(world)

    counts = await asyncio.gather(drain(), drain(), look(), sweep())
    assert counts[0] + counts[1] == len(jobs)
    assert {info.state for info in (await world.all()).values()} == {State.SUCCEEDED}


async def test_a_take_over_after_days_counts_what_it_should(world: World, clock: ManualClock) -> None:
    """An attempt that began on a day that is gone meanwhile."""
    actor = await world.node()
    job = await world.one()
    claimed = await actor.take(job)
    await actor.say(claimed.ref, 0)
    clock.advance(12 * A_DAY)
    await prune(world)
    await actor.die(CrashRule())
    info = await world.info(job)
    assert (info.crashes, len(info.attempts)) == (1, 1)
    assert len(await world.store.output(LOCAL, job, Position(), 10)) == 1
