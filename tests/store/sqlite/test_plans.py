"""The plans of the queries on a large table, and what they cost in steps of SQLite's machine.

A plan says which index is used; the steps say that it helps. Both are the same on every machine, and times are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from rota.clock import ManualClock
from rota.model.lifecycle import TERMINAL, State
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.query.parse import parse
from rota.store import sql_files
from rota.store.carriers.at_once import run_at_once
from rota.store.search import walk
from rota.store.sqlite import reads
from rota.store.sqlite.database import Database
from rota.store.sqlite.unit import SqliteUnit
from rota.store.values import JobCursor, JobFilter
from tests.store import queries
from tests.store.sqlite.plans import counted, filled, plan, scans, steps

pytestmark = pytest.mark.slow

ROWS = 200_000
NOW = 1_800_000_000_000_000
QUERIES = sql_files.load("sqlite")
# Growing tables; nodes and tasks stay small.
LARGE = "jobs|payloads|attempts|output|keys|outbox|j|p|a|o|k"

FILL = f"""
BEGIN;
CREATE TEMP TABLE n AS
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
SELECT i, CASE WHEN i % 100 < 60 THEN 'succeeded' WHEN i % 100 < 70 THEN 'failed' WHEN i % 100 < 74 THEN 'cancelled'
               WHEN i % 100 < 76 THEN 'skipped' WHEN i % 100 < 84 THEN 'scheduled' WHEN i % 100 < 88 THEN 'blocked'
               WHEN i % 100 < 90 THEN 'held' WHEN i % 1000 = 99 THEN 'running' ELSE 'ready' END AS s
FROM n;
INSERT INTO jobs (seq, id, owner, state, queue, kind, task, priority, rank, run_at, expires_at, created_at, finished_at,
                  node, fence, tries, started_at)
SELECT i, printf('%08x-0000-7000-8000-%012x', i, i), iif(i % 1000 = 0, 'alice', 'local'), s, 'q' || (i % 7),
       iif(i % 3 = 0, 'function', 'command'), 'task' || (i % 20), i % 10, {NOW} + i + (i % 10) * 60000000, {NOW} + i,
       iif(i % 9 = 0, {NOW} + 1000000000 + i, NULL), {NOW} + i,
       iif(s IN ('succeeded', 'failed', 'cancelled', 'skipped'), {NOW} + i, NULL),
       iif(s = 'running', 'inc' || (i / 1000 % 20), NULL), 1, 1, {NOW} + i
