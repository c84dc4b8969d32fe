"""The plans of the queries about schedules: on many of them, with many fires of which few are open.

As in test_plans.py: which index is used, and what that costs in steps of SQLite's machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from rota.clock import Chance, ManualClock
from rota.model.principal import Principal
from rota.model.trigger.records import ScheduleFilter
from rota.store import sql_files
from rota.store.sqlite import SqliteStore
from tests.store.sqlite.plans import filled, plan, steps

pytestmark = pytest.mark.slow

SCHEDULES, FIRES = 20_000, 100_000
NOW = 1_800_000_000_000_000
QUERIES = sql_files.load("sqlite")
LARGE = "schedules|fires|skips|s|f"
FILL = f"""
BEGIN;
CREATE TEMP TABLE n AS
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {FIRES}) SELECT i FROM n;
INSERT INTO schedules (owner, name, revision, timing, work, overlap, calendars, created_at, changed_at, handled,
                       next_at)
SELECT 'u' || (i % 3), printf('s%06d', i), 1, 'x', 'y', 'queue', '[]', 1, 1, 1, {NOW} + i FROM n WHERE i <= {SCHEDULES};
INSERT INTO fires (owner, name, fire, job_id, kind, at, open, waiting)
SELECT 'u' || (i % 1000 % 3), printf('s%06d', i % 1000), {NOW} + i, 'j' || i, 'rule', {NOW} + i, i % 1000 = 5,
       i % 5000 = 5 FROM n;
INSERT INTO skips (owner, name, first, last, count, reason, at)
SELECT 'u' || (i % 1000 % 3), printf('s%06d', i % 1000), {NOW} + i, {NOW} + i, 1, 'paused', {NOW} + i FROM n;
COMMIT;
"""


@pytest.fixture(scope="module")
def large() -> Iterator[apsw.Connection]:
    with filled(FILL) as connection:
        yield connection


WHOLE = {"broken_schedules", "undeclared_schedules"}  # `rota doctor` looks at all of them
OURS = {name for name, text in QUERIES.items() if re.search(r"\b(schedules|fires|skips)\b", text)}
# They walk along an index that holds little: what waits, or what comes next.
WAITING = "fires_waiting"
ALONG = {
    "count_waiting": WAITING, "any_waiting": WAITING, "close_ended": WAITING,
    "schedule_names": "sqlite_autoindex_schedules_1",  # for completion, of an operator
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OURS - WHOLE))
def test_no_query_reads_a_whole_table(large: apsw.Connection, name: str) -> None:
    scans = [line for line in plan(large, QUERIES[name]) if re.match(rf"SCAN (?:{LARGE})\b(?! VIRTUAL)", line)]
    if name in ALONG:
        assert [line.split("INDEX ")[1].split()[0] for line in scans] == [ALONG[name]]
    else:
        assert scans == []


def rows(count: int, **one: object) -> dict[str, str]:
    return {"rows": json.dumps([one] * count)}


ONE = {"owner": "u2", "name": "s000005"}
MANY = {"owners": "u2", "names": "s000005"}
# What is asked, and how many steps are enough.
COSTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "those that come": ("coming_schedules", {"until": NOW + 100, "limit": 1_000}, 5_000),
    "the next": ("next_schedule", {}, 100),
    "the next after those": ("next_schedule_after", {"until": NOW + 100}, 100),
    "those that are open": ("open_fires", {**rows(1, **MANY, all=0), "few": 5}, 5_000),
    "all that wait": ("count_waiting", {}, 1_000),
    "those that have ended": ("close_ended", {}, 10_000),
    "the first that wait": ("free_fires", {"limit": 20}, 2_000),
    "new fires": (
        "insert_fires", {**rows(3, **MANY, fires=1, ids="new", open=0), "kind": "rule", "now": NOW}, 1_000,
    ),
    "the fires of a schedule": ("fire_rows", {**ONE, "before": NOW * 2, "limit": 20}, 1_500),
    "its skips": ("skip_rows", {**ONE, "before": NOW * 2, "limit": 20}, 1_500),
    "the fire of a job": ("fires_of_jobs", {"ids": json.dumps(["j500", "j501"])}, 500),
    "old fires": ("delete_old_fires", {"before": NOW + 1_000, "limit": 50}, 10_000),
    "old skips": ("delete_old_skips", {"now": NOW + 1_000, "age": 0, "limit": 50}, 10_000),
    "steps that fit": (
        "standing_schedules", {**rows(10, **MANY, revisions=1, cursors=1, reaches=1), "now": NOW + 10}, 2_000,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", COSTS)
def test_it_costs_what_it_finds_and_not_what_there_is(large: apsw.Connection, what: str) -> None:
    name, values, enough = COSTS[what]
    used = {key: value for key, value in values.items() if re.search(rf":{key}\b", QUERIES[name])}
    assert steps(large, QUERIES[name], used) <= enough


@pytest.mark.parametrize(
    ("query", "found", "enough"),
    [
        (ScheduleFilter(names=("s019999",), limit=1), 1, 1_000),
        (ScheduleFilter(limit=100), 100, 10_000),
        (ScheduleFilter(after=("u1", "s009999"), limit=100), 100, 10_000),
    ],
    ids=["by name", "a page", "a page from the middle"],
)
async def test_looking_at_a_few_costs_little(query: ScheduleFilter, found: int, enough: int) -> None:
    store = SqliteStore(":memory:", ManualClock(), Chance(1), inline=True)
    await store.migrate()
    await store.open()
    db = store._write_side().connection
    db.execute(FILL).fetchall()
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 10
        return False

    db.set_progress_handler(count, 10)
    assert len(await store.schedules(Principal("u1"), query)) == found
    db.set_progress_handler(None)
    await store.close()
    assert taken <= enough
