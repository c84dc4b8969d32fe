"""The plans of the queries about who may run, with two hundred thousand jobs behind gates and keys that are none of
their business, and as many that have ended.

As in test_plans.py: which index is used, and what that costs in steps of SQLite's machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from rota.store import sql_files
from tests.store.sqlite.plans import filled, plan, scans, steps
from tests.store.sqlite.test_plans import ADMISSION

pytestmark = pytest.mark.slow

HELD, KEYS, LANE, BATCH = 100_000, 2_000, 20_000, 100
NOW = 1_800_000_000_000_000
QUERIES = sql_files.load("sqlite")
LARGE = "jobs|slots|starts|limits|flows|wanted|j|s|t|l|f|h|r|d"
# Who is first in the numbers of jobs.
GATED, WAITS, LONG, READY, FED, BACK, RUNS, ENDED = (n * 1_000_000 for n in range(1, 9))


def fill(first: int, count: int, state: str, queue: str, special: str = "0", held_by: str = "NULL", **more: str) -> str:
    keys = f""" '{{"keys":[["' || {held_by} || '",1,null,"wait"]]}}' """ if special == "1" else "NULL"
    ended = NOW if state == "succeeded" else "NULL"
    node = "'inc'" if state == "running" else "NULL"
    return f"""
INSERT INTO jobs (seq, id, owner, state, queue, kind, task, priority, rank, run_at, created_at, finished_at, node,
                  fence, tries, started_at, requirements, special, held_by, level)
SELECT {first} + i, 'j' || ({first} + i), 'local', '{state}', '{queue}', 'command', {more.get("task", "'t'")}, 5,
       {NOW} + i, {NOW}, {NOW}, {ended}, {node}, 1, 1, {NOW}, {keys}, {special}, {held_by}, {more.get("level", "0")}
