"""The plans of all queries about schedules, on a hundred thousand of them with three hundred thousand fires.

As in test_plans.py: rows and pages, whatever the server believes about the tables.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from rota.clock import Chance
from rota.model.job import NewJob, Spec
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.times import DAY, HOUR, MINUTE, SECOND
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import Advance, Fate, FireKind, NewFire, NewSchedule, ScheduleFilter
from rota.model.trigger.skipped import Skipped, SkipReason
from rota.store.carriers import calendars as calendars_
from rota.store.carriers import fires, schedules
from rota.store.carriers import orders as changes
from rota.store.postgres import PostgresStore, nodes, orders, reads
from rota.store.postgres.database import Unit
from rota.store.postgres.pool import ConnectionPool
from rota.store.postgres.scan_floor import ScanFloor
from rota.store.postgres.schedules import PostgresFires
from rota.store.values import Retention
from tests.store import queries
from tests.store.postgres import plans
from tests.store.postgres.crowd import (
    CLOCK,
    NOW,
    SHARED,
    Large,
    large_tables,
    run_as_owner,
    sql_id,
    uid,
    uids,
)
from tests.store.postgres.plans import Seen, observe, pruned

pytestmark = pytest.mark.slow

SCHEDULES, DUE, SOON = 100_000, 500, 500
FIRES, RUNNING, OVER, WAITING = 300_000, 200, 10, 50
OLD, LIVE, QUEUED, OTHER = range(31, 35)  # sorts of jobs, each with ids of its own
GROWING = re.compile(
    r"^(jobs|history|attempts|output|keys|outbox|schedules|fires|skips)(?:_(?:\d{8}|other|lasting|dated))?$"
)


def job_rows(sort: int, state: str, first: int, last: int, node: bool = False) -> str:
    return f"""
INSERT INTO rota.jobs ({SHARED}, node)
SELECT {sql_id(sort)}, 'u' || i % 10, '{state}', 'q', 'function', 't', 5, {NOW} + i, {NOW} + {HOUR}, NULL, {NOW},
       '{{}}', 'd', '{{}}', '{{}}', {"'inc0'" if node else "NULL"}
FROM generate_series({first}, {last}) AS i"""


def fire_rows(sort: int, last: int, fire: int, waiting: bool) -> str:
    return f"""
INSERT INTO rota.fires SELECT 'u' || i % 10, 's' || i, {fire}, {sql_id(sort)}, 'rule', {fire}, true, {waiting}
FROM generate_series(1, {last}) AS i"""


CROWD = [
    # Those that are due, those that are due soon, and all others in the next days.
    f"""
INSERT INTO rota.schedules (owner, name, revision, timing, work, overlap, calendars, created_at, changed_at, handled,
                            next_at)
SELECT 'u' || i % 10, 's' || i, 7, repeat('x', 150), repeat('y', 150),
       CASE WHEN i IN (151, 600) THEN 'skip' ELSE 'queue' END, '{{}}', {NOW}, {NOW}, {NOW} - {DAY},
       CASE WHEN i <= {DUE} THEN {NOW} - i WHEN i <= {DUE + SOON} THEN {NOW} + i
            ELSE {NOW} + {MINUTE} + i::bigint * {SECOND} END
FROM generate_series(1, {SCHEDULES}) AS i""",
    f"""
INSERT INTO rota.fires
SELECT 'u' || k % 10, 's' || k, {NOW} - {HOUR} * 5 + i::bigint % 100 * {MINUTE}, {sql_id(OLD)}, 'rule',
       {NOW} - {HOUR} * 5 + i::bigint % 100 * {MINUTE}, false, false
FROM generate_series(1, {FIRES}) AS i, LATERAL (SELECT (i - 1) / 100 + 1 AS k) AS of""",
    fire_rows(LIVE, RUNNING, NOW - MINUTE, False),
    fire_rows(QUEUED, WAITING, NOW - MINUTE + 1, True),
    job_rows(LIVE, "running", OVER + 1, RUNNING, node=True),
    job_rows(QUEUED, "blocked", 1, WAITING),
    job_rows(OTHER, "scheduled", 1, 50_000),
    f"""
INSERT INTO rota.history ({SHARED}, finished_at, lasting)
SELECT {sql_id(OLD)}, 'u' || ((i - 1) / 100 + 1) % 10, 'succeeded', 'q', 'function', 't', 5, {NOW}, {NOW}, NULL, {NOW},
       '{{}}', 'd', '{{}}', '{{}}', {NOW} + i, false
FROM generate_series(1, {FIRES}) AS i""",
    f"""
