"""A copy of a store is the store: whichever engines there are on the two sides, whatever stands in the rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import rota
from rota.errors import InvalidInput, StoreError, StoreUnavailable
from rota.model.principal import SYSTEM
from rota.model.times import instant
from rota.model.trigger.calendars import Calendar
from rota.store.copy import LEFT_OUT, ONE_SIDED, TABLES, Copy, Place, Report, Row, Side
from rota.store.postgres.dump import PostgresSide
from rota.store.sqlite.dump import SqliteSide
from rota.store.values import JobFilter
from tests.node.running import running
from tests.servers.postgres import fresh_schema_name, shared_server
from tests.store import sealing
from tests.store.people import add_people, people_of

HOSTILE = "'; DROP TABLE jobs; -- \x1b[31m \u202e é 💥 %s {args} \\ \""
NAMED = "'; DROP TABLE jobs; -- é 💥 %s \\ \""  # as far as names may be hostile
EVERYTHING = JobFilter(limit=10_000)


def quiet(_table: str, _rows: int) -> None:
    """Nobody watches."""


class Places:
    """New stores by the name of their engine."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._schemas, self._count = folder, list[str](), 0

    def new(self, engine: str) -> str:
        self._count += 1
        if engine == "sqlite":
            return f"sqlite:///{self._folder / f'{self._count}.db'}"
        self._schemas.append(fresh_schema_name())
        return f"{shared_server().url()}?schema={self._schemas[-1]}"

    def close(self) -> None:
        for schema in self._schemas:
            shared_server().execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    places = Places(tmp_path)
    yield places
    places.close()


def make_app(store: str, **queues: int) -> rota.App:
    app = rota.App(store, queues=queues, name="copied", kill_grace="500ms")

    @app.task
    async def work(value: Any = None, ctx: rota.Context = None) -> Any:  # type: ignore[assignment]
        ctx.log(f"{HOSTILE} {value!r:.20}")
        ctx.progress(0.5, HOSTILE[:50])
        return value

    @app.task(retry=rota.Retry(1, backoff="10ms"))
    async def fails(value: str, ctx: rota.Context) -> None:
        await ctx.save({"seen": value})
        raise ValueError(value)

    @app.task(queue="nobody", limits={"room": 1}, labels=["slow"])
    async def later(value: Any = None) -> Any:
        return value

    app.work, app.fails, app.later = work, fails, later  # type: ignore[attr-defined]
    return app


async def fill(app: Any) -> None:
    """Something in nearly every table. Jobs of the queue `nobody` stay as they are."""
    planning = await app._core.planning()
    await planning.save_calendar(Calendar("days off", dates=(date(2027, 1, 1), date(2027, 12, 25))))
    await app.schedule("nightly", app.later, cron="0 3 * * *", exclude="days off", args={"value": HOSTILE})
    await app.schedule(NAMED, ["echo", HOSTILE], every="1h", overlap="queue")
    await rota.Schedule(app, "nightly").fire()
    await rota.Schedule(app, "nightly").pause("a pause\0 of ours")
    async with running(app):
        done = [await app.work.submit(value=value) for value in (HOSTILE, "a\0b", "x" * 900_000, None)]
        dead = await app.fails.submit(HOSTILE, key="dead")
        async with app.workflow(NAMED) as flow:
            first = flow.add(app.work, value=1)
            flow.add(app.work, value=2, after=first)
        for job in (*done, dead):
            await job.wait("30s")
        await flow.wait("30s")
        await dead.retry()
        await dead.wait("30s")
        await sealing.run(sealing.make_sealer((await app._core.client()).store))
        await (await app.work.submit(value="not sealed")).wait("30s")
    async with app.workflow("waits") as flow:
        parent = flow.add(app.later, value=3)
        flow.add(["true"], after=parent, queue="nobody")
    await app.later.submit(HOSTILE, delay="1h", priority=2, key="k" * 200)
    await (await app.later.submit("not wanted")).cancel(NAMED)
    admissions = await app.admissions()  # the node has closed the store
    await admissions.pause_queue("nobody", "a note")
    await admissions.set_limit("room", at_once=3)
    await admissions.pause(task="none_of_*[ab]", reason=NAMED)
    await add_people((await app._core.client()).store, HOSTILE)


async def migrate(store: str) -> None:
    made = rota.App(store)._core.make_store()
    await made.migrate()
    await made.close()


@asynccontextmanager
async def side(store: str) -> AsyncIterator[Side]:
    await migrate(store)
    made = (PostgresSide if store.startswith("postgres") else SqliteSide)(store.removeprefix("sqlite:///"), store)
    try:
        yield made
    finally:
        await made.close()