FROM n WHERE i <= {count};"""


LINE = f"'k:local:key' || (i % {KEYS})"
FILL = f"""
BEGIN;
CREATE TEMP TABLE n AS
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {2 * HELD}) SELECT i FROM n;
{fill(GATED, HELD, "held", "q", held_by="'g:gate'")}
{fill(WAITS, HELD // 2, "held", "keyed", "1", LINE)}
{fill(LONG, HELD // 2, "held", "keyed", "1", "'k:local:long'")}
{fill(READY, LANE, "ready", "q")}
{fill(FED, LANE, "ready", "fed", task="'t' || (i % 100)")}
{fill(BACK, LANE, "ready", "fed", task="'back'", level="1")}
{fill(RUNS, KEYS, "running", "keyed")}
{fill(ENDED, 2 * HELD, "succeeded", "fed", level="i % 2")}
INSERT INTO gates (id, task, effect, reason, author, created_at, swept)
VALUES ('gate', 'gated', 'pause', 'why', 'local', {NOW}, 99999999);
INSERT INTO slots SELECT 'local', 'key' || (i % {KEYS}), 1, 'j' || ({RUNS} + i), 1, {NOW} FROM n WHERE i <= {KEYS};
INSERT INTO slots VALUES ('local', 'long', 1, 'j1', 1, {NOW});
INSERT INTO starts (owner, key, until, job, fence, at, late)
SELECT 'local', 'rate' || (i % {KEYS}), {NOW} + i, 'j', i, {NOW}, 500000 FROM n WHERE i <= {HELD};
INSERT INTO wanted
SELECT 'local', 'several' || (i % {KEYS}), 'j' || ({WAITS} + i), {NOW} + i FROM n WHERE i <= {HELD // 2};
INSERT INTO limits (owner, key, concurrency) SELECT 'local', 'set' || i, 1 FROM n WHERE i <= {KEYS};
INSERT INTO queues (name, feedback, boosted_at) VALUES ('fed', 1, {NOW});
INSERT INTO flows VALUES ('fed', 'local/t1', 1, 1), ('fed', 'local/back', 1, 1);
INSERT INTO flows SELECT 'other', 'local/x' || i, 1, 1 FROM n WHERE i <= {KEYS};
DROP TABLE n;
COMMIT;
"""


@pytest.fixture(scope="module")
def large() -> Iterator[apsw.Connection]:
    with filled(FILL) as connection:
        yield connection


# They count all that lives, or list all keys or flows, for someone who asks by hand.
WHOLE = {"queue_states", "limit_rows", "flow_rows"}
# They walk along indexes that hold little, and most of them stop early: what runs, what was put back, quotas.
ALONG = {
    "running_jobs": ["jobs_running"],
    "put_forward": ["jobs_moved"],
    "any_to_put_forward": ["jobs_moved"],
    "claimer": ["limits_running"],
    "any_unadopted": ["limits_running", "jobs_running"],
    "mark_unadopted": ["jobs_running"],
}


@pytest.mark.parametrize("name", sorted(ADMISSION - WHOLE))
def test_no_query_reads_a_whole_table(large: apsw.Connection, name: str) -> None:
    found = scans(plan(large, QUERIES[name]), LARGE)
    if name in ALONG:
        assert [line.split("INDEX ")[1].split()[0] for line in found] == ALONG[name]
    else:
        assert found == []


LINES = json.dumps([f"k:local:key{n}" for n in range(BATCH)])
NAMES = json.dumps([("local", f"key{n}", None) for n in range(BATCH)])
ROWS = json.dumps([{"owners": "local", "keys": f"key{n}"} for n in range(BATCH)])
RATES = json.dumps([("local", f"rate{n}", 60_000_000) for n in range(BATCH)])
SPOKEN_FOR = json.dumps([("local", f"several{n}", None) for n in range(BATCH)])
LATEST = 2_000_000
SEQS = json.dumps([READY + n for n in range(1, BATCH + 1)])
ASIDE = json.dumps([(READY + n, "g:gate", "why") for n in range(1, BATCH + 1)])
DROPPED = json.dumps([(READY + n, "dropped", "why") for n in range(1, BATCH + 1)])
HEAD: dict[str, Any] = {"kind": "command", "now": NOW, "incarnation": "x", "bounded": False}
# What is asked, and how many steps are enough.
COSTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "a claim": ("lane", {"queue": "q", "limit": BATCH, **HEAD}, 30 * BATCH),
    "a claim of nothing": ("lane", {"queue": "x", "limit": 9, **HEAD}, 100),
    "who asks": ("claimer", {"incarnation": "x", "now": NOW}, 200),
    "is anything left": ("left_over", {}, 100),
    "candidates": ("candidates", {"seqs": SEQS}, 60 * BATCH),
    "hold": ("hold_jobs", {"rows": ASIDE}, 400 * BATCH),
    "put away": ("put_away", {"rows": DROPPED, "now": NOW}, 400 * BATCH),
    "keys as they stand": ("key_states", {"keys": NAMES, "now": NOW, "latest": LATEST}, 200 * BATCH),
    "rates as they stand": ("key_states", {"keys": RATES, "now": NOW, "latest": LATEST}, 1_200 * BATCH),
    "what others wait for": ("key_states", {"keys": SPOKEN_FOR, "now": NOW, "latest": LATEST}, 200 * BATCH),
    "a token": (
        "token_back",
        {"owner": "local", "key": "rate7", "now": NOW, "span": 60_000_000, "count": 3, "latest": LATEST},
        2_000,
    ),
    "keep tokens": ("stretch_tokens", {"owner": "local", "key": "rate7", "span": 1}, 5_000),
    "first in lines": ("first_in_lines", {"lines": LINES}, 100 * BATCH),
    "next in a long line": ("next_in_line", {"line": "k:local:long", "limit": BATCH}, 30 * BATCH),
    "let go": ("let_go", {"seqs": json.dumps([LONG + n for n in range(1, BATCH + 1)])}, 400 * BATCH),
    "all lines": ("all_lines", {}, 200 * KEYS),
    "what a gate let go": ("release_held", {"id": "gate", "limit": BATCH}, 400 * BATCH),
    "is a gate done": ("remove_gate", {"id": "gate"}, 200),
    "are gates at work": ("gates_at_work", {"now": NOW}, 200),
    "sweep": ("sweep", {"swept": READY, "reach": READY + 200, "drop": 0, "limit": BATCH, "but": None}, 30 * 200),
    "how far to sweep": ("sweep_end", {"swept": READY, "span": 200}, 30 * 200),
    "misplaced": ("misplaced", {"seqs": SEQS, "step": None}, 150 * BATCH),
    "rank those": ("rank_those", {"seqs": SEQS, "step": 1, "usual": 2}, 400 * BATCH),
    "holders": ("holder_rows", {"rows": ROWS}, 200 * BATCH),
    "is anyone alone": ("any_alone", {}, 100),
    "alone": ("alone_jobs", {}, 200),
    "old tokens": ("delete_old_starts", {"before": NOW + 1_000, "limit": BATCH}, 300 * BATCH),
    "why": ("waiting_row", {"id": f"j{LONG + 7}", "sees": None, "now": NOW}, 500),
    "another priority": ("reprioritise", {"ids": json.dumps([f"j{LONG + 7}"]), "priority": 1, "step": 1}, 500),
    "put back": (
        "put_back",
        {
            "queue": "fed",
            "kind": "command",
            "owner": "local",
            "task": "t1",
            "flow": "t1",
            "level": 1,
            "step": 1,
            "limit": 10,
        },
        50 * 10 * 100,
    ),
    "forward": ("put_forward", {"step": 1, "limit": BATCH}, 30 * LANE),
    "is anyone to be put forward": ("any_to_put_forward", {"now": NOW, "usual": 1, "changing": 1}, 30 * LANE),
}


@pytest.mark.parametrize("what", COSTS)
def test_it_costs_what_it_finds_and_not_what_there_is(large: apsw.Connection, what: str) -> None:
    name, values, enough = COSTS[what]
    assert steps(large, QUERIES[name], values) <= enough


def test_a_line_that_was_freed_is_looked_at_by_its_head(large: apsw.Connection) -> None:
    """However long it is."""
    large.execute("INSERT INTO freed VALUES ('k:local:long')")
    try:
        assert steps(large, QUERIES["freed_lines"], {"limit": 500}) <= 300
    finally:
        large.execute("DELETE FROM freed")
