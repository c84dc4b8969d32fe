"""The plans of the queries about jobs that wait for others, among many families that are none of their business.

As in test_plans.py: which index is used, and what that costs in steps of SQLite's machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from rota.store import sql_files
from tests.store import queries
from tests.store.sqlite.plans import filled, plan, steps

pytestmark = pytest.mark.slow

FAMILIES, FAMILY = 100_000, 100
NOW = 1_800_000_000_000_000
QUERIES = sql_files.load("sqlite")
OURS = sorted(queries.names("sqlite", "graph"))
LARGE = "jobs|edges|workflows|members|j|e|f|m"
FILL = f"""
BEGIN;
CREATE TEMP TABLE n AS
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {2 * FAMILIES}) SELECT i FROM n;
INSERT INTO jobs (seq, id, owner, state, queue, kind, task, priority, rank, run_at, created_at, finished_at, fence,
                  tries, tied, parents, waits)
SELECT i, printf('j%06d', i), 'local', iif(i % 2, 'succeeded', 'blocked'), 'q', 'command', 't', 5, {NOW}, {NOW}, {NOW},
       iif(i % 2, {NOW}, NULL), 1, 1, i % 2, 1 - i % 2, 1 - i % 2 FROM n;
INSERT INTO edges (child, parent, need, state)
SELECT printf('j%06d', i), printf('j%06d', i - 1), 'success', iif(i % 4, 'open', 'met') FROM n
WHERE i % 2 = 0 AND i > 1000;
INSERT INTO edges (child, parent, need, state)
SELECT printf('j%06d', i * 2), 'j000001', 'success', 'open' FROM n WHERE i <= {FAMILY};
INSERT INTO workflows SELECT printf('w%06d', i), 'local', 'n' || (i % 100), {NOW} + i FROM n WHERE i <= 20000;
INSERT INTO members (workflow, job, place) SELECT printf('w%06d', (i - 1) / 10 + 1), printf('j%06d', i), i FROM n;
DROP TABLE n;
COMMIT;
"""


@pytest.fixture(scope="module")
def large() -> Iterator[apsw.Connection]:
    with filled(FILL) as connection:
        yield connection


# Asked by hand, now and then: names and the ends of ids have no index.
WHOLE = {"resolve_workflow"}
# They walk along an index and stop early, or stop at the first.
ALONG = {"workflow_rows": "workflows_latest", "anyone_waits": "edges_open"}


@pytest.mark.parametrize("name", sorted(set(OURS) - WHOLE))
def test_no_query_reads_a_whole_table(large: apsw.Connection, name: str) -> None:
    scans = [line for line in plan(large, QUERIES[name]) if re.match(rf"SCAN (?:{LARGE})\b(?! VIRTUAL)", line)]
    if name in ALONG:
        assert [line.split("INDEX ")[1].split()[0] for line in scans] == [ALONG[name]]
    else:
        assert scans == []


JOBS = json.dumps([f"j{n * 2:06}" for n in range(1, FAMILY + 1)])
MARKS = json.dumps([(f"j{n * 2:06}", "j000001", "met") for n in range(1, FAMILY + 1)])
CHILDREN = json.dumps([(n * 2, "ready", 0, NOW, NOW) for n in range(1, FAMILY + 1)])
SKIPS = json.dumps([(f"j{n * 2:06}", "why") for n in range(1, FAMILY + 1)])
FEW = json.dumps(["j000001", "j150001"])
# What is asked, and how many steps are enough.
NEWEST = {"sees": "local", "name": None, "ids": None, "after_at": None, "after_id": None}
COSTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "what waits for these": ("open_edges", {"ids": FEW, "limit": 500}, 60 * FAMILY),
    "mark": ("mark_edges", {"rows": MARKS}, 200 * FAMILY),
    "children": ("children", {"ids": JOBS}, 60 * FAMILY),
    "children go on": ("move_children", {"rows": CHILDREN}, 300 * FAMILY),
    "skip": ("skip_jobs", {"rows": SKIPS, "now": NOW}, 300 * FAMILY),
    "tie": ("tie", {"ids": FEW}, 500),
    "count parents": ("count_parents", {"ids": JOBS}, 300 * FAMILY),
    "skipped below": ("skipped_below", {"ids": FEW}, 60 * FAMILY),
    "reopen": ("reopen_jobs", {"ids": JOBS, "replayed": "[]", "now": NOW, "step": 1}, 400 * FAMILY),
    "reopen edges": ("reopen_edges", {"ids": JOBS}, 200 * FAMILY),
    "parents": ("parent_rows", {"id": "j000002"}, 500),
    "someone waits": ("anyone_waits", {}, 60),
    "nothing to settle": ("any_settling", {}, 60),
    "the newest": (
        "workflow_rows",
        {"sees": "local", "name": None, "ids": None, "after_at": None, "after_id": None, "limit": 50},
        3_000,
    ),
    "counts": ("workflow_counts", {"ids": json.dumps([f"w{n:06}" for n in range(1, 51)])}, 40_000),
    "jobs of one": ("workflow_jobs", {"id": "w000077"}, 1_500),
    "edges of one": ("workflow_edges", {"id": "w000077"}, 1_500),
}


@pytest.mark.parametrize("what", COSTS)
def test_it_costs_what_it_finds_and_not_what_there_is(large: apsw.Connection, what: str) -> None:
    name, values, enough = COSTS[what]
    assert steps(large, QUERIES[name], values) <= enough