async def copied(source: str, target: str) -> Report:
    async with side(source) as one, side(target) as other:
        return await Copy(one, other, quiet).run()


async def everything(app: rota.App) -> dict[str, Any]:
    """All that can be seen of a store from outside."""
    client, planning, admissions = await app._core.client(), await app._core.planning(), await app.admissions()
    store = client.store
    jobs = [await store.get(SYSTEM, info.id) for info in await store.find(SYSTEM, EVERYTHING)]
    seen: dict[str, Any] = {
        "jobs": jobs,
        "output": {job.id: [c async for c in client.output(job.id)] for job in jobs if job},
        "parents": {job.id: await store.parents(SYSTEM, job.id) for job in jobs if job},
        "schedules": [info async for info in planning.all()],
        "fires": [await planning.history(info.name, 100) async for info in planning.all()],
        "calendars": await planning.calendars(),
        "gates": await admissions.gates(),
        "limits": await admissions.limits(),
        "queues": [(one.name, one.paused_at, one.note) for one in await admissions.queues()],
        "tasks": await store.tasks(SYSTEM),
        "events": await store.events(SYSTEM, 0, 10_000),
        "people": await people_of(store),
    }
    return {name: msgspec.to_builtins(value) for name, value in seen.items()}


def without_nul(value: Any) -> Any:
    """Not in JSON that is kept as text: there a NUL is written as an escape."""
    return msgspec.json.decode(msgspec.json.encode(value).replace(b"a pause\\u0000", "a pause\ufffd".encode()))


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), [*product(("sqlite", "postgres"), repeat=2)])
async def test_all_there_is(places: Places, source: str, target: str) -> None:
    here, there = places.new(source), places.new(target)
    async with make_app(here, default=8) as app:
        await fill(app)
        before = await everything(app)
    report = await copied(here, there)
    assert (report.tables["live"].rows, report.tables["ended"].rows) == (4, 9)
    empty = {name for name, total in report.tables.items() if not total.rows}
    assert empty <= {*MORE, "tallies", "tallied"}, "each is named in the next test"
    async with make_app(there, default=8, nobody=8) as app:
        after = await everything(app)
        for name, value in before.items():
            assert without_nul(after[name]) == without_nul(value), name
        await go_on(app)
        with pytest.raises(InvalidInput, match="an empty store; it has"):
            await copied(here, there)


async def go_on(app: Any) -> None:
    """Live jobs run and schedules fire where they left off; what has ended can be replayed."""
    client, admissions = await app._core.client(), await app.admissions()
    waiting = await client.find(JobFilter(queue="nobody", limit=100))
    nightly = await rota.Schedule(app, "nightly").resume()
    fired = await rota.Schedule(app, "nightly").fire()
    assert fired is not None
    await admissions.resume_queue("nobody")
    same = await app.fails.submit(HOSTILE, key="dead")
    dead = (await client.get(same.id)).id
    fence = (await client.get(dead)).fence
    async with running(app):
        for info in waiting:
            if not info.ended and instant(info.run_at) < client.store.now():
                await rota.Job(app, info.id).wait("30s")
        await rota.Job(app, dead).retry()
        assert (await rota.Job(app, dead).wait("30s")).fence > fence
        await fired.wait("30s")
    assert (await rota.Schedule(app, "nightly").info()).created_at == nightly.created_at


async def orders(store: str, count: int) -> None:
    async with make_app(store) as app:
        await app.later.submit_many([{"value": number} for number in range(count)])  # type: ignore[attr-defined]


class Killed(Exception):
    """As far as the database can see, the process was killed."""


def dies_after(target: Side, batches: int) -> None:
    put = target.put

    async def dying(table: str, columns: Any, rows: Sequence[Row], place: Place) -> None:
        nonlocal batches
        batches -= bool(rows)
        if batches < 0:
            raise Killed
        await put(table, columns, rows, place)

    target.put = dying  # type: ignore[method-assign]


ENGINES = pytest.mark.parametrize(("source", "target"), [("sqlite", "postgres"), ("postgres", "sqlite")])


@ENGINES
async def test_a_copy_that_was_killed_goes_on(places: Places, source: str, target: str) -> None:
    here, there, third = places.new(source), places.new(target), places.new("sqlite")
    await orders(here, 1_200)
    async with side(here) as one, side(there) as other:
        dies_after(other, 2)  # the tasks, and 500 of the jobs
        with pytest.raises(Killed):
            await Copy(one, other, quiet).run()
    async with make_app(there) as app:
        with pytest.raises(StoreError, match="an unfinished copy"):
            await app._core.client()
    await orders(third, 1)
    with pytest.raises(InvalidInput, match="an unfinished copy of"):
        await copied(third, there)
    seen: list[int] = []
    async with side(here) as one, side(there) as other:
        report = await Copy(one, other, lambda table, rows: seen.append(rows) if table == "live" else None).run()
    assert (report.resumed, report.tables["live"].rows, max(seen)) == (True, 1_200, 700)
    async with make_app(there) as app:
        assert len(await (await app._core.client()).find(EVERYTHING)) == 1_200


