"""The rows themselves: what constraints let in, what is copied when jobs end, and what someone wrote by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import psycopg.rows
import pytest

from rota.clock import ManualClock
from rota.errors import StoreError
from rota.model import outcome
from rota.model.job import JobInfo, Ref, Verdict
from rota.model.lifecycle import INITIAL, LIVE, TERMINAL, Event, State, sources
from rota.model.node import NodeState
from rota.model.outcome import CrashRule, Ending, Outcome, Problem, Settlement
from rota.model.principal import LOCAL, SYSTEM
from rota.model.retry import Retry
from rota.model.times import DAY, HOUR
from rota.store import named
from rota.store.base import Cancelling, JobFilter, Position, Retention, TaskInfo
from rota.store.postgres import PostgresStore
from tests.contracts.world import BOOM, DONE, FATAL, NAP, PLENTY, STOPPED, Actor, World, settled
from tests.store.postgres.backends import Postgres

Db = psycopg.Connection[tuple[Any, ...]]
Row = dict[str, Any]
WORDS = re.compile(r"'(\w+)'")
LARGEST = 2**63 - 1


@pytest.fixture
def db(store: PostgresStore, backend: Postgres) -> Iterator[Db]:
    with backend.connection() as connection:
        yield connection


def rows(db: Db, query: str, *values: object) -> list[Row]:
    with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return cursor.execute(query.encode(), values).fetchall()


# -- the schema says what the table of steps says ---------------------------------------------------------------------

UUID = "gen_random_uuid()"
BASIC = "id, owner, state, queue, kind, task, priority, rank, run_at, created_at, spec, digest, args, retry"


def add_live(db: Db, state: str, *, node: bool, priority: int = 5) -> None:
    db.execute(
        f"INSERT INTO jobs ({BASIC}, node) "
        f"VALUES ({UUID}, 'o', %s, 'q', 'command', 't', %s, 1, 1, 1, '', '', '', '', %s)".encode(),
        (state, priority, "n" if node else None),
    )


def add_ended(db: Db, state: str, lasting: bool, result: str | None = None) -> None:
    db.execute(
        f"INSERT INTO history ({BASIC}, finished_at, lasting, outcome) "
        f"VALUES ({UUID}, 'o', %s, 'q', 'command', 't', 5, 1, 1, 1, '', '', '', '', 1, %s, %s)".encode(),
        (state, lasting, result),
    )


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_its_table_and_its_marks(db: Db, state: State) -> None:
    """Live ones in one table, held by a node if and only if they run; ended ones in the other, failed ones to last."""
    for mark in (True, False):
        if state in LIVE and mark == (state is State.RUNNING):
            add_live(db, state.value, node=mark)
        else:
            with pytest.raises(psycopg.errors.CheckViolation):
                add_live(db, state.value, node=mark)
        if state in TERMINAL and mark == (state is State.FAILED):
            add_ended(db, state.value, mark)
        else:
            with pytest.raises(psycopg.errors.CheckViolation):
                add_ended(db, state.value, mark)


@pytest.mark.parametrize("state", ["", "READY", "done", "ready ", "paused"])
def test_no_other_state_is_accepted(db: Db, state: str) -> None:
    for mark in (True, False):
        with pytest.raises(psycopg.errors.CheckViolation):
            add_live(db, state, node=mark)
        with pytest.raises(psycopg.errors.CheckViolation):
            add_ended(db, state, mark)


@pytest.mark.parametrize("ending", list(Ending))
def test_every_ending_is_accepted(db: Db, ending: Ending) -> None:
    add_ended(db, "cancelled", False, ending.value)
    insert = "INSERT INTO attempts (job, fence, number, node, started_at, finished_at, outcome) VALUES"
    db.execute(f"{insert} ({UUID}, 1, 1, 'n', 1, 1, %s)".encode(), (ending.value,))
    for other in ("", "done", ending.value.upper()):
        with pytest.raises(psycopg.errors.CheckViolation):
            add_ended(db, "cancelled", False, other)
        with pytest.raises(psycopg.errors.CheckViolation):
            db.execute(f"{insert} ({UUID}, 1, 1, 'n', 1, 1, %s)".encode(), (other,))


@pytest.mark.parametrize("priority", [-1, 10, 2**14])
def test_a_priority_outside_its_range_is_refused(db: Db, priority: int) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        add_live(db, "ready", node=False, priority=priority)


def states_in(text: str) -> set[str]:
    return set(WORDS.findall(text)) & {state.value for state in State}


def definition(db: Db, index: str) -> str:
    ((text,),) = db.execute("SELECT pg_get_indexdef(%s::regclass)", (index,)).fetchall()
    return str(text)


def test_the_indexes_hold_the_shelves_they_are_for(db: Db) -> None:
    assert states_in(definition(db, "jobs_ready")) == sources(Event.CLAIM)
    assert states_in(definition(db, "jobs_due")) == sources(Event.PROMOTE)
    assert "node IS NOT NULL" in definition(db, "jobs_running"), "which is to say: running"


def test_the_states_of_nodes(db: Db) -> None:
    ((text,),) = db.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'nodes'::regclass AND contype = 'c'"
    ).fetchall()
    assert set(WORDS.findall(text)) == set(NodeState)


def test_the_queries_move_jobs_off_the_shelves_that_the_table_names() -> None:
    queries = named.load("postgres")
    assert states_in(queries["claim"]) == sources(Event.CLAIM) | {State.RUNNING}
    assert states_in(queries["promote"]) == sources(Event.PROMOTE) | {State.READY, State.CANCELLED}
    assert sources(Event.EXPIRE) == INITIAL == LIVE - {State.RUNNING}, "so it is enough that no node holds it"
    assert sources(Event.CANCEL) - {State.RUNNING} == INITIAL


# -- all columns go along ---------------------------------------------------------------------------------------------

# What a job is, whatever becomes of it.
LASTING = (
    "id",
    "owner",
    "queue",
    "kind",
    "task",
    "priority",
    "created_at",
    "spec",
    "digest",
    "args",
    "timeout",
    "key",
    "retry",
)
COUNTS = ("fence", "tries", "failures", "crashes", "interruptions", "replays")


async def rich(world: World, db: Db, actor: Actor, *, start: bool = True) -> str:
    """A job with something of its own in every column, in the hands of a node."""
    job = await world.one(
        key="k", args='{"a":1}', queue="default", priority=3, timeout=77, expires=HOUR, retry=Retry(9), task="odd",
    )  # fmt: skip
    db.execute("UPDATE jobs SET failures = 2, crashes = 1, interruptions = 4, replays = 5, fence = 6, tries = 3")
    await actor.take(job, start=start)
    db.execute("UPDATE jobs SET digest = 'digest', cancel = NULL")
    return job


def only(db: Db, table: str) -> Row:
    found = rows(db, f"SELECT * FROM {table}")
    assert len(found) == 1, found
    return found[0]


def check(before: Row, after: Row, *, added: dict[str, int] | None = None, kept: tuple[str, ...] = ()) -> None:
    for name in (*LASTING, *kept):
        assert after[name] == before[name], name
    for name in COUNTS:
        assert after[name] == before[name] + (added or {}).get(name, 0), name


def test_the_lists_above_name_every_column(db: Db) -> None:
    names = {name for (name,) in db.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'jobs'::regclass AND attnum > 0 AND NOT attisdropped"
    )}  # fmt: skip
    told = {"state", "rank", "run_at", "expires_at", "claimed_at", "started_at", "node", "cancel", "reason"}
    assert names == set(LASTING) | set(COUNTS) | told, "a new column must be copied when a job ends, and looked at here"
    others = {name for (name,) in db.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'history'::regclass AND attnum > 0 AND NOT attisdropped"
    )}  # fmt: skip
    assert others - names == {"finished_at", "outcome", "exit_code", "error", "result", "lasting"}


ENDINGS: dict[str, tuple[Outcome, str, dict[str, int]]] = {
    "succeed": (outcome.Succeeded('"yes"', 7), "succeeded", {}),
    "fail": (outcome.Failed(Problem("E", "no"), fatal=True, exit_code=3), "failed", {"failures": 1}),
    "time out": (outcome.TimedOut(Problem("E", "no"), 3, fatal=True), "failed", {"failures": 1}),
    "cancel": (outcome.Cancelled("enough", 5), "cancelled", {}),
    "set aside": (outcome.SetAside(Problem("E", "broken")), "failed", {}),
}


@pytest.mark.parametrize("how", ENDINGS)
async def test_an_attempt_that_ends_its_job_leaves_all_of_it(
    world: World, db: Db, clock: ManualClock, how: str
) -> None:
    result, state, added = ENDINGS[how]
    actor = await world.node("box")
    await rich(world, db, actor)
    before = only(db, "jobs")
    clock.advance(3)
    settlement = outcome.settle(str(before["id"]), before["fence"], Retry(9), 2, result, 0.0)
    assert await world.store.finish(SYSTEM, [settlement]) == [Verdict.APPLIED]
    after = only(db, "history")
    check(before, after, added=added, kept=("rank", "run_at", "started_at"))
    assert rows(db, "SELECT * FROM jobs") == []
    assert (after["state"], after["node"], after["finished_at"]) == (state, "box", clock.now())
    assert (after["outcome"], after["exit_code"], after["result"]) == (
        settlement.ending, settlement.exit_code, settlement.result,
    )  # fmt: skip
    assert after["reason"] == settlement.reason
    assert (None if after["error"] is None else msgspec.json.decode(after["error"], type=Problem)) == settlement.error
    assert after["lasting"] == (state == "failed")
    assert after["cancel"] is None


async def test_a_job_cancelled_while_it_waits(world: World, db: Db, clock: ManualClock) -> None:
    actor = await world.node()
    job = await rich(world, db, actor, start=False)
    await actor.hand_back(only_ref(db))
    before = only(db, "jobs")
    assert before["expires_at"] is not None
    clock.advance(3)
    assert await world.store.cancel(LOCAL, [job], "no more") == [Cancelling.CANCELLED]
    after = only(db, "history")
    check(before, after, kept=("rank", "run_at", "expires_at", "started_at"))
    assert (after["state"], after["reason"], after["outcome"], after["node"]) == ("cancelled", "no more", None, None)


def only_ref(db: Db) -> Ref:
    row = only(db, "jobs")
    return Ref(str(row["id"]), row["fence"])


async def test_a_job_that_expires(world: World, db: Db, clock: ManualClock) -> None:
    actor = await world.node()
    await rich(world, db, actor, start=False)
    await actor.hand_back(only_ref(db))
    before = only(db, "jobs")
    clock.advance(HOUR / 1_000_000)
    await world.promote()
    after = only(db, "history")
    check(before, after, kept=("rank", "run_at", "expires_at", "started_at"))
    assert (after["state"], after["reason"], after["outcome"]) == ("cancelled", "expired", None)


async def test_a_job_handed_back_after_it_was_cancelled(world: World, db: Db) -> None:
    actor = await world.node()
    job = await rich(world, db, actor, start=False)
    before = only(db, "jobs")
    await world.store.cancel(LOCAL, [job], "no more")
    assert await actor.hand_back(only_ref(db)) == [Verdict.APPLIED]
    after = only(db, "history")
    check(before, after, kept=("rank", "run_at", "expires_at"))
    assert (after["state"], after["reason"], after["outcome"]) == ("cancelled", "no more", None)


async def test_a_job_that_ends_without_having_started(world: World, db: Db) -> None:
    """Claimed ahead, and then found to be broken: no attempt, but all the rest."""
    actor = await world.node()
    job = await rich(world, db, actor, start=False)
    before = only(db, "jobs")
    one = Settlement(job, before["fence"], Event.SET_ASIDE, Ending.SET_ASIDE, error=Problem("E", "x"), reason="x")
    assert await world.store.finish(SYSTEM, [one]) == [Verdict.APPLIED]
    after = only(db, "history")
    check(before, after, kept=("rank", "run_at", "expires_at", "started_at"))
    assert (after["state"], after["outcome"], after["node"]) == ("failed", None, None)
    assert (await world.info(job)).attempts == []


async def test_a_job_that_was_there_too_often_when_its_node_died(world: World, db: Db) -> None:
    actor = await world.node("box")
    await rich(world, db, actor)
    before = only(db, "jobs")
    await actor.die(CrashRule(limit=2))
    after = only(db, "history")
    check(before, after, added={"crashes": 1}, kept=("rank", "run_at", "started_at"))
    assert (after["state"], after["outcome"], after["node"]) == ("failed", "crashed", "box")


COMING_BACK: dict[str, tuple[Outcome, dict[str, int]]] = {
    "retry": (BOOM, {"failures": 1}),
    "snooze": (NAP, {}),
    "interrupt": (STOPPED, {"interruptions": 1}),
}


@pytest.mark.parametrize("how", COMING_BACK)
async def test_an_attempt_that_does_not_end_its_job(world: World, db: Db, how: str) -> None:
    result, added = COMING_BACK[how]
    actor = await world.node("box")
    await rich(world, db, actor)
    before = only(db, "jobs")
    settlement = outcome.settle(str(before["id"]), before["fence"], Retry(9), 2, result, 0.0)
    await world.store.finish(SYSTEM, [settlement])
    after, attempt = only(db, "jobs"), only(db, "attempts")
    check(before, after, added=added)
    assert (attempt["job"], attempt["fence"], attempt["number"], attempt["node"], attempt["started_at"]) == (
        before["id"], before["fence"], before["tries"], "box", before["started_at"],
    )  # fmt: skip
    assert (attempt["outcome"], attempt["exit_code"]) == (settlement.ending, settlement.exit_code)
    assert (after["node"], after["cancel"]) == (None, None)


async def test_replays_bring_all_of_it_back(world: World, db: Db, clock: ManualClock) -> None:
    actor = await world.node("box")
    job = await rich(world, db, actor)
    for number in range(3):
        before = only(db, "jobs")
        claimed = settled_ref(before)
        await world.store.finish(SYSTEM, [outcome.settle(*claimed, Retry(9), 2, FATAL, 0.0)])
        ended = only(db, "history")
        clock.advance(10)
        assert await world.store.replay(LOCAL, [job]) == [True]
        back = only(db, "jobs")
        assert rows(db, "SELECT * FROM history") == []
        for name in LASTING:
            assert back[name] == ended[name] == before[name], name
        assert (back["fence"], back["tries"], back["replays"]) == (ended["fence"], ended["tries"], ended["replays"] + 1)
        assert (back["failures"], back["crashes"], back["interruptions"], back["reason"]) == (0, 0, 0, None)
        assert (back["state"], back["run_at"], back["node"], back["expires_at"]) == (
            "scheduled",
            clock.now(),
            None,
            None,
        )
        attempts = rows(db, "SELECT * FROM attempts ORDER BY fence")
        assert len(attempts) == number + 1
        for name in ("fence", "node", "started_at", "finished_at", "outcome", "exit_code", "error", "result"):
            assert attempts[-1][name] == ended[name], name
        assert attempts[-1]["number"] == ended["tries"]
        await world.promote()
        await actor.take(job)


def settled_ref(row: Row) -> tuple[str, int]:
    return str(row["id"]), row["fence"]


# -- rows that someone wrote by hand ----------------------------------------------------------------------------------

BROKEN = {
    "arguments that are no JSON": "args = '{\"a\": '",
    "arguments that are no object": "args = '[1]'",
    "a specification that is no JSON": "spec = 'argv'",
    "an empty specification": "spec = ''",
    "a policy that is no JSON": "retry = 'often'",
    "a policy that is no policy": 'retry = \'{"retries": "three"}\'',
    "a policy that is refused": 'retry = \'{"retries": -1, "backoff": "soon"}\'',
    "an empty task": "task = ''",
    "a negative timeout": "timeout = -5",
    "an absurd timeout": f"timeout = {LARGEST}",
    "the lowest rank": f"rank = {-LARGEST - 1}",
    "an absurd rank": f"rank = {-LARGEST}",
    "an absurd time": f"run_at = {LARGEST}, created_at = {-LARGEST}",
    "an absurd expiry": f"expires_at = {LARGEST}",
    "a start before its time": "started_at = -1",
    "deep arguments": "args = repeat('[', 100000)",
}
ABSURD = {f"{name} {value}": f"{name} = {value}" for name in COUNTS for value in (LARGEST, -1)}
every = pytest.mark.parametrize("how", BROKEN)


def spoil(db: Db, job: str, how: str) -> None:
    cursor = db.execute(f"UPDATE jobs SET {(BROKEN | ABSURD)[how]} WHERE id = %s".encode(), (job,))
    assert cursor.rowcount == 1


def state(db: Db, job: str) -> str:
    query = "SELECT state FROM jobs WHERE id = %s UNION ALL SELECT state FROM history WHERE id = %s"
    ((found,),) = db.execute(query, (job, job)).fetchall()
    return str(found)


async def three(world: World, db: Db, how: str) -> list[str]:
    jobs = await world.several(3)
    spoil(db, jobs[1], how)
    return jobs


@pytest.mark.parametrize("how", ABSURD)
async def test_the_schema_refuses_numbers_that_nobody_counts_to(world: World, db: Db, how: str) -> None:
    """One such row would make every claim or finish that meets it fail, and all others in its batch with it."""
    job = await world.one()
    with pytest.raises(psycopg.errors.CheckViolation):
        spoil(db, job, how)


@every
async def test_broken_rows_do_not_stop_the_others(world: World, db: Db, how: str) -> None:
    jobs = await three(world, db, how)
    actor = await world.node()
    infos = {info.id: info for info in await world.store.find(SYSTEM, JobFilter())}
    assert set(infos) == set(jobs)
    for job in jobs:
        info = await world.store.get(SYSTEM, job)
        assert isinstance(info, JobInfo)
        assert info == infos[job]
        info.as_json()
    claimed = {one.job_id: one for one in await actor.claim()}
    assert set(claimed) == set(jobs), "a worker can take it in hand and settle it itself"
    assert await actor.claim() == []
    await actor.renew()
    for result in (BOOM, DONE):
        verdicts = await world.store.finish(
            SYSTEM, [settled(claimed[jobs[0]], result), settled(claimed[jobs[2]], result)]
        )
        assert verdicts[0] in (Verdict.APPLIED, Verdict.STALE)
    assert state(db, jobs[0]) == state(db, jobs[2]) != "running"
    assert (await actor.die()) == [jobs[1]]
    assert state(db, jobs[1]) == "ready"


@every
async def test_what_people_want_of_broken_rows_still_works(world: World, db: Db, how: str) -> None:
    jobs = await three(world, db, how)
    assert await world.store.cancel(SYSTEM, jobs, "away with it") == [Cancelling.CANCELLED] * 3
    assert await world.store.replay(SYSTEM, jobs) == [True] * 3
    assert await world.store.hurry(SYSTEM, jobs) == [True] * 3
    await world.promote()
    assert await world.store.cancel(SYSTEM, jobs, "away with it") == [Cancelling.CANCELLED] * 3
    assert await world.store.purge(SYSTEM, jobs) == [True] * 3


@every
async def test_the_shelves_are_kept_moving(world: World, db: Db, clock: ManualClock, how: str) -> None:
    jobs = await world.several(3, delay=1)
    spoil(db, jobs[1], how)
    clock.advance(1)
    await world.promote()
    assert [state(db, job) for job in (jobs[0], jobs[2])] == ["ready", "ready"]
    await world.store.cancel(SYSTEM, jobs, "over")
    clock.advance(10)
    await world.store.prune(SYSTEM, Retention(1, 1, DAY, DAY), PLENTY)
    assert db.execute("SELECT count(*) FROM history").fetchone() == (0,)


async def test_a_time_before_all_times_is_due(world: World, db: Db) -> None:
    job = await world.one(delay=10_000_000)
    db.execute(f"UPDATE jobs SET run_at = {-LARGEST}".encode())
    await world.promote()
    assert state(db, job) == "ready"


async def test_a_kind_that_nobody_knows_waits_and_is_pointed_out(world: World, db: Db) -> None:
    first, strange, last = await world.several(3)
    db.execute("UPDATE jobs SET kind = 'quantum' WHERE id = %s", (strange,))
    assert [one.job_id for one in await (await world.node()).claim()] == [first, last]
    assert (await world.info(strange)).state is State.READY
    assert any("quantum" in finding.text for finding in await world.store.examine() if not finding.ok)
    assert await world.store.cancel(LOCAL, [strange], "away") == [Cancelling.CANCELLED]


async def test_a_job_that_runs_under_an_unknown_node(world: World, db: Db) -> None:
    job = await world.one()
    db.execute("UPDATE jobs SET state = 'running', node = 'nobody', fence = 3, started_at = 1, tries = 1")
    info = await world.info(job)
    assert (info.state, info.node) == (State.RUNNING, "nobody")
    assert await world.store.nodes(SYSTEM) == []
    assert any("not alive" in finding.text for finding in await world.store.examine() if not finding.ok)
    assert await world.store.rescue(SYSTEM, CrashRule()) == [job]
    assert await world.state(job) is State.READY


@pytest.mark.parametrize(
    "change",
    [
        "error = '{\"type\": 1}'",
        "error = 'no json'",
        "result = '{'",
        "node = NULL",
        f"exit_code = {2**31 - 1}, tries = {-LARGEST}",
        f"started_at = {-LARGEST}",
        "started_at = NULL",
        "outcome = NULL",
    ],
)
async def test_history_that_makes_no_sense_is_shown_all_the_same(world: World, db: Db, change: str) -> None:
    actor = await world.node()
    strange, fine = await world.several(2)
    await actor.run(DONE, strange)
    await actor.run(DONE, fine)
    db.execute(f"UPDATE history SET {change} WHERE id = %s".encode(), (strange,))
    infos = {info.id: info for info in await world.store.find(LOCAL, JobFilter())}
    assert set(infos) == {strange, fine}
    infos[strange].as_json()
    assert await world.store.get(LOCAL, strange) == infos[strange]


@pytest.mark.parametrize("change", ["node = NULL", "started_at = NULL"])
async def test_a_dead_letter_that_makes_no_sense_is_replayed_or_refused(world: World, db: Db, change: str) -> None:
    actor = await world.node()
    strange, fine = await world.several(2)
    await actor.run(FATAL, strange)
    await actor.run(FATAL, fine)
    db.execute(f"UPDATE history SET {change} WHERE id = %s".encode(), (strange,))
    assert await world.store.replay(LOCAL, [strange, fine]) == [True, True]
    await world.promote()
    assert {one.job_id for one in await actor.claim()} == {strange, fine}


@pytest.mark.parametrize(
    "change",
    [
        "roles = 'worker'", "roles = '{}'", "queues = '[]'", "queues = 'x'", 'queues = \'{"default": "many"}\'',
        f"lease = {-LARGEST}, beats = {LARGEST - 5}", "id = ''", "server = 'x'", "busy_since = 0", "tasks = '{NULL}'",
    ],
)  # fmt: skip
async def test_a_node_that_makes_no_sense_does_not_hide_the_others(world: World, db: Db, change: str) -> None:
    """The reaper looks at this list: should it fail, nobody would be taken over any more."""
    strange, fine = await world.node(), await world.node("fine")
    job = await world.one()
    await fine.take(job)
    db.execute(f"UPDATE nodes SET {change} WHERE incarnation = %s".encode(), (strange.incarnation,))
    assert fine.incarnation in {node.incarnation for node in await world.store.nodes(SYSTEM)}
    assert fine.incarnation in {node.incarnation for node in await world.store.nodes(SYSTEM, past=True)}
    assert (await fine.renew()).known
    await world.node("new")
    assert await world.store.take_over(SYSTEM, fine.incarnation, 1, CrashRule()) == [job]


@pytest.mark.parametrize("change", ["info = 'no json'", "info = '{}'", "info = ''"])
async def test_a_task_that_makes_no_sense_does_not_hide_the_others(world: World, db: Db, change: str) -> None:
    await world.node(tasks=[TaskInfo(name, "default", 5, Retry(), None, (), ()) for name in ("a", "b", "c")])
    db.execute(f"UPDATE tasks SET {change} WHERE name = 'b'".encode())
    assert [task.name for task in await world.store.tasks(LOCAL)] == ["a", "c"]


@pytest.mark.parametrize("change", ["data = '['", "data = '1'", "data = ''"])
async def test_an_event_that_makes_no_sense_does_not_stop_the_reader(world: World, db: Db, change: str) -> None:
    for name in ("a", "b", "c"):
        await world.node(name)
    db.execute(f"UPDATE outbox SET {change} WHERE subject = 'b'".encode())
    assert [event.subject for event in await world.store.events(SYSTEM, 0, PLENTY)] == ["a", "b", "c"]


async def test_output_of_a_job_that_was_deleted_by_hand_is_not_shown(world: World, db: Db) -> None:
    actor = await world.node()
    job = await world.one()
    await actor.say((await actor.take()).ref, 0)
    db.execute("DELETE FROM jobs")
    assert await world.store.output(LOCAL, job, Position(), 10) == []
    assert (await actor.renew()).holds == ()


async def test_a_table_that_is_gone_is_an_error_of_the_store(world: World, db: Db, backend: Postgres) -> None:
    """Whatever the server says, callers hear it as an error of rota's own."""
    backend.virgin = True  # it is of no use to other tests afterwards
    db.execute("DROP TABLE outbox")
    with pytest.raises(StoreError):
        await world.store.events(SYSTEM, 0, 1)
    with pytest.raises(StoreError):
        await world.node()