FROM n;
INSERT INTO payloads (seq, spec, digest, args, retry, timeout, key)
SELECT i, '{{"argv":["true"]}}', 'd', '{{}}', '{{}}', NULL, NULL FROM n WHERE i % 4 = 0;
INSERT INTO attempts (job, fence, number, node, started_at, finished_at, outcome)
SELECT i, 1, 1, 'box', {NOW} + i, {NOW} + i, 'succeeded' FROM n WHERE s = 'failed';
INSERT INTO output (job, fence, number, at, stream, body)
SELECT i, 1, 0, {NOW}, 'stdout', x'00' FROM n WHERE i % 10 = 0;
INSERT INTO keys (owner, key, content, job_id, expires_at)
SELECT iif(i % 1000 = 0, 'alice', 'local'), printf('k%06d', i), 'c', printf('%08x', i), {NOW} + i FROM n;
INSERT INTO outbox (at, kind, owner, subject, data)
SELECT {NOW} + i, 'job.failed', 'local', 'x', '{{}}' FROM n WHERE i % 4 = 0;
INSERT INTO nodes (incarnation, id, roles, queues, tasks, version, state, started_at, seen_at, lease)
SELECT 'inc' || i, 'box' || i, '[]', '{{}}', '[]', '1', 'live', {NOW}, {NOW}, 1 FROM n WHERE i <= 20;
INSERT INTO tasks (name, info, seen_at) SELECT 'task' || i, '{{}}', {NOW} FROM n WHERE i < 20;
UPDATE nodes SET tasks = (SELECT json_group_array(name) FROM tasks);
DROP TABLE n;
COMMIT;
"""


@pytest.fixture(scope="module")
def large() -> Iterator[apsw.Connection]:
    with filled(FILL) as connection:
        yield connection


def query_steps(db: apsw.Connection, name: str, **values: Any) -> int:
    return steps(db, QUERIES[name], values)


# They look at every row: one counts them all, one looks at the ends of ids (asked by hand, now and then), one sizes up
# the output of users with a quota for it (housekeeping, every few minutes).
WHOLE = {"state_counts", "ids_ending", "count_output"}
# They walk along a small index: one row of it, the few that run, or (for `rota doctor`) what is ready.
ALONG = {"any_ready": "jobs_ready", "ready_kinds": "jobs_ready", "stray_holders": "jobs_running"}
# They count jobs that live, by the indexes that hold no others.
LIVING = {"living_states", "living_tallies", "waiting_jobs_of", "running_jobs_of"}
OF_LIVING = {"jobs_blocked", "jobs_due", "jobs_held", "jobs_ready", "jobs_running"}
# Looked at elsewhere: test_admission_plans.py.
ADMISSION = queries.names("sqlite", "admission")


@pytest.mark.parametrize("name", sorted(set(QUERIES) - WHOLE - ADMISSION))
def test_no_query_reads_a_whole_table(large: apsw.Connection, name: str) -> None:
    found = scans(plan(large, QUERIES[name]), LARGE)
    if name in LIVING:
        assert {line.split("USING INDEX ")[1] for line in found} <= OF_LIVING, "never the ended ones"
    elif name in ALONG:
        assert [line.split("USING COVERING INDEX ")[1] for line in found] == [ALONG[name]]
    else:
        assert found == []


INTENDED = {
    "lane": ["SEARCH jobs USING INDEX jobs_ready (queue=? AND kind=?)"],
    "near_functions": ["SEARCH jobs USING INDEX jobs_ready (queue=? AND kind=?)"],
    "first_functions": ["SEARCH f USING INDEX jobs_ready_by_task (queue=? AND task=? AND rank>?)"],
    "functions_of": ["SEARCH jobs USING INDEX jobs_ready_by_task (queue=? AND task=? AND rank>?)"],
    "due": ["INDEX jobs_due (run_at<?)"],
    "due_of": ["SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"],
    "scheduled_jobs": ["INDEX jobs_due (run_at>? AND run_at<?)"],
    "expired": ["SEARCH jobs USING INDEX jobs_expiring (expires_at<?)"],
    "next_instant": ["SEARCH jobs USING COVERING INDEX jobs_due", "SEARCH jobs USING INDEX jobs_expiring"],
    "held_by": ["SEARCH jobs USING INDEX jobs_running (node=?)"],
    "holds_of": ["SEARCH jobs USING INDEX jobs_running (node=?)"],
    "living_nodes": ["SEARCH j USING INDEX jobs_running (node=?)"],
    "take": ["SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"],
    "taken": ["SEARCH j USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH p USING INTEGER PRIMARY KEY (rowid=?)"],
    "attempt_states": [
        "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)",
        "SEARCH a USING PRIMARY KEY (job=? AND fence=?)",
    ],
    "move_jobs": ["SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"],
    "record_attempts": ["SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"],
    "start_states": ["SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"],
    "open_attempts": ["SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"],
    "lock_jobs": ["SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"],
    "known_keys": ["SEARCH k USING PRIMARY KEY (owner=? AND key=?)"],
    "old_ended": ["SEARCH jobs USING INDEX jobs_ended (finished_at<?)"],
    "old_dead": ["INDEX jobs_dead (finished_at<?)"],
    "dead_after": ["SEARCH j USING INDEX jobs_dead (finished_at>?)", "SEARCH a USING PRIMARY KEY (job=?)"],
    "delete_old_keys": ["SEARCH k USING INDEX keys_expiring (expires_at<?)"],
    "delete_old_events": ["SEARCH outbox USING COVERING INDEX outbox_at (at<?)"],
    "output_rows": ["SEARCH o USING PRIMARY KEY (job=? AND (fence,number)>(?,?))"],
    "event_rows": ["SEARCH outbox USING INTEGER PRIMARY KEY (rowid>?)"],
    "ids_beginning": ["SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id>? AND id<?)"],
}


@pytest.mark.parametrize("name", INTENDED)
def test_the_intended_index_is_used(large: apsw.Connection, name: str) -> None:
    lines = plan(large, QUERIES[name])
    for intended in INTENDED[name]:
        assert any(intended in line for line in lines), lines


IN_LINE = [
    "lane", "near_functions", "functions_of", "due", "expired", "old_ended", "old_dead", "dead_after", "output_rows",
    "event_rows",
]  # fmt: skip


@pytest.mark.parametrize("name", IN_LINE)
def test_what_is_first_in_line_needs_no_sorting(large: apsw.Connection, name: str) -> None:
    assert not [line for line in plan(large, QUERIES[name]) if "TEMP B-TREE" in line]


# -- what it costs ----------------------------------------------------------------------------------------------------


def test_a_claim_costs_by_what_it_takes_not_by_what_waits(large: apsw.Connection) -> None:
    head = {"queue": "q1", "kind": "command", "now": NOW, "incarnation": "inc1", "bounded": False}
    for limit in (1, 50, 500):
        assert query_steps(large, "lane", **head, limit=limit) < 100 + 25 * limit
        functions = {"queue": "q1", "now": NOW, "incarnation": "inc1", "bounded": False}
        assert query_steps(large, "near_functions", **functions, limit=limit) < 1_000 + 60 * limit
    head["limit"] = 50
    seqs = [seq for _, seq, *_ in json.loads(large.execute(QUERIES["lane"], head).get)]
    assert len(seqs) == 50
    text = json.dumps(seqs)
    assert query_steps(large, "take", seqs=text, incarnation="inc1", started_at=NOW) < 230 * 50
    assert query_steps(large, "taken", seqs=text) < 200 * 50


def test_functions_of_others_cost_nothing(large: apsw.Connection) -> None:
    """A function at the very end of a queue costs as many steps to find whether nothing or a crowd stands before it."""
    place = {"rank": -1, "seq": 0, "queue": "crowded", "now": NOW, "limit": 1, "bounded": False}
    columns = "(id, owner, state, queue, kind, task, priority, rank, run_at, created_at)"
    job = f"INSERT INTO jobs {columns} SELECT 'x' || value, 'local', 'ready', 'crowded', 'function', ?, 5, ?, 1, 1 "
    job += "FROM json_each(?)"

    def cost() -> int:
        own = query_steps(large, "functions_of", task="own", **place)
        return own + query_steps(large, "first_functions", incarnation="lonely", **place)

    tasks = json.dumps(["own", *(f"empty{n}" for n in range(20))])
    node = "INSERT INTO nodes (incarnation, id, roles, queues, tasks, version, state, started_at, seen_at, lease) "
    large.execute(node + "VALUES ('lonely', 'lonely', '[]', '{}', ?, '1', 'live', 1, 1, 1)", (tasks,))
    large.execute(job, ("own", 1_000_000, "[0]"))
    alone = cost()
    large.execute(job, ("foreign", 1, json.dumps(list(range(1, 20_000)))))
    try:
        assert cost() <= alone + 50  # counted in tens
    finally:
        large.execute("DELETE FROM jobs WHERE queue = 'crowded'; DELETE FROM nodes WHERE id = 'lonely'").fetchall()


def test_an_empty_lane_costs_nothing(large: apsw.Connection) -> None:
    head = {"queue": "nothing", "kind": "command", "now": NOW, "incarnation": "inc1", "bounded": False}
    assert query_steps(large, "lane", **head, limit=500) < 100


def test_a_finish_costs_by_its_batch(large: apsw.Connection) -> None:
    running = large.execute("SELECT seq, id, fence FROM jobs WHERE state = 'running' LIMIT 50").fetchall()
    assert len(running) == 50
    refs = json.dumps([(job, fence) for _, job, fence in running])
    ending = ("succeeded", 0, None, "null", "succeeded", None, 0, 0, 0, None, True)
    rows = json.dumps([(seq, *ending) for seq, *_ in running])
    assert query_steps(large, "attempt_states", refs=refs) < 200 * 50
    assert query_steps(large, "record_attempts", rows=rows, now=NOW) < 300 * 50
    assert query_steps(large, "move_jobs", rows=rows, now=NOW, step=1) < 400 * 50


@pytest.mark.parametrize(
    ("name", "values", "most"),
    [
        ("next_instant", {}, 200),
        ("any_ready", {}, 60),
        ("due", {"now": NOW, "limit": 500}, 60),
        ("due", {"now": NOW * 2, "limit": 500}, 20 * 500),
        ("due_of", {"ids": json.dumps(["0000002a-0000-7000-8000-00000000002a"]), "now": NOW}, 200),
        ("scheduled_jobs", {"at": NOW, "id": "", "until": NOW * 2, "limit": 500}, 100 * 500),
        ("expired", {"now": NOW, "limit": 500}, 60),
        ("expired", {"now": NOW * 2, "limit": 500}, 40 * 500),
        ("holds_of", {"incarnation": "inc1"}, 20 * 20),
        ("held_by", {"incarnation": "inc1"}, 30 * 20),
        ("old_ended", {"before": NOW * 2, "limit": 200}, 60 * 200),
        ("old_dead", {"before": NOW * 2, "limit": 200}, 60 * 200),
        ("next_seq", {}, 60),
        ("known_keys", {"owner": "local", "keys": json.dumps(["k000005", "new", "k150001"])}, 300),
        ("lock_jobs", {"ids": json.dumps(["0000002a-0000-7000-8000-00000000002a"]), "sees": "local"}, 200),
        ("delete_old_keys", {"now": NOW * 2, "limit": 200}, 200 * 200),
        ("event_rows", {"after": 40_000, "sees": None, "shared": "", "limit": 100}, 30 * 100),
    ],
)
def test_the_cost_does_not_grow_with_the_table(
    large: apsw.Connection, name: str, values: dict[str, Any], most: int
) -> None:
    assert query_steps(large, name, **values) < most


def search(db: apsw.Connection, who: Principal, query: JobFilter) -> int:
    """What a page takes, with its jobs, in steps of the machine."""
    database = Database.__new__(Database)
    database.connection, database.clock, database.topics, database._queries = db, ManualClock(NOW), set(), QUERIES
    return counted(db, lambda: run_at_once(reads.page(SqliteUnit(database), who, query)))


@pytest.mark.parametrize("who", [LOCAL, SYSTEM], ids=["user", "system"])
def test_searches_that_people_repeat_are_cheap(large: apsw.Connection, who: Principal) -> None:
    """A list of the newest, the jobs someone waits for, the dead letters."""
    some = tuple(f"{n:08x}-0000-7000-8000-{n:012x}" for n in range(1_000, 1_200))
    ended = tuple(TERMINAL)
    assert search(large, who, JobFilter(limit=100)) < 160_000
    assert search(large, who, JobFilter(ids=some, states=ended, limit=200)) < 160_000
    assert search(large, who, JobFilter(states=(State.FAILED,), limit=100)) < 80_000
    assert search(large, who, JobFilter(after=JobCursor(some[-1]), limit=100)) < 160_000
    assert search(large, who, JobFilter(states=(State.FAILED,), after=JobCursor(some[-1], NOW), limit=100)) < 80_000
    assert search(large, who, JobFilter(workflow="none", limit=100)) < 10_000
    assert search(large, LOCAL, JobFilter(schedule="none", limit=100)) < 10_000
    assert search(large, SYSTEM, JobFilter(group="0123456789ab")) < 10_000
    assert search(large, LOCAL, JobFilter(states=(State.FAILED,), group="0123456789ab")) < 10_000


@pytest.mark.parametrize("who", [LOCAL, SYSTEM], ids=["user", "system"])
@pytest.mark.parametrize(
    "query",
    [
        "state:failed", "task:task7", "task:task1*", "queue:q3 state:cancelled", "NOT state:succeeded NOT state:live",
        "user:alice", "finished>2027-01-15T08:00:00.199Z", "created>2027-01-15T08:00:00.199Z", "state:running",
    ],
)  # fmt: skip
def test_searches_by_what_the_indexes_have_read_little(large: apsw.Connection, who: Principal, query: str) -> None:
    where = parse(query, NOW)
    assert search(large, who, JobFilter(where=where, limit=20)) < 250_000


@pytest.mark.parametrize("query", ["error~nothing", "label:none", "args.x:7", "/nothing/"])
def test_a_page_reads_a_part_of_a_large_table(
    large: apsw.Connection, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "MOST_ROWS", 2_000)
    assert search(large, SYSTEM, JobFilter(where=parse(query, NOW))) < 2_000_000