@ENGINES
async def test_a_source_that_was_used_since_is_copied_anew(places: Places, source: str, target: str) -> None:
    here, there = places.new(source), places.new(target)
    await orders(here, 600)
    async with side(here) as one, side(there) as other:
        dies_after(other, 2)
        with pytest.raises(Killed):
            await Copy(one, other, quiet).run()
    async with make_app(here) as app:
        first = (await (await app._core.client()).find(EVERYTHING))[-1]
        await (await app._core.client()).cancel([first.id], "changed")
    report = await copied(here, there)
    assert (report.tables["live"].rows, report.tables["ended"].rows) == (599, 1)


@ENGINES
async def test_orders_that_reach_the_target_first_stay(places: Places, source: str, target: str) -> None:
    here, there = places.new(source), places.new(target)
    await orders(here, 3)
    async with side(here) as one, side(there) as other:
        columns, late = other.columns, [True]

        async def order_then_columns(table: str) -> list[str]:
            if late.pop() if late else False:
                await orders(there, 1)
            return await columns(table)

        other.columns = order_then_columns  # type: ignore[method-assign]
        with pytest.raises(InvalidInput, match="an empty store; it has 3 rows in 'tasks'"):
            await Copy(one, other, quiet).run()
    async with make_app(there) as app:
        assert len(await (await app._core.client()).find(EVERYTHING)) == 1


async def test_changes_that_leave_the_number_of_rows_are_noticed(places: Places) -> None:
    here, there = places.new("sqlite"), places.new("sqlite")
    async with make_app(here) as app:
        await app.schedule("nightly", ["true"], cron="0 3 * * *")
    async with side(here) as one, side(there) as other:
        begun = other.places

        async def pause_then_places() -> dict[str, Place]:
            async with make_app(here) as app:
                await rota.Schedule(app, "nightly").pause()
            return await begun()

        other.places = pause_then_places  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable, match=r"was changed while it was copied \(.*schedules.*\)"):
            await Copy(one, other, quiet).run()


@ENGINES
async def test_orders_during_the_copy_are_noticed(places: Places, source: str, target: str) -> None:
    here, there = places.new(source), places.new(target)
    await orders(here, 3)
    async with side(here) as one, side(there) as other:
        finish, late = other.places, [True]

        async def places_then_order() -> dict[str, Place]:
            if late.pop() if late else False:
                await orders(here, 1)
            return await finish()

        other.places = places_then_order  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable, match=r"was changed while it was copied \(live\); stop its clients"):
            await Copy(one, other, quiet).run()
    assert (await copied(here, there)).tables["live"].rows == 4


# Rows of tables that `fill` leaves empty, with the values that matter.
MORE: dict[str, dict[str, Any]] = {
    "flows": {"queue": "q", "flow": "f", "used": 7, "level": 2},
    "skips": {"owner": "local", "name": "s", "first": 1, "last": 9, "count": None, "reason": "paused", "at": 3},
    "wanted": {"owner": "local", "key": "k", "job": "00000000-0000-7000-8000-000000000001", "latest": 5},
    "starts": {
        "owner": "local", "key": "k", "job": "00000000-0000-7000-8000-000000000001", "fence": 1, "at": 2, "late": 0,
        "until": 9_000_000_000_000_000,
    },
    "settling": {"job": "00000000-0000-7000-8000-000000000001"},
    "freed": {"held_by": "k:local:room"},
    "purged": {"job": "00000000-0000-7000-8000-000000000001"},
}  # fmt: skip


@ENGINES
async def test_tables_that_are_mostly_empty(places: Places, source: str, target: str) -> None:
    here, there = places.new(source), places.new(target)
    async with side(here) as one, side(there) as other:
        await one.begin("hand")
        for table, row in MORE.items():
            await one.put(table, list(row), [tuple(row.values())], Place())
        await one.finish()
        report = await Copy(one, other, quiet).run()
        assert {name for name, total in report.tables.items() if total.rows} == MORE.keys()
        again = places.new("sqlite")
        async with side(again) as third:
            assert (await Copy(other, third, quiet).run()).tables == report.tables, "digests are the same everywhere"
        for table, row in MORE.items():
            columns = await other.columns(table)
            found = [one async for _, one in other.rows(table, columns, None)]
            assert [dict(zip(columns, one, strict=True)) for one in found] == [row]


