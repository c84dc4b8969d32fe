"""What `rota doctor` finds in a PostgreSQL database: each trouble by itself, in words that say what to do."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from rota.clock import ManualClock, SystemClock
from rota.model.principal import SYSTEM
from rota.model.times import DAY
from rota.store.postgres import PostgresStore, doctor, partitions
from rota.store.values import Finding, Retention
from tests.contracts.world import DONE, World
from tests.servers.postgres import Server, database, shared_server, unique_name
from tests.store.postgres.backends import Postgres
from tests.store.postgres.migration_lint import NEWEST, with_next
from tests.store.postgres.ranking import Place, until

EMPTY_SCHEMA = True  # see conftest.py

NAMES = [
    "server", "schema", "functions", "schema drift", "partitions", "running jobs", "kinds", "tasks", "schedules",
    "declared schedules", "sealed output", "bloat", "long transactions", "clock", "sessions",
]  # fmt: skip


async def found(store: PostgresStore) -> dict[str, Finding]:
    return {finding.name: finding for finding in await store.examine()}


async def bad(store: PostgresStore) -> dict[str, str]:
    return {finding.name: finding.text for finding in await store.examine() if not finding.ok}


async def test_a_healthy_store(store: PostgresStore) -> None:
    findings = await store.examine()
    assert [finding.name for finding in findings] == NAMES
    assert all(finding.ok for finding in findings)
    assert all(finding.text and "\n" not in finding.text for finding in findings)


# -- schema -----------------------------------------------------------------------------------------------------------


async def test_a_database_that_was_never_migrated(place: Place) -> None:
    store = await place.store(opened=False)
    findings = await found(store)
    assert not findings["schema"].ok
    assert "rota migrate" in findings["schema"].text
    assert [name for name in NAMES if name in findings] == [
        "server",
        "schema",
        "long transactions",
        "clock",
        "sessions",
    ]


async def test_a_schema_that_is_too_old(place: Place) -> None:
    await place.store()
    store = await place.store(opened=False, known=with_next())
    finding = (await found(store))["schema"]
    assert not finding.ok
    assert "rota migrate" in finding.text


async def test_a_schema_that_is_too_new(store: PostgresStore, backend: Postgres) -> None:
    newest = NEWEST
    backend.stamp(newest + 7)
    finding = (await found(store))["schema"]
    assert not finding.ok
    assert str(newest + 7) in finding.text


DRIFT = {
    "DROP INDEX jobs_ready": "missing index.*jobs_ready",
    "ALTER TABLE jobs ADD COLUMN colour text": "added column jobs.colour",
    "ALTER TABLE nodes ALTER COLUMN version DROP NOT NULL": "column nodes.version",
    "ALTER TABLE tasks ALTER COLUMN seen_at TYPE numeric": "column tasks.seen_at",
    "CREATE INDEX mine ON jobs (task)": "added index.*mine",
    "DROP FUNCTION server()": "missing function server",
    "DROP TRIGGER tied_jobs_ended ON jobs": "missing trigger.*tied_jobs_ended",
    "CREATE TABLE mine (i int)": "added column mine.i",
    "DROP TABLE outbox": "missing column outbox",
    "CREATE OR REPLACE FUNCTION clock(given bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'": "clock\\(",
}


@pytest.mark.parametrize(
    "change", [*list(DRIFT)[:3], *(pytest.param(one, marks=pytest.mark.slow) for one in list(DRIFT)[3:])]
)
async def test_changes_by_hand_are_named(store: PostgresStore, place: Place, change: str) -> None:
    with place.connect() as db:
        db.execute(change.encode())
    finding = (await found(store))["schema drift"]
    assert not finding.ok
    assert [name for name in await bad(store) if name not in ("schema drift", "sessions")] == []

    assert re.search(DRIFT[change], finding.text), finding.text


async def test_many_changes_are_not_all_told(store: PostgresStore, place: Place) -> None:
    with place.connect() as db:
        for number in range(12):
            db.execute(f"ALTER TABLE jobs ADD COLUMN c{number} text".encode())
    text = (await found(store))["schema drift"].text
    assert "and 7 more" in text
    assert len(text) < 500


async def test_looking_leaves_nothing_behind(store: PostgresStore, place: Place) -> None:
    for _ in range(2):
        await store.examine()
    assert place.value("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'rota_probe%%'") == 0


async def test_two_may_look_at_once(store: PostgresStore, place: Place, clock: ManualClock) -> None:

    other = await place.store(clock=clock)
    for findings in await asyncio.gather(store.examine(), other.examine(), store.examine()):
        assert all(finding.ok for finding in findings)


# -- partitions -------------------------------------------------------------------------------------------------------


async def test_days_that_are_missing(store: PostgresStore, place: Place, clock: ManualClock) -> None:
    clock.advance(3 * DAY // 1_000_000)
    finding = (await found(store))["partitions"]
    assert finding.ok
    assert "missing" in finding.text, "those ahead are missing, today's is there"
    clock.advance(DAY // 1_000_000)
    finding = (await found(store))["partitions"]
    assert not finding.ok
    assert partitions.name("history", clock.now()) in finding.text
    assert "control" in finding.text
    await store.prune(SYSTEM, Retention(7 * DAY, DAY, DAY, DAY), 10)
    assert (await found(store))["partitions"].ok


async def test_rows_outside_of_all_days(store: PostgresStore, world: World, clock: ManualClock) -> None:
    clock.advance(10 * DAY // 1_000_000)
    await (await world.node()).run(DONE, await world.one())
    await store.prune(SYSTEM, Retention(7 * DAY, DAY, DAY, DAY), 10)
    assert "missing" in (await found(store))["partitions"].text, "that day can't be made any more"
    clock.advance(2 * DAY // 1_000_000)
    finding = (await found(store))["partitions"]
    assert finding.ok
    assert "outside" in finding.text


# -- what runs --------------------------------------------------------------------------------------------------------


async def test_running_jobs_without_a_living_node(store: PostgresStore, world: World, backend: Postgres) -> None:
    actors = [await world.node() for _ in range(2)]
    for actor in actors:
        await world.one()
        await actor.take()
    backend.lose_node(actors[0].incarnation)
    assert await bad(store) == {"running jobs": "running jobs are held by 1 nodes that are not alive"}
    backend.bury_node(actors[1].incarnation)
    assert "2" in (await bad(store))["running jobs"]


async def test_kinds_that_nobody_runs(store: PostgresStore, world: World, place: Place) -> None:
    await world.several(2)
    place.value("UPDATE jobs SET kind = 'quantum' RETURNING 1")
    assert list(await bad(store)) == ["kinds"]
    assert "quantum" in (await bad(store))["kinds"]


# -- the server -------------------------------------------------------------------------------------------------------


async def test_bloat(store: PostgresStore, world: World, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.connect() as db:
        db.execute("ALTER TABLE jobs SET (autovacuum_enabled = off)")
    await world.several(200)
    with place.connect() as db:
        for _ in range(3):
            db.execute("UPDATE jobs SET task = task || 'x'")
        db.execute("SELECT pg_stat_force_next_flush()")
    monkeypatch.setattr(doctor, "MANY_DEAD", 100)
    numbers = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'jobs'::regclass"
    await until(lambda: place.value(numbers) > 200)
    finding = (await found(store))["bloat"]
    assert not finding.ok
    assert f"{place.value(numbers):,} dead" in finding.text
    assert "never" in finding.text
    with place.connect() as db:
        db.execute("VACUUM jobs")
    await until(lambda: place.value(numbers) == 0)
    finding = (await found(store))["bloat"]
    assert finding.ok
    assert "0 dead" in finding.text
    assert "never" not in finding.text


async def test_long_transactions(store: PostgresStore, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.connect() as db:
        db.execute("SET application_name = 'a forgotten session'")
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        db.execute("SELECT 1 FROM jobs")
        assert (await found(store))["long transactions"].ok, "not long yet"
        monkeypatch.setattr(doctor, "LONG", 0)
        finding = (await found(store))["long transactions"]
        assert not finding.ok
        assert str(db.info.backend_pid) in finding.text
        assert "a forgotten session" in finding.text
        db.execute("ROLLBACK")
    assert "a forgotten session" not in (await found(store))["long transactions"].text


async def test_a_transaction_that_only_sits_there_holds_nothing(
    store: PostgresStore, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LONG", 0)
    with place.connect() as db:
        db.execute("SET application_name = 'harmless'")
        db.execute("BEGIN")
        assert "harmless" not in (await found(store))["long transactions"].text
        db.execute("ROLLBACK")


@pytest.mark.slow
async def test_a_replication_slot_that_nobody_uses(tmp_path: Path) -> None:
    """And a standby, since there is a server that has one."""
    server = Server.create(tmp_path / "primary", wal_level="replica", hot_standby=True)
    server.start()
    standby = server
    try:
        place = Place(server.url())
        store = await place.store()
        standby = Server.standby(tmp_path / "standby", server, synchronous=False)
        slot = "SELECT pg_create_physical_replication_slot('forgotten', true)"
        server.execute(slot.encode())  # type: ignore[arg-type]
        assert (await found(store))["long transactions"].ok, "it holds no rows"
        await until(lambda: standby.value("SELECT to_regclass('rota.nodes')") is not None)
        reading = await place.store(standby.url(), opened=False)
        findings = await found(reading)
        assert not findings["server"].ok
        assert "standby" in findings["server"].text
        assert findings["schema"].ok
        await place.close()
    finally:
        standby.stop("immediate")
        server.stop("immediate")


async def test_an_old_server(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "OLDEST", 990_000)
    finding = (await found(store))["server"]
    assert not finding.ok
    assert "newer" in finding.text


# -- clocks and sessions ----------------------------------------------------------------------------------------------


class Skewed(SystemClock):
    def __init__(self, seconds: float) -> None:
        self._skew = round(seconds * 1_000_000)

    def now(self) -> int:
        return super().now() + self._skew


@pytest.mark.parametrize(
    ("seconds", "ok", "word"), [(5.0, False, "ahead of"), (-5.0, False, "behind"), (0.0, True, "")]
)
async def test_a_clock_that_is_off(place: Place, seconds: float, ok: bool, word: str) -> None:
    store = await place.store(clock=Skewed(seconds))
    finding = (await found(store))["clock"]
    assert finding.ok == ok
    assert word in finding.text
    if not ok:
        (said,) = re.findall(r"[\d.]+(?= ?s)", finding.text)
        assert float(said) == pytest.approx(5.0, abs=2.4), finding.text
    assert abs(store.now() - SystemClock().now()) < 2_400_000, "rota itself goes by the server's"


async def test_a_pooler(store: PostgresStore) -> None:
    store._database.pooled = True
    finding = (await found(store))["sessions"]
    assert not finding.ok
    assert "pooler" in finding.text
    assert "directly" in finding.text


async def test_a_user_without_the_right_to_look_at_everything(clock: ManualClock) -> None:
    """It says what it could not see, and does not fail."""
    with database(shared_server()) as url:
        place = Place(url)
        await place.store(clock=clock)
        name = unique_name("looker")
        with place.connect() as db:
            db.execute(f"CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA rota TO {name}".encode())
            db.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA rota TO {name}".encode())
        looking = await place.store(url.replace("postgres@", f"{name}@"), opened=False, clock=clock)
        assert await bad(looking) == {}
        await place.close()
        with place.connect() as db:
            db.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}".encode())
