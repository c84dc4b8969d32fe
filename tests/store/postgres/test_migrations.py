"""Migrations: by many at once, whole or not at all, beside nodes of another version, and with few rights."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rota.clock import Chance, ManualClock
from rota.errors import InvalidInput, SchemaMissing, SchemaTooNew, StoreError, StoreUnavailable
from rota.model.job import Verdict
from rota.model.lifecycle import State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY
from rota.store.postgres import PostgresStore
from rota.store.postgres.address import address
from rota.store.postgres.session import lock_number
from rota.store.values import JobFilter, Retention
from tests.contracts.world import BOOM, DONE, World
from tests.servers.postgres import database, shared_server, unique_name
from tests.store.postgres.backends import Postgres
from tests.store.postgres.migration_lint import KNOWN, NEWEST, NEXT, with_next
from tests.store.postgres.ranking import Place, until

EMPTY_SCHEMA = True  # see conftest.py

WEEK = Retention(7 * DAY, 7 * DAY, 7 * DAY, 7 * DAY)


def objects(place: Place) -> Any:
    return place.value("SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(%s)", place.schema) or 0


# -- whole or not at all ----------------------------------------------------------------------------------------------


async def test_many_at_once(place: Place) -> None:
    stores = [await place.store(opened=False) for _ in range(8)]
    answers = await asyncio.gather(*(store.migrate() for store in stores))
    assert sorted(answers) == [(0, NEWEST)] + [(NEWEST, NEWEST)] * 7
    rows = [f"{number}" for number, _ in KNOWN.steps]
    assert place.value("SELECT string_agg(version::text, ',' ORDER BY version) FROM schema_versions") == ",".join(rows)
    await asyncio.gather(*(store.open() for store in stores))


@pytest.mark.parametrize("bad", ["SELECT 1 / 0;", "CREATE TABL rota.x (i int);", "CREATE TABLE rota.jobs (i int);"])
async def test_a_bad_step_leaves_nothing_behind(place: Place, bad: str) -> None:
    broken = with_next(NEXT + bad)
    store = await place.store(opened=False, known=broken)
    with pytest.raises(StoreError):
        await store.migrate()
    assert objects(place) == 0, "neither this step nor those before it"
    good = await place.store(opened=False)
    assert await good.migrate() == (0, NEWEST)
    before = objects(place)
    with pytest.raises(StoreError):
        await store.migrate()
    assert objects(place) == before
    await good.open()
    assert place.value("SELECT max(version) FROM schema_versions") == NEWEST


async def test_half_way_there(place: Place) -> None:
    first = await place.store(opened=False)
    assert await first.migrate() == (0, NEWEST)
    store = await place.store(opened=False, known=with_next())
    with pytest.raises(SchemaMissing):
        await store.open()
    assert await store.migrate() == (NEWEST, NEWEST + 1)
    await store.open()


async def test_by_way_of_a_pooler(place: Place) -> None:
    """There every call is in a transaction from its start; a question that fails would spoil all that follows."""
    store = await place.store(opened=False)
    store._database.pooled = True
    with pytest.raises(SchemaMissing):
        await store.open()
    assert any("rota migrate" in finding.text for finding in await store.examine())
    assert await store.migrate() == (0, NEWEST)
    await store.open()
    assert await store.find(LOCAL, JobFilter()) == []


# -- side by side with another version --------------------------------------------------------------------------------


async def test_code_of_today_goes_on_beside_the_next_schema(place: Place) -> None:
    old = await place.store()
    new = await place.store(opened=False, known=with_next())
    assert await new.migrate() == (NEWEST, NEWEST + 1)
    await new.open()
    late = await place.store(opened=False)
    await late.open()
    for store in (old, late):
        assert await store.migrate() == (NEWEST + 1, NEWEST + 1), "nothing is taken back"
        assert await store.find(LOCAL, JobFilter()) == []
    assert place.value("SELECT to_regclass('colours') IS NOT NULL")
    assert [finding for finding in await late.examine() if not finding.ok and finding.name == "schema"] == []


@pytest.mark.slow
async def test_nothing_is_lost_while_two_versions_work_and_one_migrates(
    place: Place, backend: Postgres, clock: ManualClock, chance: Chance
) -> None:
    old = [await place.store(clock=clock) for _ in range(2)]
    new = await place.store(opened=False, clock=clock, known=with_next())
    world = World(old[0], backend, clock, chance)
    jobs = await world.several(600)
    started: list[str] = []
    more: list[str] = []  # submitted by the next version
    first, migrated = asyncio.Event(), asyncio.Event()

    async def work(store: PostgresStore, kind: str) -> None:
        world_of = World(store, backend, clock, chance)
        actor = await world_of.node(kind)
        while claimed := await actor.claim(7):
            started.extend(one.job_id for one in claimed)
            first.set()
            for number, one in enumerate(claimed):
                # Some fail once and come back, so that every kind of move is made.
                result = BOOM if number == 0 and one.failures == 0 else DONE
                assert await actor.finish(one, result) is Verdict.APPLIED
            if kind == "new" and len(more) < 20:
                more.append(await world_of.one())
            await actor.renew()
            if len(started) > len(jobs) // 2:
                await migrated.wait()  # half of the work is left for the next version, however long it takes

    async def upgrade() -> None:
        await first.wait()
        assert await new.migrate() == (NEWEST, NEWEST + 1)
        await new.open()
        migrated.set()
        await work(new, "new")

    await asyncio.gather(work(old[0], "a"), work(old[1], "b"), upgrade())
    clock.advance(10_000)
    for number in range(3):
        await world.promote()
        await work(old[number % 2], f"late{number}")
        clock.advance(10_000)
    infos = await world.all()
    assert {*jobs, *more} == set(infos)
    assert more, "the next version has done its part"
    assert {info.state for info in infos.values()} == {State.SUCCEEDED}
    assert sum(len(info.attempts) for info in infos.values()) == len(started), "each start has one end"
    assert place.value("SELECT count(*) FROM jobs") == 0
    assert place.value("SELECT count(*) FROM history") == len(infos)


async def test_a_renewal_that_stands_in_the_way_of_a_migration(
    place: Place, backend: Postgres, clock: ManualClock, chance: Chance
) -> None:
    """The server ends one of two that wait for each other. A node hears of it as of any trouble that passes."""
    store = await place.store(clock=clock)
    actor = await World(store, backend, clock, chance).node()
    with place.connect() as migrator:
        migrator.execute("BEGIN")
        migrator.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
        renewal = asyncio.create_task(actor.renew())
        await until(
            lambda: place.value("SELECT count(*) FROM pg_locks WHERE relation = 'jobs'::regclass AND NOT granted")
        )
        await asyncio.to_thread(migrator.execute, "LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE")
        migrator.execute("ROLLBACK")
    try:
        assert (await renewal).known
    except StoreError as error:
        assert error.passing  # noqa: PT017 - either will do
    assert (await actor.renew()).known


async def test_the_next_version_writes_what_the_old_one_does_not_know(
    place: Place, backend: Postgres, clock: ManualClock, chance: Chance
) -> None:
    old = await place.store(clock=clock)
    new = await place.store(opened=False, clock=clock, known=with_next())
    await new.migrate()
    world = World(old, backend, clock, chance)
    job = await world.one()
    place.value("UPDATE jobs SET colour = 'red' RETURNING 1")
    actor = await world.node()
    assert await actor.finish(await actor.take(job)) is Verdict.APPLIED
    assert (await world.info(job)).state is State.SUCCEEDED


@pytest.mark.parametrize("first_line", ["", "-- it changes everything\n", f"-- works with: {NEWEST + 1}\n"])
async def test_code_of_today_refuses_a_schema_that_it_does_not_fit(place: Place, first_line: str) -> None:
    new = await place.store(opened=False, known=with_next(first_line + "CREATE TABLE rota.other (i int);"))
    await new.migrate()
    store = await place.store(opened=False)
    for verb in (store.open, store.migrate):
        with pytest.raises(SchemaTooNew) as caught:
            await verb()
        assert (caught.value.found, caught.value.known) == (NEWEST + 1, NEWEST)
    assert place.value("SELECT max(version) FROM schema_versions") == NEWEST + 1
    await new.migrate()


async def test_one_step_that_does_not_fit_is_enough(place: Place) -> None:
    """What comes after it may fit the version before itself; that does not make the one before fit."""
    later = with_next("CREATE TABLE rota.a ();", f"-- works with: {NEWEST}\nCREATE TABLE rota.b ();")
    new = await place.store(opened=False, known=later)
    await new.migrate()
    store = await place.store(opened=False)
    with pytest.raises(SchemaTooNew):
        await store.open()


async def test_whoever_comes_second_and_knows_less_changes_nothing(place: Place) -> None:
    """Both find nothing at first, and the one who knows more gets to the lock before the other."""
    more, less = await place.store(opened=False, known=with_next()), await place.store(opened=False)
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with place.connect() as db:
        db.execute("SELECT pg_advisory_lock(%s)", (lock_number(place.schema, "migrate"),))
        first = asyncio.create_task(more.migrate())
        await until(lambda: place.value(waiting) == 1)
        second = asyncio.create_task(less.migrate())
        await until(lambda: place.value(waiting) == 2)
    assert await first == (0, NEWEST + 1)
    assert await second == (NEWEST + 1, NEWEST + 1)
    assert place.value("SELECT max(version) FROM schema_versions") == NEWEST + 1


# -- names and rights -------------------------------------------------------------------------------------------------


async def test_two_schemas_in_one_database(clock: ManualClock, chance: Chance, tmp_path: Path) -> None:
    with database(shared_server()) as url:
        one, two = Place(url), Place(f"{url}?schema=other")
        stores = [await one.store(clock=clock), await two.store(clock=clock)]
        worlds = [World(store, Postgres(tmp_path, clock), clock, chance) for store in stores]
        jobs = [await world.one(key="same") for world in worlds]
        for world, job in zip(worlds, jobs, strict=True):
            actor = await world.node("same-name")
            assert (await actor.take()).job_id == job
            assert await actor.claim() == []
            assert list(await world.all()) == [job]
            assert [node.id for node in await world.store.nodes(SYSTEM)] == ["same-name"]
            assert [finding for finding in await world.store.examine() if not finding.ok] == []
        await one.close()
        await two.close()


@pytest.mark.parametrize(
    "schema",
    [
        "", "Rota", "1a", "a-b", "a b", 'a"b', "a'b", "a;drop table x", "pg_rota", "pg_catalog", "a.b", "é", "a" * 49,
        "a%00b", "a%0A",
    ],
)  # fmt: skip
def test_hostile_names_of_schemas_are_refused(schema: str) -> None:
    with pytest.raises(InvalidInput):
        address(f"postgresql://u@h/d?schema={schema}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema", ["k", "keys", "job", "select", "user", "information_schemas", "a" * 48, "_", "rota_probe"]
)
async def test_odd_names_of_schemas_work_or_are_refused(schema: str, clock: ManualClock, tmp_path: Path) -> None:
    """Also those that are words of SQL, or that the statements use for something else."""
    with database(shared_server()) as url:
        try:
            place = Place(f"{url}?schema={schema}")
            store = await place.store(clock=clock)
        except InvalidInput:
            return
        world = World(store, Postgres(tmp_path, clock), clock, Chance(3))
        job = await world.one(key="x")
        actor = await world.node()
        assert await actor.finish(await actor.take(job)) is Verdict.APPLIED
        assert [finding for finding in await store.examine() if not finding.ok] == []
        await place.close()


@contextmanager
def user(url: str, *grants: str) -> Iterator[str]:
    """A user without any rights but these; gives its address."""
    name = unique_name("user")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE ROLE {name} LOGIN".encode())
        for grant in grants:
            db.execute(grant.format(user=name).encode())
        try:
            yield url.replace("postgres@", f"{name}@")
        finally:
            db.execute(f"DROP OWNED BY {name} CASCADE".encode())
            db.execute(f"DROP ROLE {name}".encode())


async def test_the_owner_of_an_empty_schema_needs_no_other_right(clock: ManualClock, tmp_path: Path) -> None:
    with database(shared_server()) as url, user(url, "CREATE SCHEMA mine AUTHORIZATION {user}") as theirs:
        place = Place(f"{theirs}?schema=mine")
        store = await place.store(clock=clock)
        world = World(store, Postgres(tmp_path, clock), clock, Chance(3))
        job = await world.one()
        actor = await world.node()
        assert await actor.finish(await actor.take(job)) is Verdict.APPLIED
        findings = {finding.name: finding for finding in await store.examine()}
        assert [finding for finding in findings.values() if not finding.ok] == []
        assert "not" in findings["schema drift"].text or "can't" in findings["schema drift"].text, (
            "it could not be looked at"
        )
        await store.prune(SYSTEM, WEEK, 100)
        await place.close()


@pytest.mark.parametrize(
    "grants", [(), ("CREATE SCHEMA mine",), ("CREATE SCHEMA mine", "GRANT USAGE ON SCHEMA mine TO {user}")]
)
async def test_without_rights_it_says_so_in_one_line(grants: tuple[str, ...]) -> None:
    with database(shared_server()) as url, user(url, *grants) as theirs:
        place = Place(f"{theirs}?schema=mine")
        store = await place.store(opened=False)
        with pytest.raises(StoreError) as caught:
            await store.migrate()
        text = str(caught.value)
        assert "\n" not in text
        assert "permission denied" in text
        assert "rights" in text
        assert not isinstance(caught.value, StoreUnavailable), "trying again won't help"
        await place.close()


async def test_a_user_that_may_only_use_the_tables(clock: ManualClock, tmp_path: Path) -> None:
    """Somebody else migrates; nodes need no right to change tables, but for making days."""
    with database(shared_server()) as url:
        owner = Place(f"{url}?schema=mine")
        await owner.store(clock=clock)
        await owner.close()
        rights = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES"
        grants = (
            "GRANT USAGE ON SCHEMA mine TO {user}", f"GRANT {rights} IN SCHEMA mine TO {{user}}",
            "GRANT USAGE ON ALL SEQUENCES IN SCHEMA mine TO {user}",
        )  # fmt: skip
        with user(url, *grants) as theirs:
            place = Place(f"{theirs}?schema=mine")
            store = await place.store(clock=clock)
            world = World(store, Postgres(tmp_path, clock), clock, Chance(3))
            job = await world.one()
            actor = await world.node()
            assert await actor.finish(await actor.take(job)) is Verdict.APPLIED
            await place.close()


async def test_a_schema_from_before_version_1_is_refused_in_one_line(place: Place) -> None:
    store = await place.store(opened=False)
    schema = address(place.url).schema
    with place.connect() as db:
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
        db.execute(f"CREATE TABLE {schema}.schema_versions (version integer, works_with integer)".encode())
    for verb in (store.migrate, store.open):
        with pytest.raises(StoreError, match=r"made by a rota from before schema version 1.*drop it, or name another"):
            await verb()


async def test_a_newer_schema_is_not_called_drift(place: Place) -> None:
    new = await place.store(opened=False, known=with_next())
    await new.migrate()
    await new.open()
    old = await place.store()
    for store in (old, new):
        assert [finding for finding in await store.examine() if not finding.ok] == []
