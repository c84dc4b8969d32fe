"""The plans of all queries on a table of a million jobs, and what they cost in rows and pages.

A plan says which index is used; the rows and pages say that it helps. Both are the same on every machine, and times are
not. They are looked at under whatever the server may believe about the tables: the truth, nothing, that they are
empty, or that all jobs run on one node.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import NamedTuple

import psycopg
import pytest

from rota.clock import Chance
from rota.model.lifecycle import TERMINAL, State
from rota.model.principal import LOCAL, SYSTEM
from rota.model.times import DAY
from rota.store import sql_files
from rota.store.postgres import PostgresStore, work
from rota.store.postgres.address import STEADY_PLANS
from rota.store.postgres.database import Unit
from rota.store.postgres.pool import ConnectionPool
from rota.store.values import JobCursor
from tests.store import queries
from tests.store.postgres import deeds
from tests.store.postgres.beliefs import BELIEFS, believe, mislead
from tests.store.postgres.crowd import CLOCK, DEAD, ENDED, FIRST, NOW, SECOND, Large, large_tables, uid, uids
from tests.store.postgres.deeds import BATCH, looking
from tests.store.postgres.plans import Seen, observe

pytestmark = pytest.mark.slow

QUERIES = sql_files.load("postgres")
ELSEWHERE = queries.names("postgres", "schedules", "graph", "admission", "offers", "locks")


@pytest.fixture(scope="module")
def large() -> Iterator[Large]:
    with large_tables(FIRST, SECOND) as large:
        with psycopg.connect(large.url, autocommit=True) as db:
            mislead(db)
        yield large


@pytest.fixture(scope="module", params=list(BELIEFS))
def believing(request: pytest.FixtureRequest, large: Large) -> Large:
    believe(large.url, request.param)
    return large


@pytest.fixture
async def store(believing: Large) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(believing.url, CLOCK, Chance(1), server_time=False)
    yield store
    await store.close()


class Deed(NamedTuple):
    do: Callable[[Unit], Awaitable[None]]
    reading: bool  # on the connections for reads, where the server plans as it likes
    rows: int  # at most, of all statements together
    pages: int
    expected: dict[str, set[str]]  # which query goes by which indexes
    also: frozenset[str] = frozenset()  # as good, if the server likes them better


PKEY, HISTORY, ATTEMPTS, OUTPUT = "jobs_pkey", "history_id_idx", "attempts_job_fence_idx", "output_job_fence_number_idx"
FINISHED = "history_finished_at_idx"
KEPT = "output_kept_at_idx"
SEGMENT, CELL = "segments_id_idx", "segments_cell_low_job_high_job_idx"
SMALL_ONES = "segments_owner_task_kept_at_idx"
SHELVES = {"jobs_running", "jobs_ready", "jobs_due", "jobs_expiring", "jobs_held"}
STARTED = {"start_states": {PKEY}, "hold_gated": {PKEY}, "start_jobs": {PKEY}}
SETTLED = {"lock_jobs": {PKEY}, "attempt_states": {PKEY, ATTEMPTS, HISTORY}}
MOVED = {"record_attempts": {PKEY}, "move_jobs": {PKEY}}
# What comes of looking for jobs by their ids, on the way to showing them.
SHOWN = {
    "job_rows": {PKEY, "progress_pkey"}, "history_rows": {HISTORY, "progress_pkey"}, "attempt_rows": {ATTEMPTS},
}  # fmt: skip

WAITED_FOR, DEAD_ONLY = tuple(uids(ENDED, *range(900, 1100))), (State.FAILED,)
DEEDS = {
    "claim 700": Deed(deeds.claim, False, 4_000, 45_000, {"claim": {"jobs_ready"}}),
    "claim 1": Deed(deeds.claim_one, False, 10 + work.REACH, 300, {"claim": {"jobs_ready"}}),
    "claim 1 behind others": Deed(partial(deeds.lonely, 1), False, 20 + 2 * work.REACH, 700, {"claim": {"jobs_ready"}}),
    "claim 100 behind others": Deed(partial(deeds.lonely, BATCH), False, 8 * BATCH, 8_000, {"claim": {"jobs_ready"}}),
    "claim nothing": Deed(deeds.claim_nothing, False, 0, 50, {"claim": {"jobs_ready"}}),
    "succeed": Deed(deeds.succeed, False, 100, 4_000, {"succeed": {PKEY}}),
    "succeed again": Deed(deeds.finish_again, False, 400, 9_000, {"succeed": {PKEY}, **SETTLED}),
    "fail": Deed(deeds.fail, False, 700, 9_000, {**SETTLED, "end_jobs": {PKEY}}),
    "retry": Deed(deeds.retry, False, 900, 9_000, {**SETTLED, **MOVED}),
    "renew": Deed(deeds.renew, False, 300, 700, {"renew": SHELVES}),
    "promote": Deed(deeds.promote, False, 700, 9_000, {"promote": {"jobs_expiring", "jobs_due"}}),
    "promote all": Deed(deeds.promote_all, False, 4_500, 80_000, {"promote": {"jobs_expiring", "jobs_due"}}),
    "promote by id": Deed(deeds.promote_by_id, False, 1_000, 9_000, {"promote_jobs": {PKEY}}),
    "due times": Deed(deeds.due_times, True, 1_000, 9_000, {"due_times": {PKEY}}),
    "scheduled": Deed(deeds.scheduled_page, True, 1_100, 1_500, {"scheduled_jobs": {"jobs_due"}}),
    "scheduled behind": Deed(deeds.scheduled_page_behind, True, 1_100, 1_500, {"scheduled_jobs": {"jobs_due"}}),
    "take over": Deed(deeds.take_over, False, 2_500, 20_000, {
        "held_by": {"jobs_running"}, "hand_back_states": {PKEY, ATTEMPTS}, "hand_back_jobs": {PKEY}, **SETTLED, **MOVED,
    }),
    "nodes": Deed(deeds.list_nodes, True, 2_500, 9_000, {"node_rows": {"jobs_running"}}),
    "note": Deed(deeds.note, False, 900, 6_000, {"note": {PKEY, "progress_pkey", "checkpoints_pkey"}}),
    "succeed with a saved state": Deed(deeds.succeed_saved, False, 300, 6_000, {
        "succeed": {PKEY}, "forget_states": {"checkpoints_pkey"},
    }),
    "output": Deed(deeds.say, False, 500, 4_500, {"append_output": {PKEY, OUTPUT}, "cut_output": {PKEY, OUTPUT}}),
    "late output": Deed(deeds.say_late, False, 900, 9_000, {
        "append_late": {PKEY, HISTORY, OUTPUT}, "cut_late": {PKEY, HISTORY, OUTPUT}, "still_running": {PKEY},
    }),
    "output beyond a quota": Deed(deeds.say_too_much, False, 700, 6_000, {
        "append_output": {PKEY, OUTPUT}, "last_output": {OUTPUT},
    }),
    "start": Deed(deeds.start, False, 300, 4_000, STARTED),
    "hand back": Deed(deeds.hand_back, False, 400, 9_000, {
        "hand_back_states": {PKEY, ATTEMPTS}, "handed_back_before": {HISTORY, ATTEMPTS}, "hand_back_jobs": {PKEY},
    }),
    "hand back cancelled": Deed(deeds.hand_back_cancelled, False, 100, 3_000, {
        "cancel_running": {PKEY}, "end_unstarted": {PKEY},
    }),
    "submit": Deed(deeds.submit, False, 0, 1_000, {"insert_jobs": set()}),
    "submit with keys": Deed(deeds.submit_keyed, False, 200, 3_000, {"accept": set()}),
    "cancel": Deed(deeds.cancel, False, 300, 6_000, {
        "lock_jobs": {PKEY}, "lock_history": {HISTORY}, "cancel_waiting": {PKEY}, "cancel_running": {PKEY},
    }),
    "replay": Deed(deeds.replay, False, 300, 6_000, {"lock_history": {HISTORY}, "reopen_jobs": {HISTORY, PKEY}}),
    "hurry": Deed(deeds.hurry, False, 200, 4_000, {"lock_jobs": {PKEY}, "hurry_jobs": {PKEY}}),
    "purge": Deed(deeds.purge, False, 500, 6_000, {
        "lock_history": {HISTORY}, "delete_output": {OUTPUT}, "delete_attempts": {ATTEMPTS},
        "delete_history": {HISTORY}, "delete_progress": {"progress_pkey"}, "forget_states": {"checkpoints_pkey"},
    }),
    "prune": Deed(deeds.prune, False, 3_000, 20_000, {
        "old_ended": {FINISHED}, "old_dead": {FINISHED}, "ungrouped": {"history_error_group"}, "set_groups": {HISTORY},
        "output_counts": {OUTPUT},
        "delete_old_keys": {"keys_expiring", "keys_pkey", PKEY},
        "delete_old_events": {"outbox_at", "outbox_pkey"}, "delete_old_repeats": {"repeats_expiry", "repeats_pkey"},
    }),
    "trim": Deed(deeds.trim, False, 10, 300, {"trim_output": {OUTPUT}}),
    "rescue": Deed(deeds.rescue, False, 2_500, 9_000, {"stray_holders": {"jobs_running"}}),
    "events": Deed(deeds.events, True, 500, 4_000, {
        "any_unread": {"outbox_unread"}, "number_events": {"outbox_unread", "outbox_pkey"},
        "event_rows": {"outbox_seq_key"},
    }, frozenset({"outbox_seq_key"})),
    "tally": Deed(deeds.tally, False, 2_000, 9_000, {"tally_until": {FINISHED}, "ended_tallies": {FINISHED}}),
    "known keys": Deed(deeds.look_for_keys, False, 1, 20, {"keys_known_of": {"keys_pkey"}}),
    "repeat": Deed(deeds.repeat, False, 10, 100, {
        "kept_repeats": {"repeats_pkey"}, "hold_repeat": set(), "keep_repeat": {"repeats_pkey"},
    }),
    "get": Deed(deeds.get, True, 20, 600, SHOWN),
    "output of a job": Deed(deeds.output, True, 200, 300, {
        "owns_job": {PKEY, HISTORY}, "owner_of_job": {PKEY, HISTORY}, "output_rows": {OUTPUT},
        "segments_of_job": {CELL},
    }),
    "seal": Deed(deeds.seal, False, 50_000, 9_000, {
        "runs": {KEPT, PKEY, HISTORY}, "end_of_runs": {KEPT}, "run_chunks": {OUTPUT}, "hold_raw": {OUTPUT},
        "delete_raw": {OUTPUT},
    }),
    "rewrite": Deed(deeds.rewrite, False, 3_000, 9_000, {
        "segments_of_purged": {CELL}, "list_purged": {CELL}, "still_in_segments": {CELL, "purged_pkey"},
        "hold_segments": {SEGMENT}, "delete_segments": {SEGMENT}, "stored_segments": {SEGMENT},
        "small_segments_of": {SMALL_ONES}, "forget_purged": {"purged_pkey"},
    }),
    "prune output": Deed(deeds.prune_output, False, 60_000, 90_000, {
        "segments_past": {"segments_kept_at_stored_idx"}, "segments_by_age": {"segments_kept_at_stored_idx"},
        "keep_segments": {SEGMENT}, "empty_segments": {SEGMENT}, "existing_jobs": {PKEY, HISTORY},
        "oldest_segments": {"segments_last_at_id_size_idx"},
    }),
    "search output": Deed(deeds.search, True, 3_000, 9_000, {"raw_bodies": {OUTPUT}}),
    "resolve": Deed(deeds.resolve, True, 30, 200, {"ids_beginning": {PKEY, HISTORY}}),
    # A search looks at the catalogue, at the prefixes of the days that it begins with, and at some jobs of each.
    "the newest": Deed(looking(SYSTEM, 100, limit=100), True, 7_000, 15_000, SHOWN),
    "one's own newest": Deed(looking(LOCAL, 100, limit=100), True, 7_000, 15_000, SHOWN),
    **{name: Deed(look, True, 7_000, 15_000, SHOWN) for name, look in {
        "those someone waits for": looking(LOCAL, 199, ids=WAITED_FOR, states=tuple(TERMINAL), limit=200),
        "dead letters": looking(SYSTEM, 100, states=DEAD_ONLY, limit=100),
        "the next page": looking(LOCAL, 100, after=JobCursor(uid(ENDED, 5_000))),
        "more dead letters": looking(SYSTEM, 100, states=DEAD_ONLY, after=JobCursor(uid(DEAD, 900), NOW + 2 * DAY)),
    }.items()},
    "those of a workflow": Deed(looking(LOCAL, 0, workflow=uid(ENDED, 5)), True, 10, 700, {}),
    "those of a group of errors": Deed(looking(SYSTEM, 0, states=DEAD_ONLY, group="none"), True, 10, 700, {}),
    "those of a schedule": Deed(looking(LOCAL, 0, schedule="none"), True, 10, 700, {}),
}  # fmt: skip

# They look at every row: one counts them all, one looks at the ends of ids (asked by hand, now and then), one is of the
# doctor, four count the jobs that live (for statistics, for someone who asks, and at most once a second for a quota),
# one sizes up the output of users with a quota for it, and others all segments, by indexes that hold little else
# (control nodes do, every few minutes).
WHOLE = {
    "state_counts", "ids_ending", "ready_kinds", "living_states", "living_tallies", "waiting_jobs_of",
    "running_jobs_of", "count_output", "segment_space", "small_segments", "damaged_segments",
}  # fmt: skip
# They look at tables that stay small, or only write.
SMALL = {
    "insert_node", "lock_node", "lock_number", "living_with_id", "upsert_tasks", "end_node", "really_gone",
    "delete_old_nodes", "partitions", "task_rows", "append_event", "append_events", "server_now", "old_strays",
    "whereabouts", "access_key_rows", "append_audit", "audit_rows", "copy_access_key", "count_schedules_of",
    "delete_old_access_keys", "delete_old_audit", "delete_old_tallies", "delete_user", "expire_access_key", "grant_row",
    "hold_admins", "hold_quotas", "insert_access_key", "insert_user", "live_admin_keys", "make_secret", "moment",
    "outbox_span", "put_tallies", "quotas_of", "revoke_access_key", "revoke_access_keys_of", "same_tallies", "save_use",
    "secret", "set_quotas", "start_tallying", "tallied", "tally_cursors", "put_tally_cursor",
    "tally_rows", "touch_access_keys",
    "unread_events_are_old", "user_exists", "user_rows", "bound_output", "hold_output", "save_output",
    "workflow_names", "schedule_names", "names_of_workflows", "node_names",
    "uncounted_output", "keep_output_counts", "insert_segment", "purged_jobs", "set_segments_aside", "watch_state",
    "keep_watch", "confirm_watch", "writers_of_jobs",
}  # fmt: skip


def test_every_query_is_looked_at() -> None:
    covered = {name for deed in DEEDS.values() for name in deed.expected} | ELSEWHERE
    covered |= {"admit_claim", "search_tables"}  # looked at with admission; of the catalogue
    assert covered | WHOLE | SMALL == set(QUERIES), "a new query needs a deed here, an old one is gone"
    assert [q for q in SMALL if re.search(r"\brota\.(jobs|history|attempts|output|keys)\b", QUERIES[q])] == []


async def ways(pool: ConnectionPool) -> list[str]:
    """How the server may plan a statement of ours: with its values or without, unless the store has decided that."""
    connection = await pool.take()
    chosen: str = await connection.fetchval("SHOW plan_cache_mode")
    pool.give(connection, True)
    return ["force_generic_plan", "force_custom_plan"] if chosen == "auto" else [chosen]


def fits(used: set[str] | None, indexes: set[str], also: frozenset[str]) -> bool:
    """Empty partitions need no index."""
    return used is not None and (used == indexes or (bool(used) and used <= indexes | also))


def complaints(deed: Deed, seen: list[Seen], sizes: dict[str, int]) -> list[str]:
    used: dict[str, set[str]] = {}
    for one in seen:
        used.setdefault(one.name, set()).update(one.indexes_of_full(sizes))
    rows, pages = sum(one.visited for one in seen), sum(one.pages for one in seen)
    found = [f"{one.name} reads all of {whole}" for one in seen if (whole := one.whole(sizes))]
    found += [
        f"{query} goes by {used.get(query)} instead of {indexes}"
        for query, indexes in deed.expected.items()
        if not fits(used.get(query), indexes, deed.also)
    ]
    found += [f"{rows} rows were visited, {deed.rows} would do"] if rows > deed.rows else []
    found += [f"{pages} pages were visited, {deed.pages} would do"] if pages > deed.pages else []
    return [*found, *map(str, seen)] if found else []


async def test_all_go_by_their_indexes_and_cost_what_they_move(believing: Large, store: PostgresStore) -> None:
    """Each is carried out, looked at and taken back. All that is wrong is told at once."""
    pools = store._database.pools()
    wrong: dict[str, list[str]] = {}
    for name, deed in DEEDS.items():
        pool = pools.reads if deed.reading else pools.work
        for way in await ways(pool):
            seen = await observe(store._database, pool, deed.do, {"plan_cache_mode": way})
            if found := complaints(deed, seen, believing.sizes):
                wrong[f"{name} ({way})"] = found
    assert not wrong, "\n\n".join("\n".join((name, *lines)) for name, lines in wrong.items())


async def test_all_that_write_have_steady_plans(believing: Large, store: PostgresStore) -> None:
    pools = store._database.pools()
    for pool in (pools.work, pools.vital):
        connection = await pool.take()
        for name, value in STEADY_PLANS.items():
            assert await connection.fetchval("SELECT current_setting($1)", name) == value
        pool.give(connection, True)