INSERT INTO rota.skips SELECT 'u' || i % 10, 's' || i % 1000, {NOW} - i, {NOW} - i, 1, 'paused', {NOW} - i
FROM generate_series(1, 100000) AS i""",
    f"""
INSERT INTO rota.nodes (incarnation, id, roles, queues, tasks, version, state, started_at, seen_at, lease, lock)
VALUES ('inc0', 'box', '["worker","control"]', '{{"q":4}}', '{{t}}', '1', 'live', {NOW}, {NOW}, 1, 1)""",
]

MAKER = PostgresFires()
OURS = "SELECT oid FROM pg_class WHERE relnamespace = 'rota'::regnamespace"
FORGET = f"DELETE FROM pg_statistic WHERE starelid IN ({OURS})"
BELIEFS: dict[str, list[str]] = {
    "never analysed": [FORGET, f"UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid IN ({OURS})"],
    "analysed when empty": [FORGET, f"UPDATE pg_class SET reltuples = 0, relpages = 0 WHERE oid IN ({OURS})"],
    "the truth": ["ANALYZE rota.jobs, rota.history, rota.schedules, rota.fires, rota.skips"],
}


@pytest.fixture(scope="module")
def large() -> Iterator[Large]:
    before, plans.GROWING = plans.GROWING, GROWING
    with large_tables(CROWD) as large:
        yield large
    plans.GROWING = before


@pytest.fixture(scope="module", params=list(BELIEFS))
def believing(request: pytest.FixtureRequest, large: Large) -> Large:
    run_as_owner(large.url, BELIEFS[request.param])
    return large


@pytest.fixture
async def store(believing: Large) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(believing.url, CLOCK, Chance(1), server_time=False)
    yield store
    await store.close()


# -- what is done -----------------------------------------------------------------------------------------------------


def owner(number: int) -> Principal:
    return Principal(f"u{number % 10}")


def fire(number: int, instant: int = NOW) -> NewFire:
    return NewFire(instant, NewJob(uid(99, number * 1_000 + instant % 1_000), "t", Spec.function("t")))


def step(number: int) -> Advance:
    return Advance(
        owner=owner(number).user, name=f"s{number}", revision=7, before=NOW - DAY, fires=[fire(number)],
        skips=[Skipped(NOW - 2, NOW - 1, 2, SkipReason.NEWER)], handled=NOW, next_at=NOW + DAY, limit=None,
        overlap=Overlap.QUEUE,
    )  # fmt: skip


def new(number: int) -> NewSchedule:
    return NewSchedule(name=f"s{number}", timing="x", work="y", overlap=Overlap.QUEUE, since=NOW, next_at=NOW + HOUR)


async def coming(unit: Unit) -> None:
    found, upcoming = await schedules.coming(unit, NOW + SECOND, 2_000)
    assert len(found) == DUE + SOON
    assert upcoming is not None


async def coming_few(unit: Unit) -> None:
    assert len((await schedules.coming(unit, NOW, 100))[0]) == 100


async def advance(unit: Unit) -> None:
    """Of a hundred of them one fire runs."""
    fates = await MAKER.advance(unit, SYSTEM, [step(number) for number in range(101, 351)])
    assert fates == [[Fate.QUEUED]] * 100 + [[Fate.MADE]] * 150


async def fire_plainly(unit: Unit) -> None:
    plain = [replace(step(number), skips=[], overlap=Overlap.ALLOW) for number in range(101, 351)]
    assert await MAKER.advance(unit, SYSTEM, plain) == [[Fate.MADE]] * 250


async def advance_after_the_end(unit: Unit) -> None:
    """Of those whose jobs have ended some wait: they are the next."""
    assert await MAKER.advance(unit, SYSTEM, [step(number) for number in range(1, 6)]) == [[Fate.QUEUED]] * 5


async def advance_in_vain(unit: Unit) -> None:
    assert await MAKER.advance(unit, SYSTEM, [step(number) for number in range(2_001, 2_101)]) == [None] * 100


async def backfill(unit: Unit) -> None:
    wanted = [fire(150, NOW - HOUR - n) for n in range(100)]
    fates = await MAKER.make_fires(unit, owner(150), "s150", FireKind.BACKFILL, wanted)
    assert fates == [Fate.QUEUED] * 100


async def skip(unit: Unit) -> None:
    fates = await MAKER.make_fires(unit, owner(151), "s151", FireKind.MANUAL, [fire(151)])
    assert fates == [Fate.SKIPPED]


async def by_hand(unit: Unit) -> None:
    fates = await MAKER.make_fires(unit, owner(600), "s600", FireKind.MANUAL, [fire(600)])
    assert fates == [Fate.MADE]


async def release(unit: Unit) -> None:
    assert await fires.release(unit, 100) == (OVER, WAITING - OVER)


async def release_nothing(unit: Unit) -> None:
    await fires.release(unit, 100)
    assert await fires.release(unit, 100) == (0, WAITING - OVER)


async def renew(unit: Unit) -> None:
    await nodes.renew(unit, "inc0", False, None, ScanFloor(CLOCK), ScanFloor(CLOCK))


async def history(unit: Unit) -> None:
    assert len(await schedules.fires(unit, "u7", "s7", NOW + DAY, 100)) == 100


async def get(unit: Unit) -> None:
    (info,) = await reads.get_many(unit, SYSTEM, [uid(OLD, 77_777)])
    assert info is not None
    assert info.schedule == "s778"


async def replay(unit: Unit) -> None:
    await changes.cancel(unit, SYSTEM, uids(OTHER, 1, 2, 3), "no")
    assert all(await orders.replay(unit, SYSTEM, uids(OTHER, 1, 2, 3), again=False))


async def change(unit: Unit) -> None:
    who = owner(501)
    assert await schedules.put(unit, who, replace(new(501), app="billing"), 7)
    assert await schedules.undeclare(unit, who, "billing", [("s501", 8)]) == ["s501"]
    assert await schedules.pause(unit, who, "s501", "")
    assert await schedules.resume(unit, who, "s501", 9, NOW)
    assert await schedules.set_aside(unit, who.user, "s501", 10, "why")
    assert await schedules.remove(unit, who, "s501", 10, NOW, [], None)
    assert await schedules.put(unit, who, new(501), None)


async def prune(unit: Unit) -> None:
    CLOCK.jump(30 * DAY // 1_000_000)
    try:
        assert await pruned(unit, Retention(DAY, DAY, DAY, 100 * DAY), 50) >= 100
    finally:
        CLOCK.jump(-30 * DAY // 1_000_000)


async def page(unit: Unit) -> None:
    found = await schedules.schedules(unit, Principal("u5"), ScheduleFilter(after=("u5", "s5"), limit=100))
    assert len(found) == 100


async def by_name(unit: Unit) -> None:
    (found,) = await schedules.schedules(unit, Principal("u9"), ScheduleFilter(names=("s99999",), limit=1))
    assert found.name == "s99999"


async def of_an_app(unit: Unit) -> None:
    assert await schedules.schedules(unit, Principal("u9"), ScheduleFilter(app="none", limit=100)) == []


async def calendars(unit: Unit) -> None:
    await calendars_.put_calendar(unit, LOCAL, Calendar("off"))
    assert await calendars_.remove_calendar(unit, LOCAL, "off") == []


class Deed(NamedTuple):
    do: Callable[[Unit], Awaitable[None]]
    reading: bool  # on the connections for reads, where the server plans as it likes
    rows: int  # at most, of all statements together
    pages: int
    expected: dict[str, set[str]]  # which query goes by which indexes


NEXT, SCHEDULE, FIRE, OF_JOB = "schedules_next", "schedules_pkey", "fires_pkey", "fires_job"
OPEN, WAITS, JOB, ENDED = "fires_open", "fires_waiting", "jobs_pkey", "history_id_idx"

DEEDS = {
    "coming": Deed(coming, True, 1_100, 1_500, {"coming_schedules": {NEXT}, "next_schedule_after": {NEXT}}),
    "a few that come": Deed(coming_few, True, 110, 200, {"coming_schedules": {NEXT}}),
    "advance": Deed(advance, False, 3_000, 25_000, {
        "standing_schedules": {SCHEDULE}, "open_fires": {OPEN, JOB}, "wait_for_others": {OF_JOB},
        "move_schedules": {SCHEDULE}, "insert_fires": set(), "insert_skips": set(),
    }),
    "fire plainly": Deed(fire_plainly, False, 3_000, 12_000, {"fire_plainly": {SCHEDULE}}),
    "advance after the end": Deed(advance_after_the_end, False, 100, 2_000, {"close_fires": {OF_JOB}}),
    "advance in vain": Deed(advance_in_vain, False, 200, 1_500, {"standing_schedules": {SCHEDULE}}),
    "backfill": Deed(backfill, False, 800, 9_000, {
        "hold_schedule": {SCHEDULE}, "known_jobs": {JOB, ENDED}, "open_fires": {OPEN, JOB},
    }),
    "skip": Deed(skip, False, 20, 500, {"withdraw_fires": {OF_JOB}}),
    "by hand": Deed(by_hand, False, 20, 500, {"note_last_fire": {SCHEDULE}}),
    "release": Deed(release, False, 2_000, 6_000, {
        "count_waiting": {WAITS}, "close_ended": {WAITS, OPEN, JOB}, "free_fires": {WAITS, OPEN, FIRE, OF_JOB, JOB},
        "release_jobs": {JOB},
    }),
    "release nothing": Deed(release_nothing, False, 3_500, 9_000, {"count_waiting": {WAITS}}),
    "renew": Deed(renew, False, 300, 900, {"renew": {
        "jobs_running", "jobs_ready", "jobs_due", "jobs_expiring", "jobs_held", NEXT, WAITS,
    }}),
    "history": Deed(history, True, 500, 2_000, {"fire_rows": {FIRE, JOB, ENDED}, "skip_rows": {"skips_pkey"}}),
    "get": Deed(get, True, 20, 300, {"fires_of_jobs": {OF_JOB}}),
    "replay": Deed(replay, False, 50, 1_000, {"reopen_replayed": set()}),
    "change": Deed(change, False, 500, 2_500, {
        "replace_schedule": {SCHEDULE}, "reopen_fires": {FIRE, JOB}, "pause_schedule": {SCHEDULE},
        "resume_schedule": {SCHEDULE}, "set_aside_schedule": {SCHEDULE}, "remove_schedule": {SCHEDULE},
        "insert_schedule": set(), "undeclare_schedules": {SCHEDULE},
    }),
    "prune": Deed(prune, False, 1_500, 9_000, {
        "delete_old_fires": {"fires_at", FIRE, JOB}, "delete_old_skips": {"skips_at", "skips_pkey"},
    }),
    "a page": Deed(page, True, 250, 500, {}),
    "by name": Deed(by_name, True, 10, 50, {}),
}  # fmt: skip

# They look at all schedules of one owner: asked by hand, or at the start of an app.
OF_AN_OWNER = {
    "of an app": Deed(of_an_app, True, 11_000, 12_000, {}),
    "calendars": Deed(calendars, False, 20, 200, {"look_again": {SCHEDULE}, "schedules_needing": {SCHEDULE}}),
}
# Looked at by what they cost: "a page", "by name", "of an app".
PAGES = {"schedule_rows", "schedule_rows_named", "schedule_rows_of"}
# They look at tables that stay small; or are asked by the doctor.
SMALL = {"calendar_rows", "hold_calendar", "lock_calendars", "put_calendar", "remove_calendar", "broken_schedules",
         "undeclared_schedules"}  # fmt: skip


async def ways(pool: ConnectionPool) -> list[str]:
    """How the server may plan a statement of ours: with its values or without, unless the store has decided that."""
    connection = await pool.take()
    chosen: str = await connection.fetchval("SHOW plan_cache_mode")
    pool.give(connection, True)
    return ["force_generic_plan", "force_custom_plan"] if chosen == "auto" else [chosen]


def complaints(deed: Deed, seen: list[Seen], sizes: dict[str, int]) -> list[str]:
    used: dict[str, set[str]] = {}
    for one in seen:
        used.setdefault(one.name, set()).update(one.indexes_of_full(sizes))
    rows, pages = sum(one.visited for one in seen), sum(one.pages for one in seen)
    found = [f"{one.name} reads all of {whole}" for one in seen if (whole := one.whole(sizes))]
    for query, indexes in deed.expected.items():
        if query not in used:
            found.append(f"{query} was not seen")
        elif indexes and not used[query] <= indexes:
            found.append(f"{query} goes by {used[query]} instead of {indexes}")
    found += [f"{rows} rows were visited, {deed.rows} would do"] if rows > deed.rows else []
    found += [f"{pages} pages were visited, {deed.pages} would do"] if pages > deed.pages else []
    return [*found, *map(str, seen)] if found else []


async def test_all_go_by_their_indexes_and_cost_what_they_move(believing: Large, store: PostgresStore) -> None:
    """Each is carried out, looked at and taken back. All that is wrong is told at once."""
    pools = store._database.pools()
    wrong: dict[str, list[str]] = {}
    for name, deed in (DEEDS | OF_AN_OWNER).items():
        pool = pools.reads if deed.reading else pools.work
        for way in await ways(pool):
            seen = await observe(store._database, pool, deed.do, {"plan_cache_mode": way})
            if found := complaints(deed, seen, believing.sizes):
                wrong[f"{name} ({way})"] = found
    assert not wrong, "\n\n".join("\n".join((name, *lines)) for name, lines in wrong.items())


def test_every_query_is_looked_at() -> None:
    covered = {name for deed in (*DEEDS.values(), *OF_AN_OWNER.values()) for name in deed.expected} - {"renew"}
    assert covered | PAGES | SMALL == queries.names("postgres", "schedules")
