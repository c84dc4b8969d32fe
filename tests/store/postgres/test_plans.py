"""The plans of all queries on a table of a million jobs, and what they cost in rows and pages.

A plan says which index is used; the rows and pages say that it helps. Both are the same on every machine, and times are
not. They are looked at under whatever the server may believe about the tables: the truth, nothing, that they are
empty, or that all jobs run on one node.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pytest

from rota.clock import Chance
from rota.model.job import Kind, NewJob, Ref, Spec
from rota.model.lifecycle import TERMINAL, JobEvent, State
from rota.model.outcome import CrashRule, Ending, Problem, Settlement
from rota.model.principal import LOCAL, SYSTEM, Principal
from rota.model.progress import Progress
from rota.model.times import DAY, MINUTE, aware
from rota.store import sql_files
from rota.store.carriers import orders as changes
from rota.store.carriers import reads as carried
from rota.store.postgres import PostgresStore, nodes, orders, reads, work
from rota.store.postgres.address import STEADY_PLANS
from rota.store.postgres.database import Unit
from rota.store.postgres.pool import ConnectionPool
from rota.store.postgres.scan_floor import ScanFloor
from rota.store.values import Chunk, JobCursor, JobFilter, Note, Position, Retention
from tests.store import queries
from tests.store.postgres import crowd
from tests.store.postgres.beliefs import BELIEFS, believe, mislead
from tests.store.postgres.crowd import CLOCK, COUNTS, FIRST, NOW, SECOND, Large, large_tables, uid, uids
from tests.store.postgres.plans import Seen, observe, pruned

pytestmark = pytest.mark.slow

SCHEDULED, READY, RUNNING, AHEAD = crowd.SCHEDULED, crowd.READY, crowd.RUNNING, crowd.AHEAD
DUE, EXPIRED, ENDED, DEAD = crowd.DUE, crowd.EXPIRED, crowd.ENDED, crowd.DEAD

QUERIES = sql_files.load("postgres")
ELSEWHERE = queries.names("postgres", "schedules", "graph", "admission", "offers")


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


# -- what is done -----------------------------------------------------------------------------------------------------

BATCH = 100
KINDS = tuple(Kind)
RETENTION = Retention(DAY, DAY, MINUTE, DAY)


def new(number: int, **changes: Any) -> NewJob:
    return NewJob(uid(99, number), "t1", Spec.function("t1"), **changes)


def settlement(sort: int, number: int, event: JobEvent, ending: Ending, **more: Any) -> Settlement:
    problem = Problem("E", "boom")
    return Settlement(uid(sort, number), 1, event, ending, error=problem, reason="boom", **more)


def batch(event: JobEvent, ending: Ending, **more: Any) -> list[Settlement]:
    return [settlement(RUNNING, number, event, ending, **more) for number in range(1, BATCH + 1)]


def refs(sort: int, fence: int = 1) -> list[Ref]:
    return [Ref(job, fence) for job in uids(sort, *range(1, BATCH + 1))]


async def claim(unit: Unit) -> None:
    wants = {f"q{n}": BATCH for n in range(7)}
    assert len(await work.claim(unit, "inc1", wants, KINDS, wants, ScanFloor(CLOCK))) == 7 * BATCH


async def claim_one(unit: Unit) -> None:
    assert len(await work.claim(unit, "inc1", {"q3": 1}, KINDS, {"q3": 1}, ScanFloor(CLOCK))) == 1


async def lonely(jobs: int, unit: Unit) -> None:
    """Claims for a node whose only functions rank behind all others of their queue."""
    await unit.connection.execute("UPDATE rota.nodes SET tasks = '{own, a, b, c}' WHERE incarnation = 'inc1'")
    own = [NewJob(uid(98, n), "own", Spec.function("own"), queue="q4", priority=9) for n in range(jobs)]
    await orders.submit(unit, LOCAL, [own], DAY)
    claimed = await work.claim(unit, "inc1", {"q4": jobs}, (Kind.FUNCTION,), {"q4": jobs}, ScanFloor(CLOCK))
    assert [one.job_id for one in claimed] == [job.id for job in own]


async def claim_nothing(unit: Unit) -> None:
    assert await work.claim(unit, "inc1", {"none": 500}, KINDS, {"none": 500}, ScanFloor(CLOCK)) == []


async def succeed(unit: Unit) -> None:
    verdicts = await work.finish(unit, [
        Settlement(job, 1, JobEvent.SUCCEED, Ending.SUCCEEDED, result="1")
        for job in uids(RUNNING, *range(1, BATCH + 1))
    ])  # fmt: skip
    assert set(verdicts) == {"applied"}


async def finish_again(unit: Unit) -> None:
    again = [
        Settlement(job, 1, JobEvent.SUCCEED, Ending.SUCCEEDED, result="1") for job in uids(ENDED, *range(1, BATCH + 1))
    ]
    assert set(await work.finish(unit, again)) == {"already"}


async def fail(unit: Unit) -> None:
    assert set(await work.finish(unit, batch(JobEvent.FAIL, Ending.FAILED, failures=1))) == {"applied"}


async def retry(unit: Unit) -> None:
    assert set(await work.finish(unit, batch(JobEvent.RETRY, Ending.FAILED, failures=1, delay=5))) == {"applied"}


async def renew(unit: Unit) -> None:
    news = await nodes.renew(unit, "inc1", False, None, ScanFloor(CLOCK), ScanFloor(CLOCK))
    assert len(news.holds) == COUNTS[RUNNING] // 20


async def promote(unit: Unit) -> None:
    moved, _ = await nodes.promote(unit, BATCH, 0, ScanFloor(CLOCK))
    assert moved == 2 * BATCH


async def promote_all(unit: Unit) -> None:
    """So that there is nothing left to do, and the next instant has to be found."""
    moved, upcoming = await nodes.promote(unit, 2_000, 0, ScanFloor(CLOCK))
    assert moved == COUNTS[DUE] + COUNTS[EXPIRED]
    assert upcoming is not None


async def take_over(unit: Unit) -> None:
    moved = await nodes.departures.take_over(unit, "inc0", 0, CrashRule())
    assert moved is not None
    assert len(moved) == COUNTS[RUNNING] // 20 + COUNTS[AHEAD]


async def list_nodes(unit: Unit) -> None:
    assert len(await nodes.nodes(unit, SYSTEM, True, ())) == 20


async def say(unit: Unit) -> None:
    chunks = [Chunk(j, 1, n, NOW, "log", b"", {9: 5}.get(n)) for j in uids(RUNNING, *range(1, 11)) for n in range(10)]
    verdicts = await work.append_output(unit, chunks)
    assert (verdicts.count("applied"), verdicts.count("already")) == (80, 20)  # type: ignore[arg-type]


async def note(unit: Unit) -> None:
    """Half of them have told something before."""
    half = Progress(0.5, "half", aware(NOW))
    notes = [Note(job, 1, 9, half, "{}") for job in uids(RUNNING, *range(951, 951 + BATCH))]
    assert set(await work.note(unit, notes)) == {"applied"}


async def succeed_saved(unit: Unit) -> None:
    chosen = [
        Settlement(job, 1, JobEvent.SUCCEED, Ending.SUCCEEDED, saved=True)
        for job in uids(RUNNING, *range(951, 951 + BATCH))
    ]
    assert set(await work.finish(unit, chosen)) == {"applied"}


async def start(unit: Unit) -> None:
    assert {one.verdict for one in await work.start(unit, refs(AHEAD))} == {"applied"}


async def hand_back(unit: Unit) -> None:
    assert set(await work.hand_back(unit, refs(AHEAD))) == {"applied"}


async def hand_back_cancelled(unit: Unit) -> None:
    await changes.cancel(unit, SYSTEM, uids(AHEAD, *range(1, 11)), "no")
    await work.hand_back(unit, refs(AHEAD)[:10])


async def submit(unit: Unit) -> None:
    await orders.submit(unit, LOCAL, [[new(n) for n in range(20)]], DAY)


async def submit_keyed(unit: Unit) -> None:
    jobs = [new(n, key=f"new{n}") for n in range(10)]
    await orders.submit(unit, LOCAL, [jobs, jobs], DAY)


async def cancel(unit: Unit) -> None:
    some = range(1, 21)
    chosen = [*uids(SCHEDULED, *some), *uids(READY, *some), *uids(RUNNING, *some), *uids(ENDED, *some)]
    answers = await changes.cancel(unit, SYSTEM, chosen, "no")
    assert [answers.count(kind) for kind in ("cancelled", "requested", "ended")] == [40, 20, 20]  # type: ignore[arg-type]


async def replay(unit: Unit) -> None:
    assert all(await orders.replay(unit, SYSTEM, uids(DEAD, *range(1, 51)), again=False))


async def hurry(unit: Unit) -> None:
    assert all(await changes.hurry(unit, SYSTEM, uids(SCHEDULED, *range(1, 51))))


async def purge(unit: Unit) -> None:
    assert all(await orders.purge(unit, SYSTEM, uids(ENDED, *range(1, 51))))


async def prune(unit: Unit) -> None:
    """Row by row. The clock is moved on, so that all of it is old."""
    CLOCK.jump(30 * DAY // 1_000_000)
    try:
        assert await pruned(unit, RETENTION, 50) >= 200
    finally:
        CLOCK.jump(-30 * DAY // 1_000_000)


async def trim(unit: Unit) -> None:
    await unit.run("trim_output", id=uid(ENDED, 7), limit=300)


async def rescue(unit: Unit) -> None:
    assert await nodes.departures.rescue(unit, CrashRule()) == []


async def events(unit: Unit) -> None:
    assert len(await reads.events(unit, SYSTEM, 49_000, 100)) == 100


async def tally(unit: Unit) -> None:
    until = await unit.value("tally_until", after=0, settled=0, limit=100, now=NOW * 2)
    assert await unit.rows("ended_tallies", after=until - 1, until=until, sees=None, queue=None, task=None)


async def look_for_keys(unit: Unit) -> None:
    assert await unit.value("keys_known_of", owner="local", keys=["none"]) == 0


async def get(unit: Unit) -> None:
    for job in (uid(SCHEDULED, 5), uid(RUNNING, 5), uid(ENDED, 5), uid(DEAD, 5)):
        assert None not in await reads.get_many(unit, SYSTEM, [job])


async def output(unit: Unit) -> None:
    assert len(await carried.output(unit, SYSTEM, uid(ENDED, 5), Position(), 100)) == 2


async def resolve(unit: Unit) -> None:
    assert await reads.resolve(unit, LOCAL, uid(ENDED, 5)[:-1]) == uids(ENDED, 1, 2, 3)


def looking(who: Principal, found: int, **query: Any) -> Callable[[Unit], Awaitable[None]]:
    async def look(unit: Unit) -> None:
        assert len((await reads.page(unit, who, JobFilter(**query))).jobs) == found

    return look


class Deed(NamedTuple):
    do: Callable[[Unit], Awaitable[None]]
    reading: bool  # on the connections for reads, where the server plans as it likes
    rows: int  # at most, of all statements together
    pages: int
    expected: dict[str, set[str]]  # which query goes by which indexes
    also: frozenset[str] = frozenset()  # as good, if the server likes them better


PKEY, HISTORY, ATTEMPTS, OUTPUT = "jobs_pkey", "history_id_idx", "attempts_job_fence_idx", "output_job_fence_number_idx"
FINISHED = "history_finished_at_idx"
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
    "claim 700": Deed(claim, False, 4_000, 45_000, {"claim": {"jobs_ready"}}),
    "claim 1": Deed(claim_one, False, 10 + work.REACH, 300, {"claim": {"jobs_ready"}}),
    "claim 1 behind others": Deed(partial(lonely, 1), False, 20 + 2 * work.REACH, 700, {"claim": {"jobs_ready"}}),
    "claim 100 behind others": Deed(partial(lonely, BATCH), False, 8 * BATCH, 8_000, {"claim": {"jobs_ready"}}),
    "claim nothing": Deed(claim_nothing, False, 0, 50, {"claim": {"jobs_ready"}}),
    "succeed": Deed(succeed, False, 100, 4_000, {"succeed": {PKEY}}),
    "succeed again": Deed(finish_again, False, 400, 9_000, {"succeed": {PKEY}, **SETTLED}),
    "fail": Deed(fail, False, 700, 9_000, {**SETTLED, "end_jobs": {PKEY}}),
    "retry": Deed(retry, False, 900, 9_000, {**SETTLED, **MOVED}),
    "renew": Deed(renew, False, 300, 700, {"renew": SHELVES}),
    "promote": Deed(promote, False, 700, 9_000, {"promote": {"jobs_expiring", "jobs_due"}}),
    "promote all": Deed(promote_all, False, 4_500, 80_000, {"promote": {"jobs_expiring", "jobs_due"}}),
    "take over": Deed(take_over, False, 2_500, 20_000, {
        "held_by": {"jobs_running"}, "hand_back_states": {PKEY, ATTEMPTS}, "hand_back_jobs": {PKEY}, **SETTLED, **MOVED,
    }),
    "nodes": Deed(list_nodes, True, 2_500, 9_000, {"node_rows": {"jobs_running"}}),
    "note": Deed(note, False, 900, 6_000, {"note": {PKEY, "progress_pkey", "checkpoints_pkey"}}),
    "succeed with a saved state": Deed(succeed_saved, False, 300, 6_000, {
        "succeed": {PKEY}, "forget_states": {"checkpoints_pkey"},
    }),
    "output": Deed(say, False, 500, 4_500, {"append_output": {PKEY, OUTPUT}, "cut_output": {PKEY, OUTPUT}}),
    "start": Deed(start, False, 300, 4_000, STARTED),
    "hand back": Deed(hand_back, False, 400, 9_000, {
        "hand_back_states": {PKEY, ATTEMPTS}, "handed_back_before": {HISTORY, ATTEMPTS}, "hand_back_jobs": {PKEY},
    }),
    "hand back cancelled": Deed(hand_back_cancelled, False, 100, 3_000, {
        "cancel_running": {PKEY}, "end_unstarted": {PKEY},
    }),
    "submit": Deed(submit, False, 0, 1_000, {"insert_jobs": set()}),
    "submit with keys": Deed(submit_keyed, False, 200, 3_000, {"accept": set()}),
    "cancel": Deed(cancel, False, 300, 6_000, {
        "lock_jobs": {PKEY}, "lock_history": {HISTORY}, "cancel_waiting": {PKEY}, "cancel_running": {PKEY},
    }),
    "replay": Deed(replay, False, 300, 6_000, {"lock_history": {HISTORY}, "reopen_jobs": {HISTORY, PKEY}}),
    "hurry": Deed(hurry, False, 200, 4_000, {"lock_jobs": {PKEY}, "hurry_jobs": {PKEY}}),
    "purge": Deed(purge, False, 500, 6_000, {
        "lock_history": {HISTORY}, "delete_output": {OUTPUT}, "delete_attempts": {ATTEMPTS},
        "delete_history": {HISTORY}, "delete_progress": {"progress_pkey"}, "forget_states": {"checkpoints_pkey"},
    }),
    "prune": Deed(prune, False, 3_000, 20_000, {
        "old_ended": {FINISHED}, "old_dead": {FINISHED}, "output_counts": {OUTPUT},
        "delete_old_keys": {"keys_expiring", "keys_pkey", PKEY},
        "delete_old_events": {"outbox_at", "outbox_pkey"},
    }),
    "trim": Deed(trim, False, 10, 300, {"trim_output": {OUTPUT}}),
    "rescue": Deed(rescue, False, 2_500, 9_000, {"stray_holders": {"jobs_running"}}),
    "events": Deed(events, True, 500, 4_000, {
        "any_unread": {"outbox_unread"}, "number_events": {"outbox_unread", "outbox_pkey"},
        "event_rows": {"outbox_seq_key"},
    }, frozenset({"outbox_seq_key"})),
    "tally": Deed(tally, False, 2_000, 9_000, {"tally_until": {FINISHED}, "ended_tallies": {FINISHED}}),
    "known keys": Deed(look_for_keys, False, 1, 20, {"keys_known_of": {"keys_pkey"}}),
    "get": Deed(get, True, 20, 600, SHOWN),
    "output of a job": Deed(output, True, 20, 100, {"owns_job": {PKEY, HISTORY}, "output_rows": {OUTPUT}}),
    "resolve": Deed(resolve, True, 30, 200, {"ids_beginning": {PKEY, HISTORY}}),
    "the newest": Deed(looking(SYSTEM, 100, limit=100), True, 1_500, 6_000, SHOWN),
    "one's own newest": Deed(looking(LOCAL, 100, limit=100), True, 1_500, 6_000, SHOWN),
    **{name: Deed(look, True, 1_500, 12_000, SHOWN) for name, look in {
        "those someone waits for": looking(LOCAL, 199, ids=WAITED_FOR, states=tuple(TERMINAL), limit=200),
        "dead letters": looking(SYSTEM, 100, states=DEAD_ONLY, limit=100),
        "the next page": looking(LOCAL, 100, after=JobCursor(uid(ENDED, 5_000))),
        "more dead letters": looking(SYSTEM, 100, states=DEAD_ONLY, after=JobCursor(uid(DEAD, 900), NOW + 2 * DAY)),
    }.items()},
    "those of a workflow": Deed(looking(LOCAL, 0, workflow=uid(ENDED, 5)), True, 10, 100, {}),
    "those of a schedule": Deed(looking(LOCAL, 0, schedule="none"), True, 10, 100, {}),
}  # fmt: skip

# They look at every row: one counts them all, one looks at the ends of ids (asked by hand, now and then), one is of the
# doctor, three count the jobs that live (for statistics, and at most once a second for a quota).
WHOLE = {"state_counts", "ids_ending", "ready_kinds", "living_states", "living_tallies", "waiting_jobs_of"}
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
    "unread_events_are_old", "user_exists", "user_rows",
}  # fmt: skip


def test_every_query_is_looked_at() -> None:
    covered = {name for deed in DEEDS.values() for name in deed.expected} | ELSEWHERE
    covered |= {"admit_claim"}  # looked at with admission
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
        used.setdefault(one.name, set()).update(one.indexes)
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
