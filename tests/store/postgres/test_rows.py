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
from rota.model import outcome
from rota.model.gates import Effect, match
from rota.model.job import Ref, Verdict
from rota.model.lifecycle import INITIAL, LIVE, TERMINAL, JobEvent, State, sources
from rota.model.limits import Key
from rota.model.node import NodeState
from rota.model.outcome import CrashRule, Ending, Outcome, Problem, Settlement
from rota.model.principal import LOCAL, SYSTEM
from rota.model.requirements import Requirements
from rota.model.retry import Retry
from rota.model.times import HOUR
from rota.store import sql_files
from rota.store.admission import NewGate
from rota.store.postgres import PostgresStore
from rota.store.values import Cancelling
from tests.contracts.world import BOOM, FATAL, NAP, STOPPED, Actor, World
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
    assert states_in(definition(db, "jobs_ready")) == sources(JobEvent.CLAIM)
    assert states_in(definition(db, "jobs_due")) == sources(JobEvent.PROMOTE)
    assert "node IS NOT NULL" in definition(db, "jobs_running"), "which is to say: running"


def test_the_states_of_nodes(db: Db) -> None:
    ((text,),) = db.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'nodes'::regclass AND contype = 'c'"
    ).fetchall()
    assert set(WORDS.findall(text)) == set(NodeState)


def test_the_queries_move_jobs_off_the_shelves_that_the_table_names() -> None:
    queries = sql_files.load("postgres")
    assert states_in(queries["claim"]) == sources(JobEvent.CLAIM) | {State.RUNNING}
    assert states_in(queries["promote"]) == sources(JobEvent.PROMOTE) | {State.READY, State.CANCELLED}
    assert states_in(queries["promote_jobs"]) == sources(JobEvent.PROMOTE) | {State.READY}
    assert sources(JobEvent.EXPIRE) == INITIAL == LIVE - {State.RUNNING}, "so it is enough that no node holds it"
    assert sources(JobEvent.CANCEL) - {State.RUNNING} == INITIAL


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
    "requirements",
    "meta",
)
LABELLED = Requirements(labels=("odd", "rich"))
COUNTS = ("fence", "tries", "failures", "crashes", "interruptions", "replays")


async def rich(world: World, db: Db, actor: Actor, *, start: bool = True) -> str:
    """A job with something of its own in every column, in the hands of a node."""
    job = await world.one(
        key="k", args='{"a":1}', queue="default", priority=3, timeout=77, expires=HOUR, retry=Retry(9), task="odd",
        requirements=LABELLED, meta='{"trace":"t"}',
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
    # Of no use to a job that has ended: who waits for whom is in the edges, who holds keys in the slots, and a job that
    # comes back is ranked anew.
    living = {"tied", "parents", "waits", "special", "level", "own_step", "held_by"}
    told |= living
    assert names == set(LASTING) | set(COUNTS) | told, "a new column must be copied when a job ends, and looked at here"
    others = {name for (name,) in db.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'history'::regclass AND attnum > 0 AND NOT attisdropped"
    )}  # fmt: skip
    ended = {"finished_at", "outcome", "exit_code", "error", "result", "usage", "lasting", "skip_cause"}
    ended |= {"error_group"}
    assert others - names == ended
    assert names - others == living


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


async def waiting_row(world: World, db: Db) -> Row:
    """Of a job with something of its own in every column, that went back before it was started."""
    actor = await world.node()
    await rich(world, db, actor, start=False)
    await actor.hand_back(only_ref(db))
    return only(db, "jobs")


@pytest.mark.parametrize("met_by", ["claim", "sweep"])
async def test_a_job_that_a_gate_drops(world: World, db: Db, clock: ManualClock, met_by: str) -> None:
    before = await waiting_row(world, db)
    gate = NewGate(world.chance.job_id(clock.now()), match(label="rich"), Effect.DROP, "no more")
    await world.store.close_gate(LOCAL, gate)
    clock.advance(3)
    if met_by == "claim":
        assert await (await world.node()).claim() == []
    else:
        assert (await world.store.admit(SYSTEM, 100)).moved == 1
    after = only(db, "history")
    check(before, after, kept=("rank", "run_at", "expires_at", "started_at"))
    assert rows(db, "SELECT * FROM jobs") == []
    assert (after["state"], after["reason"], after["outcome"], after["node"]) == ("dropped", "no more", None, None)
    assert (after["finished_at"], after["lasting"]) == (clock.now(), False)


async def test_a_job_that_is_skipped_for_its_parent(world: World, db: Db, clock: ManualClock) -> None:
    actor = await world.node()
    parent = await world.one()
    await rich_child(world, db, parent)
    (before,) = rows(db, "SELECT * FROM jobs WHERE task = 'odd'")
    assert (before["state"], before["parents"], before["waits"]) == ("blocked", 1, 1)
    clock.advance(3)
    await actor.run(FATAL, parent)
    (after,) = rows(db, "SELECT * FROM history WHERE task = 'odd'")
    check(before, after, kept=("rank", "run_at", "expires_at", "started_at"))
    assert (after["state"], after["outcome"], after["finished_at"]) == ("skipped", None, clock.now())
    assert await world.store.replay(LOCAL, [parent]) == [True]
    (back,) = rows(db, "SELECT * FROM jobs WHERE task = 'odd'")
    for name in LASTING:
        assert back[name] == before[name], name
    assert (back["state"], back["parents"], back["waits"]) == ("blocked", 1, 1)


async def rich_child(world: World, db: Db, parent: str) -> None:
    await world.submit(
        world.child(
            parent, key="k", args='{"a":1}', priority=3, timeout=77, expires=HOUR, retry=Retry(9), task="odd",
            requirements=Requirements(labels=("odd",), keys=(Key("db", 2),)),
        )
    )  # fmt: skip
    db.execute(
        "UPDATE jobs SET failures = 2, crashes = 1, interruptions = 4, replays = 5, fence = 6, tries = 3, "
        "digest = 'digest' WHERE task = 'odd'"
    )


async def test_a_job_that_needs_keys_needs_them_again_when_it_comes_back(world: World, db: Db) -> None:
    actor = await world.node()
    job = await world.one(requirements=Requirements(keys=(Key("db", 1),)))
    await actor.run(FATAL, job)
    assert rows(db, "SELECT * FROM slots") == []
    await world.store.replay(LOCAL, [job])
    back = only(db, "jobs")
    assert (back["special"], back["held_by"], back["level"], back["own_step"]) == (True, None, 0, None)
    await world.promote()
    await actor.take(job)
    assert [str(row["job"]) for row in rows(db, "SELECT * FROM slots")] == [job]


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
    one = Settlement(job, before["fence"], JobEvent.SET_ASIDE, Ending.SET_ASIDE, error=Problem("E", "x"), reason="x")
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