async def columns_of(made: Side, table: str) -> set[str]:
    declared = made._declared(table)  # type: ignore[attr-defined]
    return set(await declared if not isinstance(declared, dict) else declared)


async def test_every_column_is_copied_or_named(places: Places) -> None:
    """A new column or table of a schema must not be forgotten."""
    file, schema = places.new("sqlite"), places.new("postgres")
    async with side(file) as one, side(schema) as other:
        for table in TABLES:
            both = await columns_of(one, table), await columns_of(other, table)
            assert both[0] ^ both[1] <= ONE_SIDED.get(table, set()), table
            assert ONE_SIDED.get(table, set()) <= both[0] | both[1], table
        names = apsw.Connection(file.removeprefix("sqlite:///")).execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table'"
        )
        found = {name for (name,) in names}
    name = schema.rpartition("=")[2]
    with shared_server().connect() as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition",
            [name],
        )
        found |= {row[0] for row in rows}
    assert found == set(TABLES) - {"live", "ended"} | LEFT_OUT - {"copying"} | {"jobs", "payloads", "history"}


def spoil(store: str, statement: str) -> None:
    connection = apsw.Connection(store.removeprefix("sqlite:///"))
    connection.execute(statement)
    connection.close()


async def test_rows_that_the_target_refuses_are_named(places: Places) -> None:
    here, there = places.new("sqlite"), places.new("postgres")
    await orders(here, 3)
    spoil(here, "UPDATE jobs SET requirements = 'no JSON' WHERE seq = 2")
    async with make_app(here) as app:
        wrong = (await (await app._core.client()).find(EVERYTHING))[1].id
    with pytest.raises(StoreError, match=f"a row of 'live' is refused .{wrong}.*"):
        await copied(here, there)
    spoil(here, "UPDATE jobs SET requirements = NULL WHERE seq = 2")
    assert (await copied(here, there)).tables["live"].rows == 3


async def test_texts_that_are_no_text(places: Places) -> None:
    """Bytes that are not UTF-8 are shown as such; NUL is replaced on PostgreSQL, which can't keep it."""
    here, there, second = places.new("sqlite"), places.new("postgres"), places.new("sqlite")
    await orders(here, 3)
    spoil(here, "UPDATE jobs SET reason = CAST(x'61ff62' AS TEXT) WHERE seq = 1")
    spoil(here, "UPDATE jobs SET reason = CAST(x'610062' AS TEXT) WHERE seq = 2")
    assert (await copied(here, there)).changed_texts == 1
    assert (await copied(here, second)).changed_texts == 0
    for store, nul in ((there, "a\ufffdb"), (second, "a\0b")):
        async with make_app(store) as app:
            reasons = [info.reason for info in await (await app._core.client()).find(EVERYTHING)]
            assert reasons[1:] == [nul, "a\ufffdb"]


async def test_jobs_that_wait_to_be_alone_are_ready(places: Places) -> None:
    """The gate that such a job has closed for itself is not copied: it closes it anew."""
    here, there = places.new("sqlite"), places.new("postgres")
    await orders(here, 3)
    gate = "00000000-0000-7000-8000-000000000001"
    columns = "id, effect, reason, author, created_at, job"
    spoil(here, f"INSERT INTO gates ({columns}) SELECT '{gate}', 'pause', 'alone', 'a', 1, id FROM jobs WHERE seq = 1")
    spoil(here, "UPDATE jobs SET state = 'held', reason = 'alone', held_by = 'a:' || id WHERE seq = 1")
    spoil(here, f"UPDATE jobs SET state = 'held', reason = 'alone', held_by = 'g:{gate}' WHERE seq = 2")
    report = await copied(here, there)
    assert (report.tables["gates"].rows, report.tables["live"].rows) == (0, 3)
    async with make_app(there) as app:
        _, *found = await (await app._core.client()).find(EVERYTHING)
        assert [(info.state.value, info.reason) for info in found] == [("ready", None)] * 2


async def test_a_table_is_read_in_pieces(places: Places) -> None:
    """Large rows are not held in memory all together."""
    here, there = places.new("sqlite"), places.new("postgres")
    async with make_app(here) as app:
        for _ in range(9):
            await app.later.submit("x" * 1_000_000)  # type: ignore[attr-defined]
    sizes: list[int] = []
    async with side(here) as one, side(there) as other:
        put = other.put

        async def counting(table: str, columns: Any, rows: Sequence[Row], place: Place) -> None:
            sizes.append(len(rows))
            await put(table, columns, rows, place)

        other.put = counting  # type: ignore[method-assign]
        await Copy(one, other, quiet).run()
    assert max(sizes) == 5
